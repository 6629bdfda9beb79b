// SPDX-License-Identifier: MIT OR Apache-2.0
//! Everything that was measured, at one moment, as plain data.
//!
//! 1. Taking a snapshot stops nobody, and changes nothing that a later one or a
//!    scrape would see.
//! 2. Counters and histograms only grow while the process lives, also after a
//!    recorder was closed.
//! 3. Times are whole nanoseconds, estimates floats; what is not known is null,
//!    never 0.

mod merge;
mod take;

pub use merge::MergeError;
pub use take::{KernelName, Source};

pub(crate) use take::Sources;

use crate::floor::Floor;
use crate::instrument::HistogramSnapshot;
use crate::kernel::{Estimate, EstimateLosses, KernelSeries, LaneEstimate, Ledger};
use crate::telemetry::TelemetryConfig;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The version of [`Snapshot`]'s shape. Another number means that a field
/// changed its meaning or went; new fields keep the number.
pub const SNAPSHOT_VERSION: u32 = 1;

/// What one device's telemetry held at one moment, or several merged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// [`SNAPSHOT_VERSION`] of the writer.
    pub version: u32,
    /// How many snapshots are merged in this one; 1 where it was taken.
    pub sources: u64,
    /// What tells it apart from others: `gpu`, and what a user adds. Labels on
    /// which merged ones differ are left out.
    pub labels: BTreeMap<String, String>,
    /// What is measured and how often; null where merged ones differ.
    pub config: Option<TelemetryConfig>,
    /// Steps that began.
    pub steps: u64,
    /// Armed ones among them.
    pub armed_steps: u64,
    /// Launches chosen to be timed.
    pub sampled_launches: u64,
    /// What the host measured.
    pub host: HostSnapshot,
    /// The lanes, in their order.
    pub lanes: Vec<LaneSnapshot>,
    /// Lane spans whose gap is not known.
    pub lane_gap_unknown: u64,
    /// Launches on armed steps whose gap is not known.
    pub kernel_gap_unknown: u64,
    /// Kernels and graphs by name, the longest sampled time first. What has no
    /// name shares one row.
    pub kernels: Vec<KernelSnapshot>,
    /// Sampled time by the series that kernels have in an export, each since it
    /// got one; `other` has all that is in none of them.
    #[serde(default)]
    pub kernel_series: Vec<KernelSeries>,
    /// What estimates had to leave out.
    pub estimate_losses: EstimateLosses,
    /// Samples of kernels that have no row.
    pub table_full: u64,
    /// Spans that found their slot in use.
    pub spans_dropped: u64,
    /// Spans begun whose start, end or reading failed.
    pub span_failures: u64,
    /// What measuring costs; of merged ones the largest figures.
    pub floor: Floor,
    /// The recorders that ever measured here.
    pub recorders: Vec<RecorderSnapshot>,
}

/// What the host measured, from level `Basic` on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostSnapshot {
    /// Wall time of steps.
    pub step_wall: HistogramSnapshot,
    /// Kernel launches, timed or not.
    pub launches: u64,
    /// Graph launches, timed or not.
    pub graph_launches: u64,
}

/// A lane.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LaneSnapshot {
    /// Its name.
    pub lane: String,
    /// GPU time of its spans, on every step.
    pub gpu: HistogramSnapshot,
    /// GPU time between its spans and what came before each on its stream.
    pub gap: HistogramSnapshot,
    /// GPU time between neighbouring launches, on armed steps.
    pub kernel_gap: HistogramSnapshot,
    /// Host time of its guards.
    pub wall: HistogramSnapshot,
    /// GPU nanoseconds of its spans on armed steps.
    pub armed_ns: u64,
    /// GPU nanoseconds of the launches timed in it.
    pub kernel_ns: u64,
    /// Launches on armed steps that the GPU waited for; null while the floor is
    /// not known.
    pub launch_bound: Option<LaunchBound>,
    /// Since the sampling last changed: its time, and how much of it kernels
    /// covered.
    pub estimate: LaneEstimate,
}

/// Launches on armed steps before which the stream stood empty for longer than
/// the floor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaunchBound {
    /// How many.
    pub launches: u64,
    /// GPU nanoseconds of the gaps before them.
    pub gap_ns: u64,
}

impl LaneSnapshot {
    /// GPU nanoseconds of the lane on armed steps that no kernel or graph span
    /// covers: gaps between launches ([`kernel_gap`](Self::kernel_gap) has
    /// them apart), copies, and launches without a guard.
    #[must_use]
    pub fn uncovered_ns(&self) -> u64 {
        // Overlap can make the launches' sum the larger one; and under `Spread`
        // no step is armed.
        self.armed_ns.saturating_sub(self.kernel_ns)
    }
}

/// A kernel, or a graph.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KernelSnapshot {
    /// As the application or the driver names it: whole, and mangled where the
    /// driver's is. Null: nobody gave one.
    pub name: Option<String>,
    /// It is a graph of the application.
    pub is_graph: bool,
    /// The label of its series in an export. Null: it has none of its own.
    #[serde(default)]
    pub series: Option<String>,
    /// GPU nanoseconds of its timed launches.
    pub total_ns: u64,
    /// How many launches were timed.
    pub samples: u64,
    /// Its mean is within three floors: it says little of the kernel's work.
    /// Null while the floor is not known.
    pub near_floor: Option<bool>,
    /// What it took on all steps since the sampling last changed, by the lane
    /// that it was launched in.
    pub lanes: Vec<KernelLane>,
}

/// A kernel in a lane.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KernelLane {
    /// The lane's name.
    pub lane: String,
    /// What the kernel took there.
    #[serde(flatten)]
    pub estimate: Estimate,
}

/// A recorder, alive or closed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RecorderSnapshot {
    /// What tells it apart in its process.
    pub label: String,
    /// The UUID of its GPU or MIG instance.
    pub gpu: String,
    /// What became of its lane spans.
    pub lane_ledger: Ledger,
    /// What became of its kernel spans.
    pub kernel_ledger: Ledger,
    /// How it gets on with the driver.
    pub health: RecorderHealth,
}

/// How a recorder gets on with the driver; counts are since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecorderHealth {
    /// The driver status that stopped it.
    pub quarantined: Option<u32>,
    /// Polls that the driver did not allow.
    pub polls_refused: u64,
    /// Polls that took over a millisecond.
    pub slow_polls: u64,
    /// How often slow polls stopped polling for ten seconds.
    pub polling_stops: u64,
    /// Harvests that polled nothing.
    pub harvests_skipped: u64,
    /// The least time between two harvests now, nanoseconds; 0 at the full rate.
    pub harvest_interval_ns: u64,
    /// Times that were negative, infinite or not a number.
    pub invalid_times: u64,
    /// Names that found no room, or were too long.
    pub names_lost: u64,
}

impl Snapshot {
    /// The ledgers of all recorders together, lanes first.
    #[must_use]
    pub fn ledgers(&self) -> (Ledger, Ledger) {
        let sum = |of: fn(&RecorderSnapshot) -> Ledger| {
            let ledgers = self.recorders.iter().map(of);
            ledgers.fold(Ledger::default(), Ledger::plus)
        };
        (sum(|it| it.lane_ledger), sum(|it| it.kernel_ledger))
    }
}
