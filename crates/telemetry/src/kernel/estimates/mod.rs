// SPDX-License-Identifier: MIT OR Apache-2.0
//! What kernels took on all steps, estimated from those that were sampled.
//!
//! Lanes are timed on every step, kernels on sampled ones. Plain sums over steps
//! are kept: for each kernel in each lane, for the covered time of a lane, and
//! for the lane itself.
//!
//! 1. A step is added once, when it is folded, with all of its sums.
//! 2. Estimates are of one *window*: it begins when the sampling changes, and
//!    nothing from before it is mixed in.
//! 3. A step that lost a span is no sample. It is counted, and its lanes' time
//!    is part of the whole that the samples stand for.

mod statistics;

pub use statistics::{ENOUGH_STEPS, Estimate, StandardError};

use super::MAX_LANES;
use super::instruments::PLACES;
use super::timeline::{Figures, NO_ROW};
use crate::sampling::Sampling;
use serde::{Deserialize, Serialize};

/// Pairs of kernel and lane that have sums.
const ROWS: usize = if cfg!(metrale_loom) { 2 } else { 512 };

/// What a lane took in the window, and how much of it kernels covered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LaneEstimate {
    /// GPU nanoseconds of the lane's spans, on every step: measured.
    pub total_ns: u64,
    /// Steps that had the lane.
    pub steps: u64,
    /// Armed ones among them that lost no span.
    pub armed_steps: u64,
    /// GPU nanoseconds of the lane's spans on these.
    pub armed_ns: u64,
    /// Time in which a launch of the lane ran: its share is the lane's
    /// coverage. `None` before a sampled step of the lane could be laid out in
    /// time, and under [`Sampling::Spread`].
    pub covered: Option<Estimate>,
}

/// A kernel's estimate in one lane.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KernelEstimate {
    /// The row, as [`KernelTime::func`](super::KernelTime).
    pub func: u64,
    /// The lane that its launch guards were made from.
    pub lane: usize,
    /// What it took there.
    pub estimate: Estimate,
}

/// Sums over sampled steps of a kernel's time x and its lane's time y.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct KernelSums {
    /// Steps that had the kernel.
    steps: u64,
    sum_ns: u64,
    squares: f64,
    products: f64,
}

impl KernelSums {
    const NONE: Self = Self {
        steps: 0,
        sum_ns: 0,
        squares: 0.0,
        products: 0.0,
    };

    fn add(&mut self, ns: u64, lane_ns: u64) {
        self.steps += 1;
        self.sum_ns = self.sum_ns.saturating_add(ns);
        self.squares += (ns as f64).powi(2);
        self.products += ns as f64 * lane_ns as f64;
    }
}

/// Sums over sampled steps of a lane's time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct LaneSums {
    steps: u64,
    ns: u64,
    squares: f64,
}

impl LaneSums {
    const NONE: Self = Self {
        steps: 0,
        ns: 0,
        squares: 0.0,
    };

    fn add(&mut self, ns: u64) {
        self.steps += 1;
        self.ns = self.ns.saturating_add(ns);
        self.squares += (ns as f64).powi(2);
    }
}

#[derive(Clone, Copy)]
struct Lane {
    /// On every step.
    total_ns: u64,
    steps: u64,
    sampled: LaneSums,
    /// Steps that were laid out in time.
    placed: LaneSums,
    covered: KernelSums,
    incomplete: u64,
}

/// A lane's part of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LaneOfStep {
    pub(super) spans: u32,
    pub(super) ns: u64,
}

/// A kernel's part of a step, or of it so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RowOfStep {
    pub(super) lane: u8,
    pub(super) entry: u8,
    pub(super) row: u16,
    pub(super) launches: u32,
    pub(super) ns: u64,
}

/// What is known of a step when it is folded.
pub(super) struct StepSums<'a> {
    pub(super) number: u64,
    /// One of each lane that there is.
    pub(super) lanes: &'a [LaneOfStep],
    /// At most one of each row and lane.
    pub(super) rows: &'a [RowOfStep],
    pub(super) figures: Option<&'a Figures>,
    /// All of its launches were timed: its time is laid out, or counted as not.
    pub(super) is_armed: bool,
    pub(super) is_lost: bool,
}

/// See the module.
#[derive(Clone)]
pub(super) struct Estimates {
    /// The first step of the window.
    window: u64,
    lanes: [Lane; MAX_LANES],
    /// Row of a place in each lane, plus 1; 0: none yet.
    index: [[u16; MAX_LANES]; PLACES],
    rows: [KernelSums; ROWS],
    used: u16,
    unpaired: u64,
    rowless: u64,
}

impl Estimates {
    pub(super) const fn new() -> Self {
        let lane = Lane {
            total_ns: 0,
            steps: 0,
            sampled: LaneSums::NONE,
            placed: LaneSums::NONE,
            covered: KernelSums::NONE,
            incomplete: 0,
        };
        Self {
            window: 0,
            lanes: [lane; MAX_LANES],
            index: [[0; MAX_LANES]; PLACES],
            rows: [KernelSums::NONE; ROWS],
            used: 0,
            unpaired: 0,
            rowless: 0,
        }
    }

    /// Begins a window at step `step`; rows keep their kernels.
    pub(super) fn restart(&mut self, step: u64) {
        let (unpaired, rowless) = (self.unpaired, self.rowless);
        *self = Self {
            index: self.index,
            used: self.used,
            window: step,
            unpaired,
            rowless,
            ..Self::new()
        };
    }

    pub(super) fn window(&self) -> u64 {
        self.window
    }

    /// Adds lane time of steps that are no samples.
    pub(super) fn add_unsampled(&mut self, lane: usize, steps: u64, ns: u64) {
        if let Some(lane) = self.lanes.get_mut(lane) {
            lane.steps += steps;
            lane.total_ns = lane.total_ns.saturating_add(ns);
        }
    }

    /// Adds a step.
    pub(super) fn add(&mut self, step: &StepSums<'_>) {
        if step.number < self.window {
            return;
        }
        for (lane, (sums, part)) in self.lanes.iter_mut().zip(step.lanes).enumerate() {
            if part.spans == 0 {
                continue;
            }
            sums.steps += 1;
            sums.total_ns = sums.total_ns.saturating_add(part.ns);
            if step.is_lost {
                sums.incomplete += 1;
                continue;
            }
            if step.is_armed {
                sums.sampled.add(part.ns);
            }
            if let Some(figures) = step.figures {
                let figures = &figures.lanes[lane];
                sums.placed.add(figures.time_ns);
                sums.covered.add(figures.busy_ns, figures.time_ns);
            }
        }
        if !step.is_lost {
            let mut is_unpaired = false;
            for row in step.rows {
                // Of launches in no lane there are raw sums only.
                if let Some(part) = step.lanes.get(usize::from(row.lane)) {
                    is_unpaired |= part.spans == 0;
                    self.add_row(row, part);
                }
            }
            self.unpaired += u64::from(is_unpaired);
        }
    }

    fn add_row(&mut self, row: &RowOfStep, part: &LaneOfStep) {
        if part.spans == 0 {
            return;
        }
        match self.row_for(row) {
            Some(sums) => sums.add(row.ns, part.ns),
            None => self.rowless += u64::from(row.launches),
        }
    }

    /// The sums of a row in a lane, which it gets now if it has none yet and
    /// there is room.
    fn row_for(&mut self, row: &RowOfStep) -> Option<&mut KernelSums> {
        if row.row == NO_ROW {
            return None;
        }
        let index = self.index.get_mut(usize::from(row.row))?;
        let index = index.get_mut(usize::from(row.lane))?;
        if *index == 0 && usize::from(self.used) < ROWS {
            self.used += 1;
            *index = self.used;
        }
        self.rows.get_mut(usize::from(*index).checked_sub(1)?)
    }

    /// What a lane took. A lane outside the lanes took nothing.
    pub(super) fn lane(&self, lane: usize) -> LaneEstimate {
        let Some(lane) = self.lanes.get(lane) else {
            return LaneEstimate::default();
        };
        LaneEstimate {
            total_ns: lane.total_ns,
            steps: lane.steps,
            armed_steps: lane.sampled.steps,
            armed_ns: lane.sampled.ns,
            covered: statistics::of_armed(&lane.covered, &lane.placed, lane),
        }
    }

    /// What each kernel took in each lane, for the kernels at `places` as pairs
    /// of place and handle.
    pub(super) fn kernels(
        &self,
        sampling: Sampling,
        every: u64,
        places: &[(usize, u64)],
    ) -> Vec<KernelEstimate> {
        let one = |lane: usize, place: usize| {
            let index = *self.index.get(place)?.get(lane)?;
            let (row, sums) = (
                self.rows.get(usize::from(index).checked_sub(1)?)?,
                &self.lanes[lane],
            );
            let estimate = if sampling == Sampling::Spread {
                statistics::of_spread(row, sums, every)
            } else {
                statistics::of_armed(row, &sums.sampled, sums)
            };
            estimate.filter(|estimate| estimate.steps > 0)
        };
        let of_lane = |lane: usize| {
            places.iter().filter_map(move |&(place, func)| {
                let estimate = one(lane, place)?;
                Some(KernelEstimate {
                    func,
                    lane,
                    estimate,
                })
            })
        };
        (0..MAX_LANES).flat_map(of_lane).collect()
    }

    /// Steps with rows of a lane that had no span, and launches without a row.
    pub(super) fn losses(&self) -> (u64, u64) {
        (self.unpaired, self.rowless)
    }
}
