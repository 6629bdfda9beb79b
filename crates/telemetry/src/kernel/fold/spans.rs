// SPDX-License-Identifier: MIT OR Apache-2.0
//! The spans of the steps that wait to be folded: how many of each are over,
//! and those that have a place.
//!
//! 1. Launches with one tag that land one after the other are a *run*: their
//!    step is looked up once, and they are counted when the run ends.
//! 2. A step whose runs follow each other is laid out where it landed. Where
//!    launches of other steps are between them, its own are copied.

use crate::kernel::span::Flags;
use crate::kernel::steps::{FOLLOWED_STEPS, StepTable};
use crate::kernel::timeline::{Interval, Laid};

/// Spans of a step that can be laid out in time; and of lanes and of regions, in
/// all.
pub const MAX_STEP_SPANS: usize = 16_384;
/// Launches of all waiting steps that can.
pub const MAX_SPANS: usize = 65_536;

/// A step that waits for the rest of its spans.
#[derive(Clone, Copy)]
pub(super) struct WaitingStep {
    /// The step's track, plus 1; 0: none waits here.
    track: u64,
    /// Spans of it that are over, and that the table still counts.
    pub(super) over: u32,
    pub(super) is_lost: bool,
    /// Lanes that some of that was of, a bit each.
    pub(super) lost_lanes: u32,
    is_placed: bool,
    /// How often others' launches were between its own, plus 1; 0: it has none.
    parts: u32,
    /// Where its launches begin and end.
    from: u32,
    to: u32,
}

const NO_STEP: WaitingStep = WaitingStep {
    track: 0,
    over: 0,
    is_lost: false,
    lost_lanes: 0,
    is_placed: true,
    parts: 0,
    from: 0,
    to: 0,
};

/// Launches that land one after the other.
#[derive(Clone, Copy)]
struct Run {
    /// [`Flags::NONE`]: there is no run.
    flags: Flags,
    /// Its first launch that was not counted.
    from: usize,
    entry: u8,
    lane: u8,
}

const NO_RUN: Run = Run { flags: Flags::NONE, from: 0, entry: 0, lane: 0 };

/// See the module.
pub(super) struct Spans {
    steps: [WaitingStep; FOLLOWED_STEPS],
    lanes: Vec<Interval>,
    regions: Vec<Interval>,
    launches: Vec<Interval>,
    run: Run,
    /// Spans of steps that were given up.
    pub(super) late: u64,
    /// Of the step that is laid out, and of no other.
    own_lanes: Vec<Interval>,
    own_regions: Vec<Interval>,
    own_launches: Vec<Interval>,
}

impl Spans {
    pub(super) fn new() -> Self {
        Self {
            steps: [NO_STEP; FOLLOWED_STEPS],
            lanes: Vec::with_capacity(MAX_STEP_SPANS),
            regions: Vec::new(),
            launches: Vec::with_capacity(MAX_SPANS),
            run: NO_RUN,
            late: 0,
            own_lanes: Vec::with_capacity(MAX_STEP_SPANS),
            own_regions: Vec::new(),
            own_launches: Vec::with_capacity(MAX_STEP_SPANS),
        }
    }

    pub(super) fn launches(&self) -> usize {
        self.launches.len()
    }

    pub(super) fn step(&mut self, entry: usize) -> &mut WaitingStep {
        &mut self.steps[entry]
    }

    /// The entry of the step on `track`, if that waits.
    pub(super) fn known(&self, track: u32) -> Option<usize> {
        let entry = track as usize % FOLLOWED_STEPS;
        let is_known = self.steps[entry].track == u64::from(track) + 1;
        is_known.then_some(entry)
    }

    /// The same, of a step that may be met for the first time, if it is
    /// followed; `met` is told then. Else a span of it is late.
    pub(super) fn find(
        &mut self,
        table: &StepTable,
        track: u32,
        met: impl FnOnce(usize),
    ) -> Option<usize> {
        if let Some(entry) = self.known(track) {
            return Some(entry);
        }
        if !table.follows(track) {
            // It was given up.
            self.late += 1;
            return None;
        }
        let entry = track as usize % FOLLOWED_STEPS;
        self.meet(entry, track);
        met(entry);
        Some(entry)
    }

    pub(super) fn meet(&mut self, entry: usize, track: u32) {
        self.steps[entry] = WaitingStep { track: u64::from(track) + 1, ..NO_STEP };
    }

    /// Whether a launch of this tag is of the run.
    #[inline(always)]
    pub(super) fn is_in_run(&self, flags: Flags) -> bool {
        self.run.flags == flags
    }

    /// Begins a run of launches of the step of an entry; whether it has places.
    pub(super) fn begin_run(&mut self, entry: usize, flags: Flags) -> bool {
        self.end_run();
        let (step, at) = (&mut self.steps[entry], self.launches.len());
        if step.is_placed {
            step.join(at as u32);
            self.run = Run { flags, from: at, entry: entry as u8, lane: flags.lane_index() };
        }
        step.is_placed
    }

    /// Counts the launches of the run, and ends it.
    pub(super) fn end_run(&mut self) {
        if self.run.flags != Flags::NONE {
            let (step, at) = (&mut self.steps[usize::from(self.run.entry)], self.launches.len());
            step.over += (at - self.run.from) as u32;
            step.to = at as u32;
            self.run = NO_RUN;
        }
    }

    /// Counts a launch of the run, and keeps its place.
    #[inline(always)]
    pub(super) fn push(&mut self, start_ns: Option<i64>, ns: u64, stream: u64, row: u16) {
        let Run { entry, lane, .. } = self.run;
        match start_ns {
            // Not more than there is memory for.
            Some(start_ns) if self.launches.len() < self.launches.capacity() => {
                self.launches.push(Interval { start_ns, ns, stream, row, lane, entry });
            }
            _ => {
                self.steps[usize::from(entry)].over += 1;
                self.unplace(usize::from(entry));
            }
        }
    }

    /// Keeps the place of a span of a lane, if its step has places.
    pub(super) fn push_lane(&mut self, start_ns: Option<i64>, span: Interval) {
        self.push_beside(|spans| &mut spans.lanes, start_ns, span);
    }

    /// The same, of a region.
    pub(super) fn push_region(&mut self, start_ns: Option<i64>, span: Interval) {
        self.push_beside(|spans| &mut spans.regions, start_ns, span);
    }

    fn push_beside(
        &mut self,
        kind: impl FnOnce(&mut Self) -> &mut Vec<Interval>,
        start_ns: Option<i64>,
        span: Interval,
    ) {
        let entry = usize::from(span.entry);
        let is_placed = self.steps[entry].is_placed;
        let spans = kind(self);
        match start_ns {
            Some(start_ns) if spans.len() < MAX_STEP_SPANS => {
                if is_placed {
                    spans.push(Interval { start_ns, ..span });
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

    /// Removes the places of the steps whose bits are set.
    fn forget_places(&mut self, entries: u64) {
        self.end_run();
        let is_gone = |entry: usize| entries >> entry & 1 == 1;
        let stays = |span: &Interval| !is_gone(usize::from(span.entry));
        self.lanes.retain(stays);
        self.regions.retain(stays);
        let mut steps = self.steps.iter().enumerate();
        if steps.all(|(entry, step)| step.parts == 0 || is_gone(entry)) {
            self.launches.clear();
        } else {
            self.launches.retain(stays);
        }
        for step in &mut self.steps {
            step.parts = 0;
        }
        for (at, launch) in self.launches.iter().enumerate() {
            let step = &mut self.steps[usize::from(launch.entry)];
            step.join(at as u32);
            step.to = at as u32 + 1;
        }
    }

    /// Removes all of the steps whose bits are set.
    pub(super) fn forget(&mut self, entries: u64) {
        self.forget_places(entries);
        for (entry, step) in self.steps.iter_mut().enumerate() {
            if entries >> entry & 1 == 1 {
                *step = NO_STEP;
            }
        }
    }

    /// What a step is laid out of, after the end of the run; `None`: its spans have
    /// no places, or are too many.
    pub(super) fn of(&mut self, entry: usize) -> Option<Laid<'_>> {
        let step = self.steps[entry];
        if !step.is_placed {
            return None;
        }
        let is_own = |span: &&Interval| usize::from(span.entry) == entry;
        self.own_lanes.clear();
        self.own_lanes.extend(self.lanes.iter().filter(is_own));
        self.own_regions.clear();
        self.own_regions.extend(self.regions.iter().filter(is_own));
        let launches = match step.parts {
            0 => &mut [],
            _ => &mut self.launches[step.from as usize..step.to as usize],
        };
        let launches = if step.parts < 2 {
            launches
        } else {
            self.own_launches.clear();
            self.own_launches.extend(launches.iter().filter(is_own));
            &mut self.own_launches
        };
        let spans = self.own_lanes.len() + self.own_regions.len() + launches.len();
        (spans <= MAX_STEP_SPANS).then_some(Laid {
            lanes: &mut self.own_lanes,
            launches,
            regions: &self.own_regions,
        })
    }
}

impl WaitingStep {
    /// Launches of it come next, at `at`.
    fn join(&mut self, at: u32) {
        if self.parts == 0 {
            self.from = at;
        }
        self.parts += u32::from(self.parts == 0 || self.to != at);
    }
}
