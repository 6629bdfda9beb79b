// SPDX-License-Identifier: MIT OR Apache-2.0
//! Steps as a recorder follows them: the production table, and an anchor for
//! each of its entries.

use crate::{Shared, Tracked};
use metrale_telemetry::runtime::{Anchor, Entered, FOLLOWED_STEPS, Standing, StepTable};
use std::sync::Arc;

/// The step after that of `track` that falls on the same entry.
pub fn next_on_entry(track: u32) -> u32 {
    track + FOLLOWED_STEPS as u32
}

/// What a span found of its step, once its anchor is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// It was the first.
    First,
    /// It was counted.
    Counted,
    /// Its step is not followed, or is over.
    Alone,
}

/// The table under test and its anchors; cheap to clone.
#[derive(Clone, Debug)]
pub struct Steps {
    /// The production table.
    pub table: Arc<StepTable>,
    /// For each entry the track whose anchor it was.
    anchors: Arc<[Tracked<Option<u32>>]>,
    /// Written after each step of a recorder, and read before each of a pass.
    /// Of several reads of a word the checker remembers the last, so the read
    /// before an exchange hides from it that an earlier one of another thread
    /// could as well come after that exchange.
    moment: Arc<Shared>,
}

/// A table that follows no step.
impl Default for Steps {
    fn default() -> Self {
        Self {
            table: Arc::default(),
            anchors: (0..FOLLOWED_STEPS).map(|_| Tracked::default()).collect(),
            moment: Arc::default(),
        }
    }
}

impl Steps {
    /// The lane of work that is lost.
    pub const LANE: usize = 1;

    /// The number of the step on `track`.
    pub fn number(track: u32) -> u64 {
        100 + u64::from(track)
    }

    /// Counts a span of the step on `track`, and records the anchor if it is the
    /// first.
    pub fn enter(&self, track: u32) -> Found {
        let entered = self.table.enter(track, Self::number(track), true);
        self.moment.set(1);
        match entered {
            Entered::First(taking) => {
                self.anchors[taking.anchor()].touch(|anchor| *anchor = Some(track));
                taking.placed();
                self.moment.set(2);
                Found::First
            }
            Entered::Counted => Found::Counted,
            Entered::Alone => Found::Alone,
        }
    }

    /// Closes the step on `track`.
    pub fn close(&self, track: u32) {
        self.table.close(track);
        self.moment.set(3);
    }

    /// A span of the step on `track` came to nothing, and its work was lost.
    pub fn lose(&self, track: u32) {
        self.table.lose(track, Some(Self::LANE));
        self.moment.set(4);
    }

    /// The same, and there was no work.
    pub fn withdraw(&self, track: u32) {
        self.table.withdraw(track);
        self.moment.set(4);
    }

    /// A span of the step on `track` was refused.
    pub fn miss(&self, track: u32) {
        self.table.miss(track, Some(Self::LANE));
        self.moment.set(4);
    }

    /// As a pass: the number of the step on `track`.
    pub fn found_number(&self, track: u32) -> Option<u64> {
        let _ = self.moment.get();
        self.table.number(track)
    }

    /// As a pass: reads the anchor of the step on `track`, if it has one.
    pub fn read_anchor(&self, track: u32) -> Anchor {
        let _ = self.moment.get();
        let found = self.table.anchor(track);
        if let Anchor::At(anchor) = found {
            self.anchors[anchor].touch(|anchor| assert_eq!(*anchor, Some(track)));
        }
        found
    }

    /// How the step on `track` stands for a fold, if that has it in sight.
    pub fn standing(&self, track: u32) -> Option<Standing> {
        self.standing_before(track, track)
    }

    /// The same, where `newest` is the last track that was given out.
    pub fn standing_before(&self, track: u32, newest: u32) -> Option<Standing> {
        let _ = self.moment.get();
        let entry = track as usize % FOLLOWED_STEPS;
        if self.table.used() >> entry & 1 == 0 {
            return None;
        }
        let standing = self.table.standing(entry, newest)?;
        let expected = Self::number(standing.track);
        assert_eq!(standing.number, expected, "the number of another step");
        (standing.track == track).then_some(standing)
    }

    /// As a fold: takes the step on `track` if it is complete, `over` of its
    /// spans being over.
    pub fn fold(&self, track: u32, over: u32) -> Option<Standing> {
        let standing = self.standing(track)?;
        let is_complete = standing.closed && over >= standing.spans;
        is_complete.then(|| self.take(standing))
    }

    /// As [`fold`](Self::fold), be the step complete or not.
    pub fn give_up(&self, track: u32) -> Option<Standing> {
        self.standing(track).map(|standing| self.take(standing))
    }

    fn take(&self, standing: Standing) -> Standing {
        self.read_anchor(standing.track);
        self.table.free(standing.track);
        self.moment.set(5);
        standing
    }
}
