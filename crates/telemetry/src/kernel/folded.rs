// SPDX-License-Identifier: MIT OR Apache-2.0
//! What all folded steps came to: plain numbers, behind one lock that a pass
//! takes without waiting and a reader holds for a copy.

use super::MAX_LANES;
use super::estimates::{Estimates, StepSums};
use super::instruments::PLACES;
use super::records::ShapeSums;
use super::timeline::{Before, LaneFigures};
use crate::sums::sums;

sums! {
    /// What steps lost, and what estimates had to leave out.
    ///
    /// ```
    /// use metrale_telemetry::Telemetry;
    /// use metrale_telemetry::kernel::StepLosses;
    ///
    /// assert_eq!(Telemetry::new().step_losses(), StepLosses::default());
    /// ```
    pub struct StepLosses {
        /// Steps that lost a span: no samples, and their idle time is unknown.
        pub incomplete_steps: u64,
        /// Steps whose spans have no place in time, but none was lost: their sums
        /// count, their idle time is unknown.
        pub unplaced_steps: u64,
        /// Spans that began after their step was closed: in no step's sums.
        pub late_spans: u64,
        /// Steps in which kernels ran in a lane that had no span: what these took is
        /// in no estimate.
        pub unpaired_steps: u64,
        /// Launches of a kernel and lane that found 512 such pairs before them.
        pub rowless_spans: u64,
        /// Steps that left no record, as their place was in use: nobody harvests,
        /// or too seldom.
        pub unrecorded_steps: u64,
    }
}

sums! {
    /// Lane time of sampled steps that could not be laid out in time.
    ///
    /// ```
    /// # fn read(lane: &metrale_telemetry::snapshot::LaneSnapshot) {
    /// let known_ns = lane.figures.map_or(0, |figures| figures.time_ns);
    /// println!("{} ns known, {} ns not", known_ns, lane.incomplete.ns);
    /// # }
    /// # read(&metrale_telemetry::Telemetry::new().snapshot().lanes[0]);
    /// ```
    pub struct Incomplete {
        /// Steps that had the lane.
        pub steps: u64,
        /// GPU nanoseconds of the lane's spans.
        pub ns: u64,
    }
}

sums! {
    /// What the timelines say of a kernel's launches.
    ///
    /// ```
    /// use metrale_telemetry::kernel::RowFigures;
    ///
    /// let mut row = RowFigures::default();
    /// (row.busy_start_samples, row.busy_start_ns) = (50, 50 * 2_000);
    /// (row.idle_start_samples, row.idle_start_ns) = (40, 40 * 6_500);
    /// assert_eq!(row.latency_ns(), Some(40.0 * 4_500.0));
    /// ```
    pub struct RowFigures {
        /// Samples that began while their stream was busy: before them it stood
        /// empty for less than half of what an empty pair reads.
        pub busy_start_samples: u64,
        /// GPU nanoseconds of these.
        pub busy_start_ns: u64,
        /// Samples before which it stood empty for longer. These also read the
        /// latency of their launch. What is in neither is not known.
        pub idle_start_samples: u64,
        /// GPU nanoseconds of these.
        pub idle_start_ns: u64,
        /// Launches that their lane waited for.
        pub waits: u64,
        /// GPU nanoseconds that it waited.
        pub waited_ns: u64,
        /// Of a region: GPU nanoseconds under no launch and no region within it.
        pub own_ns: u64,
    }
}

impl Incomplete {
    pub(super) fn add(&mut self, steps: u64, ns: u64) {
        *self = self.plus(Self { steps, ns });
    }
}

impl RowFigures {
    /// What launch latency put on top of the kernel's work in all samples that
    /// found their stream idle, nanoseconds: by how much their mean is above
    /// that of the others; negative where it is below. `None` where either are fewer than
    /// [`ENOUGH_STEPS`](super::ENOUGH_STEPS).
    #[must_use]
    pub fn latency_ns(&self) -> Option<f64> {
        let enough = super::ENOUGH_STEPS;
        if self.busy_start_samples < enough || self.idle_start_samples < enough {
            return None;
        }
        let others = self.idle_start_samples as f64;
        let mean = self.idle_start_ns as f64 / others;
        let busy_mean = self.busy_start_ns as f64 / self.busy_start_samples as f64;
        Some((mean - busy_mean) * others)
    }

    #[inline]
    fn add_launch(&mut self, launch: &Before, busy: BusyGap) {
        if let (Some(gap_ns), BusyGap(Some(most_ns))) = (launch.gap_ns, busy) {
            if gap_ns <= most_ns {
                self.busy_start_samples += 1;
                self.busy_start_ns = self.busy_start_ns.saturating_add(launch.ns);
            } else {
                self.idle_start_samples += 1;
                self.idle_start_ns = self.idle_start_ns.saturating_add(launch.ns);
            }
        }
        if launch.waited_ns > 0 {
            self.waits += 1;
            self.waited_ns = self.waited_ns.saturating_add(launch.waited_ns);
        }
        self.own_ns = self.own_ns.saturating_add(launch.own_ns);
    }
}

/// The longest gap before a launch whose stream was busy, which is less than half
/// of what an empty pair reads; if that is known.
#[derive(Clone, Copy)]
pub(super) struct BusyGap(Option<i64>);

impl BusyGap {
    pub(super) fn of(floor_ns: Option<u64>) -> Self {
        // -1 where an empty pair reads 0.
        Self(floor_ns.map(|floor_ns| floor_ns.div_ceil(2).wrapping_sub(1) as i64))
    }
}

/// See the module.
#[derive(Clone)]
pub(super) struct Folded {
    pub(super) estimates: Estimates,
    pub(super) lanes: [LaneFigures; MAX_LANES],
    pub(super) incomplete: [Incomplete; MAX_LANES],
    pub(super) device: LaneFigures,
    pub(super) rows: [RowFigures; PLACES],
    pub(super) shapes: ShapeSums,
    incomplete_steps: u64,
    pub(super) unplaced_steps: u64,
    pub(super) late_spans: u64,
}

impl Folded {
    pub(super) const fn new() -> Self {
        Self {
            estimates: Estimates::new(),
            lanes: [LaneFigures::NONE; MAX_LANES],
            incomplete: [Incomplete::NONE; MAX_LANES],
            device: LaneFigures::NONE,
            rows: [RowFigures::NONE; PLACES],
            shapes: ShapeSums::new(),
            incomplete_steps: 0,
            unplaced_steps: 0,
            late_spans: 0,
        }
    }

    /// Adds a step whose launches were added before it.
    pub(super) fn add(&mut self, step: &StepSums<'_>) {
        self.estimates.add(step);
        match step.figures {
            Some(figures) => {
                let lanes = self.lanes.iter_mut().zip(figures.lanes);
                for (sum, lane) in lanes.take(step.lanes.len()) {
                    *sum = sum.plus(lane);
                }
                self.device = self.device.plus(figures.device);
            }
            None if step.is_armed => {
                for (sum, lane) in self.incomplete.iter_mut().zip(step.lanes) {
                    sum.add(u64::from(lane.spans > 0), lane.ns);
                }
            }
            None => {}
        }
        self.incomplete_steps += u64::from(step.is_lost);
    }

    /// Adds a launch of a step that is complete.
    #[inline]
    pub(super) fn add_launch(&mut self, launch: &Before, busy: BusyGap) {
        // `NO_ROW` is none of them.
        if let Some(row) = self.rows.get_mut(usize::from(launch.row)) {
            row.add_launch(launch, busy);
        }
    }

    pub(super) fn losses(&self) -> StepLosses {
        let (unpaired_steps, rowless_spans) = self.estimates.losses();
        StepLosses {
            incomplete_steps: self.incomplete_steps,
            unplaced_steps: self.unplaced_steps,
            late_spans: self.late_spans,
            unpaired_steps,
            rowless_spans,
            unrecorded_steps: 0,
        }
    }
}

#[cfg(all(test, not(metrale_loom)))]
mod tests;
