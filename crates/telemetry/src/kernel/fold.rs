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

mod spans;

pub use spans::{MAX_SPANS, MAX_STEP_SPANS};

use super::LANES;
use super::estimates::{LaneOfStep, RowOfStep, StepSums};
use super::folded::{Folded, HalfFloor};
use super::instruments::KernelInstruments;
use super::landing::{Landing, Launches};
use super::ops::EventOps;
use super::pass::Finds;
use super::ring::SpanRing;
use super::span::{Flags, Harvested, Landed, SpanKey, SpanTag, StepId};
use super::steps::{FOLLOWED_STEPS, Standing, StepTable};
use super::timeline::{Interval, NO_LANE, NO_ROW, Scratch};
use crate::sync::relaxed::{lock, try_lock};
use spans::Spans;

/// Rows of all waiting steps: one to a kernel, lane and step, once they are
/// added up.
const MAX_ROWS: usize = 32_768;
/// A step is given up when this many later ones were begun.
const GIVEN_UP: u32 = FOLLOWED_STEPS as u32;

type LanesOfStep = [LaneOfStep; LANES.len()];

const NO_LANES: LanesOfStep = [LaneOfStep { spans: 0, ns: 0 }; LANES.len()];

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
    spans: Spans,
    of_lanes: [LanesOfStep; FOLLOWED_STEPS],
    rows: Vec<RowOfStep>,
    scratch: Scratch,
    unfollowed: [Unfollowed; LANES.len()],
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
            scratch: Scratch::with_capacity(MAX_STEP_SPANS),
            unfollowed: [Unfollowed::default(); LANES.len()],
            table_late_spans: 0,
            table_turned_away: 0,
        }
    }
}

/// One harvest: what its passes land goes through here.
pub struct Folding<'a> {
    fold: &'a mut Fold,
    table: &'a StepTable,
    into: &'a KernelInstruments,
    landing: Landing<'a>,
}

impl Fold {
    /// Begins a harvest into `into`, of a recorder that follows steps in
    /// `table`: always the same two.
    pub fn harvest<'a>(
        &'a mut self,
        table: &'a StepTable,
        into: &'a KernelInstruments,
    ) -> Folding<'a> {
        Folding {
            fold: self,
            table,
            into,
            landing: into.landing(),
        }
    }

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
            return;
        };
        if self.rows.len() == MAX_ROWS {
            add_up(&mut self.rows);
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

impl Finds for &mut Folding<'_> {
    #[inline(always)]
    fn launch(&mut self, func: u64, span: Landed) {
        Folding::launch(self, func, span);
    }
    #[inline(never)]
    fn other(&mut self, span: Harvested) {
        self.take(span);
    }
}

impl Folding<'_> {
    /// Lands what is done of a ring of this recorder, as
    /// [`SpanRing::harvest_with`] does; how many spans that were.
    pub fn pass<E: EventOps>(&mut self, ring: &SpanRing<E>) -> usize {
        ring.harvest_for(self)
    }

    /// Takes in what a pass found.
    pub fn take(&mut self, span: Harvested) {
        match span {
            Harvested::Landed(landed) => match landed.key {
                SpanKey::Kernel(func) => self.launch(func, landed),
                SpanKey::Lane(lane) => self.lane(lane, landed),
            },
            Harvested::Failed(tag) => {
                self.landing.count(&span, |_| ());
                self.lost(tag);
            }
            Harvested::Reclaimed(tag) => self.lost(tag),
        }
    }

    #[inline(always)]
    fn launch(&mut self, func: u64, span: Landed) {
        let Self {
            fold,
            table,
            landing,
            ..
        } = self;
        // The step first: launches are added to a step that is known.
        let is_in_run = fold.spans.is_in_run(span.flags) || fold.begin_run(table, span.flags);
        let row = landing.launch(func, span.flags, span.ns, |launches| {
            fold.add_row(&launches);
        });
        if is_in_run {
            fold.spans.push(span.start_ns, span.ns, span.stream, row);
        }
    }

    #[inline(never)]
    fn lane(&mut self, lane: usize, span: Landed) {
        self.into.count_lane(lane, &span);
        let tag = span.tag();
        let fold = &mut *self.fold;
        if let StepId::Track(track) = tag.step
            && let Some(entry) = fold.count(self.table, track)
        {
            if let Some(sums) = fold.of_lanes[entry].get_mut(lane) {
                sums.spans += 1;
                sums.ns = sums.ns.saturating_add(span.ns);
            }
            let own = Interval {
                start_ns: 0,
                ns: span.ns,
                stream: span.stream,
                row: NO_ROW,
                lane: (lane as u64).min(u64::from(NO_LANE)) as u8,
                entry: entry as u8,
            };
            fold.spans.push_lane(span.start_ns, own);
            return;
        }
        let Some(sums) = fold.unfollowed.get_mut(lane) else {
            return;
        };
        if tag.armed {
            sums.armed_steps += 1;
            sums.armed_ns = sums.armed_ns.saturating_add(span.ns);
        }
        if let StepId::Number(number) = tag.step {
            sums.ns = sums.ns.saturating_add(span.ns);
            sums.steps += u64::from(number >= sums.last);
            sums.last = sums.last.max(number + 1);
        }
    }

    #[cold]
    fn lost(&mut self, tag: SpanTag) {
        if let StepId::Track(track) = tag.step
            && let Some(entry) = self.fold.count(self.table, track)
        {
            self.fold.spans.step(entry).is_lost = true;
        }
    }

    /// As [`finish`](Self::finish), for the last time: what still waits is
    /// folded as incomplete.
    pub fn give_up(self) {
        let Self {
            fold,
            table,
            into,
            landing,
        } = self;
        landing.finish(|launches| fold.add_row(&launches));
        // Once, when a recorder ends: a reader's copy is waited for.
        fold.each_step(table, 0, &mut lock(&into.folded), |_, _| true, None);
    }

    /// Counts what was landed, and folds the steps that are complete. `newest`
    /// is the last track that was given out; `floor_ns` what an empty pair
    /// reads, if that is known.
    pub fn finish(self, newest: u32, floor_ns: Option<u64>) {
        let Self {
            fold,
            table,
            into,
            landing,
        } = self;
        landing.finish(|launches| fold.add_row(&launches));
        // Not waited for: a reader holds it, and the next pass comes.
        let Some(mut folded) = try_lock(&into.folded) else {
            return;
        };
        let is_over = |standing: &Standing, over: u32| {
            standing.closed && over >= standing.spans
                || newest.wrapping_sub(standing.track) as i32 >= GIVEN_UP as i32
        };
        fold.each_step(table, newest, &mut folded, is_over, floor_ns);
    }
}

impl Fold {
    /// Hands on what is counted beside the steps that are followed.
    fn hand_on(&mut self, table: &StepTable, folded: &mut Folded) {
        let window = folded.estimates.window();
        for (lane, sums) in self.unfollowed.iter_mut().enumerate() {
            folded.incomplete[lane].add(sums.armed_steps, sums.armed_ns);
            if sums.last > window {
                folded.estimates.add_unsampled(lane, sums.steps, sums.ns);
            }
            *sums = Unfollowed {
                last: sums.last,
                ..Unfollowed::default()
            };
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
                self.fold(entry, &standing, floor_ns, folded);
                gone |= 1 << entry;
                table.free(standing.track, newest);
            }
        }
        if gone != 0 {
            self.spans.forget(gone);
            self.rows.retain(|row| gone >> row.entry & 1 == 0);
        }
    }

    /// Folds a step; rows are added up.
    fn fold(
        &mut self,
        entry: usize,
        standing: &Standing,
        floor_ns: Option<u64>,
        folded: &mut Folded,
    ) {
        let step = *self.spans.step(entry);
        let is_complete = standing.closed && step.over >= standing.spans;
        let is_lost = standing.lost || step.is_lost || !is_complete;
        let from = self
            .rows
            .partition_point(|row| usize::from(row.entry) < entry);
        let rows = &self.rows[from..];
        let rows = &rows[..rows.partition_point(|row| usize::from(row.entry) == entry)];
        let is_placed = standing.placed && !is_lost;
        let spans = self.spans.of(entry).filter(|_| is_placed);
        let figures = spans.map(|(lanes, launches)| {
            let floor = HalfFloor::of(floor_ns);
            self.scratch.figures(lanes, launches, |launch| {
                folded.add_launch(&launch, floor);
            })
        });
        // Under `Spread` no step is armed, and none wants a place.
        let armed = standing.armed;
        folded.unplaced_steps += u64::from(armed && !is_lost && figures.is_none());
        let sums = StepSums {
            number: standing.number,
            lanes: &self.of_lanes[entry],
            rows,
            figures: figures.as_ref(),
            is_lost,
        };
        folded.add(&sums, armed);
    }
}

impl std::fmt::Debug for Fold {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fold")
            .field("launches", &self.spans.launches())
            .finish_non_exhaustive()
    }
}
