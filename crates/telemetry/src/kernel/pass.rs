// SPDX-License-Identifier: MIT OR Apache-2.0
//! The harvest pass: visits slots from the oldest unlanded span to the newest
//! and lands what the GPU has finished.
//!
//! After the first pending span of a stream its later ones are left alone. A
//! pass remembers 64 waiting streams; a span of a 65th is not asked about, and
//! the next pass starts there, so that every stream gets its turn.

use super::batch::Batch;
use super::gaps::{Gaps, Last, Previous};
use super::ops::{EventOps, SpanPoll};
use super::ring::SpanRing;
use super::sink::Landing;
use super::slot::{Slot, State, Transition, Word};
use super::streams::{Streams, Turn};
use crate::sync::{Ordering, try_lock};
use std::ops::Range;

/// What passes keep from one to the next. Its lock makes a pass exclusive.
pub(super) struct Pass {
    /// Where the last pass ran out of streams to remember.
    resume: Option<u64>,
    streams: Streams,
    previous: Previous,
    /// Empty between passes; after a poll that panicked the next one counts it.
    batch: Batch,
    /// For each slot, where spans left open are reclaimed.
    ages: Box<[Age]>,
}

/// The lap that a pass last saw open, and when first, in the ring's clock.
#[derive(Clone, Copy, Default)]
struct Age {
    lap: u64,
    since_ns: u64,
}

impl Pass {
    pub(super) fn new(ages: usize) -> Self {
        Self {
            resume: None,
            streams: Streams::new(),
            previous: Previous::new(),
            batch: Batch::new(),
            ages: vec![Age::default(); ages].into_boxed_slice(),
        }
    }
}

impl<E: EventOps> SpanRing<E> {
    /// Makes a pass, and returns how many spans landed.
    pub(super) fn pass(&self, landing: &impl Landing) -> usize {
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
        let oldest = tail.max(head.saturating_sub(self.slots.len() as u64));
        let resume = pass
            .resume
            .take()
            .filter(|ticket| (oldest..head).contains(ticket));
        if resume.is_some() {
            // Spans will land out of order: no gap can be read across that.
            pass.previous.clear();
        }
        let from = resume.unwrap_or(oldest);
        pass.streams.clear();
        let landed_before = self.passed.landed.load(Ordering::Relaxed);
        let mut visitor = Visitor {
            ring: self,
            landing,
            bracket: Bracket::new(&self.ops),
            pass,
            gaps: match resume {
                None => self.options.gaps,
                Some(_) => Gaps::Off,
            },
            now_ns: None,
            left: head,
            landed: landed_before,
        };
        visitor.walk(from..head);
        if resume.is_some() {
            visitor.walk(oldest..from);
        }
        landing.finish(&mut visitor.pass.batch);
        let (left, landed) = (visitor.left, visitor.landed.wrapping_sub(landed_before));
        drop(visitor);
        let tail = if left < oldest {
            left
        } else {
            self.skip(left..head)
        };
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
            let (index, lap) = self.turns.of(*ticket);
            let slot = &self.slots[index];
            let word = slot.word();
            let is_over = word.state() == State::Free
                && (word.lap() >= lap || slot.skip(word, lap) == Transition::Made);
            !is_over
        };
        let end = tickets.end;
        tickets.find(stays).unwrap_or(end)
    }
}

struct Visitor<'a, E: EventOps, L> {
    ring: &'a SpanRing<E>,
    landing: &'a L,
    bracket: Bracket<'a, E>,
    pass: &'a mut Pass,
    gaps: Gaps,
    /// The clock, read at most once.
    now_ns: Option<u64>,
    /// The oldest ticket that is not over; the head if all are.
    left: u64,
    /// The ring's count.
    landed: u64,
}

impl<E: EventOps, L: Landing> Visitor<'_, E, L> {
    /// Visits the slots of `tickets`, at most one of each slot.
    fn walk(&mut self, tickets: Range<u64>) {
        let (index, lap) = self.ring.turns.of(tickets.start);
        let many = (tickets.end - tickets.start) as usize;
        let end = self.ring.slots.len().min(index + many);
        self.visit_all(index..end, lap);
        let rest = many - (end - index);
        if rest > 0 {
            self.visit_all(0..rest, lap + 1);
        }
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
                match self.poll(index, slot, word) {
                    Answer::Over => continue,
                    Answer::Wait => next += self.also_wait(slot, &slots[next..], lap),
                    Answer::None => {}
                }
                self.stays(index, lap);
            } else if !word.is_free_in(lap) {
                self.visit_other(index, slot, word, lap);
            }
        }
    }

    /// How many of the slots after `slot`, whose stream waits, are of streams
    /// that wait too: their spans are younger.
    fn also_wait(&mut self, slot: &Slot, next: &[Slot], lap: u64) -> usize {
        let (stream, streams) = (slot.stream(), &mut self.pass.streams);
        let waits = |slot: &&Slot| {
            slot.word().is_closed_in(lap)
                && (slot.stream() == stream || streams.turn(slot.stream()) == Turn::Wait)
        };
        next.iter().take_while(waits).count()
    }

    /// Visits a slot that is neither closed nor free in lap `lap`.
    #[inline(never)]
    fn visit_other(&mut self, index: usize, slot: &Slot, word: Word, lap: u64) {
        let over = match word.state() {
            State::Free => true,
            State::Closed => matches!(self.poll(index, slot, word), Answer::Over),
            State::Open => self.reclaim(index, slot, word),
            State::Busy => false,
        };
        if !over {
            // The span's lap, which may be of an earlier ticket.
            self.stays(index, word.lap());
        } else if word.lap() < lap {
            // A turn that nobody has taken yet.
            self.stays(index, lap);
        }
    }

    /// Notes that a slot's lap is not over.
    fn stays(&mut self, index: usize, lap: u64) {
        self.left = self.left.min(self.ring.turns.ticket(index, lap));
    }

    /// Frees a span left open for too long; whether it did.
    fn reclaim(&mut self, index: usize, slot: &Slot, word: Word) -> bool {
        let options = &self.ring.options;
        let (Some(limit_ns), Some(age)) = (options.reclaim_after_ns, self.pass.ages.get_mut(index))
        else {
            return false;
        };
        let now_ns = *self.now_ns.get_or_insert_with(options.clock);
        if age.lap != word.lap() {
            (age.lap, age.since_ns) = (word.lap(), now_ns);
        }
        if now_ns.saturating_sub(age.since_ns) < limit_ns || slot.give_up(word) == Transition::Lost
        {
            return false;
        }
        self.ring.counts.reclaimed.add(1);
        true
    }

    /// Asks about a closed span, if its stream has not said to wait.
    #[inline(always)]
    fn poll(&mut self, index: usize, slot: &Slot, word: Word) -> Answer {
        let stream = slot.stream();
        let answer = match self.pass.streams.turn(stream) {
            Turn::Next => self.ring.ops.poll_next(index),
            Turn::First => {
                if !self.bracket.open() {
                    return Answer::None;
                }
                self.pass.streams.meet(stream);
                self.ring.ops.poll_first(index)
            }
            Turn::Wait => return Answer::Wait,
            Turn::Later => {
                let ticket = self.ring.turns.ticket(index, word.lap());
                self.pass.resume.get_or_insert(ticket);
                return Answer::None;
            }
        };
        match answer {
            SpanPoll::Ready(ns) => {
                self.land(index, slot, word, ns);
                Answer::Over
            }
            SpanPoll::Pending => {
                self.pass.streams.wait();
                Answer::Wait
            }
            SpanPoll::Failed => {
                self.pass.previous.forget(stream);
                slot.settle(word.lap(), false);
                self.ring.counts.failed.add(1);
                self.landing.failed();
                Answer::Over
            }
        }
    }

    #[inline]
    fn land(&mut self, index: usize, slot: &Slot, word: Word, ns: u64) {
        let packed = slot.filed();
        let gap_ns = match self.gaps {
            Gaps::Off => None,
            rule => {
                let span = Last {
                    stream: slot.stream(),
                    packed,
                    losses: slot.losses(),
                    slot: index,
                    lap: word.lap(),
                };
                self.gap(rule, span)
            }
        };
        let batch = &mut self.pass.batch;
        self.landing.landed(batch, packed, ns, gap_ns);
        slot.settle(word.lap(), true);
        self.landed = self.landed.wrapping_add(1);
        // Relaxed: a count, of which the pass is the only writer.
        let passed = &self.ring.passed;
        passed.landed.store(self.landed, Ordering::Relaxed);
    }

    /// From the end of the span before on the stream of `span`, if that still has
    /// its events.
    fn gap(&mut self, rule: Gaps, span: Last) -> Option<u64> {
        let before = self.pass.previous.follow(rule, span)?;
        let slot = &self.ring.slots[before.slot];
        slot.while_landed(before.lap, || self.ring.ops.gap(before.slot, span.slot))
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
