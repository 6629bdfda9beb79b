// SPDX-License-Identifier: MIT OR Apache-2.0
//! The span ring: a fixed pool of slots that spans take in turn, wait in until
//! the GPU is done, and leave by a harvest.
//!
//! 1. Attempt number `t` (a *ticket*) belongs to slot `t mod slots`, in lap
//!    `t / slots + 1`. A ticket whose slot is in use is dropped; the next
//!    attempt tries the next slot.
//! 2. Any number of threads begin, end, cancel and harvest. One pass runs at a
//!    time; a second one returns at once.
//! 3. A ticket is *resolved* when its slot was claimed or found in use. The
//!    pass moves its oldest ticket on only in a moment when all were resolved:
//!    a recorder between ticket and claim is never left behind.
//!
//! What may happen to one slot is in the [`slot`](super::slot) module.

use super::gaps::Gaps;
use super::instruments::KernelInstruments;
use super::ledger::Ledger;
use super::ops::{Edge, EventOps};
use super::pass::Pass;
use super::sink::{Packed, SpanKey, SpanSink, SpanTag};
use super::slot::{Slot, State, Transition};
use super::token::{RINGS, SLOT_BITS, SpanToken};
use crate::clock::{Clock, monotonic_ns};
use crate::instrument::Counter;
use crate::sync::{AtomicU64, Mutex, Ordering, relaxed};
use std::fmt;
use std::time::Duration;

/// A ring of spans over the event pairs of `E`.
pub struct SpanRing<E: EventOps> {
    pub(super) ops: E,
    pub(super) slots: Box<[Slot]>,
    pub(super) pass: Mutex<Pass>,
    pub(super) options: Options,
    /// This ring's number in tokens.
    id: u64,
    /// Tickets handed out.
    pub(super) head: AtomicU64,
    /// Tickets resolved by a claim, and by finding the slot in use.
    pub(super) begun: AtomicU64,
    pub(super) dropped: AtomicU64,
    pub(super) counts: Counts,
}

/// The rest of the ledger. These order nothing.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) landed: Counter,
    pub(super) refused: Counter,
    pub(super) failed: Counter,
    pub(super) cancelled: Counter,
    pub(super) reclaimed: Counter,
    pub(super) stale_ends: Counter,
    pub(super) passes: Counter,
}

#[derive(Clone, Copy)]
pub(super) struct Options {
    pub(super) reclaim_after_ns: Option<u64>,
    pub(super) clock: Clock,
    pub(super) gaps: Gaps,
}

/// Options of a ring; see [`SpanRing::builder`].
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

    /// Between which spans the gap is read; between none by default.
    pub fn gaps(mut self, gaps: Gaps) -> Self {
        self.options.gaps = gaps;
        self
    }

    /// Makes the ring.
    ///
    /// # Panics
    /// At 0 slots, and at more than 2^24.
    #[must_use]
    pub fn build(self) -> SpanRing<E> {
        static RINGS_MADE: relaxed::AtomicU64 = relaxed::AtomicU64::new(0);
        // tidy: allow(panic): the documented contract of `new`.
        assert!(self.slots > 0, "a span ring needs at least one slot");
        assert!(
            self.slots <= 1 << SLOT_BITS,
            "a span ring has at most 2^24 slots"
        );
        SpanRing {
            ops: self.ops,
            slots: (0..self.slots).map(|_| Slot::new()).collect(),
            pass: Mutex::new(Pass::new()),
            options: self.options,
            id: RINGS_MADE.fetch_add(1, Ordering::Relaxed) % RINGS + 1,
            head: AtomicU64::new(0),
            begun: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            counts: Counts::default(),
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
        let options = Options {
            reclaim_after_ns: None,
            clock: monotonic_ns,
            gaps: Gaps::Off,
        };
        SpanRingBuilder {
            ops,
            slots,
            options,
        }
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
    pub fn begin(
        &self,
        key: SpanKey,
        stream: u64,
        instruments: &KernelInstruments,
    ) -> Option<SpanToken> {
        self.begin_into(key, SpanTag::default(), stream, instruments)
    }

    /// As [`begin`](Self::begin), with a tag that comes back when the span
    /// lands, and any sink.
    pub fn begin_into<S: SpanSink + ?Sized>(
        &self,
        key: SpanKey,
        tag: SpanTag,
        stream: u64,
        sink: &S,
    ) -> Option<SpanToken> {
        if !self.ops.admits(stream) {
            self.counts.refused.add(1);
            return None;
        }
        let ticket = self.head.fetch_add(1, Ordering::Relaxed);
        let slots = self.slots.len() as u64;
        let (index, lap) = ((ticket % slots) as usize, ticket / slots + 1);
        let slot = &self.slots[index];
        if slot.claim(lap) == Transition::Lost {
            // Release: a pass that counts this ticket as resolved also sees it
            // handed out (partner: the pass's load).
            self.dropped.fetch_add(1, Ordering::Release);
            sink.dropped();
            return None;
        }
        // Release: a pass that counts this ticket as resolved also sees the
        // slot claimed (partner: the pass's load).
        self.begun.fetch_add(1, Ordering::Release);
        slot.describe(Packed::new(key, tag), self.losses());
        if self.ops.record(index, Edge::Start, stream) {
            slot.open(lap);
            Some(SpanToken::new(self.id, lap, index))
        } else {
            slot.abandon_start(lap);
            self.counts.failed.add(1);
            sink.failed();
            None
        }
    }

    /// Ends the span on `stream`. A token whose span is already over, or of
    /// another ring, touches no event and counts `stale_ends`.
    pub fn end(&self, token: SpanToken, stream: u64, instruments: &KernelInstruments) {
        self.end_into(token, stream, instruments);
    }

    /// As [`end`](Self::end), with any sink.
    pub fn end_into<S: SpanSink + ?Sized>(&self, token: SpanToken, stream: u64, sink: &S) {
        let taken = self.open_slot(token).and_then(|(index, slot)| {
            let seen = slot.peek();
            let is_it = seen.state() == State::Open && token.is_lap(seen.lap());
            (is_it && slot.begin_end(seen) == Transition::Made).then_some((index, slot, seen.lap()))
        });
        let Some((index, slot, lap)) = taken else {
            self.counts.stale_ends.add(1);
            return;
        };
        if self.ops.record(index, Edge::End, stream) {
            slot.close(lap, stream);
        } else {
            slot.abandon_end(lap);
            self.counts.failed.add(1);
            sink.failed();
        }
    }

    /// Gives up a span that will not be ended (a launch that failed). A token
    /// whose span is already over counts `stale_ends`.
    pub fn cancel(&self, token: SpanToken) {
        let given_up = self.open_slot(token).is_some_and(|(_, slot)| {
            let seen = slot.peek();
            let is_it = seen.state() == State::Open && token.is_lap(seen.lap());
            is_it && slot.give_up(seen) == Transition::Made
        });
        if given_up {
            self.counts.cancelled.add(1);
        } else {
            self.counts.stale_ends.add(1);
        }
    }

    /// Counts an attempt that the caller turned away itself.
    pub fn refuse(&self) {
        self.counts.refused.add(1);
    }

    fn open_slot(&self, token: SpanToken) -> Option<(usize, &Slot)> {
        if !token.is_of(self.id) {
            return None;
        }
        self.slots
            .get(token.slot())
            .map(|slot| (token.slot(), slot))
    }

    /// Lands each closed span whose pair is done, and returns how many. Never
    /// waits for the GPU; while another thread harvests it returns 0 at once.
    pub fn harvest(&self, instruments: &KernelInstruments) -> usize {
        self.harvest_into(instruments)
    }

    /// Spans lost so far: two spans with the same count at their begin have no
    /// lost span between them.
    pub(super) fn losses(&self) -> u64 {
        let counts = &self.counts;
        self.dropped
            .load(Ordering::Relaxed)
            .wrapping_add(counts.failed.get())
            .wrapping_add(counts.cancelled.get())
            .wrapping_add(counts.reclaimed.get())
    }

    /// Whether no span was in flight a moment ago: some loads, no write. While
    /// spans are recorded it may miss one that begins; at rest it is exact.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        let counts = &self.counts;
        let over = [
            &counts.landed,
            &counts.failed,
            &counts.cancelled,
            &counts.reclaimed,
        ];
        let over = over
            .iter()
            .fold(0u64, |sum, count| sum.wrapping_add(count.get()));
        self.begun.load(Ordering::Relaxed) == over
    }

    /// What became of every attempt so far. It stops nobody.
    #[must_use]
    pub fn ledger(&self) -> Ledger {
        let in_use = |slot: &&Slot| slot.peek().state() != State::Free;
        let refused = self.counts.refused.get();
        Ledger {
            attempts: self.head.load(Ordering::Relaxed) + refused,
            begun: self.begun.load(Ordering::Relaxed),
            landed: self.counts.landed.get(),
            dropped: self.dropped.load(Ordering::Relaxed),
            refused,
            failed: self.counts.failed.get(),
            cancelled: self.counts.cancelled.get(),
            reclaimed: self.counts.reclaimed.get(),
            in_flight: self.slots.iter().filter(in_use).count() as u64,
            stale_ends: self.counts.stale_ends.get(),
            passes: self.counts.passes.get(),
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
