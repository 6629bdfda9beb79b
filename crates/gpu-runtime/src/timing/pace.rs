// SPDX-License-Identifier: MIT OR Apache-2.0
//! How often the driver is polled: less where polls are slow or refused, and
//! not at all for a while where they hang.
//!
//! 1. A poll over 1 ms halves the rate, down to one round a second.
//! 2. Three polls over 100 ms, with no good round between them, stop polling
//!    for 10 s, also within the round that they are in.
//! 3. A poll that the driver refuses ends its round; then 1, 2, 4 and up to 64
//!    rounds are left out.
//! 4. A *good* round polled, and no poll of it was slow or refused. It doubles
//!    the rate, up to the full one, and forgets refusals and long polls.
//!
//! A round is one harvest of all rings. Values are read and written one by
//! one: two threads that harvest at once may leave a round out too many or too
//! few, never more.

use metrale_telemetry::clock::Clock;
use metrale_telemetry::instrument::Counter;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// A poll beyond this halves the rate.
const SLOW_NS: u64 = 1_000_000;
/// A poll beyond this is one of the [`LONG_POLLS`] that stop polling.
const LONG_NS: u64 = 100_000_000;
const LONG_POLLS: u32 = 3;
/// For how long they stop it.
const STOP_NS: u64 = 10_000_000_000;
/// The lowest rate: one round in this time.
const SLOWEST_NS: u64 = 1_000_000_000;
/// The most rounds left out after a refusal.
const MAX_SKIPPED: u32 = 64;

/// See the module.
pub(super) struct Pace {
    clock: Clock,
    born_ns: u64,
    /// When the last pass ended.
    passed_ns: AtomicU64,
    /// The time between rounds at the full rate.
    full_ns: u64,
    /// How long a pass on a thread of the application polls.
    budget_ns: u64,
    /// The least time between rounds; 0 at the full rate, where the clock need
    /// not be asked.
    interval_ns: AtomicU64,
    next_round_ns: AtomicU64,
    stopped_until_ns: AtomicU64,
    long_polls: AtomicU32,
    /// Rounds still to be left out, and how many after the next refusal.
    skip: AtomicU32,
    next_skip: AtomicU32,
    /// Passes that polled; tells a round that polled from one that did not.
    passes: Counter,
    pub(super) slow_polls: Counter,
    pub(super) refused: Counter,
    pub(super) stops: Counter,
    pub(super) rounds_skipped: Counter,
}

/// What a round began with.
pub(super) struct Round {
    passes: u64,
    bad: u64,
}

impl Pace {
    pub(super) fn new(clock: Clock, full_ns: u64, budget_ns: u64) -> Self {
        let born_ns = clock();
        Self {
            clock,
            born_ns,
            passed_ns: AtomicU64::new(born_ns),
            full_ns,
            budget_ns,
            interval_ns: AtomicU64::new(0),
            next_round_ns: AtomicU64::new(0),
            stopped_until_ns: AtomicU64::new(0),
            long_polls: AtomicU32::new(0),
            skip: AtomicU32::new(0),
            next_skip: AtomicU32::new(1),
            passes: Counter::new(),
            slow_polls: Counter::new(),
            refused: Counter::new(),
            stops: Counter::new(),
            rounds_skipped: Counter::new(),
        }
    }

    /// The clock, ns.
    pub(super) fn now(&self) -> u64 {
        (self.clock)()
    }

    /// When it was made, ns.
    pub(super) fn born_ns(&self) -> u64 {
        self.born_ns
    }

    /// When the last pass ended, or an earlier one, ns: whatever begins now
    /// begins after it.
    pub(super) fn passed_ns(&self) -> u64 {
        self.passed_ns.load(Relaxed)
    }

    /// A pass over all rings ends, of which there is one at a time.
    pub(super) fn pass_over(&self) {
        self.passed_ns.store(self.now(), Relaxed);
    }

    /// How long a pass on a thread of the application polls, ns.
    pub(super) fn budget_ns(&self) -> u64 {
        self.budget_ns
    }

    /// The least time between two rounds now, ns; 0 at the full rate.
    pub(super) fn interval_ns(&self) -> u64 {
        self.interval_ns.load(Relaxed)
    }

    /// Whether a round may be made now.
    pub(super) fn begin_round(&self) -> Option<Round> {
        let skip = self.skip.load(Relaxed);
        if skip > 0 {
            self.skip.store(skip - 1, Relaxed);
            self.rounds_skipped.add(1);
            return None;
        }
        if self.interval_ns() > 0 && self.now() < self.next_round_ns.load(Relaxed) {
            self.rounds_skipped.add(1);
            return None;
        }
        Some(Round { passes: self.passes.get(), bad: self.bad() })
    }

    fn bad(&self) -> u64 {
        self.slow_polls.get().wrapping_add(self.refused.get())
    }

    /// Ends a round.
    pub(super) fn end_round(&self, round: &Round) {
        if self.bad() == round.bad && self.passes.get() != round.passes {
            self.long_polls.store(0, Relaxed);
            self.next_skip.store(1, Relaxed);
            let interval = self.interval_ns() / 2;
            let is_full = interval <= self.full_ns;
            self.interval_ns.store(if is_full { 0 } else { interval }, Relaxed);
        }
        let interval = self.interval_ns();
        if interval > 0 {
            let next = self.now().saturating_add(interval);
            // A stop reaches further.
            self.next_round_ns.store(next.max(self.stopped_until_ns.load(Relaxed)), Relaxed);
        }
    }

    /// Whether a pass of the round may poll, and when it begins.
    pub(super) fn begin_pass(&self) -> Option<u64> {
        let now = self.now();
        if self.skip.load(Relaxed) > 0 || now < self.stopped_until_ns.load(Relaxed) {
            return None;
        }
        self.passes.add(1);
        Some(now)
    }

    /// Takes note of a poll that began at `began`. Its end, and whether the
    /// pass may go on.
    pub(super) fn polled(&self, began: u64) -> (u64, bool) {
        let now = self.now();
        let took = now.saturating_sub(began);
        if took <= SLOW_NS {
            return (now, true);
        }
        (now, self.slow(now, took))
    }

    #[cold]
    fn slow(&self, now: u64, took: u64) -> bool {
        self.slow_polls.add(1);
        let slowest = SLOWEST_NS.max(self.full_ns);
        let doubled = 2 * self.interval_ns().max(self.full_ns);
        self.interval_ns.store(doubled.min(slowest), Relaxed);
        if took <= LONG_NS || self.long_polls.fetch_add(1, Relaxed) + 1 < LONG_POLLS {
            return true;
        }
        self.long_polls.store(0, Relaxed);
        self.stops.add(1);
        self.stopped_until_ns.store(now.saturating_add(STOP_NS), Relaxed);
        false
    }

    /// The driver refused a poll: the pass may not go on.
    #[cold]
    pub(super) fn refuse(&self) {
        self.refused.add(1);
        let skip = self.next_skip.load(Relaxed);
        self.skip.store(skip, Relaxed);
        self.next_skip.store((2 * skip).min(MAX_SKIPPED), Relaxed);
    }
}

impl std::fmt::Debug for Pace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pace").field("interval_ns", &self.interval_ns()).finish_non_exhaustive()
    }
}
