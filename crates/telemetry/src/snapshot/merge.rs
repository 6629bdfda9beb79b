// SPDX-License-Identifier: MIT OR Apache-2.0
//! Snapshots of several processes or devices as one.
//!
//! Counters, histograms and ledgers add up without loss. Estimates are of
//! separate samples: totals add up, their errors by their squares.

use super::{KernelLane, KernelSnapshot, LaneSnapshot, Snapshot};
use crate::floor::Floor;
use crate::kernel::{Estimate, LaneEstimate, LaneFigures, StandardError};

/// Snapshots that cannot be merged; nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MergeError {
    /// They have different shapes.
    #[error(
        "a snapshot of version {theirs} cannot be merged into one of version {ours}; take both with the same version"
    )]
    Version {
        /// The version of the one that was to take the other in.
        ours: u32,
        /// The version of the other.
        theirs: u32,
    },
}

/// How the errors of two estimates add up.
#[derive(Clone, Copy)]
enum Errors {
    /// Their chances are the same ones: the steps of one process.
    Shared,
    /// Their chances are separate.
    Separate,
}

impl Snapshot {
    /// Adds what `other` holds: another process, or another device.
    ///
    /// # Errors
    /// [`MergeError`], where the two are of different versions.
    pub fn merge(&mut self, other: &Self) -> Result<(), MergeError> {
        if self.version != other.version {
            return Err(MergeError::Version {
                ours: self.version,
                theirs: other.version,
            });
        }
        self.sources += other.sources;
        self.labels
            .retain(|label, value| other.labels.get(label) == Some(value));
        self.start_unix_ns = self.start_unix_ns.max(other.start_unix_ns);
        if self.config != other.config {
            self.config = None;
        }
        self.steps += other.steps;
        self.armed_steps += other.armed_steps;
        self.sampled_launches += other.sampled_launches;
        self.host.step_wall.merge(&other.host.step_wall);
        self.host.launches += other.host.launches;
        self.host.graph_launches += other.host.graph_launches;
        for theirs in &other.lanes {
            match self.lanes.iter_mut().find(|ours| ours.lane == theirs.lane) {
                Some(ours) => ours.merge(theirs),
                None => self.lanes.push(theirs.clone()),
            }
        }
        self.device = figures(self.device, other.device);
        self.lane_gap_unknown += other.lane_gap_unknown;
        for theirs in &other.kernels {
            let same =
                |ours: &&mut KernelSnapshot| (&ours.name, ours.kind) == (&theirs.name, theirs.kind);
            match self.kernels.iter_mut().find(same) {
                Some(ours) => ours.add(theirs, Errors::Separate),
                None => self.kernels.push(theirs.clone()),
            }
        }
        for kernel in &mut self.kernels {
            kernel.share_of(&self.lanes);
        }
        for theirs in &other.kernel_series {
            let mut ours = self.kernel_series.iter_mut();
            match ours.find(|ours| ours.label == theirs.label) {
                Some(ours) => {
                    ours.total_ns += theirs.total_ns;
                    ours.samples += theirs.samples;
                }
                None => self.kernel_series.push(theirs.clone()),
            }
        }
        self.losses = self.losses.plus(other.losses);
        self.table_full += other.table_full;
        self.spans_dropped += other.spans_dropped;
        self.span_failures += other.span_failures;
        self.floor = largest(self.floor, other.floor);
        self.recorders.extend(other.recorders.iter().cloned());
        self.sort();
        Ok(())
    }
}

/// Figures of those of which they are known.
fn figures(ours: Option<LaneFigures>, theirs: Option<LaneFigures>) -> Option<LaneFigures> {
    match (ours, theirs) {
        (Some(ours), Some(theirs)) => Some(ours.plus(theirs)),
        (ours, theirs) => ours.or(theirs),
    }
}

fn largest(ours: Floor, theirs: Floor) -> Floor {
    Floor {
        pair_ns: ours.pair_ns.max(theirs.pair_ns),
        begin_ns: ours.begin_ns.max(theirs.begin_ns),
        end_ns: ours.end_ns.max(theirs.end_ns),
        harvest_ns: ours.harvest_ns.max(theirs.harvest_ns),
        poll_ns: ours.poll_ns.max(theirs.poll_ns),
    }
}

impl LaneSnapshot {
    fn merge(&mut self, other: &Self) {
        self.gpu.merge(&other.gpu);
        self.gap.merge(&other.gap);
        self.wall.merge(&other.wall);
        self.figures = figures(self.figures, other.figures);
        self.incomplete = self.incomplete.plus(other.incomplete);
        let (ours, theirs) = (self.estimate, other.estimate);
        let total_ns = ours.total_ns + theirs.total_ns;
        self.estimate = LaneEstimate {
            total_ns,
            steps: ours.steps + theirs.steps,
            armed_steps: ours.armed_steps + theirs.armed_steps,
            armed_ns: ours.armed_ns + theirs.armed_ns,
            covered: match (ours.covered, theirs.covered) {
                (Some(ours), Some(theirs)) => {
                    Some(add(ours, theirs, Errors::Separate).of_lane(total_ns))
                }
                // The lane of the other was not sampled: what it was covered by
                // is not known, nor then what both were.
                (one, other) if ours.total_ns == 0 || theirs.total_ns == 0 => one.or(other),
                _ => None,
            },
        };
    }
}

impl KernelSnapshot {
    /// Adds what was timed under another handle of the same name.
    pub(super) fn join(&mut self, other: &Self) {
        self.add(other, Errors::Shared);
    }

    fn add(&mut self, other: &Self, errors: Errors) {
        if self.series.is_none() {
            self.series.clone_from(&other.series);
        }
        self.total_ns += other.total_ns;
        self.samples += other.samples;
        self.figures = self.figures.plus(other.figures);
        for theirs in &other.lanes {
            match self.lanes.iter_mut().find(|ours| ours.lane == theirs.lane) {
                Some(ours) => ours.estimate = add(ours.estimate, theirs.estimate, errors),
                None => self.lanes.push(theirs.clone()),
            }
        }
    }

    fn share_of(&mut self, lanes: &[LaneSnapshot]) {
        for KernelLane { lane, estimate } in &mut self.lanes {
            if let Some(lane) = lanes.iter().find(|it| it.lane == *lane) {
                *estimate = estimate.of_lane(lane.estimate.total_ns);
            }
        }
    }
}

/// Two estimates as one; its share is of the same lane time where the chances
/// are shared, and to be taken anew where not.
fn add(ours: Estimate, theirs: Estimate, errors: Errors) -> Estimate {
    let sum = |a: f64, b: f64| match errors {
        Errors::Shared => a + b,
        Errors::Separate => a.hypot(b),
    };
    Estimate {
        steps: match errors {
            Errors::Shared => ours.steps.max(theirs.steps),
            Errors::Separate => ours.steps + theirs.steps,
        },
        total_ns: ours.total_ns + theirs.total_ns,
        share: ours.share + theirs.share,
        error: ours.error.zip(theirs.error).map(|(a, b)| StandardError {
            total_ns: sum(a.total_ns, b.total_ns),
            share: sum(a.share, b.share),
        }),
    }
}

impl Estimate {
    /// Together with another of the same steps and lane.
    #[cfg(feature = "prometheus")]
    pub(crate) fn of_same_steps(self, other: Self) -> Self {
        add(self, other, Errors::Shared)
    }

    /// With its shares taken of a lane time of `lane_ns`.
    fn of_lane(self, lane_ns: u64) -> Self {
        if lane_ns == 0 {
            return self;
        }
        let share = |ns: f64| ns / lane_ns as f64;
        Self {
            share: share(self.total_ns),
            error: self.error.map(|error| StandardError {
                share: share(error.total_ns),
                ..error
            }),
            ..self
        }
    }
}
