// SPDX-License-Identifier: MIT OR Apache-2.0
//! The harvest pass: visits slots from the oldest unlanded span to the newest
//! and lands what the GPU has finished.
//!
//! Work on one stream completes in order, so after the first pending span of a
//! stream its later ones are left alone. A pass remembers 64 waiting streams;
//! a span of a 65th is not asked about, and the next pass starts there, so
//! that every stream gets its turn.

use super::gaps::{Gaps, Last, Previous};
use super::ops::{EventOps, SpanPoll};
use super::ring::SpanRing;
use super::sink::{Landed, SpanSink};
use super::slot::{Filed, State, Transition, Word};
use crate::sync::{Ordering, try_lock};

/// Streams a pass tells apart.
const STREAMS: usize = 64;

/// What passes keep from one to the next. Its lock makes a pass exclusive.
pub(super) struct Pass {
    /// All spans of earlier tickets are over.
    tail: u64,
    /// Where the last pass ran out of streams to remember.
    resume: Option<u64>,
    streams: Streams,
    previous: Previous,
}

impl Pass {
    pub(super) fn new() -> Self {
        Self {
            tail: 0,
            resume: None,
            streams: Streams::new(),
            previous: Previous::new(),
        }
    }
}

impl<E: EventOps> SpanRing<E> {
    /// As [`harvest`](Self::harvest), with any sink.
    pub fn harvest_into<S: SpanSink + ?Sized>(&self, sink: &S) -> usize {
        let Some(mut guard) = try_lock(&self.pass) else {
            return 0;
        };
        let pass = &mut *guard;
        self.counts.passes.add(1);
        // Acquire on both: of every ticket counted here, the pass sees that it
        // was handed out, and its slot as claimed or later. Read before `head`:
        // if the numbers are equal, no recorder was between ticket and claim
        // when they were read.
        let begun = self.begun.load(Ordering::Acquire);
        let resolved = begun + self.dropped.load(Ordering::Acquire);
        let head = self.head.load(Ordering::Relaxed);
        if pass.tail == head {
            return 0;
        }
        let oldest = pass.tail.max(head.saturating_sub(self.slots.len() as u64));
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
        let mut visitor = Visitor {
            ring: self,
            sink,
            bracket: Bracket::new(&self.ops),
            pass,
            gaps: match resume {
                None => self.options.gaps,
                Some(_) => Gaps::Off,
            },
            now_ns: None,
            left: head,
            landed: 0,
        };
        for ticket in (from..head).chain(oldest..from) {
            visitor.visit(ticket);
        }
        let (left, landed) = (visitor.left, visitor.landed);
        drop(visitor);
        if resolved == head {
            pass.tail = left;
        }
        landed
    }
}

struct Visitor<'a, E: EventOps, S: ?Sized> {
    ring: &'a SpanRing<E>,
    sink: &'a S,
    bracket: Bracket<'a, E>,
    pass: &'a mut Pass,
    gaps: Gaps,
    /// The clock, read at most once.
    now_ns: Option<u64>,
    /// The oldest ticket whose span is not over.
    left: u64,
    landed: usize,
}

impl<E: EventOps, S: SpanSink + ?Sized> Visitor<'_, E, S> {
    fn visit(&mut self, ticket: u64) {
        let slots = self.ring.slots.len() as u64;
        let index = (ticket % slots) as usize;
        let word = self.ring.slots[index].word();
        let over = match word.state() {
            State::Free => true,
            State::Busy => false,
            State::Open => self.reclaim(index, word),
            State::Closed => self.poll(index, word),
        };
        if !over {
            // The span's own ticket: the slot may hold one of another lap.
            self.left = self.left.min((word.lap() - 1) * slots + index as u64);
        }
    }

    /// Frees a span left open for too long; whether it did.
    fn reclaim(&mut self, index: usize, word: Word) -> bool {
        let options = &self.ring.options;
        let Some(limit_ns) = options.reclaim_after_ns else {
            return false;
        };
        let now_ns = *self.now_ns.get_or_insert_with(options.clock);
        let slot = &self.ring.slots[index];
        let since_ns = slot.open_since(word.lap(), now_ns);
        if now_ns.saturating_sub(since_ns) < limit_ns || slot.give_up(word) == Transition::Lost {
            return false;
        }
        self.ring.counts.reclaimed.add(1);
        true
    }

    /// Asks about a closed span, if its stream has not said to wait; whether
    /// the span is over.
    fn poll(&mut self, index: usize, word: Word) -> bool {
        let filed = self.ring.slots[index].filed();
        let turn = self.pass.streams.turn(filed.stream);
        if turn == Turn::Wait {
            return false;
        }
        if turn == Turn::Later {
            let ticket = (word.lap() - 1) * self.ring.slots.len() as u64 + index as u64;
            self.pass.resume.get_or_insert(ticket);
            return false;
        }
        if !self.bracket.open() {
            return false;
        }
        let answer = match turn {
            Turn::First => self.ring.ops.poll_first(index),
            _ => self.ring.ops.poll_next(index),
        };
        self.pass
            .streams
            .note(filed.stream, answer == SpanPoll::Pending);
        match answer {
            SpanPoll::Pending => false,
            SpanPoll::Ready(ns) => {
                self.land(index, word.lap(), &filed, ns);
                true
            }
            SpanPoll::Failed => {
                self.pass.previous.forget(filed.stream);
                self.ring.slots[index].settle(word.lap(), false);
                self.ring.counts.failed.add(1);
                self.sink.failed();
                true
            }
        }
    }

    fn land(&mut self, index: usize, lap: u64, filed: &Filed, ns: u64) {
        let gap_ns = match self.gaps {
            Gaps::Off => None,
            rule => self.gap(rule, index, lap, filed),
        };
        self.sink.landed(Landed {
            key: filed.key,
            tag: filed.tag,
            ns,
            gap_ns,
        });
        self.ring.slots[index].settle(lap, true);
        self.ring.counts.landed.add(1);
        self.landed += 1;
    }

    /// From the end of the span before on this stream, if that still has its
    /// events.
    fn gap(&mut self, rule: Gaps, index: usize, lap: u64, filed: &Filed) -> Option<u64> {
        let span = Last {
            stream: filed.stream,
            tag: filed.tag,
            losses: filed.losses,
            slot: index,
            lap,
        };
        let before = self.pass.previous.follow(rule, span)?;
        let slot = &self.ring.slots[before.slot];
        slot.while_landed(before.lap, || self.ring.ops.gap(before.slot, index))
    }
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

/// What to do about a closed span, by its stream.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// No span of the stream was asked about yet.
    First,
    /// The span before it was done.
    Next,
    /// The stream said to wait.
    Wait,
    /// Too many streams wait: the next pass starts here.
    Later,
}

struct Streams {
    seen: [(u64, bool); STREAMS],
    len: usize,
    waiting: usize,
}

impl Streams {
    fn new() -> Self {
        Self {
            seen: [(0, false); STREAMS],
            len: 0,
            waiting: 0,
        }
    }

    #[inline]
    fn clear(&mut self) {
        (self.len, self.waiting) = (0, 0);
    }

    #[inline]
    fn turn(&self, stream: u64) -> Turn {
        match self.seen[..self.len].iter().find(|seen| seen.0 == stream) {
            Some((_, true)) => Turn::Wait,
            Some((_, false)) => Turn::Next,
            None if self.waiting == STREAMS => Turn::Later,
            None => Turn::First,
        }
    }

    #[inline]
    fn note(&mut self, stream: u64, waits: bool) {
        let known = self.seen[..self.len]
            .iter()
            .position(|seen| seen.0 == stream);
        let at = known.unwrap_or_else(|| {
            if self.len < STREAMS {
                self.len += 1;
                self.len - 1
            } else {
                // A stream that does not wait can be asked anew.
                self.seen.iter().position(|seen| !seen.1).unwrap_or(0)
            }
        });
        self.waiting += usize::from(waits);
        self.seen[at] = (stream, waits);
    }
}
