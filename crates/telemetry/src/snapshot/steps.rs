// SPDX-License-Identifier: MIT OR Apache-2.0
//! The slowest steps in a snapshot.

use crate::kernel::{LaneRecord, SLOWEST_STEPS, StepRecord, StepShape};
use crate::telemetry::Telemetry;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;

/// A step that was slow.
///
/// ```
/// # fn read(snapshot: &metrale_telemetry::Snapshot) {
/// for step in &snapshot.slowest_steps {
///     println!("step {}: {} ns of GPU time, {:?}", step.number, step.gpu_ns, step.shape);
/// }
/// # }
/// # read(&metrale_telemetry::Telemetry::new().snapshot());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct StepSnapshot {
    /// GPU nanoseconds of all its lanes.
    pub gpu_ns: u64,
    /// How many steps came before it in its process.
    pub number: u64,
    /// Its launches were timed too.
    pub armed: bool,
    /// A twin ran in it: what its marks took of the GPU is in the lanes' time.
    pub marked: bool,
    /// A lane's span was lost or came late: the lanes took more than is told.
    pub incomplete: bool,
    /// What it was made of; null where that was not stated.
    pub shape: Option<StepShape>,
    /// Host nanoseconds from its begin to its end; null where not measured.
    pub wall_ns: Option<u64>,
    /// Nanoseconds from its end to the snapshot; null where not known.
    pub age_ns: Option<u64>,
    /// The lanes that it had.
    pub lanes: Vec<StepLane>,
}

/// A lane of such a step.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct StepLane {
    /// Its name.
    pub lane: String,
    /// GPU nanoseconds of its spans.
    pub gpu_ns: u64,
    /// GPU nanoseconds of the gaps before them; null where one is not known.
    pub gap_ns: Option<u64>,
}

impl Telemetry {
    /// The slowest of the last ten minutes, the slowest first.
    pub(super) fn slowest_of_all(&self) -> Vec<StepSnapshot> {
        let now_ns = self.now_ns();
        let minutes = self.instruments().slowest_steps(now_ns).into_iter();
        let steps = minutes.flat_map(|minute| minute.steps);
        let mut steps = steps.map(|step| self.step(&step, now_ns)).collect();
        keep_slowest(&mut steps);
        steps
    }

    fn step(&self, step: &StepRecord, now_ns: u64) -> StepSnapshot {
        let lanes = step.lanes.iter().enumerate();
        let lanes = lanes.filter(|(_, lane)| lane.spans > 0);
        let known = |lane: &LaneRecord| (lane.gaps == lane.spans).then_some(lane.gap_ns);
        let of = |(index, lane): (usize, &LaneRecord)| {
            Some(StepLane {
                lane: self.lane_name(index)?.to_owned(),
                gpu_ns: lane.gpu_ns,
                gap_ns: known(lane),
            })
        };
        StepSnapshot {
            gpu_ns: step.gpu_ns(),
            number: step.number,
            armed: step.armed,
            marked: step.marked,
            incomplete: step.incomplete,
            shape: step.shape,
            wall_ns: step.wall_ns,
            age_ns: step.ended_ns.map(|ended_ns| now_ns.saturating_sub(ended_ns)),
            lanes: lanes.filter_map(of).collect(),
        }
    }
}

/// Keeps the slowest, in an order that does not depend on the one given.
pub(super) fn keep_slowest(steps: &mut Vec<StepSnapshot>) {
    steps.sort_by(|a, b| (a.marked, Reverse(a.gpu_ns), a).cmp(&(b.marked, Reverse(b.gpu_ns), b)));
    steps.truncate(SLOWEST_STEPS);
}
