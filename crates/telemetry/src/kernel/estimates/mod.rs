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
//! 4. An error holds whatever was lost, or there is none: of a lane whose spans
//!    are all there, the errors know how much time the lost and the left out
//!    can have had; of a launch that was lost in a step without a span of its lane
//!    nobody knows.

mod statistics;

pub(crate) use statistics::ratio;
pub use statistics::{ENOUGH_STEPS, Estimate, StandardError};

use super::MAX_LANES;
use super::instruments::PLACES;
use super::timeline::{Figures, NO_ROW};
use crate::sampling::Sampling;
use serde::{Deserialize, Serialize};

/// Pairs of kernel and lane that have sums.
const ROWS: usize = if cfg!(metrale_loom) { 2 } else { 512 };

/// What a lane took in the window, and how much of it kernels covered.
///
/// ```
/// use metrale_telemetry::Telemetry;
/// use metrale_telemetry::kernel::LANE_DECODE;
///
/// let lane = Telemetry::new().lane_estimate(LANE_DECODE);
/// assert_eq!((lane.total_ns, lane.steps), (0, 0));
/// assert!(lane.covered.is_none(), "no step was sampled yet");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct LaneEstimate {
    /// GPU nanoseconds of the lane's spans, on every step: measured.
    pub total_ns: u64,
    /// Of these, what nobody took samples of: estimates of kernels are of the
    /// rest. In a merge it is the time of processes that took none.
    pub unsampled_ns: u64,
    /// Spans of the lane that have no time: the total misses theirs, and nobody
    /// knows how much. While there are any, no estimate here has an error.
    pub lost_spans: u64,
    /// Sampled steps that lost a span of the lane or of its kernels: no samples.
    pub lost_steps: u64,
    /// Timed launches that are in no kernel's estimate.
    pub left_out: u64,
    /// Steps that had the lane.
    pub steps: u64,
    /// Armed ones among them that lost no span.
    pub armed_steps: u64,
    /// GPU nanoseconds of the lane's spans on these.
    pub armed_ns: u64,
    /// Time in which a launch of the lane ran: its share is the lane's
    /// coverage. `None` before a sampled step of the lane could be laid out in
    /// time, under [`Sampling::Spread`], and where a part of a merge has none.
    pub covered: Option<Estimate>,
}

/// A kernel's estimate in one lane.
///
/// ```
/// use metrale_telemetry::Telemetry;
/// use metrale_telemetry::kernel::{KernelEstimate, LANES};
///
/// for KernelEstimate { func, lane, estimate, .. } in Telemetry::new().kernel_estimates() {
///     println!("{func:#x} in {}: {} ns", LANES[lane], estimate.total_ns);
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
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
pub(crate) struct KernelSums {
    /// Steps that had the kernel.
    pub(crate) steps: u64,
    pub(crate) sum_ns: u64,
    pub(crate) squares: f64,
    pub(crate) products: f64,
}

impl KernelSums {
    pub(crate) const NONE: Self = Self { steps: 0, sum_ns: 0, squares: 0.0, products: 0.0 };

    pub(crate) fn add(&mut self, ns: u64, lane_ns: u64) {
        self.steps += 1;
        self.sum_ns = self.sum_ns.saturating_add(ns);
        self.squares += (ns as f64).powi(2);
        self.products += ns as f64 * lane_ns as f64;
    }
}

/// Sums over sampled steps of a lane's time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct LaneSums {
    pub(crate) steps: u64,
    pub(crate) ns: u64,
    pub(crate) squares: f64,
}

impl LaneSums {
    pub(crate) const NONE: Self = Self { steps: 0, ns: 0, squares: 0.0 };

    pub(crate) fn add(&mut self, ns: u64) {
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
    /// Launches were timed on some step, all of them or one in N.
    is_sampled: bool,
    /// Steps that were laid out in time.
    placed: LaneSums,
    covered: KernelSums,
    /// Sampled steps that lost a span, and the lane's time on them.
    incomplete: u64,
    incomplete_ns: u64,
    /// Such steps that lost a launch of the lane and have no span of it: nothing
    /// bounds what the launch took.
    unbounded: u64,
    /// Timed launches that are in no row's sums, and their time.
    left_out: u64,
    left_out_ns: u64,
    /// Spans that had no time before the window began, and now.
    lost_before: u64,
    lost: u64,
}

impl Lane {
    const NONE: Self = Self {
        total_ns: 0,
        steps: 0,
        sampled: LaneSums::NONE,
        is_sampled: false,
        placed: LaneSums::NONE,
        covered: KernelSums::NONE,
        incomplete: 0,
        incomplete_ns: 0,
        unbounded: 0,
        left_out: 0,
        left_out_ns: 0,
        lost_before: 0,
        lost: 0,
    };

    fn leave_out(&mut self, launches: u64, ns: u64) {
        self.left_out += launches;
        self.left_out_ns = self.left_out_ns.saturating_add(ns);
    }

    fn lost_spans(&self) -> u64 {
        self.lost.saturating_sub(self.lost_before)
    }
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
    /// Lanes of spans that were lost, a bit each, as far as they are known.
    pub(super) lost_lanes: u32,
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
        Self {
            window: 0,
            lanes: [Lane::NONE; MAX_LANES],
            index: [[0; MAX_LANES]; PLACES],
            rows: [KernelSums::NONE; ROWS],
            used: 0,
            unpaired: 0,
            rowless: 0,
        }
    }

    /// Begins a window at step `step`, before which each lane lost so many spans;
    /// rows keep their kernels.
    pub(super) fn restart(&mut self, step: u64, lane_lost: [u64; MAX_LANES]) {
        let (unpaired, rowless) = (self.unpaired, self.rowless);
        *self = Self {
            index: self.index,
            used: self.used,
            window: step,
            unpaired,
            rowless,
            ..Self::new()
        };
        for (lane, lost) in self.lanes.iter_mut().zip(lane_lost) {
            lane.lost_before = lost;
        }
    }

    /// Takes in how many spans each lane lost so far.
    pub(super) fn set_lane_lost(&mut self, lane_lost: [u64; MAX_LANES]) {
        for (lane, lost) in self.lanes.iter_mut().zip(lane_lost) {
            lane.lost = lost;
        }
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

    /// Notes launches that were timed and are of no step that is added.
    pub(super) fn leave_out(&mut self, lane: usize, launches: u64, ns: u64) {
        if let Some(lane) = self.lanes.get_mut(lane) {
            lane.leave_out(launches, ns);
        }
    }

    /// Adds a step.
    pub(super) fn add(&mut self, step: &StepSums<'_>) {
        if step.number < self.window {
            return;
        }
        for (lane, (sums, part)) in self.lanes.iter_mut().zip(step.lanes).enumerate() {
            if part.spans == 0 {
                let lost_alone = u64::from(step.lost_lanes >> lane & 1);
                sums.incomplete += lost_alone;
                sums.unbounded += lost_alone;
                continue;
            }
            sums.steps += 1;
            sums.total_ns = sums.total_ns.saturating_add(part.ns);
            if step.is_lost {
                sums.incomplete += 1;
                sums.incomplete_ns = sums.incomplete_ns.saturating_add(part.ns);
                continue;
            }
            sums.is_sampled |= part.ns > 0;
            if step.is_armed {
                sums.sampled.add(part.ns);
            }
            if let Some(figures) = step.figures {
                let figures = &figures.lanes[lane];
                sums.placed.add(figures.time_ns);
                sums.covered.add(figures.busy_ns, figures.time_ns);
            }
        }
        let mut is_unpaired = false;
        for row in step.rows {
            // Of launches in no lane there are raw sums only.
            let Some(part) = step.lanes.get(usize::from(row.lane)) else {
                continue;
            };
            is_unpaired |= part.spans == 0;
            // Those of a step that lost a span are part of its lanes' time above.
            if part.spans == 0 || !step.is_lost {
                self.add_row(row, part);
            }
        }
        self.unpaired += u64::from(is_unpaired && !step.is_lost);
    }

    fn add_row(&mut self, row: &RowOfStep, part: &LaneOfStep) {
        if part.spans > 0 {
            if let Some(sums) = self.row_for(row) {
                sums.add(row.ns, part.ns);
                return;
            }
            self.rowless += u64::from(row.launches);
        }
        self.leave_out(usize::from(row.lane), u64::from(row.launches), row.ns);
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
            unsampled_ns: if lane.is_sampled { 0 } else { lane.total_ns },
            lost_spans: lane.lost_spans(),
            lost_steps: lane.incomplete,
            left_out: lane.left_out,
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
            let (row, sums) =
                (self.rows.get(usize::from(index).checked_sub(1)?)?, &self.lanes[lane]);
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
                Some(KernelEstimate { func, lane, estimate })
            })
        };
        (0..MAX_LANES).flat_map(of_lane).collect()
    }

    /// Steps with rows of a lane that had no span, and launches without a row.
    pub(super) fn losses(&self) -> (u64, u64) {
        (self.unpaired, self.rowless)
    }
}
