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
//! 4. Where a reader holds what was folded before, steps wait for the next pass;
//!    where one holds the log, records do, and no timeline is kept.
//! 5. Memory is taken once, when the fold is made; what regions need besides, at
//!    the first step that has some.

mod folding;
mod records;
mod spans;

pub use folding::Folding;
pub use spans::{MAX_SPANS, MAX_STEP_SPANS};

use super::MAX_LANES;
use super::estimates::{LaneOfStep, RowOfStep, StepSums};
use super::folded::{BusyGap, Folded};
use super::landing::Launches;
use super::records::{LaidOut, StepLog};
use super::span::{Flags, SpanTag, StepId};
use super::steps::{FOLLOWED_STEPS, Standing, StepTable};
use super::timeline::{NO_ROW, Scratch};
use records::UnrecordedSteps;
use spans::Spans;

/// Rows of all waiting steps: one to a kernel, lane and step, once they are
/// added up.
const MAX_ROWS: usize = 32_768;
/// A step is given up when this many later ones were begun.
const GIVEN_UP: u32 = FOLLOWED_STEPS as u32;

type LanesOfStep = [LaneOfStep; MAX_LANES];

const NO_LANES: LanesOfStep = [LaneOfStep { spans: 0, ns: 0 }; MAX_LANES];

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
    /// Launches of no step that is followed.
    launches: u64,
    launches_ns: u64,
}

/// See the module.
pub struct Fold {
    spans: Spans,
    of_lanes: [LanesOfStep; FOLLOWED_STEPS],
    rows: Vec<RowOfStep>,
    /// To add up the rows again would leave little room.
    is_added_up: bool,
    scratch: Scratch,
    records: UnrecordedSteps,
    unfollowed: [Unfollowed; MAX_LANES],
    /// How many lanes there are.
    lanes: usize,
    /// The first step of the estimates' window that these are of.
    window: u64,
    /// The table's counts that were handed on.
    table_late_spans: u64,
    table_turned_away: u64,
}

impl Default for Fold {
    fn default() -> Self {
        Self {
            spans: Spans::new(),
            of_lanes: [NO_LANES; FOLLOWED_STEPS],
            rows: Vec::with_capacity(MAX_ROWS),
            is_added_up: false,
            scratch: Scratch::with_capacity(MAX_STEP_SPANS),
            records: UnrecordedSteps::new(),
            unfollowed: [Unfollowed::default(); MAX_LANES],
            lanes: 0,
            window: 0,
            table_late_spans: 0,
            table_turned_away: 0,
        }
    }
}

impl Fold {
    /// Counts a span of the step on `track` that is over; its entry, if the
    /// step is followed.
    fn count(&mut self, table: &StepTable, track: u32) -> Option<usize> {
        let entry = self.find(table, track)?;
        self.spans.step(entry).over += 1;
        Some(entry)
    }

    fn find(&mut self, table: &StepTable, track: u32) -> Option<usize> {
        let met = |entry: usize| self.of_lanes[entry] = NO_LANES;
        self.spans.find(table, track, met)
    }

    /// Begins a run with a launch of this tag; else counts it.
    #[inline(never)]
    fn begin_run(&mut self, table: &StepTable, flags: Flags) -> bool {
        let found = flags.track().and_then(|track| self.find(table, track));
        let Some(entry) = found else {
            return false;
        };
        let begins = self.spans.begin_run(entry, flags);
        if !begins {
            self.spans.step(entry).over += 1;
        }
        begins
    }

    /// Keeps launches that were counted, for their step's sums.
    fn add_row(&mut self, launches: &Launches) {
        let track = launches.flags.track();
        let Some(entry) = track.and_then(|track| self.spans.known(track)) else {
            self.leave_out(launches);
            return;
        };
        if self.rows.len() == MAX_ROWS && !self.is_added_up {
            add_up(&mut self.rows);
            self.is_added_up = self.rows.len() > MAX_ROWS / 4 * 3;
        }
        if self.rows.len() == MAX_ROWS {
            self.spans.step(entry).is_lost = true;
            return;
        }
        self.rows.push(RowOfStep {
            entry: entry as u8,
            lane: launches.flags.lane_index(),
            row: launches.place.map_or(NO_ROW, |place| place as u16),
            launches: launches.count as u32,
            ns: launches.ns,
        });
    }
}

impl Fold {
    /// Counts launches that no step's sums will have: those of a step that is
    /// not followed, or is over.
    #[cold]
    fn leave_out(&mut self, launches: &Launches) {
        let SpanTag { lane, step, .. } = launches.flags.tag();
        if matches!(step, StepId::Number(number) if number < self.window) {
            return;
        }
        if let Some(sums) = lane.and_then(|lane| self.unfollowed.get_mut(lane)) {
            sums.launches += launches.count;
            sums.launches_ns = sums.launches_ns.saturating_add(launches.ns);
        }
    }
}

/// Adds up rows of the same step, lane and kernel, and puts them in order.
fn add_up(rows: &mut Vec<RowOfStep>) {
    let key = |row: &RowOfStep| {
        u32::from(row.entry) << 24 | u32::from(row.lane) << 16 | u32::from(row.row)
    };
    rows.sort_unstable_by_key(key);
    rows.dedup_by(|row, sum| {
        let same = key(row) == key(sum);
        if same {
            sum.launches = sum.launches.saturating_add(row.launches);
            sum.ns = sum.ns.saturating_add(row.ns);
        }
        same
    });
}

impl Fold {
    /// Hands on what is counted beside the steps that are followed.
    fn hand_on(&mut self, table: &StepTable, folded: &mut Folded) {
        // Where it changed meanwhile, these are of both windows.
        let is_of_window = folded.estimates.window() == self.window;
        for (lane, sums) in self.unfollowed[..self.lanes].iter_mut().enumerate() {
            folded.incomplete[lane].add(sums.armed_steps, sums.armed_ns);
            if is_of_window {
                let estimates = &mut folded.estimates;
                estimates.add_unsampled(lane, sums.steps, sums.ns);
                estimates.leave_out(lane, sums.launches, sums.launches_ns);
            }
            *sums = Unfollowed { last: sums.last, ..Unfollowed::default() };
        }
        let late_spans = table.late_spans();
        let more = late_spans - std::mem::replace(&mut self.table_late_spans, late_spans);
        folded.late_spans += more + std::mem::take(&mut self.spans.late);
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
        mut log: Option<&mut StepLog>,
        is_over: impl Fn(&Standing, u32) -> bool,
        floor_ns: Option<u64>,
    ) {
        self.hand_on(table, folded);
        self.spans.end_run();
        let (mut used, mut gone) = (table.used(), 0);
        while used != 0 {
            let entry = used.trailing_zeros() as usize;
            used &= used - 1;
            let Some(standing) = table.standing(entry, newest) else {
                continue;
            };
            if self.spans.known(standing.track).is_none() {
                // Nothing of it has landed.
                self.spans.meet(entry, standing.track);
                self.of_lanes[entry] = NO_LANES;
            }
            if is_over(&standing, self.spans.step(entry).over) {
                if gone == 0 {
                    add_up(&mut self.rows);
                }
                self.fold(entry, &standing, floor_ns, folded, log.as_deref_mut());
                gone |= 1 << entry;
                table.free(standing.track);
            }
        }
        if gone != 0 {
            self.spans.forget(gone);
            let before = self.rows.len();
            self.rows.retain(|row| gone >> row.entry & 1 == 0);
            self.is_added_up &= self.rows.len() == before;
        }
    }

    /// Folds a step; rows are added up.
    fn fold(
        &mut self,
        entry: usize,
        standing: &Standing,
        floor_ns: Option<u64>,
        folded: &mut Folded,
        log: Option<&mut StepLog>,
    ) {
        let step = *self.spans.step(entry);
        let is_complete = standing.closed && step.over >= standing.spans;
        let is_lost = standing.lost || step.is_lost || !is_complete;
        let from = self.rows.partition_point(|row| usize::from(row.entry) < entry);
        let rows = &self.rows[from..];
        let rows = &rows[..rows.partition_point(|row| usize::from(row.entry) == entry)];
        let is_placed = standing.placed && !is_lost;
        let spans = self.spans.of(entry).filter(|_| is_placed);
        let figures = spans.map(|mut spans| {
            let busy = BusyGap::of(floor_ns);
            let figures = self.scratch.figures(self.lanes, &mut spans, |launch| {
                folded.add_launch(&launch, busy);
            });
            if let Some(log) = log {
                log.keep(&LaidOut { number: standing.number, spans: &spans, figures: &figures });
            }
            figures
        });
        // Under `Spread` no step is armed, and none wants a place.
        let armed = standing.armed;
        folded.unplaced_steps += u64::from(armed && !is_lost && figures.is_none());
        let sums = StepSums {
            number: standing.number,
            lanes: &self.of_lanes[entry][..self.lanes],
            rows,
            figures: figures.as_ref(),
            is_armed: armed,
            is_lost,
            lost_lanes: standing.lost_lanes | step.lost_lanes,
        };
        folded.add(&sums);
    }
}

impl std::fmt::Debug for Fold {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fold").field("launches", &self.spans.launches()).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(metrale_loom)))]
mod tests;
