// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a serving thread says of its step, and the records that steps leave.

use crate::kernel::{
    RecentSteps, Recording, ShapeTimes, SlowMinute, SlowStep, StepCursor, StepRecord, StepShape,
    Timeline, TooManyStepsError,
};
use crate::level::Level;
use crate::snapshot::KernelName;
use crate::step::Step;
use crate::telemetry::Telemetry;

impl Telemetry {
    /// States what a step is made of; the last statement before its close
    /// counts. Two exchanges of one word, no lock. Nothing at level `Off`, and
    /// for a step that leaves no record.
    pub fn shape(&self, step: Step, shape: StepShape) {
        if self.level() == Level::Off {
            return;
        }
        if let Some(number) = step.number() {
            self.instruments().open_steps.shape(number, shape);
        }
    }

    /// A lane's GPU time by how many tokens it worked on in a step: buckets of
    /// steps that stated a shape. It allocates.
    #[must_use]
    pub fn shape_times(&self, lane: usize) -> Vec<ShapeTimes> {
        self.instruments().copy_folded().shapes(lane)
    }

    /// The records of the last 1,024 steps, in the order in which they were
    /// over, and how many were overwritten before any call of this. It
    /// allocates; serving threads never wait for it.
    #[must_use]
    pub fn recent_steps(&self) -> RecentSteps {
        self.instruments().recent_steps(true)
    }

    /// The next record for a reader with a place of its own, the oldest one that
    /// is there if it fell behind; `None`: there is none yet. It allocates
    /// nothing.
    #[must_use]
    pub fn next_record(&self, cursor: &mut StepCursor) -> Option<StepRecord> {
        self.instruments().next_record(cursor)
    }

    /// The slowest 32 steps of each of the last ten minutes, the present one
    /// first, by the telemetry's clock. It allocates.
    #[must_use]
    pub fn slowest_steps(&self) -> Vec<SlowMinute> {
        self.instruments().slowest_steps(self.now_ns())
    }

    /// The timelines of the last 4 armed steps that were complete, the oldest
    /// first. It allocates; a pass that comes meanwhile keeps none.
    #[must_use]
    pub fn timelines(&self) -> Vec<Timeline> {
        self.instruments().timelines()
    }

    /// Records the timelines of the next `steps` complete armed steps, in place
    /// of what was recorded before; 0 ends that. Memory for as many steps as
    /// large as they may be is taken here, half a mebibyte each, and kept until
    /// the next call. Under [`Sampling::Spread`](crate::Sampling::Spread) no
    /// step is armed, and none recorded.
    ///
    /// # Errors
    /// [`TooManyStepsError`]; nothing changes then.
    ///
    /// ```
    /// # fn main() -> Result<(), metrale_telemetry::kernel::TooManyStepsError> {
    /// use metrale_telemetry::global;
    ///
    /// global().record_steps(16)?;
    /// // ... as the server goes on:
    /// if let Some(recording) = global().recording() {
    ///     println!("{} of {} steps", recording.timelines.len(), recording.steps);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn record_steps(&self, steps: usize) -> Result<(), TooManyStepsError> {
        self.instruments().record_steps(steps, None)
    }

    /// As [`record_steps`](Self::record_steps), but the recording begins after a
    /// step that is slow, and anew after the next such step a minute later, by
    /// the ends of steps: until then what was recorded stays. Passes look at the
    /// records that steps leave; serving threads do nothing for it.
    ///
    /// # Errors
    /// [`TooManyStepsError`]; nothing changes then.
    ///
    /// ```
    /// # fn main() -> Result<(), metrale_telemetry::kernel::TooManyStepsError> {
    /// use metrale_telemetry::global;
    /// use metrale_telemetry::kernel::{LANE_DECODE, SlowStep};
    ///
    /// global().record_when(SlowStep::LongerThanP99 { lane: LANE_DECODE }, 4)?;
    /// // ... as the server goes on:
    /// if let Some(slow) = global().recording().and_then(|recording| recording.slow) {
    ///     println!("step {} took {} ns", slow.number, slow.gpu_ns());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn record_when(&self, slow: SlowStep, steps: usize) -> Result<(), TooManyStepsError> {
        self.instruments().record_steps(steps, Some(slow))
    }

    /// What was recorded so far, if that was asked for. It allocates; a pass that
    /// comes meanwhile keeps no timeline.
    #[must_use]
    pub fn recording(&self) -> Option<Recording> {
        self.instruments().recording()
    }

    /// The name of a row ([`TimelineSpan::func`](crate::kernel::TimelineSpan)),
    /// if a recorder knows one, alive or closed. It takes a lock that no serving
    /// thread takes but to name a row.
    #[must_use]
    pub fn row_name(&self, func: u64) -> Option<KernelName> {
        self.recorders.read().name(func)
    }
}
