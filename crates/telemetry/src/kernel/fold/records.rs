// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the lanes of steps took, until a step is closed and they are over: then
//! it leaves its record.

use crate::kernel::MAX_LANES;
use crate::kernel::folded::Folded;
use crate::kernel::records::{
    GIVEN_UP, LaneRecord, OPEN_STEPS, OpenStep, OpenSteps, StepLog, StepRecord,
};

/// Lane time of a step so far.
#[derive(Clone, Copy)]
struct Lanes {
    /// The step's number, plus 1; 0: none.
    step: u64,
    /// Its spans that are over.
    over: u32,
    is_lost: bool,
    /// It left its record.
    is_recorded: bool,
    of: [LaneRecord; MAX_LANES],
}

const NONE: Lanes = Lanes {
    step: 0,
    over: 0,
    is_lost: false,
    is_recorded: false,
    of: [LaneRecord::NONE; MAX_LANES],
};

/// See the module.
pub(super) struct UnrecordedSteps {
    steps: Box<[Lanes]>,
    /// No step before it waits.
    first: u64,
}

impl UnrecordedSteps {
    pub(super) fn new() -> Self {
        Self { steps: vec![NONE; OPEN_STEPS].into_boxed_slice(), first: 0 }
    }

    /// The step's own, if no later one has its place.
    fn of(&mut self, number: u64) -> Option<&mut Lanes> {
        let lanes = &mut self.steps[number as usize % OPEN_STEPS];
        let step = number.saturating_add(1);
        if lanes.step < step {
            *lanes = Lanes { step, ..NONE };
        }
        (lanes.step == step).then_some(lanes)
    }

    /// A lane's span of step `number` landed; `lane`: it is of one that has a
    /// name.
    pub(super) fn landed(&mut self, number: u64, lane: Option<usize>, ns: u64, gap: Option<u64>) {
        if let Some(lanes) = self.of(number) {
            lanes.over += 1;
            if let Some(lane) = lane.and_then(|lane| lanes.of.get_mut(lane)) {
                lane.add(ns, gap);
            }
        }
    }

    /// A lane's span of step `number` was lost.
    pub(super) fn lost(&mut self, number: u64) {
        if let Some(lanes) = self.of(number) {
            lanes.over += 1;
            lanes.is_lost = true;
        }
    }

    /// Leaves the records of the steps that are over, or of all.
    pub(super) fn record(
        &mut self,
        open: &OpenSteps,
        folded: &mut Folded,
        log: &mut StepLog,
        all: bool,
    ) {
        let begun = open.begun();
        self.first = self.first.max(begun.saturating_sub(OPEN_STEPS as u64));
        let mut is_first = true;
        for number in self.first..begun {
            let mut waits = false;
            if let Some(step) = open.standing(number) {
                // An earlier step is there where its claim came very late.
                let is_given_up = all || begun - step.number() > GIVEN_UP;
                waits = !self.leave(open, step, is_given_up, folded, log);
            }
            // Its claim may be on its way.
            let is_past = self.of(number).is_none_or(|lanes| lanes.is_recorded);
            is_first &= !waits && (is_past || begun - number > GIVEN_UP);
            if is_first {
                self.first = number + 1;
            }
        }
    }

    /// Leaves the record of a step, if that is over; whether it did.
    fn leave(
        &mut self,
        open: &OpenSteps,
        step: OpenStep,
        is_given_up: bool,
        folded: &mut Folded,
        log: &mut StepLog,
    ) -> bool {
        let number = step.number();
        let mut lanes = self.of(number);
        let (over, is_lost) = lanes.as_ref().map_or((0, true), |lanes| (lanes.over, lanes.is_lost));
        let is_over = step.is_closed() && over >= step.spans();
        if step.is_owned() || !is_over && !is_given_up {
            return false;
        }
        let (shape, wall) = open.read(step);
        // Where something changed meanwhile, the next pass comes.
        if !open.free(step) {
            return false;
        }
        if let Some(lanes) = &mut lanes {
            lanes.is_recorded = true;
        }
        let record = StepRecord {
            number,
            armed: step.is_armed(),
            marked: step.is_marked(),
            incomplete: step.is_lost() || is_lost || !is_over,
            shape,
            wall_ns: wall.as_ref().map(|wall| wall.end.saturating_sub(wall.start)),
            ended_ns: wall.map(|wall| wall.end),
            lanes: lanes.map_or(NONE.of, |lanes| lanes.of),
        };
        folded.shapes.add(&record);
        log.push(&record);
        true
    }
}
