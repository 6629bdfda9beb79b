// SPDX-License-Identifier: MIT OR Apache-2.0
//! Serves steps on a GPU that is done at once and answers what it is told.

use metrale_telemetry::kernel::{
    Edge, EventOps, NotBegun, Place, SpanKey, SpanPoll, SpanRing, SpanTag, StepId,
};
use metrale_telemetry::runtime::{Entered, Fold, KernelName, RecorderSource, StepTable};
use metrale_telemetry::snapshot::{RecorderSnapshot, RowKind};
use metrale_telemetry::{Snapshot, Step, Telemetry};
use std::sync::{Arc, Mutex, Weak};

const SLOTS: usize = 64;

/// What a slot's pair says: its time, or that it cannot be read, and its place.
type Answer = (SpanPoll, i64);

struct Told(Mutex<Vec<Answer>>);

impl Told {
    fn answer(&self, slot: usize) -> Answer {
        self.0.lock().expect("one thread")[slot]
    }
}

impl EventOps for Told {
    fn record(&self, _: usize, _: Edge, _: u64) -> bool {
        true
    }
    fn poll(&self, slot: usize) -> SpanPoll {
        self.answer(slot).0
    }
    fn gap(&self, _: usize, _: usize) -> Option<i64> {
        Some(40_000)
    }
    fn place(&self, _: u32, slot: usize) -> Place {
        Place::At(self.answer(slot).1)
    }
}

/// A telemetry, and the rings, steps and fold that a recorder has.
pub(crate) struct Served {
    pub(crate) telemetry: Box<Telemetry>,
    lanes: SpanRing<Told>,
    kernels: SpanRing<Told>,
    table: StepTable,
    fold: Fold,
    /// Spans in the rings, at most.
    waiting: usize,
}

impl Served {
    pub(crate) fn new() -> Self {
        let told = || Told(Mutex::new(vec![(SpanPoll::Pending, 0); SLOTS]));
        Self {
            telemetry: Box::default(),
            lanes: SpanRing::builder(told(), SLOTS).gaps().build(),
            kernels: SpanRing::new(told(), SLOTS),
            table: StepTable::new(),
            fold: Fold::default(),
            waiting: 0,
        }
    }

    /// A span on `stream`, from `start_ns` after the step's anchor on.
    pub(crate) fn span(
        &mut self,
        step: Step,
        (key, lane, stream): (SpanKey, usize, u64),
        start_ns: i64,
        answer: SpanPoll,
    ) {
        if self.waiting == SLOTS {
            self.harvest();
        }
        self.waiting += 1;
        let tag = SpanTag { lane: Some(lane), armed: step.is_armed(), step: self.enter(step) };
        let ring = match key {
            SpanKey::Lane(_) => &self.lanes,
            SpanKey::Kernel(_) => &self.kernels,
        };
        let token = ring.begin_tagged(key, tag, stream).expect("a free slot");
        ring.ops().0.lock().expect("one thread")[token.slot()] = (answer, start_ns);
        ring.end_span(token, stream).expect("an open span");
    }

    fn enter(&self, step: Step) -> StepId {
        let Some((track, number)) = step.track().zip(step.number()) else {
            return step.id();
        };
        match self.table.enter(track, number, step.is_armed()) {
            Entered::First(taking) if step.is_armed() => taking.placed(),
            Entered::First(_) | Entered::Counted => {}
            Entered::Alone => return step.id(),
        }
        StepId::Track(track)
    }

    /// Closes a step.
    pub(crate) fn close(&self, step: Step) {
        if let Some(track) = step.track() {
            self.table.close(track);
        }
    }

    pub(crate) fn harvest(&mut self) {
        let into = self.telemetry.instruments();
        let mut folding = self.fold.harvest(&self.table, into);
        // Kernels first: a launch is over before its lane is.
        self.kernels.harvest_with(|span| folding.take(span));
        self.lanes.harvest_with(|span| folding.take(span));
        let floor_ns = self.telemetry.floor().pair_ns;
        folding.finish(self.telemetry.newest_track(), floor_ns);
        self.waiting = 0;
    }
}

/// Names kernels by their handles, in decimals.
struct Named;

impl RecorderSource for Named {
    fn recorder(&self) -> RecorderSnapshot {
        RecorderSnapshot::default()
    }
    fn name(&self, func: u64) -> Option<KernelName> {
        Some(KernelName { text: func.to_string().into(), kind: RowKind::Kernel })
    }
}

#[allow(dead_code, reason = "not every test calls each")]
impl Served {
    /// A span of a step that found its slot in use.
    pub(crate) fn drop_span(&self, step: Step, key: SpanKey, lane: usize) {
        if let StepId::Track(track) = self.enter(step) {
            self.table.lose(track, Some(lane));
        }
        let instruments = self.telemetry.instruments();
        instruments.count_not_begun(key, NotBegun::Dropped);
    }

    /// A snapshot whose kernels are named by their handles.
    pub(crate) fn named_snapshot(&self) -> Snapshot {
        let named: Arc<dyn RecorderSource> = Arc::new(Named);
        let weak: Weak<dyn RecorderSource> = Arc::downgrade(&named);
        self.telemetry.attach(weak).unwrap();
        self.telemetry.snapshot()
    }
}
