// SPDX-License-Identifier: MIT OR Apache-2.0
//! An event source, a clock and a sink that do as they are told and write down
//! what they are asked.

use metrale_telemetry::kernel::{Edge, EventOps, Landed, SpanPoll, SpanSink};
use std::cell::Cell;
use std::sync::{Mutex, PoisonError};

/// The stream that the source admits no span on.
pub(crate) const REFUSED: u64 = 9;

/// What was asked of the source or told to the sink, in one order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Event {
    Record(usize, Edge, u64),
    PassBegin,
    First(usize),
    Next(usize),
    Gap(usize, usize),
    Landed(Landed),
    Dropped,
    Failed,
    PassEnd,
}

#[derive(Debug, Default)]
struct Script {
    events: Vec<Event>,
    answers: Vec<SpanPoll>,
    fails: bool,
    polls: bool,
}

/// The source, and the sink of the same ring.
#[derive(Debug, Default)]
pub(crate) struct Source(Mutex<Script>);

impl Source {
    pub(crate) fn new(slots: usize) -> Self {
        Self(Mutex::new(Script {
            answers: vec![SpanPoll::Pending; slots],
            ..Script::default()
        }))
    }
    fn script<T>(&self, with: impl FnOnce(&mut Script) -> T) -> T {
        with(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
    /// Whether the records from here on fail.
    pub(crate) fn fails(&self, fails: bool) {
        self.script(|script| script.fails = fails);
    }
    /// Whether the passes from here on may poll.
    pub(crate) fn polls(&self, polls: bool) {
        self.script(|script| script.polls = polls);
    }
    /// What a poll of `slot` answers from here on.
    pub(crate) fn answers(&self, slot: usize, answer: SpanPoll) {
        self.script(|script| script.answers[slot] = answer);
    }
    /// What happened since the last time this was asked.
    pub(crate) fn events(&self) -> Vec<Event> {
        self.script(|script| std::mem::take(&mut script.events))
    }
    fn log(&self, event: Event) {
        self.script(|script| script.events.push(event));
    }
}

/// The gap that the source reads between two slots.
pub(crate) fn gap_ns(prev: usize, slot: usize) -> u64 {
    1_000 + 100 * prev as u64 + slot as u64
}

impl EventOps for Source {
    fn record(&self, slot: usize, edge: Edge, stream: u64) -> bool {
        self.log(Event::Record(slot, edge, stream));
        self.script(|script| !script.fails)
    }
    fn poll(&self, slot: usize) -> SpanPoll {
        self.script(|script| script.answers[slot])
    }
    fn admits(&self, stream: u64) -> bool {
        stream != REFUSED
    }
    fn pass_begin(&self) -> bool {
        self.log(Event::PassBegin);
        self.script(|script| script.polls)
    }
    fn pass_end(&self) {
        self.log(Event::PassEnd);
    }
    fn poll_first(&self, slot: usize) -> SpanPoll {
        self.log(Event::First(slot));
        self.poll(slot)
    }
    fn poll_next(&self, slot: usize) -> SpanPoll {
        self.log(Event::Next(slot));
        self.poll(slot)
    }
    fn gap(&self, prev: usize, slot: usize) -> Option<u64> {
        self.log(Event::Gap(prev, slot));
        Some(gap_ns(prev, slot))
    }
}

impl SpanSink for Source {
    fn landed(&self, span: Landed) {
        self.log(Event::Landed(span));
    }
    fn dropped(&self) {
        self.log(Event::Dropped);
    }
    fn failed(&self) {
        self.log(Event::Failed);
    }
}

thread_local! {
    static NOW_NS: Cell<u64> = const { Cell::new(0) };
    static READ: Cell<u64> = const { Cell::new(0) };
}

/// The ring's clock; every test thread has its own.
pub(crate) fn clock() -> u64 {
    READ.set(READ.get() + 1);
    NOW_NS.get()
}

/// Sets the clock.
pub(crate) fn set_clock(now_ns: u64) {
    NOW_NS.set(now_ns);
}

/// How often the clock was read since the last time this was asked.
pub(crate) fn clock_reads() -> u64 {
    READ.replace(0)
}
