// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the ring promises, said again with a vector of slots: sections 3 to 5
//! of the design, without a thread in sight.

use crate::source::{Event, REFUSED, Told, gap_ns};
use metrale_telemetry::kernel::{
    Edge, Ledger, Lost, NotBegun, NotEnded, Place, SpanKey, SpanPoll, SpanTag, StepId,
};
use std::collections::HashMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Open { first_seen_ns: Option<u64> },
    Closed { stream: u64 },
    Landed,
    Over,
}

/// A span, in the slot it was begun in until the next one is begun there.
#[derive(Clone, Copy, Debug)]
struct Span {
    id: u64,
    /// The number of its attempt, of those that were not refused.
    turn: usize,
    key: SpanKey,
    tag: SpanTag,
    losses: u64,
    stage: Stage,
}

impl Span {
    fn lost(&self) -> Lost {
        let (key, tag) = (self.key, self.tag);
        Lost { key, tag }
    }
}

/// The ring without concurrency.
#[derive(Debug)]
pub(crate) struct Plain {
    slots: Vec<Option<Span>>,
    answers: Vec<SpanPoll>,
    places: Vec<Place>,
    turns: usize,
    ids: u64,
    reclaim_after_ns: Option<u64>,
    gaps: bool,
    /// The last span that landed on a stream, and its slot.
    previous: HashMap<u64, (usize, Span)>,
    ledger: Ledger,
    events: Vec<Event>,
    now_ns: u64,
    clock_reads: u64,
}

impl Plain {
    pub(crate) fn new(slots: usize, reclaim_after_ns: Option<u64>, gaps: bool) -> Self {
        Self {
            slots: vec![None; slots],
            answers: vec![SpanPoll::Pending; slots],
            places: vec![Place::Unknown; slots],
            turns: 0,
            ids: 0,
            reclaim_after_ns,
            gaps,
            previous: HashMap::new(),
            ledger: Ledger::default(),
            events: Vec::new(),
            now_ns: 0,
            clock_reads: 0,
        }
    }

    pub(crate) fn set_clock(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
    }

    pub(crate) fn answers(&mut self, slot: usize, answer: SpanPoll) {
        self.answers[slot] = answer;
    }

    pub(crate) fn places(&mut self, slot: usize, place: Place) {
        self.places[slot] = place;
    }

    /// What the source was to be asked and a pass to tell, and the reads of the clock.
    pub(crate) fn take(&mut self) -> (Vec<Event>, u64) {
        let reads = std::mem::take(&mut self.clock_reads);
        (std::mem::take(&mut self.events), reads)
    }

    /// In flight is counted, not kept.
    pub(crate) fn ledger(&self) -> Ledger {
        let in_use = self.slots.iter().flatten().filter(|span| in_use(span));
        let mut ledger = self.ledger;
        ledger.in_flight = in_use.count() as u64;
        ledger
    }

    fn losses(&self) -> u64 {
        let lost = self.ledger;
        lost.dropped + lost.failed + lost.cancelled + lost.reclaimed
    }

    /// The next slot in turn and the span's id.
    pub(crate) fn begin(
        &mut self,
        key: SpanKey,
        tag: SpanTag,
        stream: u64,
        fails: bool,
    ) -> Result<(usize, u64), NotBegun> {
        self.ledger.attempts += 1;
        if stream == REFUSED {
            self.ledger.refused += 1;
            return Err(NotBegun::Refused);
        }
        let turn = self.turns;
        let slot = turn % self.slots.len();
        self.turns += 1;
        if self.slots[slot].as_ref().is_some_and(in_use) {
            self.ledger.dropped += 1;
            return Err(NotBegun::Dropped);
        }
        self.ledger.begun += 1;
        self.ids += 1;
        let mut span = Span {
            id: self.ids,
            turn,
            key,
            tag,
            losses: self.losses(),
            stage: Stage::Open { first_seen_ns: None },
        };
        self.events.push(Event::Record(slot, Edge::Start, stream));
        if fails {
            span.stage = Stage::Over;
            self.ledger.failed += 1;
        }
        self.slots[slot] = Some(span);
        if fails { Err(NotBegun::Failed) } else { Ok((slot, span.id)) }
    }

    /// The open span in `slot`, with that id if one is asked for.
    fn open(&mut self, slot: usize, id: Option<u64>) -> Option<&mut Span> {
        let span = self.slots.get_mut(slot)?.as_mut()?;
        let is_it = id.is_none_or(|id| id == span.id);
        (is_it && matches!(span.stage, Stage::Open { .. })).then_some(span)
    }

    pub(crate) fn end(
        &mut self,
        slot: usize,
        id: Option<u64>,
        stream: u64,
        fails: bool,
    ) -> Result<(), NotEnded> {
        let Some(span) = self.open(slot, id) else {
            self.ledger.stale_ends += 1;
            return Err(NotEnded::Stale);
        };
        let lost = span.lost();
        span.stage = if fails { Stage::Over } else { Stage::Closed { stream } };
        self.events.push(Event::Record(slot, Edge::End, stream));
        if fails {
            self.ledger.failed += 1;
            return Err(NotEnded::Failed(lost));
        }
        Ok(())
    }

    pub(crate) fn cancel(&mut self, slot: usize, id: Option<u64>) -> Option<SpanTag> {
        let Some(span) = self.open(slot, id) else {
            self.ledger.stale_ends += 1;
            return None;
        };
        let tag = span.tag;
        span.stage = Stage::Over;
        self.ledger.cancelled += 1;
        Some(tag)
    }

    /// One pass over the spans that are not over, in the order of their begins.
    pub(crate) fn harvest(&mut self, polls: bool) -> usize {
        self.ledger.passes += 1;
        let landed_before = self.ledger.landed;
        let mut waits: HashMap<u64, bool> = HashMap::new();
        let (mut bracket, mut clock) = (false, false);
        let mut order: Vec<usize> = (0..self.slots.len()).collect();
        order.sort_by_key(|slot| self.slots[*slot].map(|span| span.turn));
        for slot in order {
            let Some(span) = self.slots[slot] else {
                continue;
            };
            match span.stage {
                Stage::Landed | Stage::Over => {}
                Stage::Open { first_seen_ns } => {
                    if let Some(after_ns) = self.reclaim_after_ns {
                        clock = true;
                        self.age(slot, first_seen_ns, after_ns);
                    }
                }
                Stage::Closed { stream } => {
                    if waits.get(&stream) == Some(&true) {
                        continue;
                    }
                    if !std::mem::replace(&mut bracket, true) {
                        self.events.push(Event::PassBegin);
                    }
                    if polls {
                        clock = true;
                        let first = !waits.contains_key(&stream);
                        let is_over = self.poll(slot, &span, stream, first);
                        waits.insert(stream, !is_over);
                    }
                }
            }
        }
        if bracket && polls {
            self.events.push(Event::PassEnd);
        }
        // What is left behind is, with the time.
        let leaves = self.slots.iter().flatten().any(in_use);
        self.clock_reads += u64::from(clock || leaves);
        (self.ledger.landed - landed_before) as usize
    }

    fn age(&mut self, slot: usize, first_seen_ns: Option<u64>, after_ns: u64) {
        let since_ns = first_seen_ns.unwrap_or(self.now_ns);
        if self.now_ns - since_ns < after_ns {
            self.stage(slot, Stage::Open { first_seen_ns: Some(since_ns) });
            return;
        }
        self.ledger.reclaimed += 1;
        self.stage(slot, Stage::Over);
        let lost = self.slots[slot].map(|span| span.lost());
        self.events.extend(lost.map(Event::Reclaimed));
    }

    /// Asks about a closed span; whether it is over.
    fn poll(&mut self, slot: usize, span: &Span, stream: u64, first: bool) -> bool {
        let ask = if first { Event::First } else { Event::Next };
        self.events.push(ask(slot));
        let ns = match self.answers[slot] {
            SpanPoll::Pending => return false,
            SpanPoll::Failed => {
                self.previous.remove(&stream);
                self.stage(slot, Stage::Over);
                self.ledger.failed += 1;
                self.events.push(Event::Failed(span.lost()));
                return true;
            }
            SpanPoll::Ready(ns) => ns,
        };
        let mut start_ns = None;
        if let StepId::Track(track) = span.tag.step {
            self.events.push(Event::Place(track, slot));
            match self.places[slot] {
                Place::At(ns) => start_ns = Some(ns),
                Place::Pending => return false,
                Place::Unknown => {}
            }
        }
        let (gap_ns, is_last) = self.gap(slot, span, stream, ns);
        self.events.push(Event::Landed(Told {
            key: span.key,
            tag: span.tag,
            stream,
            ns,
            gap_ns,
            start_ns,
        }));
        self.stage(slot, Stage::Landed);
        self.ledger.landed += 1;
        if is_last {
            self.previous.insert(stream, (slot, *span));
        }
        true
    }

    /// Known if the span before on this stream is known, nothing was lost since
    /// it began, its slot's events are still its own, and it is over by then. And
    /// whether it is over before the new one, which is followed next then.
    fn gap(&mut self, slot: usize, span: &Span, stream: u64, ns: u64) -> (Option<u64>, bool) {
        let Some(&(prev, before)) = self.previous.get(&stream) else {
            return (None, true);
        };
        let still = self.slots[prev].is_some_and(|s| s.id == before.id && s.stage == Stage::Landed);
        if !self.gaps || before.losses != span.losses || !still {
            return (None, true);
        }
        self.events.push(Event::Gap(prev, slot));
        let gap_ns = i128::from(gap_ns(prev, slot));
        (u64::try_from(gap_ns).ok(), gap_ns + i128::from(ns) >= 0)
    }

    fn stage(&mut self, slot: usize, stage: Stage) {
        if let Some(span) = &mut self.slots[slot] {
            span.stage = stage;
        }
    }
}

fn in_use(span: &Span) -> bool {
    matches!(span.stage, Stage::Open { .. } | Stage::Closed { .. })
}
