// SPDX-License-Identifier: MIT OR Apache-2.0
//! One harvest: what its passes land is counted, and goes to the steps that wait
//! for it.

use super::{Fold, GIVEN_UP, lane_of};
use crate::kernel::instruments::KernelInstruments;
use crate::kernel::landing::Landing;
use crate::kernel::span::{Harvested, Landed, SpanKey, SpanTag, StepId};
use crate::kernel::steps::{Standing, StepTable};
use crate::kernel::timeline::NO_ROW;
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
            }
        }
        Folding {
            fold: self,
            table,
            into,
            landing: into.landing(),
        }
    }
}

impl Folding<'_> {
    /// Takes in what a pass found.
    #[inline]
    pub fn take(&mut self, span: Harvested) {
        match span {
            Harvested::Landed(landed) => match landed.key {
                SpanKey::Kernel(func) => self.launch(func, &landed),
                SpanKey::Lane(lane) => self.lane(lane, &landed),
            },
            Harvested::Failed(tag) => {
                self.landing.count(&span, |_| ());
                self.lost(tag);
            }
            Harvested::Reclaimed(tag) => self.lost(tag),
        }
    }

    #[inline]
    fn launch(&mut self, func: u64, span: &Landed) {
        let Self {
            fold,
            table,
            landing,
            ..
        } = self;
        // The step first: launches are added to a step that is known.
        let entry = match span.flags.track() {
            None => None,
            Some(track) => fold.count(table, track),
        };
        let row = landing.launch(func, span, |launches| fold.add_row(&launches));
        if let Some(entry) = entry {
            let row = row.map_or(NO_ROW, |row| row as u16);
            fold.place(entry, span, row, lane_of(span.flags.lane()), false);
        }
    }

    fn lane(&mut self, lane: usize, span: &Landed) {
        self.into.count_lane(lane, span);
        let tag = span.tag();
        let fold = &mut *self.fold;
        if let StepId::Track(track) = tag.step
            && let Some(entry) = fold.count(self.table, track)
        {
            let step = &mut fold.steps[usize::from(entry)];
            if let Some(sums) = step.lanes.get_mut(lane) {
                sums.spans += 1;
                sums.ns = sums.ns.saturating_add(span.ns);
                fold.place(entry, span, NO_ROW, lane as u8, true);
            }
            return;
        }
        let Some(sums) = fold.unfollowed.get_mut(lane) else {
            return;
        };
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

    #[cold]
    fn lost(&mut self, tag: SpanTag) {
        if let StepId::Track(track) = tag.step
            && let Some(entry) = self.fold.count(self.table, track)
        {
            self.fold.steps[usize::from(entry)].is_lost = true;
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
