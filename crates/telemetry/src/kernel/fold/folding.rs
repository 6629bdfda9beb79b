// SPDX-License-Identifier: MIT OR Apache-2.0
//! One harvest: what its passes land is counted, and goes to the steps that wait
//! for it.

use super::{Fold, GIVEN_UP};
use crate::kernel::instruments::KernelInstruments;
use crate::kernel::landing::Landing;
use crate::kernel::ops::EventOps;
use crate::kernel::pass::Finds;
use crate::kernel::ring::SpanRing;
use crate::kernel::span::{Harvested, Landed, Lost, SpanKey, StepId, is_region};
use crate::kernel::steps::{Standing, StepTable};
use crate::kernel::timeline::{Interval, NO_ROW};
use crate::sync::relaxed::{lock, try_lock};

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
        let window = into.window();
        if std::mem::replace(&mut self.window, window) != window {
            for sums in &mut self.unfollowed {
                (sums.steps, sums.ns) = (0, 0);
                (sums.launches, sums.launches_ns) = (0, 0);
            }
        }
        self.lanes = into.lanes();
        into.take_log_memory();
        Folding { fold: self, table, into, landing: into.landing() }
    }
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
            Harvested::Failed(lost) | Harvested::Reclaimed(lost) => {
                self.landing.count(&span, |_| ());
                self.lost(lost);
            }
        }
    }

    #[inline(always)]
    fn launch(&mut self, func: u64, span: Landed) {
        if is_region(func) {
            return self.region(func, span);
        }
        let Self { fold, table, landing, .. } = self;
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
    fn region(&mut self, row: u64, span: Landed) {
        let Self { fold, table, landing, .. } = self;
        // The step first, as of a launch.
        let track = span.flags.track();
        let entry = track.and_then(|track| fold.count(table, track));
        let place = landing.launch(row, span.flags, span.ns, |launches| {
            fold.add_row(&launches);
        });
        if let Some(entry) = entry {
            let region = Interval {
                start_ns: 0,
                ns: span.ns,
                stream: span.stream,
                row: place,
                lane: span.flags.lane_index(),
                entry: entry as u8,
            };
            fold.spans.push_region(span.start_ns, region);
        }
    }

    #[inline(never)]
    fn lane(&mut self, lane: usize, span: Landed) {
        self.into.count_lane(lane, &span);
        // One of a lane that has no name is nobody's time.
        let is_named = lane < self.fold.lanes;
        let tag = span.tag();
        let number = self.number_of(tag.step);
        let fold = &mut *self.fold;
        if let Some(number) = number {
            let lane = is_named.then_some(lane);
            fold.records.landed(number, lane, span.ns, span.gap_ns);
        }
        if let StepId::Track(track) = tag.step
            && let Some(entry) = fold.count(self.table, track)
        {
            if is_named {
                let sums = &mut fold.of_lanes[entry][lane];
                sums.spans += 1;
                sums.ns = sums.ns.saturating_add(span.ns);
                let own = Interval {
                    start_ns: 0,
                    ns: span.ns,
                    stream: span.stream,
                    row: NO_ROW,
                    lane: lane as u8,
                    entry: entry as u8,
                };
                fold.spans.push_lane(span.start_ns, own);
            }
            return;
        }
        if !is_named {
            return;
        }
        let sums = &mut fold.unfollowed[lane];
        if tag.armed {
            sums.armed_steps += 1;
            sums.armed_ns = sums.armed_ns.saturating_add(span.ns);
        }
        if let StepId::Number(number) = tag.step
            && number >= fold.window
        {
            sums.ns = sums.ns.saturating_add(span.ns);
            sums.steps += u64::from(number >= sums.last);
            sums.last = sums.last.max(number + 1);
        }
    }

    /// The number of a span's step, if that is known or followed.
    fn number_of(&self, step: StepId) -> Option<u64> {
        match step {
            StepId::Unknown => None,
            StepId::Number(number) => Some(number),
            StepId::Track(track) => self.table.number(track),
        }
    }

    #[cold]
    fn lost(&mut self, Lost { key, tag }: Lost) {
        if matches!(key, SpanKey::Lane(_))
            && let Some(number) = self.number_of(tag.step)
        {
            self.fold.records.lost(number);
        }
        if let StepId::Track(track) = tag.step
            && let Some(entry) = self.fold.count(self.table, track)
        {
            let step = self.fold.spans.step(entry);
            step.is_lost = true;
            step.lost_lanes |=
                tag.lane.map_or(0, |lane| 1u32.checked_shl(lane as u32).unwrap_or(0));
        }
    }

    /// As [`finish`](Self::finish), for the last time: what still waits is
    /// folded as incomplete.
    pub fn give_up(self) {
        let Self { fold, table, into, landing } = self;
        landing.finish(|launches| fold.add_row(&launches));
        // Once, when a recorder ends: a reader's copy is waited for.
        let (mut folded, mut log) = (lock(&into.folded), lock(&into.log));
        let all = |_: &Standing, _| true;
        fold.each_step(table, 0, &mut folded, None, all, None);
        let open = &into.open_steps;
        fold.records.record(open, &mut folded, &mut log, true);
    }

    /// Counts what was landed, and folds the steps that are complete. `newest`
    /// is the last track that was given out; `floor_ns` what an empty pair
    /// reads, if that is known.
    pub fn finish(self, newest: u32, floor_ns: Option<u64>) {
        let Self { fold, table, into, landing } = self;
        landing.finish(|launches| fold.add_row(&launches));
        // Not waited for: a reader holds it, and the next pass comes.
        let Some(mut folded) = try_lock(&into.folded) else {
            return;
        };
        let is_over = |standing: &Standing, over: u32| {
            standing.closed && over >= standing.spans
                || newest.wrapping_sub(standing.track) as i32 >= GIVEN_UP as i32
        };
        let mut log = try_lock(&into.log);
        fold.each_step(table, newest, &mut folded, log.as_deref_mut(), is_over, floor_ns);
        if let Some(log) = &mut log {
            let open = &into.open_steps;
            fold.records.record(open, &mut folded, log, false);
        }
    }
}
