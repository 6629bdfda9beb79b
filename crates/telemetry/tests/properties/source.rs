// SPDX-License-Identifier: MIT OR Apache-2.0
//! An event source and a clock that do as they are told and write down what
//! they are asked, and what a pass tells.

use metrale_telemetry::kernel::{
    Edge, EventOps, Harvested, Lost, Place, SpanKey, SpanPoll, SpanTag,
};
use std::cell::Cell;
use std::sync::{Mutex, PoisonError};

/// The stream that the source admits no span on.
pub(crate) const REFUSED: u64 = 9;

/// What was asked of the source or told by a pass, in one order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Event {
    Record(usize, Edge, u64),
    PassBegin,
    First(usize),
    Next(usize),
    Gap(usize, usize),
    Place(u32, usize),
    Landed(Told),
    Failed(Lost),
    Reclaimed(Lost),
    PassEnd,
}

/// All that a pass tells of a span that landed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Told {
    pub(crate) key: SpanKey,
    pub(crate) tag: SpanTag,
    pub(crate) stream: u64,
    pub(crate) ns: u64,
    pub(crate) gap_ns: Option<u64>,
    pub(crate) start_ns: Option<i64>,
}

impl From<Harvested> for Event {
    fn from(span: Harvested) -> Self {
        match span {
            Harvested::Landed(landed) => Self::Landed(Told {
                key: landed.key,
                tag: landed.tag(),
                stream: landed.stream,
                ns: landed.ns,
                gap_ns: landed.gap_ns,
                start_ns: landed.start_ns,
            }),
            Harvested::Failed(lost) => Self::Failed(lost),
            Harvested::Reclaimed(lost) => Self::Reclaimed(lost),
        }
    }
}

#[derive(Debug, Default)]
struct Answers {
    events: Vec<Event>,
    polls_of: Vec<SpanPoll>,
    places: Vec<Place>,
    fails: bool,
    polls: bool,
}

/// The source.
#[derive(Debug, Default)]
pub(crate) struct Scripted(Mutex<Answers>);

impl Scripted {
    pub(crate) fn new(slots: usize) -> Self {
        Self(Mutex::new(Answers {
            polls_of: vec![SpanPoll::Pending; slots],
            places: vec![Place::Unknown; slots],
            ..Answers::default()
        }))
    }
    fn with<T>(&self, change: impl FnOnce(&mut Answers) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
    /// Whether the records from here on fail.
    pub(crate) fn fails(&self, fails: bool) {
        self.with(|answers| answers.fails = fails);
    }
    /// Whether the passes from here on may poll.
    pub(crate) fn polls(&self, polls: bool) {
        self.with(|answers| answers.polls = polls);
    }
    /// What a poll of `slot` answers from here on.
    pub(crate) fn answers(&self, slot: usize, answer: SpanPoll) {
        self.with(|answers| answers.polls_of[slot] = answer);
    }
    /// Where the start of `slot` is from here on.
    pub(crate) fn places(&self, slot: usize, place: Place) {
        self.with(|answers| answers.places[slot] = place);
    }
    /// What happened since the last time this was asked.
    pub(crate) fn events(&self) -> Vec<Event> {
        self.with(|answers| std::mem::take(&mut answers.events))
    }
    pub(crate) fn log(&self, event: Event) {
        self.with(|answers| answers.events.push(event));
    }
}

/// The gap that the source reads between two slots: some overlap.
pub(crate) fn gap_ns(prev: usize, slot: usize) -> i64 {
    let gap_ns = 10 * prev as i64 + slot as i64;
    if (prev + slot).is_multiple_of(3) { -gap_ns } else { gap_ns }
}

impl EventOps for Scripted {
    fn record(&self, slot: usize, edge: Edge, stream: u64) -> bool {
        self.log(Event::Record(slot, edge, stream));
        self.with(|answers| !answers.fails)
    }
    fn poll(&self, slot: usize) -> SpanPoll {
        self.with(|answers| answers.polls_of[slot])
    }
    fn admits(&self, stream: u64) -> bool {
        stream != REFUSED
    }
    fn pass_begin(&self) -> bool {
        self.log(Event::PassBegin);
        self.with(|answers| answers.polls)
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
    fn gap(&self, prev: usize, slot: usize) -> Option<i64> {
        self.log(Event::Gap(prev, slot));
        Some(gap_ns(prev, slot))
    }
    fn place(&self, track: u32, slot: usize) -> Place {
        self.log(Event::Place(track, slot));
        self.with(|answers| answers.places[slot])
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
