// SPDX-License-Identifier: MIT OR Apache-2.0
//! Puts the spans that passes land together by step, and folds each step once,
//! when it is complete: closed, every span that it counted over.
//!
//! 1. A fold is one recorder's, and used by one harvest at a time.
//! 2. A step with a lost span is folded as incomplete: its lanes' time is kept,
//!    its idle time is not known. So is one that 64 later steps found waiting.
//! 3. A step that has no anchor, or more spans than there is room for, or one
//!    without a place, is *unplaced*: its sums are folded, its idle time is not
//!    known.
//! 4. Where a reader holds what was folded before, steps wait for the next pass.
//! 5. Memory is taken once, when the fold is made.

mod folding;

pub use folding::Folding;

use super::LANES;
use super::estimates::{LaneOfStep, RowOfStep, StepSums};
use super::folded::Folded;
use super::landing::Launches;
use super::span::Landed;
use super::steps::{FOLLOWED_STEPS, Standing, StepTable};
use super::timeline::{Interval, NO_LANE, NO_ROW, Scratch};

/// Spans of a step that can be laid out in time.
pub const MAX_STEP_SPANS: usize = 16_384;
/// Spans of all waiting steps that can.
pub const MAX_SPANS: usize = 65_536;
/// Rows of all waiting steps: one to a kernel, lane and step, once they are
/// added up.
const MAX_ROWS: usize = 32_768;
/// A step is given up when this many later ones were begun.
const GIVEN_UP: u32 = FOLLOWED_STEPS as u32;

/// A step that waits for the rest of its spans.
#[derive(Clone, Copy)]
struct Step {
    /// The step's track, plus 1; 0: none waits here.
    track: u64,
    /// Spans of it that are over, and that the table still counts.
    over: u32,
    is_lost: bool,
    is_placed: bool,
    /// Intervals that it has.
    intervals: u32,
    lanes: [LaneOfStep; LANES.len()],
}

const NO_STEP: Step = Step {
    track: 0,
    over: 0,
    is_lost: false,
    is_placed: true,
    intervals: 0,
    lanes: [LaneOfStep { spans: 0, ns: 0 }; LANES.len()],
};

/// Lane time of steps that are not followed, since it was last handed on.
#[derive(Clone, Copy, Default)]
struct Unfollowed {
    steps: u64,
    ns: u64,
    /// The number of the last step, plus 1.
    last: u64,
    /// Of armed steps among them.
    armed_steps: u64,
    armed_ns: u64,
}

/// See the module.
pub struct Fold {
    steps: Box<[Step; FOLLOWED_STEPS]>,
    intervals: Vec<Interval>,
    rows: Vec<RowOfStep>,
    /// To add up the rows again would leave little room.
    is_added_up: bool,
    scratch: Scratch,
    /// The rows of the step that is being folded.
    own_rows: Vec<RowOfStep>,
    unfollowed: [Unfollowed; LANES.len()],
    /// The first step of the estimates' window that these are of.
    window: u64,
    /// Spans of steps that were given up.
    late_spans: u64,
    /// The table's counts that were handed on.
    table_late_spans: u64,
    table_turned_away: u64,
}

impl Default for Fold {
    fn default() -> Self {
        Self {
            steps: Box::new([NO_STEP; FOLLOWED_STEPS]),
            intervals: Vec::with_capacity(MAX_SPANS),
            rows: Vec::with_capacity(MAX_ROWS),
            is_added_up: false,
            scratch: Scratch::with_capacity(MAX_STEP_SPANS),
            own_rows: Vec::with_capacity(MAX_ROWS),
            unfollowed: [Unfollowed::default(); LANES.len()],
            window: 0,
            late_spans: 0,
            table_late_spans: 0,
            table_turned_away: 0,
        }
    }
}

impl Fold {
    /// Counts a span of the step on `track` that is over; its entry, if the
    /// step is followed.
    #[inline]
    fn count(&mut self, table: &StepTable, track: u32) -> Option<u8> {
        let entry = track as usize % FOLLOWED_STEPS;
        if self.steps[entry].track != u64::from(track) + 1 {
            self.meet(table, entry, track)?;
        }
        self.steps[entry].over += 1;
        Some(entry as u8)
    }

    #[cold]
    fn meet(&mut self, table: &StepTable, entry: usize, track: u32) -> Option<()> {
        if !table.follows(track) {
            // It was given up.
            self.late_spans += 1;
            return None;
        }
        self.steps[entry] = Step {
            track: u64::from(track) + 1,
            ..NO_STEP
        };
        Some(())
    }

    /// Keeps the place of a landed span, if its step has places.
    #[inline]
    fn place(&mut self, entry: u8, span: &Landed, row: u16, lane: u8, is_lane: bool) {
        let step = &mut self.steps[usize::from(entry)];
        let Some(start_ns) = span.start_ns.filter(|_| step.is_placed) else {
            if step.is_placed {
                self.unplace(entry);
            }
            return;
        };
        if step.intervals as usize == MAX_STEP_SPANS || self.intervals.len() == MAX_SPANS {
            self.unplace(entry);
            return;
        }
        step.intervals += 1;
        self.intervals.push(Interval {
            start_ns,
            ns: span.ns,
            stream: span.stream,
            row,
            lane,
            is_lane,
            entry,
        });
    }

    #[cold]
    fn unplace(&mut self, entry: u8) {
        let step = &mut self.steps[usize::from(entry)];
        step.is_placed = false;
        if std::mem::take(&mut step.intervals) > 0 {
            self.intervals.retain(|interval| interval.entry != entry);
        }
    }

    /// Keeps launches that were counted, for their step's sums.
    fn add_row(&mut self, launches: &Launches) {
        let Some(track) = launches.flags.track() else {
            return;
        };
        let entry = track as usize % FOLLOWED_STEPS;
        if self.steps[entry].track != u64::from(track) + 1 {
            return;
        }
        if self.rows.len() == MAX_ROWS && !self.is_added_up {
            add_up(&mut self.rows);
            self.is_added_up = self.rows.len() > MAX_ROWS / 4 * 3;
        }
        if self.rows.len() == MAX_ROWS {
            self.steps[entry].is_lost = true;
            return;
        }
        self.rows.push(RowOfStep {
            entry: entry as u8,
            lane: lane_of(launches.flags.tag().lane),
            row: launches.place.map_or(NO_ROW, |place| place as u16),
            launches: launches.count as u32,
            ns: launches.ns,
        });
    }
}

/// Adds up rows of the same step, lane and kernel.
fn add_up(rows: &mut Vec<RowOfStep>) {
    rows.sort_unstable_by_key(|row| (row.entry, row.lane, row.row));
    rows.dedup_by(|row, sum| {
        let same = (row.entry, row.lane, row.row) == (sum.entry, sum.lane, sum.row);
        if same {
            sum.launches = sum.launches.saturating_add(row.launches);
            sum.ns = sum.ns.saturating_add(row.ns);
        }
        same
    });
}

fn lane_of(lane: Option<usize>) -> u8 {
    lane.filter(|lane| *lane < LANES.len())
        .map_or(NO_LANE, |lane| lane as u8)
}

impl Fold {
    /// Hands on what is counted beside the steps that are followed.
    fn hand_on(&mut self, table: &StepTable, folded: &mut Folded) {
        // Where it changed meanwhile, these are of both windows.
        let is_of_window = folded.estimates.window() == self.window;
        for (lane, sums) in self.unfollowed.iter_mut().enumerate() {
            folded.incomplete[lane].add(sums.armed_steps, sums.armed_ns);
            if is_of_window {
                folded.estimates.add_unsampled(lane, sums.steps, sums.ns);
            }
            *sums = Unfollowed {
                last: sums.last,
                ..Unfollowed::default()
            };
        }
        let late_spans = table.late_spans();
        let more = late_spans - std::mem::replace(&mut self.table_late_spans, late_spans);
        folded.late_spans += more + std::mem::take(&mut self.late_spans);
        let turned_away = table.turned_away();
        folded.unplaced_steps +=
            turned_away - std::mem::replace(&mut self.table_turned_away, turned_away);
    }

    /// Folds the steps of which `is_over` says so, by how they stand and how
    /// many of their spans are over.
    fn each_step(
        &mut self,
        table: &StepTable,
        newest: u32,
        folded: &mut Folded,
        is_over: impl Fn(&Standing, u32) -> bool,
        floor_ns: Option<u64>,
    ) {
        self.hand_on(table, folded);
        let mut used = table.used();
        while used != 0 {
            let entry = used.trailing_zeros() as usize;
            used &= used - 1;
            let Some(standing) = table.standing(entry, newest) else {
                continue;
            };
            if self.steps[entry].track != u64::from(standing.track) + 1 {
                // Nothing of it has landed.
                let _ = self.meet(table, entry, standing.track);
            }
            let step = self.steps[entry];
            if is_over(&standing, step.over) {
                self.fold(entry as u8, &standing, floor_ns, folded);
                self.steps[entry] = NO_STEP;
                table.free(standing.track);
            }
        }
    }

    fn fold(&mut self, entry: u8, standing: &Standing, floor_ns: Option<u64>, folded: &mut Folded) {
        let step = self.steps[usize::from(entry)];
        let is_complete = standing.closed && step.over >= standing.spans;
        let is_lost = standing.lost || step.is_lost || !is_complete;
        self.own_rows.clear();
        let own_rows = &mut self.own_rows;
        self.rows.retain(|row| {
            let own = row.entry == entry;
            if own {
                own_rows.push(*row);
            }
            !own
        });
        self.is_added_up &= own_rows.is_empty();
        add_up(own_rows);
        self.scratch.clear();
        if step.intervals as usize == self.intervals.len() {
            let all = self.intervals.drain(..);
            all.for_each(|interval| self.scratch.add(interval));
        } else if step.intervals > 0 {
            let scratch = &mut self.scratch;
            self.intervals.retain(|interval| {
                let own = interval.entry == entry;
                if own {
                    scratch.add(*interval);
                }
                !own
            });
        }
        let is_placed = standing.placed && step.is_placed && !is_lost;
        let figures = is_placed.then(|| {
            self.scratch
                .figures(|launch| folded.add_launch(&launch, floor_ns))
        });
        // Under `Spread` no step is armed, and none wants a place.
        let armed = standing.armed;
        folded.unplaced_steps += u64::from(armed && !is_lost && figures.is_none());
        let sums = StepSums {
            number: standing.number,
            lanes: &step.lanes,
            rows: &self.own_rows,
            figures: figures.as_ref(),
            is_armed: armed,
            is_lost,
        };
        folded.add(&sums);
    }
}

impl std::fmt::Debug for Fold {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fold")
            .field("spans", &self.intervals.len())
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(metrale_loom)))]
mod tests;
