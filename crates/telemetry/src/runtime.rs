// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a recorder calls, and a server never does: how spans are put together
//! into steps, and how a recorder tells a telemetry what only it knows. Models
//! and benches reach the core through here as well.
//!
//! No part of the public interface: it changes with `metrale-gpu-runtime`.

pub use crate::graph::{
    ENOUGH_PLANS, GraphEdge, GraphEstimates, GraphShape, GraphTotal, Inside, LEAST_MARKS, Mark,
    MarkPlace, NodeRow, Plan, Planner, Point, Reading, ReadingError, Segment, ShapeError,
    TooFewMarksError, WINDOW_NODES,
};
pub use crate::instrument::buckets::{BUCKETS, bucket_index, bucket_upper_ns};
pub use crate::instrument::packed::PackedCells;
pub use crate::kernel::fold::{Fold, Folding, MAX_SPANS, MAX_STEP_SPANS};
pub use crate::kernel::records::{GraphPart, OPEN_STEPS, OpenStep, OpenSteps, TwinLaunch};
pub use crate::kernel::span::FIRST_REGION;
pub use crate::kernel::steps::{Anchor, Entered, FOLLOWED_STEPS, Standing, StepTable, Taking};
pub use crate::kernel::table::KernelTable;
pub use crate::rows::KernelName;
pub use crate::snapshot::recorders::RecorderSource;
pub use crate::sync::{unless_held, unpoisoned};

use crate::floor::Floor;
use crate::level::Level;
use crate::sampling::Sampling;
use crate::snapshot::OtherGpuError;
use crate::snapshot::graphs::total_of;
use crate::step::Step;
use crate::sync::Ordering;
use crate::telemetry::Telemetry;
use std::ops::Range;
use std::sync::{Arc, Weak};

#[doc(hidden)]
impl Telemetry {
    /// Takes in what a recorder knows, for snapshots. The first one settles
    /// which GPU this telemetry measures. A source that is gone is none.
    ///
    /// # Errors
    /// [`OtherGpuError`]; nothing is taken in.
    pub fn attach(&self, source: Weak<dyn RecorderSource>) -> Result<(), OtherGpuError> {
        self.instruments().take_log_memory();
        self.recorders.attach(source)
    }

    /// Adds what the marks of a twin's launch told to its step's timeline.
    pub fn add_parts(&self, launch: TwinLaunch, parts: impl Iterator<Item = GraphPart>) {
        self.instruments().add_parts(launch, parts);
    }

    /// Whether a recorder of that GPU can be attached now.
    ///
    /// # Errors
    /// [`OtherGpuError`].
    pub fn admits(&self, gpu: &str) -> Result<(), OtherGpuError> {
        self.recorders.admits(gpu)
    }

    /// Keeps what a recorder knew, because it is closed; `source` is the one
    /// that was attached.
    pub fn detach(&self, source: &Arc<dyn RecorderSource>) {
        let rows = self.instruments().kernels().into_iter();
        let config = self.config();
        let folded = self.instruments().copy_folded();
        let estimates = folded.kernel_estimates(config.sampling, config.every);
        let total_of = |row| total_of(&estimates, row);
        self.recorders.detach(source, rows.map(|row| row.func), &total_of);
    }

    /// Gives rows their series, at most once a second. For whoever harvests
    /// and knows the names of rows; `label_of` makes a label from a name.
    pub fn promote_kernels(
        &self,
        name_of: impl Fn(u64) -> Option<KernelName>,
        label_of: impl Fn(&str) -> String,
    ) {
        self.exposed.promote(|| self.now_ns(), self.instruments(), name_of, label_of);
    }

    /// Whether launches are sampled one by one now ([`Sampling::Spread`]).
    #[must_use]
    #[inline]
    pub fn spreads(&self) -> bool {
        self.level() == Level::Kernel && self.sampling() == Sampling::Spread
    }

    /// Numbers the next launch, and says whether it is the one of its block to
    /// be timed. For launches while [`spreads`](Self::spreads); one
    /// read-modify-write.
    pub fn sample_launch(&self) -> bool {
        let number = self.launch_numbers.fetch_add(1, Ordering::Relaxed);
        let config = self.config();
        config.sampling.samples(number, config.every, config.seed)
    }

    /// Counts a launch that was chosen to be timed, by its step or by itself.
    pub fn count_sampled_launch(&self) {
        self.sampled_launches.fetch_add(1, Ordering::Relaxed);
    }

    /// The last track that was given to a step ([`Step::track`](crate::Step::track)).
    #[must_use]
    #[inline]
    pub fn newest_track(&self) -> u32 {
        self.tracks.load(Ordering::Relaxed).wrapping_sub(1) as u32
    }

    /// The step is over on the host: once the spans of its lanes are, it leaves
    /// its record. `wall` is from its begin to its end by the telemetry's clock,
    /// where that was measured. A step that nobody closes is closed when 64
    /// later ones were begun.
    pub fn close_step(&self, step: Step, wall: Option<Range<u64>>) {
        if let Some(number) = step.number() {
            self.instruments().open_steps.close(number, wall);
        }
    }

    /// Counts a lane's span of the step that is about to begin: its record waits
    /// for it.
    pub fn enter_lane(&self, step: Step) {
        if let Some(number) = step.number() {
            self.instruments().open_steps.enter(number);
        }
    }

    /// A lane's span of step `number` that was counted comes to nothing: it
    /// could not begin or end (`lost`: the record is incomplete), or was
    /// cancelled. What a pass finds of it the fold knows by itself.
    pub fn leave_lane(&self, number: u64, lost: bool) {
        self.instruments().open_steps.leave(number, lost);
    }

    /// A twin was launched in the step.
    pub fn mark_step(&self, step: Step) {
        if let Some(number) = step.number() {
            self.instruments().open_steps.mark(number);
        }
    }

    /// Notes what measuring costs here.
    pub fn set_floor(&self, floor: Floor) {
        self.floor.set(floor);
    }
}
