// SPDX-License-Identifier: MIT OR Apache-2.0
//! The harvest pass: visits slots from the oldest unlanded span to the newest
//! and lands what the GPU has finished. After the first pending span of a
//! stream its later ones are left alone.
//!
//! Of the spans that are closed when a pass begins, those of one stream land in
//! the order of their begins.

use super::gaps::{Previous, PreviousSpan};
use super::oldest::Leaves;
use super::ops::{EventOps, Place, SpanPoll};
use super::ring::SpanRing;
use super::slot::{Closed, Ending, Slot, State, Word};
use super::span::{Harvested, Landed, SpanKey};
use super::streams::{Ask, Streams};
use crate::sync::{Ordering, try_lock};
use std::ops::Range;

/// Who is told what a pass finds.
pub(super) trait Finds {
    /// A launch landed, of this function.
    fn launch(&mut self, func: u64, span: Landed);
    /// Whatever else is over.
    fn other(&mut self, span: Harvested);
}

impl<F: FnMut(Harvested)> Finds for F {
    #[inline]
    fn launch(&mut self, _: u64, span: Landed) {
        self(Harvested::Landed(span));
    }
    #[inline]
    fn other(&mut self, span: Harvested) {
        self(span);
    }
}

/// What passes keep from one to the next. Its lock makes a pass exclusive.
pub(super) struct Pass {
    streams: Streams,
    previous: Previous,
    /// For each slot, where spans left open are reclaimed.
    ages: Box<[Age]>,
    /// The tickets of spans that are not over, for a pass that has to put them
    /// in order; empty between passes.
    tickets: Vec<u64>,
}

/// The lap that a pass last saw open, and when first, in the ring's clock.
#[derive(Clone, Copy, Default)]
struct Age {
    lap: u64,
    since_ns: u64,
}

impl Pass {
    pub(super) fn new(slots: usize, reclaims: bool) -> Self {
        let ages = if reclaims { slots } else { 0 };
        Self {
            streams: Streams::new(),
            previous: Previous::new(),
            ages: vec![Age::default(); ages].into_boxed_slice(),
            tickets: Vec::with_capacity(slots),
        }
    }
}

impl<E: EventOps> SpanRing<E> {
    /// Lands each closed span whose pair is done, tells `each` of it and of
    /// spans that cannot be timed, and returns how many landed. Never waits for
    /// the GPU; while another thread harvests it returns 0 at once.
    pub fn harvest_with(&self, each: impl FnMut(Harvested)) -> usize {
        self.harvest_for(each)
    }

    pub(super) fn harvest_for(&self, each: impl Finds) -> usize {
        if self.is_idle() {
            self.passed.passes.add(1);
            return 0;
        }
        let Some(mut guard) = try_lock(&self.pass) else {
            return 0;
        };
        self.passed.passes.add(1);
        let pass = &mut *guard;
        // Relaxed: earlier passes are seen by the lock, and tickets from here on
        // are for the next one.
        let tail = self.passed.tail.load(Ordering::Relaxed);
        let head = self.head.load(Ordering::Relaxed);
        let round = head.saturating_sub(self.slots.len() as u64);
        pass.streams.clear();
        let landed_before = self.passed.landed.load(Ordering::Relaxed);
        let mut visitor = Visitor {
            ring: self,
            each,
            bracket: Bracket::new(&self.ops),
            pass,
            now_ns: None,
            left: head,
            leaves: Leaves::default(),
        };
        if tail < round {
            visitor.walk_in_order(round..head);
        } else {
            visitor.walk(tail..head);
        }
        let (left, leaves) = (visitor.left, visitor.leaves);
        let landed = self.passed.landed.load(Ordering::Relaxed) - landed_before;
        self.waiting.leave(leaves, || visitor.now_ns());
        drop(visitor);
        let tail = if left < round { left } else { self.skip(left..head) };
        // Release: who sees this tail sees the head that it was made of
        // (partner: `is_idle`).
        // Model: tail::a_pass_over_an_idle_ring_leaves_nothing_of_its_caller.
        self.passed.tail.store(tail, Ordering::Release);
        landed as usize
    }

    /// Skips the slots of those turned away, up to the first ticket that is not
    /// over. Last in a pass: no span that is still to land is older, so no gap
    /// to a span whose slot is skipped will be asked for.
    fn skip(&self, mut tickets: Range<u64>) -> u64 {
        let stays = |ticket: &u64| {
            let (index, lap) = self.laps.of(*ticket);
            let slot = &self.slots[index];
            let word = slot.word();
            let is_over = word.is_free() && (word.lap() >= lap || slot.skip(word, lap));
            !is_over
        };
        let end = tickets.end;
        tickets.find(stays).unwrap_or(end)
    }
}

struct Visitor<'a, E: EventOps, F> {
    ring: &'a SpanRing<E>,
    each: F,
    bracket: Bracket<'a, E>,
    pass: &'a mut Pass,
    /// The clock, read at most once.
    now_ns: Option<u64>,
    /// The oldest ticket that is not over; the head if all are.
    left: u64,
    leaves: Leaves,
}

impl<E: EventOps, F: Finds> Visitor<'_, E, F> {
    /// Visits the slots of `tickets`, at most one of each slot, in that order.
    fn walk(&mut self, tickets: Range<u64>) {
        let (index, lap) = self.ring.laps.of(tickets.start);
        let many = (tickets.end - tickets.start) as usize;
        let end = self.ring.slots.len().min(index + many);
        self.visit_all(index..end, lap);
        let rest = many - (end - index);
        if rest > 0 {
            self.visit_all(0..rest, lap + 1);
        }
    }

    /// As [`walk`](Self::walk) over one round of all slots, of which some are
    /// in use by a span of an earlier round: visits spans in the order of their
    /// own tickets.
    #[cold]
    fn walk_in_order(&mut self, tickets: Range<u64>) {
        let laps = self.ring.laps;
        let (first, lap) = laps.of(tickets.start);
        let lap_of = |index| if index < first { lap + 1 } else { lap };
        let mut found = std::mem::take(&mut self.pass.tickets);
        found.clear();
        for (index, slot) in self.ring.slots.iter().enumerate() {
            let word = slot.word();
            if word.is_free() {
                self.visit(index, slot, word, lap_of(index));
            } else {
                found.push(laps.ticket(index, word.lap()));
            }
        }
        found.sort_unstable();
        for ticket in found.drain(..) {
            let (index, _) = laps.of(ticket);
            let slot = &self.ring.slots[index];
            self.visit(index, slot, slot.word(), lap_of(index));
        }
        self.pass.tickets = found;
    }

    /// Visits neighbouring slots for the tickets of one lap.
    fn visit_all(&mut self, indices: Range<usize>, lap: u64) {
        let slots = &self.ring.slots[..indices.end];
        let mut next = indices.start;
        while let Some(slot) = slots.get(next) {
            let index = next;
            next += 1;
            let word = slot.word();
            if word.is_closed_in(lap) {
                match self.poll(index, slot.closed(lap)) {
                    Answer::Over => continue,
                    Answer::Wait => next += self.also_wait(slot, &slots[next..], lap),
                    Answer::None => {}
                }
                self.waits(index, lap, true);
            } else if !word.is_free_in(lap) {
                self.visit(index, slot, word, lap);
            }
        }
    }

    /// How many of the slots after `slot`, whose stream waits, are of streams
    /// that wait too: their spans are younger.
    #[inline(never)]
    fn also_wait(&mut self, slot: &Slot, next: &[Slot], lap: u64) -> usize {
        let (stream, streams) = (slot.closed(lap).stream(), &mut self.pass.streams);
        let waits = |slot: &&Slot| {
            slot.word().is_closed_in(lap) && {
                let of = slot.closed(lap).stream();
                of == stream || streams.ask(of) == Ask::Wait
            }
        };
        next.iter().take_while(waits).count()
    }

    /// Visits a slot for the ticket of lap `lap`, whatever it is in.
    #[inline(never)]
    fn visit(&mut self, index: usize, slot: &Slot, word: Word, lap: u64) {
        let over = match word.state() {
            State::Free | State::Landed => true,
            State::Closed => matches!(self.poll(index, slot.closed(word.lap())), Answer::Over),
            State::Open => self.reclaim(index, slot, word),
            State::Starting | State::Ending => false,
        };
        if !over {
            // The span's lap, which may be of another ticket.
            self.waits(index, word.lap(), word.state() == State::Closed);
        } else if word.lap() < lap {
            // A turn that nobody has taken yet.
            self.stays(index, lap);
        }
    }

    /// Notes that a slot's span is not over.
    fn waits(&mut self, index: usize, lap: u64, is_closed: bool) {
        self.leaves.note(self.ring.laps.ticket(index, lap), is_closed);
        self.stays(index, lap);
    }

    /// Notes that a slot's lap is not over.
    fn stays(&mut self, index: usize, lap: u64) {
        self.left = self.left.min(self.ring.laps.ticket(index, lap));
    }

    fn now_ns(&mut self) -> u64 {
        *self.now_ns.get_or_insert_with(self.ring.options.clock)
    }

    /// Frees a span left open for too long; whether it did.
    fn reclaim(&mut self, index: usize, slot: &Slot, word: Word) -> bool {
        let Some(limit_ns) = self.ring.options.reclaim_after_ns else {
            return false;
        };
        let now_ns = self.now_ns();
        let Some(age) = self.pass.ages.get_mut(index) else {
            return false;
        };
        if age.lap != word.lap() {
            (age.lap, age.since_ns) = (word.lap(), now_ns);
        }
        if now_ns.saturating_sub(age.since_ns) < limit_ns {
            return false;
        }
        let Some(packed) = slot.take_open(word).map(Ending::abandon) else {
            return false;
        };
        self.ring.counts.reclaimed.add(1);
        self.each.other(Harvested::Reclaimed(packed.lost()));
        true
    }

    /// Asks about a closed span, if its stream has not said to wait.
    #[inline(always)]
    fn poll(&mut self, index: usize, span: Closed<'_>) -> Answer {
        let stream = span.stream();
        let answer = match self.pass.streams.ask(stream) {
            Ask::Next => self.ring.ops.poll_next(index),
            Ask::First => {
                if !self.bracket.open() {
                    return Answer::None;
                }
                self.ask_first(index, stream)
            }
            Ask::Wait => return Answer::Wait,
        };
        match answer {
            SpanPoll::Ready(ns) => self.land(index, span, ns),
            SpanPoll::Pending => {
                self.pass.streams.wait();
                Answer::Wait
            }
            SpanPoll::Failed => {
                self.pass.previous.forget(stream);
                let lost = span.filed().lost();
                span.fail();
                self.ring.counts.failed.add(1);
                self.each.other(Harvested::Failed(lost));
                Answer::Over
            }
        }
    }

    #[inline(never)]
    fn ask_first(&mut self, index: usize, stream: u64) -> SpanPoll {
        if self.now_ns.is_none() {
            let now_ns = self.now_ns();
            self.ring.waiting.ask(now_ns);
        }
        self.pass.streams.meet(stream);
        self.ring.ops.poll_first(index)
    }

    #[inline(always)]
    fn land(&mut self, index: usize, span: Closed<'_>, ns: u64) -> Answer {
        let packed = span.filed();
        let start_ns = match packed.flags.track() {
            None => None,
            Some(track) => match self.ring.ops.place(track, index) {
                Place::At(ns) => Some(ns),
                Place::Unknown => None,
                Place::Pending => {
                    self.pass.streams.wait();
                    return Answer::Wait;
                }
            },
        };
        let stream = span.stream();
        let gap_ns = if self.ring.options.gaps {
            let last = PreviousSpan { stream, losses: span.losses(), slot: index, lap: span.lap() };
            self.gap(last, ns)
        } else {
            None
        };
        span.land();
        // Relaxed: a count, of which the pass is the only writer.
        let landed = &self.ring.passed.landed;
        landed.store(landed.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        let landed = |key| Landed { key, flags: packed.flags, stream, ns, gap_ns, start_ns };
        match packed.key() {
            SpanKey::Kernel(func) => self.each.launch(func, landed(SpanKey::Kernel(func))),
            lane => self.each.other(Harvested::Landed(landed(lane))),
        }
        Answer::Over
    }

    /// From the end of the span before on the stream of `span`, which took `ns`,
    /// if that still has its events and is not the one that ends later.
    fn gap(&mut self, span: PreviousSpan, ns: u64) -> Option<u64> {
        let before = self.pass.previous.follow(span)?;
        let slot = &self.ring.slots[before.slot];
        let gap = slot.while_landed(before.lap, || self.ring.ops.gap(before.slot, span.slot))?;
        if gap < 0 && gap.unsigned_abs() > ns {
            self.pass.previous.keep(before);
        }
        u64::try_from(gap).ok()
    }
}

/// What became of a closed span.
enum Answer {
    /// It landed or failed.
    Over,
    /// Its stream waits.
    Wait,
    /// It was not asked about.
    None,
}

/// Opens the bracket of polls at the first one, closes it when dropped.
struct Bracket<'a, E: EventOps> {
    ops: &'a E,
    opened: Option<bool>,
}

impl<'a, E: EventOps> Bracket<'a, E> {
    fn new(ops: &'a E) -> Self {
        Self { ops, opened: None }
    }

    #[inline]
    fn open(&mut self) -> bool {
        *self.opened.get_or_insert_with(|| self.ops.pass_begin())
    }
}

impl<E: EventOps> Drop for Bracket<'_, E> {
    fn drop(&mut self) {
        if self.opened == Some(true) {
            self.ops.pass_end();
        }
    }
}
