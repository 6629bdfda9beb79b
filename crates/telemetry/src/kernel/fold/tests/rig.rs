// SPDX-License-Identifier: MIT OR Apache-2.0
//! A ring whose GPU answers what it is told, and all that puts its spans
//! together.

use crate::kernel::{
    Edge, EventOps, FoldedCopy, KernelInstruments, NotBegun, Place, SpanKey, SpanPoll, SpanRing,
    SpanTag, SpanToken, StepId, StepShape,
};
use crate::lanes::LaneNames;
use crate::runtime::{Entered, Fold, StepTable};
use std::sync::Mutex;

/// Lanes of a rig: the three and two more.
pub(super) const LANES: usize = 5;

struct Gpu {
    answers: Vec<SpanPoll>,
    places: Vec<Place>,
    fails: bool,
}

pub(super) struct AnswersAsTold(Mutex<Gpu>);

impl EventOps for AnswersAsTold {
    fn record(&self, _: usize, _: Edge, _: u64) -> bool {
        !self.0.lock().unwrap().fails
    }
    fn poll(&self, slot: usize) -> SpanPoll {
        self.0.lock().unwrap().answers[slot]
    }
    fn place(&self, _: u32, slot: usize) -> Place {
        self.0.lock().unwrap().places[slot]
    }
}

/// What a span is, and where.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    pub(super) key: SpanKey,
    pub(super) lane: usize,
    pub(super) stream: u64,
    pub(super) start_ns: i64,
    pub(super) ns: u64,
}

pub(super) struct Rig {
    pub(super) ring: SpanRing<AnswersAsTold>,
    pub(super) table: StepTable,
    pub(super) fold: Fold,
    pub(super) into: Box<KernelInstruments>,
    pub(super) newest: u32,
    /// Steps are armed, and have anchors.
    pub(super) armed: bool,
}

impl Rig {
    pub(super) fn new(slots: usize) -> Self {
        let gpu = Gpu {
            answers: vec![SpanPoll::Pending; slots],
            places: vec![Place::Unknown; slots],
            fails: false,
        };
        let into = Box::<KernelInstruments>::default();
        assert!(into.name_lanes(&LaneNames::new(&["draft", "sample"]).unwrap()));
        Self {
            ring: SpanRing::new(AnswersAsTold(Mutex::new(gpu)), slots),
            table: StepTable::new(),
            fold: Fold::default(),
            into,
            newest: 0,
            armed: true,
        }
    }

    /// Numbers the next step, which has its number as track and as shape.
    pub(super) fn number(&self) -> u64 {
        let open = &self.into.open_steps;
        let number = open.number();
        assert!(open.begin(number, self.armed));
        open.shape(number, StepShape::new().requests(number as u32));
        number
    }

    /// Begins a span of the step on `track`, as a recorder does.
    pub(super) fn begin(&self, track: u32, work: Work) -> Result<SpanToken, NotBegun> {
        let number = u64::from(track);
        let is_lane = matches!(work.key, SpanKey::Lane(_));
        if is_lane {
            self.into.open_steps.enter(number);
        }
        let step = match self.table.enter(track, number, self.armed) {
            Entered::First(taking) => {
                if self.armed {
                    taking.placed();
                }
                StepId::Track(track)
            }
            Entered::Counted => StepId::Track(track),
            Entered::Alone => StepId::Number(number),
        };
        let tag = SpanTag { lane: Some(work.lane), armed: self.armed, step };
        let begun = self.ring.begin_tagged(work.key, tag, work.stream);
        if begun.is_err() && is_lane {
            self.into.open_steps.leave(number, true);
        }
        if begun.is_err() && step == StepId::Track(track) {
            self.table.lose(track, Some(work.lane));
        }
        let token = begun?;
        self.answer(token, SpanPoll::Pending);
        let mut gpu = self.ring.ops().0.lock().unwrap();
        gpu.places[token.slot()] = Place::At(work.start_ns);
        Ok(token)
    }

    pub(super) fn answer(&self, token: SpanToken, answer: SpanPoll) {
        self.ring.ops().0.lock().unwrap().answers[token.slot()] = answer;
    }

    pub(super) fn place(&self, token: SpanToken, place: Place) {
        self.ring.ops().0.lock().unwrap().places[token.slot()] = place;
    }

    /// Whether records fail from here on.
    pub(super) fn fails(&self, fails: bool) {
        self.ring.ops().0.lock().unwrap().fails = fails;
    }

    pub(super) fn end(&self, token: SpanToken, work: Work) {
        self.ring.end_span(token, work.stream).unwrap();
    }

    /// A span whose work is done at once.
    pub(super) fn span(&self, track: u32, work: Work) -> SpanToken {
        let token = self.begin(track, work).expect("a free slot");
        self.end(token, work);
        self.answer(token, SpanPoll::Ready(work.ns));
        token
    }

    pub(super) fn pass(&mut self) -> usize {
        let mut folding = self.fold.harvest(&self.table, &self.into);
        let landed = self.ring.harvest_with(|span| folding.take(span));
        folding.finish(self.newest, None);
        landed
    }

    pub(super) fn folded(&self) -> FoldedCopy {
        self.into.copy_folded()
    }

    /// The lane's time that was laid out, and that was not.
    pub(super) fn lane_ns(&self, lane: usize) -> (u64, u64) {
        let folded = self.folded();
        let time_ns = folded.lane(lane).map_or(0, |figures| figures.time_ns);
        (time_ns, folded.incomplete(lane).ns)
    }
}

/// A lane's span.
pub(super) fn lane(lane: usize, start_ns: i64, ns: u64) -> Work {
    Work { key: SpanKey::Lane(lane), lane, stream: 1, start_ns, ns }
}

/// A launch in a lane.
pub(super) fn launch(func: u64, lane: usize, start_ns: i64, ns: u64) -> Work {
    Work { key: SpanKey::Kernel(func), ..self::lane(lane, start_ns, ns) }
}
