// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the ring promises, said again with a vector of slots: sections 3 to 5
//! of the design, without a thread in sight.

use crate::source::{Event, REFUSED, gap_ns};
use metrale_telemetry::kernel::{Edge, Gaps, Landed, Ledger, SpanKey, SpanPoll, SpanTag};
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
    key: SpanKey,
    tag: SpanTag,
    losses: u64,
    stage: Stage,
}

/// The ring without concurrency.
#[derive(Debug)]
pub(crate) struct Plain {
    slots: Vec<Option<Span>>,
    answers: Vec<SpanPoll>,
    turns: usize,
    ids: u64,
    reclaim_after_ns: Option<u64>,
    gaps: Gaps,
    /// The last span that landed on a stream, and its slot.
    previous: HashMap<u64, (usize, Span)>,
    ledger: Ledger,
    events: Vec<Event>,
    now_ns: u64,
    clock_reads: u64,
}

impl Plain {
    pub(crate) fn new(slots: usize, reclaim_after_ns: Option<u64>, gaps: Gaps) -> Self {
        Self {
            slots: vec![None; slots],
            answers: vec![SpanPoll::Pending; slots],
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

    /// What the source and the sink should have seen, and the reads of the clock.
    pub(crate) fn take(&mut self) -> (Vec<Event>, u64) {
        let reads = std::mem::take(&mut self.clock_reads);
        (std::mem::take(&mut self.events), reads)
    }

    /// In flight is counted, not kept.
    pub(crate) fn ledger(&self) -> Ledger {
        let in_use = self.slots.iter().flatten().filter(|span| in_use(span));
        Ledger {
            in_flight: in_use.count() as u64,
            ..self.ledger
        }
    }

    fn losses(&self) -> u64 {
        let lost = self.ledger;
        lost.dropped + lost.failed + lost.cancelled + lost.reclaimed
    }

    /// The next slot in turn and the span's id, or `None`.
    pub(crate) fn begin(
        &mut self,
        key: SpanKey,
        tag: SpanTag,
        stream: u64,
        fails: bool,
    ) -> Option<(usize, u64)> {
        self.ledger.attempts += 1;
        if stream == REFUSED {
            self.ledger.refused += 1;
            return None;
        }
        let slot = self.turns % self.slots.len();
        self.turns += 1;
        if self.slots[slot].as_ref().is_some_and(in_use) {
            self.ledger.dropped += 1;
            self.events.push(Event::Dropped);
            return None;
        }
        self.ledger.begun += 1;
        self.ids += 1;
        let mut span = Span {
            id: self.ids,
            key,
            tag,
            losses: self.losses(),
            stage: Stage::Open {
                first_seen_ns: None,
            },
        };
        self.events.push(Event::Record(slot, Edge::Start, stream));
        if fails {
            span.stage = Stage::Over;
            self.fail();
        }
        self.slots[slot] = Some(span);
        (!fails).then_some((slot, span.id))
    }

    fn fail(&mut self) {
        self.ledger.failed += 1;
        self.events.push(Event::Failed);
    }

    /// The open span in `slot`, with that id if one is asked for.
    fn open(&mut self, slot: usize, id: Option<u64>) -> Option<&mut Span> {
        let span = self.slots.get_mut(slot)?.as_mut()?;
        let it = id.is_none_or(|id| id == span.id);
        (it && matches!(span.stage, Stage::Open { .. })).then_some(span)
    }

    pub(crate) fn end(&mut self, slot: usize, id: Option<u64>, stream: u64, fails: bool) {
        let Some(span) = self.open(slot, id) else {
            self.ledger.stale_ends += 1;
            return;
        };
        span.stage = if fails {
            Stage::Over
        } else {
            Stage::Closed { stream }
        };
        self.events.push(Event::Record(slot, Edge::End, stream));
        if fails {
            self.fail();
        }
    }

    pub(crate) fn cancel(&mut self, slot: usize, id: Option<u64>) {
        if let Some(span) = self.open(slot, id) {
            span.stage = Stage::Over;
            self.ledger.cancelled += 1;
        } else {
            self.ledger.stale_ends += 1;
        }
    }

    /// One pass over the slots, from the one whose turn is next.
    pub(crate) fn harvest(&mut self, polls: bool) -> usize {
        self.ledger.passes += 1;
        let landed_before = self.ledger.landed;
        let mut asked: HashMap<u64, SpanPoll> = HashMap::new();
        let (mut bracket, mut clock) = (false, false);
        for step in 0..self.slots.len() {
            let slot = (self.turns + step) % self.slots.len();
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
                    if asked.get(&stream) == Some(&SpanPoll::Pending) {
                        continue;
                    }
                    if !std::mem::replace(&mut bracket, true) {
                        self.events.push(Event::PassBegin);
                    }
                    if polls {
                        let first = !asked.contains_key(&stream);
                        let answer = self.poll(slot, &span, stream, first);
                        asked.insert(stream, answer);
                    }
                }
            }
        }
        if bracket && polls {
            self.events.push(Event::PassEnd);
        }
        self.clock_reads += u64::from(clock);
        (self.ledger.landed - landed_before) as usize
    }

    fn age(&mut self, slot: usize, first_seen_ns: Option<u64>, after_ns: u64) {
        let since_ns = first_seen_ns.unwrap_or(self.now_ns);
        let stage = if self.now_ns - since_ns >= after_ns {
            self.ledger.reclaimed += 1;
            Stage::Over
        } else {
            Stage::Open {
                first_seen_ns: Some(since_ns),
            }
        };
        self.stage(slot, stage);
    }

    fn poll(&mut self, slot: usize, span: &Span, stream: u64, first: bool) -> SpanPoll {
        let ask = if first { Event::First } else { Event::Next };
        self.events.push(ask(slot));
        let answer = self.answers[slot];
        match answer {
            SpanPoll::Pending => {}
            SpanPoll::Failed => {
                self.previous.remove(&stream);
                self.stage(slot, Stage::Over);
                self.fail();
            }
            SpanPoll::Ready(ns) => {
                let gap_ns = self.gap(slot, span, stream);
                self.events.push(Event::Landed(Landed {
                    key: span.key,
                    tag: span.tag,
                    ns,
                    gap_ns,
                }));
                self.stage(slot, Stage::Landed);
                self.ledger.landed += 1;
                self.previous.insert(stream, (slot, *span));
            }
        }
        answer
    }

    /// Known if the span before on this stream is known and one that the rule
    /// pairs with this one, nothing was lost since it began, and its slot's
    /// events are still its own.
    fn gap(&mut self, slot: usize, span: &Span, stream: u64) -> Option<u64> {
        let (prev, before) = *self.previous.get(&stream)?;
        let pairs = match (self.gaps, before.tag, span.tag) {
            (Gaps::Off, ..) => false,
            (Gaps::EverySpan, ..) => true,
            (Gaps::WithinStep, before, tag) if before.armed && tag.armed => {
                matches!((before.step, tag.step), (Some(one), Some(other)) if one == other)
            }
            (Gaps::WithinStep, ..) => false,
        };
        let still = self.slots[prev].is_some_and(|s| s.id == before.id && s.stage == Stage::Landed);
        if !pairs || before.losses != span.losses || !still {
            return None;
        }
        self.events.push(Event::Gap(prev, slot));
        Some(gap_ns(prev, slot))
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
