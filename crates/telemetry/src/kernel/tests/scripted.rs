// SPDX-License-Identifier: MIT OR Apache-2.0
//! An event source that does as it is told and writes down what it is asked.

use crate::kernel::{Edge, EventOps, KernelInstruments, SpanKey, SpanPoll, SpanRing};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

/// What the source was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    Record(usize, Edge, u64),
    First(usize),
    Next(usize),
    Gap(usize, usize),
    PassBegin,
    PassEnd,
}

#[derive(Default)]
struct Script {
    calls: Vec<Call>,
    answers: HashMap<usize, SpanPoll>,
    refuses: HashSet<u64>,
    fails: HashSet<Edge2>,
    no_polls: bool,
    gap_ns: i64,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Edge2 {
    Start,
    End,
}

fn hashable(edge: Edge) -> Edge2 {
    match edge {
        Edge::Start => Edge2::Start,
        Edge::End => Edge2::End,
    }
}

/// Every slot is pending until told otherwise.
#[derive(Clone, Default)]
pub(super) struct Scripted(Arc<Mutex<Script>>);

impl Scripted {
    pub(super) fn answer(&self, slot: usize, answer: SpanPoll) {
        self.0.lock().unwrap().answers.insert(slot, answer);
    }
    pub(super) fn refuse(&self, stream: u64) {
        self.0.lock().unwrap().refuses.insert(stream);
    }
    pub(super) fn fail(&self, edge: Edge, fails: bool) {
        let mut script = self.0.lock().unwrap();
        if fails {
            script.fails.insert(hashable(edge));
        } else {
            script.fails.remove(&hashable(edge));
        }
    }
    pub(super) fn allow_polls(&self, allow: bool) {
        self.0.lock().unwrap().no_polls = !allow;
    }
    pub(super) fn gap(&self, gap_ns: i64) {
        self.0.lock().unwrap().gap_ns = gap_ns;
    }
    /// The calls since the last time this was asked.
    pub(super) fn calls(&self) -> Vec<Call> {
        std::mem::take(&mut self.0.lock().unwrap().calls)
    }
    fn log(&self, call: Call) {
        self.0.lock().unwrap().calls.push(call);
    }
}

impl EventOps for Scripted {
    fn record(&self, slot: usize, edge: Edge, stream: u64) -> bool {
        self.log(Call::Record(slot, edge, stream));
        !self.0.lock().unwrap().fails.contains(&hashable(edge))
    }
    fn poll(&self, slot: usize) -> SpanPoll {
        let answers = &self.0.lock().unwrap().answers;
        answers.get(&slot).copied().unwrap_or(SpanPoll::Pending)
    }
    fn admits(&self, stream: u64) -> bool {
        !self.0.lock().unwrap().refuses.contains(&stream)
    }
    fn pass_begin(&self) -> bool {
        self.log(Call::PassBegin);
        !self.0.lock().unwrap().no_polls
    }
    fn pass_end(&self) {
        self.log(Call::PassEnd);
    }
    fn poll_first(&self, slot: usize) -> SpanPoll {
        self.log(Call::First(slot));
        self.poll(slot)
    }
    fn poll_next(&self, slot: usize) -> SpanPoll {
        self.log(Call::Next(slot));
        self.poll(slot)
    }
    fn gap(&self, prev: usize, slot: usize) -> Option<i64> {
        self.log(Call::Gap(prev, slot));
        Some(self.0.lock().unwrap().gap_ns)
    }
}

/// A ring over a scripted source, with instruments of its own.
pub(super) struct Bench {
    pub(super) script: Scripted,
    pub(super) ring: SpanRing<Scripted>,
    pub(super) instruments: Box<KernelInstruments>,
}

impl Bench {
    pub(super) fn new(slots: usize) -> Self {
        let script = Scripted::default();
        Self::with(SpanRing::new(script.clone(), slots), script)
    }

    pub(super) fn with(ring: SpanRing<Scripted>, script: Scripted) -> Self {
        Self {
            script,
            ring,
            instruments: Box::new(KernelInstruments::new()),
        }
    }

    pub(super) fn begin(&self, key: SpanKey, stream: u64) -> Option<crate::kernel::SpanToken> {
        self.ring.begin(key, stream, &self.instruments)
    }

    /// Begins and ends a span, and says in which slot.
    pub(super) fn span(&self, key: SpanKey, stream: u64) -> usize {
        let token = self.begin(key, stream).expect("a slot is free");
        self.ring.end(token, stream, &self.instruments);
        token.slot()
    }

    pub(super) fn harvest(&self) -> usize {
        self.ring.harvest(&self.instruments)
    }

    pub(super) fn assert_closes(&self) {
        let ledger = self.ring.ledger();
        assert!(ledger.closes(), "{ledger:?}");
    }
}
