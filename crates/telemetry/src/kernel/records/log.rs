// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is kept of steps: the last records, the slowest by minute, and the last
//! timelines. Behind one lock that a pass takes without waiting and a reader holds
//! for a copy; serving threads never take it. Memory is taken once.

use super::StepRecord;
use super::timelines::{LaidOut, Timelines};

/// Records that are kept.
pub const RECENT_STEPS: usize = 1_024;
/// Slowest steps that are kept of each minute.
pub const SLOWEST_STEPS: usize = 32;
/// Minutes of which they are kept, the present one among them.
const MINUTES: usize = 10;
const MINUTE_NS: u64 = 60_000_000_000;
/// Records among which a step's own is, where it was left before the step was
/// folded.
const LOOK_BACK: u64 = 64;

/// The last records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecentSteps {
    /// The oldest first, in the order in which they were over.
    pub steps: Vec<StepRecord>,
    /// Records that were overwritten before any reading.
    pub overwritten: u64,
}

/// Where a reader of its own is in the log; see
/// [`Telemetry::next_record`](crate::Telemetry::next_record).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StepCursor {
    /// The next record.
    next: u64,
    missed: u64,
}

impl StepCursor {
    /// Records that were overwritten before this reader came to them.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.missed
    }

    /// Both of its numbers, for a reader across a language's border.
    #[must_use]
    pub const fn to_words(&self) -> [u64; 2] {
        [self.next, self.missed]
    }

    /// The cursor that [`to_words`](Self::to_words) gave.
    #[must_use]
    pub const fn from_words([next, missed]: [u64; 2]) -> Self {
        Self { next, missed }
    }
}

/// The slowest steps of one minute.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SlowMinute {
    /// When it began, by the telemetry's clock.
    pub began_ns: u64,
    /// Its slowest steps by GPU time of all lanes, the slowest first; those that ran
    /// a twin behind all others.
    pub steps: Vec<StepRecord>,
}

/// See the module.
pub(crate) struct StepLog {
    recent: Vec<StepRecord>,
    /// Records so far; record `n` is at `n % RECENT_STEPS`.
    total: u64,
    /// Up to which they were read.
    read: u64,
    overwritten: u64,
    /// By number of the minute, modulo [`MINUTES`].
    minutes: [Minute; MINUTES],
    /// When the last step with a known end did.
    last_end_ns: u64,
    pub(in crate::kernel) timelines: Timelines,
}

struct Minute {
    number: u64,
    steps: Vec<StepRecord>,
}

impl StepLog {
    pub(crate) const fn new() -> Self {
        Self {
            recent: Vec::new(),
            total: 0,
            read: 0,
            overwritten: 0,
            minutes: [const { Minute { number: 0, steps: Vec::new() } }; MINUTES],
            last_end_ns: 0,
            timelines: Timelines::new(),
        }
    }

    /// Takes the memory, if that was not done.
    pub(crate) fn take_memory(&mut self) {
        if self.recent.capacity() == 0 {
            self.recent.reserve_exact(RECENT_STEPS);
            for minute in &mut self.minutes {
                minute.steps.reserve_exact(SLOWEST_STEPS);
            }
            self.timelines.take_memory();
        }
    }

    /// Keeps a record; after [`take_memory`](Self::take_memory) without
    /// allocating.
    pub(crate) fn push(&mut self, step: &StepRecord) {
        let ended_ns = step.ended_ns.unwrap_or(self.last_end_ns);
        self.timelines.look_at(step, ended_ns, &self.recent);
        let at = (self.total % RECENT_STEPS as u64) as usize;
        match self.recent.get_mut(at) {
            Some(place) => *place = *step,
            None => self.recent.push(*step),
        }
        self.total += 1;
        let oldest = self.total.saturating_sub(RECENT_STEPS as u64);
        self.overwritten += oldest.saturating_sub(self.read);
        self.read = self.read.max(oldest);
        self.keep_slow(step);
        if step.armed {
            self.timelines.add_record(step);
        }
    }

    /// Keeps the timeline of a step; as [`push`](Self::push) without allocating.
    pub(in crate::kernel) fn keep(&mut self, step: &LaidOut<'_>) {
        let mut last = (self.total.saturating_sub(LOOK_BACK)..self.total).rev();
        let left = last.find_map(|at| {
            let record = self.recent.get((at % RECENT_STEPS as u64) as usize);
            record.filter(|record| record.number == step.number)
        });
        self.timelines.keep(step, left);
    }

    fn keep_slow(&mut self, step: &StepRecord) {
        self.last_end_ns = self.last_end_ns.max(step.ended_ns.unwrap_or(0));
        let number = step.ended_ns.unwrap_or(self.last_end_ns) / MINUTE_NS;
        let minute = &mut self.minutes[number as usize % MINUTES];
        if minute.number != number {
            // A later one; what is older than ten minutes is nobody's.
            if number < minute.number {
                return;
            }
            minute.number = number;
            minute.steps.clear();
        }
        // Those that its marks made longer stand behind all others.
        let slowness = |step: &StepRecord| (!step.marked, step.gpu_ns());
        let ns = slowness(step);
        if minute.steps.len() == SLOWEST_STEPS {
            if minute.steps.last().is_some_and(|least| slowness(least) >= ns) {
                return;
            }
            minute.steps.pop();
        }
        let at = minute.steps.partition_point(|kept| slowness(kept) >= ns);
        minute.steps.insert(at, *step);
    }

    fn record(&self, number: u64) -> Option<&StepRecord> {
        self.recent.get((number % RECENT_STEPS as u64) as usize)
    }

    /// The last records, without reading them.
    pub(crate) fn recent(&self) -> RecentSteps {
        let oldest = self.total.saturating_sub(RECENT_STEPS as u64);
        let steps = (oldest..self.total).filter_map(|number| self.record(number).copied());
        RecentSteps { steps: steps.collect(), overwritten: self.overwritten }
    }

    /// The last records; what is overwritten from here on was read.
    pub(crate) fn read(&mut self) -> RecentSteps {
        self.read = self.total;
        self.recent()
    }

    /// The next record for a reader of its own.
    pub(crate) fn next(&self, cursor: &mut StepCursor) -> Option<StepRecord> {
        let oldest = self.total.saturating_sub(RECENT_STEPS as u64);
        let missed = oldest.saturating_sub(cursor.next);
        cursor.missed = cursor.missed.saturating_add(missed);
        cursor.next = cursor.next.max(oldest);
        if cursor.next >= self.total {
            return None;
        }
        let record = self.record(cursor.next).copied();
        cursor.next += 1;
        record
    }

    /// The slowest steps of the last ten minutes, the present one first.
    pub(crate) fn slowest(&self, now_ns: u64) -> Vec<SlowMinute> {
        let now = now_ns / MINUTE_NS;
        let ages = 0..MINUTES as u64;
        let minutes = ages.filter_map(|age| {
            let number = now.checked_sub(age)?;
            let minute = &self.minutes[number as usize % MINUTES];
            let is_kept = minute.number == number && !minute.steps.is_empty();
            is_kept
                .then(|| SlowMinute { began_ns: number * MINUTE_NS, steps: minute.steps.clone() })
        });
        minutes.collect()
    }
}
