// SPDX-License-Identifier: MIT OR Apache-2.0
//! The span ring: a fixed pool of slots that spans take in turn, wait in until
//! the GPU is done, and leave by a harvest.
//!
//! 1. Attempt number `t` (a *ticket*) belongs to one slot and one of its laps
//!    (see [`laps`](super::laps)). A ticket whose slot is in use is dropped;
//!    the next attempt tries the next slot.
//! 2. Any number of threads begin, end, cancel and harvest. One pass runs at a
//!    time; a second one returns at once.
//! 3. The *tail* is a ticket from which on a pass looks: every slot that has
//!    none of the tickets from tail to head is free, and no ticket before the
//!    tail can claim it. A recorder between ticket and claim is never left
//!    behind: its slot's lap is still earlier than its ticket's, and that holds
//!    the tail. A claim, or a skip, ends it for good, as laps only grow.
//!
//! What may happen to one slot is in the [`slot`](super::slot) module.

use super::instruments::KernelInstruments;
use super::laps::Laps;
use super::ledger::Ledger;
use super::oldest::OldestLeft;
use super::ops::{Edge, EventOps};
use super::pass::Pass;
use super::slot::{Ending, Slot, State};
use super::span::{NotBegun, NotEnded, Packed, SpanKey, SpanTag};
use super::token::{RINGS, SLOT_BITS, SpanToken};
use crate::clock::{Clock, monotonic_ns};
use crate::instrument::Counter;
use crate::sync::{AtomicU64, Mutex, Ordering, relaxed};
use crossbeam_utils::CachePadded;
use std::fmt;
use std::time::Duration;

/// A ring of spans over the event pairs of `E`.
///
/// ```
/// # use metrale_telemetry::kernel::{Edge, EventOps, SpanPoll};
/// # struct Ideal;
/// # impl EventOps for Ideal {
/// #     fn record(&self, _slot: usize, _edge: Edge, _stream: u64) -> bool { true }
/// #     fn poll(&self, _slot: usize) -> SpanPoll { SpanPoll::Ready(1_000) }
/// # }
/// use metrale_telemetry::kernel::{KernelInstruments, LANE_DECODE, SpanKey, SpanRing};
///
/// static INSTRUMENTS: KernelInstruments = KernelInstruments::new();
/// let ring = SpanRing::new(Ideal, 64);
/// let stream = 7;
/// let span = ring.begin(SpanKey::Lane(LANE_DECODE), stream, &INSTRUMENTS);
/// // ... launches on `stream` ...
/// if let Some(span) = span {
///     ring.end(span, stream, &INSTRUMENTS);
/// }
/// assert_eq!(ring.harvest(&INSTRUMENTS), 1);
/// assert_eq!(INSTRUMENTS.lane[LANE_DECODE].snapshot().sum_ns(), 1_000);
/// ```
pub struct SpanRing<E: EventOps> {
    pub(super) ops: E,
    pub(super) slots: Box<[Slot]>,
    pub(super) pass: Mutex<Pass>,
    pub(super) options: Options,
    pub(super) laps: Laps,
    /// This ring's number in tokens.
    id: u64,
    /// Tickets handed out: all that two recorders have to share.
    pub(super) head: CachePadded<AtomicU64>,
    /// What passes write, often.
    pub(super) passed: CachePadded<Passed>,
    pub(super) counts: Counts,
    pub(super) waiting: OldestLeft,
}

pub(super) struct Passed {
    /// Where a pass begins to look.
    pub(super) tail: AtomicU64,
    pub(super) landed: relaxed::AtomicU64,
    pub(super) passes: Counter,
}

/// The rest of the ledger but for what the slots say. These order nothing and
/// change seldom, so that recorders share them at no cost.
#[derive(Default)]
pub(super) struct Counts {
    dropped: Counter,
    pub(super) refused: Counter,
    pub(super) failed: Counter,
    pub(super) cancelled: Counter,
    pub(super) reclaimed: Counter,
    pub(super) stale_ends: Counter,
}

#[derive(Clone, Copy)]
pub(super) struct Options {
    pub(super) reclaim_after_ns: Option<u64>,
    pub(super) clock: Clock,
    pub(super) gaps: bool,
}

/// Options of a ring; see [`SpanRing::builder`].
///
/// ```
/// # use metrale_telemetry::kernel::{Edge, EventOps, SpanPoll};
/// # struct Ideal;
/// # impl EventOps for Ideal {
/// #     fn record(&self, _slot: usize, _edge: Edge, _stream: u64) -> bool { true }
/// #     fn poll(&self, _slot: usize) -> SpanPoll { SpanPoll::Ready(1_000) }
/// # }
/// use metrale_telemetry::kernel::SpanRing;
/// use std::time::Duration;
///
/// let ring = SpanRing::builder(Ideal, 1_024)
///     .reclaim_after(Duration::from_secs(60))
///     .gaps()
///     .build();
/// assert_eq!(ring.slots(), 1_024);
/// ```
#[must_use]
pub struct SpanRingBuilder<E: EventOps> {
    ops: E,
    slots: usize,
    options: Options,
}

impl<E: EventOps> SpanRingBuilder<E> {
    /// Frees spans left open for this long, as seen by harvest passes. Never
    /// one whose record is in progress.
    pub fn reclaim_after(mut self, age: Duration) -> Self {
        self.options.reclaim_after_ns = Some(u64::try_from(age.as_nanos()).unwrap_or(u64::MAX));
        self
    }

    /// The clock that ages are measured by; the monotonic clock by default.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.options.clock = clock;
        self
    }

    /// Reads the gap between each span and the one before it on its stream;
    /// not by default.
    pub fn gaps(mut self) -> Self {
        self.options.gaps = true;
        self
    }

    /// Makes the ring.
    ///
    /// # Panics
    /// At 0 slots, and at more than 2^24.
    #[must_use]
    #[allow(clippy::disallowed_macros, reason = "the documented contract")]
    pub fn build(self) -> SpanRing<E> {
        static RINGS_MADE: relaxed::AtomicU64 = relaxed::AtomicU64::new(0);
        assert!(self.slots > 0, "a span ring needs at least one slot");
        assert!(self.slots <= 1 << SLOT_BITS, "a span ring has at most 2^24 slots");
        let reclaims = self.options.reclaim_after_ns.is_some();
        SpanRing {
            ops: self.ops,
            slots: (0..self.slots).map(|_| Slot::new()).collect(),
            pass: Mutex::new(Pass::new(self.slots, reclaims)),
            options: self.options,
            id: RINGS_MADE.fetch_add(1, Ordering::Relaxed) % RINGS + 1,
            laps: Laps::new(self.slots),
            head: CachePadded::new(AtomicU64::new(0)),
            passed: CachePadded::new(Passed {
                tail: AtomicU64::new(0),
                landed: relaxed::AtomicU64::new(0),
                passes: Counter::new(),
            }),
            counts: Counts::default(),
            waiting: OldestLeft::new(),
        }
    }
}

impl<E: EventOps> SpanRing<E> {
    /// A ring of `slots` slots that never reclaims a span left open.
    ///
    /// # Panics
    /// At 0 slots, and at more than 2^24.
    #[must_use]
    pub fn new(ops: E, slots: usize) -> Self {
        Self::builder(ops, slots).build()
    }

    /// A ring with options.
    pub fn builder(ops: E, slots: usize) -> SpanRingBuilder<E> {
        let options = Options { reclaim_after_ns: None, clock: monotonic_ns, gaps: false };
        SpanRingBuilder { ops, slots, options }
    }

    /// How many slots the ring has.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.slots.len()
    }

    /// What records and reads the events.
    #[must_use]
    pub fn ops(&self) -> &E {
        &self.ops
    }

    /// Begins a span on `stream` in the next slot in turn. `None`: the slot is
    /// still in use (counted as dropped), the start could not be recorded
    /// (failed), or the stream admits no span now (refused). Never waits.
    #[inline]
    pub fn begin(
        &self,
        key: SpanKey,
        stream: u64,
        instruments: &KernelInstruments,
    ) -> Option<SpanToken> {
        let begun = self.begin_tagged(key, SpanTag::default(), stream);
        begun.inspect_err(|why| instruments.count_not_begun(key, *why)).ok()
    }

    /// As [`begin`](Self::begin), with a tag that comes back when the span is
    /// over.
    ///
    /// # Errors
    /// Why there is no span; the ring has counted it.
    #[inline]
    pub fn begin_tagged(
        &self,
        key: SpanKey,
        tag: SpanTag,
        stream: u64,
    ) -> Result<SpanToken, NotBegun> {
        if self.ops.admits(stream) {
            self.begin_admitted(key, tag, stream)
        } else {
            self.refuse();
            Err(NotBegun::Refused)
        }
    }

    /// As [`begin_tagged`](Self::begin_tagged), on a stream that
    /// [`EventOps::admits`] was asked about a moment ago.
    ///
    /// # Errors
    /// Why there is no span; the ring has counted it.
    #[inline]
    pub fn begin_admitted(
        &self,
        key: SpanKey,
        tag: SpanTag,
        stream: u64,
    ) -> Result<SpanToken, NotBegun> {
        self.take(Packed::new(key, tag), stream)
    }

    /// The next turn. Apart from its callers, so that key and tag are packed
    /// where they are known.
    #[inline(never)]
    fn take(&self, packed: Packed, stream: u64) -> Result<SpanToken, NotBegun> {
        // Relaxed: a number that is nobody else's; the slot's word decides.
        let ticket = self.head.fetch_add(1, Ordering::Relaxed);
        let (index, lap) = self.laps.of(ticket);
        let slot = &self.slots[index];
        let Some(claimed) = slot.claim(lap) else {
            slot.turn_away(lap);
            self.counts.dropped.add(1);
            return Err(NotBegun::Dropped);
        };
        let losses = if self.options.gaps { self.losses() } else { 0 };
        claimed.describe(packed, losses);
        if self.ops.record(index, Edge::Start, stream) {
            claimed.open();
            Ok(SpanToken::new(self.id, lap, index))
        } else {
            claimed.abandon();
            self.counts.failed.add(1);
            Err(NotBegun::Failed)
        }
    }

    /// Ends the span on `stream`. A token whose span is already over, or of
    /// another ring, touches no event and counts `stale_ends`.
    #[inline]
    pub fn end(&self, token: SpanToken, stream: u64, instruments: &KernelInstruments) {
        if let Err(NotEnded::Failed(lost)) = self.end_span(token, stream) {
            instruments.count_failed(lost.key);
        }
    }

    /// As [`end`](Self::end).
    ///
    /// # Errors
    /// Why there is no end; the ring has counted it.
    #[inline]
    pub fn end_span(&self, token: SpanToken, stream: u64) -> Result<(), NotEnded> {
        let open = self.slot_of(token);
        let Some((index, ending)) =
            open.and_then(|(index, slot)| Some((index, slot.begin_end(token)?)))
        else {
            self.counts.stale_ends.add(1);
            return Err(NotEnded::Stale);
        };
        if self.ops.record(index, Edge::End, stream) {
            ending.close(stream);
            Ok(())
        } else {
            let lost = ending.abandon().lost();
            self.counts.failed.add(1);
            Err(NotEnded::Failed(lost))
        }
    }

    /// Gives up a span that will not be ended (a launch that failed), and
    /// returns its tag. A token whose span is already over counts `stale_ends`.
    pub fn cancel(&self, token: SpanToken) -> Option<SpanTag> {
        let given_up = self.slot_of(token).and_then(|(_, slot)| {
            let seen = slot.peek();
            let is_open = seen.state() == State::Open && token.is_lap(seen.lap());
            if is_open { slot.take_open(seen) } else { None }
        });
        let given_up = given_up.map(Ending::abandon);
        if given_up.is_some() {
            self.counts.cancelled.add(1);
        } else {
            self.counts.stale_ends.add(1);
        }
        given_up.map(|packed| packed.flags.tag())
    }

    /// Counts an attempt that the caller turned away itself.
    pub fn refuse(&self) {
        self.counts.refused.add(1);
    }

    fn slot_of(&self, token: SpanToken) -> Option<(usize, &Slot)> {
        if !token.is_of(self.id) {
            return None;
        }
        self.slots.get(token.slot()).map(|slot| (token.slot(), slot))
    }

    /// Lands each closed span whose pair is done, and returns how many. Never
    /// waits for the GPU; while another thread harvests it returns 0 at once.
    /// The instruments show the launches of a pass at its end.
    pub fn harvest(&self, instruments: &KernelInstruments) -> usize {
        if self.is_idle() {
            self.passed.passes.add(1);
            return 0;
        }
        let mut landing = instruments.landing();
        let landed = self.harvest_with(|span| landing.count(&span, |_| ()));
        landing.finish(|_| ());
        landed
    }

    /// Spans lost so far: two spans with the same count at their begin have no
    /// lost span between them.
    fn losses(&self) -> u64 {
        let counts = &self.counts;
        let lost = [&counts.dropped, &counts.failed, &counts.cancelled, &counts.reclaimed];
        lost.iter().fold(0, |sum, count| sum.wrapping_add(count.get()))
    }

    /// Whether the last pass left no span behind and none was begun since: two
    /// loads, no write.
    #[must_use]
    #[inline]
    pub fn is_idle(&self) -> bool {
        // Acquire: read before the head, which is then not older than the one
        // that the pass saw (partner: the store of `pass`).
        // Model: tail::a_pass_over_an_idle_ring_leaves_nothing_of_its_caller.
        let tail = self.passed.tail.load(Ordering::Acquire);
        self.head.load(Ordering::Relaxed) == tail
    }

    /// What became of every attempt so far. It stops nobody.
    #[must_use]
    pub fn ledger(&self) -> Ledger {
        let in_use = |slot: &&Slot| !slot.peek().is_free();
        let refused = self.counts.refused.get();
        Ledger {
            attempts: self.head.load(Ordering::Relaxed) + refused,
            begun: self.slots.iter().map(Slot::claims).sum(),
            landed: self.passed.landed.load(Ordering::Relaxed),
            dropped: self.counts.dropped.get(),
            refused,
            failed: self.counts.failed.get(),
            cancelled: self.counts.cancelled.get(),
            reclaimed: self.counts.reclaimed.get(),
            in_flight: self.slots.iter().filter(in_use).count() as u64,
            stale_ends: self.counts.stale_ends.get(),
            passes: self.passed.passes.get(),
        }
    }
}

impl<E: EventOps> fmt::Debug for SpanRing<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpanRing")
            .field("slots", &self.slots.len())
            .field("ledger", &self.ledger())
            .finish_non_exhaustive()
    }
}
