// SPDX-License-Identifier: MIT OR Apache-2.0
//! An event source that answers as it is told and writes down what it is asked.

use crate::kernel::{Edge, EventOps, KernelInstruments, SpanKey, SpanPoll, SpanRing, SpanToken};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// What the source was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    Record(usize),
    First(usize),
    Next(usize),
    Gap(usize, usize),
}

#[derive(Default)]
struct Answers {
    calls: Vec<Call>,
    polls: HashMap<usize, SpanPoll>,
    no_polls: bool,
}

/// The gap that it reads between any two.
pub(super) const GAP_NS: i64 = 700;

/// Every slot is pending until told otherwise.
#[derive(Clone, Default)]
pub(super) struct Scripted(Arc<Mutex<Answers>>);

impl Scripted {
    pub(super) fn answer(&self, slot: usize, answer: SpanPoll) {
        self.0.lock().unwrap().polls.insert(slot, answer);
    }
    pub(super) fn allow_polls(&self, allow: bool) {
        self.0.lock().unwrap().no_polls = !allow;
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
    fn record(&self, slot: usize, _: Edge, _: u64) -> bool {
        self.log(Call::Record(slot));
        true
    }
    fn poll(&self, slot: usize) -> SpanPoll {
        let answers = &self.0.lock().unwrap().polls;
        answers.get(&slot).copied().unwrap_or(SpanPoll::Pending)
    }
    fn pass_begin(&self) -> bool {
        !self.0.lock().unwrap().no_polls
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
        Some(GAP_NS)
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
        Self { script, ring, instruments: Box::new(KernelInstruments::new()) }
    }

    pub(super) fn begin(&self, key: SpanKey, stream: u64) -> Option<SpanToken> {
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
}
