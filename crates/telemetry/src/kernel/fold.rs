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
//! 5. Memory is taken once, when the fold is made. A step whose launches landed
//!    one after the other is laid out where they are; else they are copied.

use super::LANES;
use super::estimates::{LaneOfStep, RowOfStep, StepSums};
use super::folded::{Folded, HalfFloor};
use super::instruments::KernelInstruments;
use super::landing::{Landing, Launches};
use super::ops::EventOps;
use super::pass::Finds;
use super::ring::SpanRing;
use super::span::{Harvested, Landed, SpanKey, SpanTag, StepId};
use super::steps::{FOLLOWED_STEPS, Standing, StepTable};
use super::timeline::{Interval, NO_LANE, NO_ROW, Scratch};
use crate::sync::relaxed::{lock, try_lock};

/// Spans of a step that can be laid out in time; and of lanes, in all.
pub const MAX_STEP_SPANS: usize = 16_384;
/// Launches of all waiting steps that can.
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
    /// Runs of its launches: how many, and where the first begins and the last
    /// one ends, if that is not the end of all.
    runs: u32,
    from: u32,
    to: u32,
}

/// None of the entries.
const NO_ENTRY: usize = FOLLOWED_STEPS;

const NO_STEP: Step = Step {
    track: 0,
    over: 0,
    is_lost: false,
    is_placed: true,
    runs: 0,
    from: 0,
    to: 0,
};

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
    steps: [Step; FOLLOWED_STEPS],
    of_lanes: [LanesOfStep; FOLLOWED_STEPS],
    lanes: Vec<Interval>,
    launches: Vec<Interval>,
    /// The entry that the last launch is of, while its step has places.
    last: usize,
    rows: Vec<RowOfStep>,
    scratch: Scratch,
    /// Of the step that is being folded, and of no other.
    own_lanes: Vec<Interval>,
    own_launches: Vec<Interval>,
    unfollowed: [Unfollowed; LANES.len()],
    /// Spans of steps that were given up.
    late_spans: u64,
    /// The table's counts that were handed on.
    table_late_spans: u64,
    table_turned_away: u64,
}

impl Default for Fold {
    fn default() -> Self {
        Self {
            steps: [NO_STEP; FOLLOWED_STEPS],
            of_lanes: [NO_LANES; FOLLOWED_STEPS],
            lanes: Vec::with_capacity(MAX_STEP_SPANS),
            launches: Vec::with_capacity(MAX_SPANS),
            last: NO_ENTRY,
            rows: Vec::with_capacity(MAX_ROWS),
            scratch: Scratch::with_capacity(MAX_STEP_SPANS),
            own_lanes: Vec::with_capacity(MAX_STEP_SPANS),
            own_launches: Vec::with_capacity(MAX_STEP_SPANS),
            unfollowed: [Unfollowed::default(); LANES.len()],
            late_spans: 0,
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
    #[inline]
    fn count(&mut self, table: &StepTable, track: u32) -> Option<usize> {
        let entry = track as usize % FOLLOWED_STEPS;
        if self.steps[entry].track != u64::from(track) + 1 {
            self.meet(table, entry, track)?;
        }
        self.steps[entry].over += 1;
        Some(entry)
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
        self.of_lanes[entry] = NO_LANES;
        Some(())
    }

    /// Keeps the place of a landed launch, if its step has places.
    #[inline]
    fn place_launch(&mut self, entry: usize, start_ns: Option<i64>, launch: Interval) {
        if self.last != entry && !self.begin_run(entry) {
            return;
        }
        match start_ns {
            // Not more than there is memory for.
            Some(start_ns) if self.launches.len() < self.launches.capacity() => {
                self.launches.push(Interval { start_ns, ..launch });
            }
            _ => self.unplace(entry),
        }
    }

    /// Launches of another step than before come next; whether that has places.
    #[inline(never)]
    fn begin_run(&mut self, entry: usize) -> bool {
        self.end_run();
        let (step, at) = (&mut self.steps[entry], self.launches.len() as u32);
        if step.is_placed {
            if step.runs == 0 {
                step.from = at;
            }
            step.runs += 1;
            self.last = entry;
        }
        step.is_placed
    }

    fn end_run(&mut self) {
        if let Some(step) = self.steps.get_mut(self.last) {
            step.to = self.launches.len() as u32;
        }
        self.last = NO_ENTRY;
    }

    /// Keeps the place of a lane's span, if its step has places.
    fn place_lane(&mut self, entry: usize, start_ns: Option<i64>, span: Interval) {
        match start_ns {
            Some(start_ns) if self.lanes.len() < MAX_STEP_SPANS => {
                if self.steps[entry].is_placed {
                    self.lanes.push(Interval { start_ns, ..span });
                }
            }
            _ => self.unplace(entry),
        }
    }

    /// The step has no places from here on.
    #[cold]
    fn unplace(&mut self, entry: usize) {
        if std::mem::replace(&mut self.steps[entry].is_placed, false) {
            self.forget_places(1 << entry);
        }
    }

    /// Removes the intervals of the steps whose bits are set.
    fn forget_places(&mut self, entries: u64) {
        let is_gone = |entry: usize| entries >> entry & 1 == 1;
        let stays = |interval: &Interval| !is_gone(usize::from(interval.entry));
        self.lanes.retain(stays);
        self.end_run();
        let mut steps = self.steps.iter().enumerate();
        if steps.all(|(entry, step)| step.runs == 0 || is_gone(entry)) {
            self.launches.clear();
        } else {
            self.launches.retain(stays);
        }
        for step in &mut self.steps {
            step.runs = 0;
        }
        for at in 0..self.launches.len() {
            let entry = usize::from(self.launches[at].entry);
            let step = &mut self.steps[entry];
            if self.last != entry {
                if step.runs == 0 {
                    step.from = at as u32;
                }
                step.runs += 1;
                self.last = entry;
            }
            step.to = at as u32 + 1;
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
        if self.rows.len() == MAX_ROWS {
            add_up(&mut self.rows);
        }
        if self.rows.len() == MAX_ROWS {
            self.steps[entry].is_lost = true;
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
        let track = span.flags.track();
        let entry = track.and_then(|track| fold.count(table, track));
        let Some(entry) = entry else {
            landing.launch(func, span.flags, span.ns, |launches| {
                fold.add_row(&launches);
            });
            return;
        };
        let row = landing.launch(func, span.flags, span.ns, |launches| {
            fold.add_row(&launches);
        });
        let launch = Interval {
            start_ns: 0,
            ns: span.ns,
            stream: span.stream,
            row,
            lane: span.flags.lane_index(),
            entry: entry as u8,
        };
        fold.place_launch(entry, span.start_ns, launch);
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
            fold.place_lane(entry, span.start_ns, own);
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
            self.fold.steps[entry].is_lost = true;
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
        self.end_run();
        let (mut used, mut gone) = (table.used(), 0);
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
            if is_over(&standing, self.steps[entry].over) {
                if gone == 0 {
                    add_up(&mut self.rows);
                }
                self.fold(entry, &standing, floor_ns, folded);
                gone |= 1 << entry;
                table.free(standing.track, newest);
            }
        }
        if gone != 0 {
            self.forget(gone);
        }
    }

    /// Removes all of the steps whose bits are set.
    fn forget(&mut self, entries: u64) {
        self.forget_places(entries);
        self.rows.retain(|row| entries >> row.entry & 1 == 0);
        for (entry, step) in self.steps.iter_mut().enumerate() {
            if entries >> entry & 1 == 1 {
                *step = NO_STEP;
            }
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
        let step = self.steps[entry];
        let is_complete = standing.closed && step.over >= standing.spans;
        let is_lost = standing.lost || step.is_lost || !is_complete;
        let rows_from = self
            .rows
            .partition_point(|row| usize::from(row.entry) < entry);
        let rows = &self.rows[rows_from..];
        let rows = &rows[..rows.partition_point(|row| usize::from(row.entry) == entry)];
        let is_placed = standing.placed && step.is_placed && !is_lost;
        let figures = is_placed.then(|| {
            let is_own = |span: &&Interval| usize::from(span.entry) == entry;
            self.own_lanes.clear();
            self.own_lanes.extend(self.lanes.iter().filter(is_own));
            let launches = match step.runs {
                0 => &mut [],
                _ => &mut self.launches[step.from as usize..step.to as usize],
            };
            let launches = if step.runs < 2 {
                launches
            } else {
                self.own_launches.clear();
                self.own_launches.extend(launches.iter().filter(is_own));
                &mut self.own_launches
            };
            let floor = HalfFloor::of(floor_ns);
            self.scratch
                .figures(&mut self.own_lanes, launches, |launch| {
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
            .field("launches", &self.launches.len())
            .finish_non_exhaustive()
    }
}
