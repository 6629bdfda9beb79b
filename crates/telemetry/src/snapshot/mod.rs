// SPDX-License-Identifier: MIT OR Apache-2.0
//! Everything that was measured, at one moment, as plain data.
//!
//! 1. Taking a snapshot stops nobody, and changes nothing that a later one or a
//!    scrape would see.
//! 2. Counters and histograms only grow while the process lives, also after a
//!    recorder was closed.
//! 3. Times are whole nanoseconds, estimates finite floats; what is not known is
//!    null, never 0, and no name is empty.
//! 4. A record may get more fields. One that a file does not tell reads as null,
//!    0 or empty. To make one by hand, set fields of its `Default`.

pub(crate) mod graphs;
mod merge;
pub(crate) mod recorders;
mod steps;
mod take;

pub use crate::graph::{GraphFigures, GraphRow, NodeKind};
pub use crate::rows::{KernelName, RowKind};
pub use crate::series::{KernelSeries, MAX_KERNEL_SERIES, OTHER_KERNELS};
pub use graphs::{GraphSnapshot, TwinLedger};
pub use merge::MergeError;
pub use recorders::OtherGpuError;
pub use steps::{StepLane, StepSnapshot};

use crate::config::TelemetryConfig;
use crate::floor::Floor;
use crate::instrument::HistogramSnapshot;
use crate::kernel::{
    Estimate, Incomplete, LaneEstimate, LaneFigures, Ledger, RowFigures, ShapeTimes, StepLosses,
};
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;

/// The version of [`Snapshot`]'s shape. Another number means that a field
/// changed its meaning or went; new fields keep the number. A snapshot of an
/// earlier version is read as one of this: what it does not tell is null or 0.
pub const SNAPSHOT_VERSION: u32 = 2;

/// What one device's telemetry held at one moment, or several merged.
///
/// ```
/// use metrale_telemetry::{Snapshot, Telemetry};
///
/// let taken = Telemetry::new().snapshot();
/// let json = serde_json::to_string(&taken)?;
/// let read: Snapshot = serde_json::from_str(&json)?;
/// assert_eq!(read, taken);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Snapshot {
    /// [`SNAPSHOT_VERSION`]; written first, so that it is read first.
    #[serde(deserialize_with = "known_version")]
    pub version: u32,
    /// How many snapshots are merged in this one; 1 where it was taken.
    pub sources: u64,
    /// A sum of a merge was too large for its number, and stands at the largest.
    pub saturated: bool,
    /// What tells it apart from others: `gpu` once there was a recorder, and
    /// what a user adds. Labels on which merged ones differ are left out.
    pub labels: BTreeMap<String, String>,
    /// When the first recorder was made, nanoseconds since 1970; null before
    /// that. Of merged ones the latest: it moves when any of them starts anew.
    pub start_unix_ns: Option<u64>,
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
    /// All lanes together: the union of their time, and of their launches in
    /// it. Null before a step was laid out in time.
    pub device: Option<LaneFigures>,
    /// Lane spans whose gap is not known.
    pub lane_gap_unknown: u64,
    /// Kernels and graphs by name, the longest sampled time first. What has no
    /// name shares one row.
    pub kernels: Vec<KernelSnapshot>,
    /// Graphs that had a twin, from the inside.
    pub graphs: Vec<GraphSnapshot>,
    /// The slowest 32 steps of the last ten minutes by GPU time of their lanes,
    /// the slowest first. Steps that ran a twin stand behind all others, as its marks
    /// made them longer.
    pub slowest_steps: Vec<StepSnapshot>,
    /// Sampled time by the series that kernels have in an export, each since it
    /// got one; `other` has all that is in none of them.
    pub kernel_series: Vec<KernelSeries>,
    /// What steps lost, and what estimates had to leave out.
    #[serde(alias = "estimate_losses")]
    pub losses: StepLosses,
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
///
/// ```
/// use metrale_telemetry::Telemetry;
///
/// let telemetry = Telemetry::new();
/// telemetry.host().step_wall.observe(12_000_000);
/// let host = telemetry.snapshot().host;
/// assert_eq!((host.step_wall.count(), host.step_wall.sum_ns()), (1, 12_000_000));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct HostSnapshot {
    /// Wall time of steps.
    pub step_wall: HistogramSnapshot,
    /// Kernel launches, timed or not.
    pub launches: u64,
    /// Graph launches, timed or not.
    pub graph_launches: u64,
}

/// A lane.
///
/// ```
/// use metrale_telemetry::Telemetry;
/// use metrale_telemetry::kernel::{LANE_DECODE, SpanKey};
///
/// let telemetry = Telemetry::new();
/// telemetry.instruments().record(SpanKey::Lane(LANE_DECODE), 9_000_000);
/// let lanes = telemetry.snapshot().lanes;
/// let decode = &lanes[LANE_DECODE];
/// assert_eq!((decode.lane.as_str(), decode.gpu.sum_ns()), ("decode", 9_000_000));
/// assert_eq!(decode.figures, None, "no step was laid out in time");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct LaneSnapshot {
    /// Its name.
    pub lane: String,
    /// GPU time of its spans, on every step.
    pub gpu: HistogramSnapshot,
    /// GPU time between its spans and what came before each on its stream.
    pub gap: HistogramSnapshot,
    /// Host time of its guards.
    pub wall: HistogramSnapshot,
    /// Spans of the lane that have no time: they found no slot, or could not be
    /// recorded or read.
    pub lost_spans: u64,
    /// How its time was spent on armed steps, of those that are complete. Null
    /// before there was one.
    pub figures: Option<LaneFigures>,
    /// Its time on armed steps of which that is not known.
    pub incomplete: Incomplete,
    /// Since the sampling last changed: its time, and how much of it launches
    /// covered.
    pub estimate: LaneEstimate,
    /// Its time by how many tokens it worked on, of steps that stated a shape.
    pub shapes: Vec<ShapeTimes>,
}

/// A kernel, a graph, a region or a copy.
///
/// ```
/// use metrale_telemetry::Telemetry;
/// use metrale_telemetry::kernel::SpanKey;
///
/// let telemetry = Telemetry::new();
/// telemetry.instruments().record(SpanKey::Kernel(0xf00d), 70_000);
/// let row = &telemetry.snapshot().kernels[0];
/// assert_eq!((row.total_ns, row.samples), (70_000, 1));
/// assert_eq!(row.name, None, "a recorder would know it");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct KernelSnapshot {
    /// As the application or the driver names it: whole, and mangled where the
    /// driver's is. Null: nobody gave one.
    pub name: Option<String>,
    /// What it is. (`is_graph` in version 1.)
    #[serde(alias = "is_graph", deserialize_with = "kind_or_is_graph")]
    pub kind: RowKind,
    /// The label of its series in an export. Null: it has none of its own.
    pub series: Option<String>,
    /// GPU nanoseconds of its timed launches.
    pub total_ns: u64,
    /// How many launches were timed.
    pub samples: u64,
    /// Launches that were to be timed and have no time: they found no slot, or
    /// could not be recorded or read.
    pub lost_spans: u64,
    /// What the timelines say of its launches.
    pub figures: RowFigures,
    /// What it took on all steps since the sampling last changed, by the lane
    /// that it was launched in.
    pub lanes: Vec<KernelLane>,
}

/// A kernel in a lane.
///
/// ```
/// # fn read(snapshot: &metrale_telemetry::Snapshot) {
/// for row in &snapshot.kernels {
///     for own in &row.lanes {
///         println!("{:?} in {}: {} ns", row.name, own.lane, own.estimate.total_ns);
///     }
/// }
/// # }
/// # read(&metrale_telemetry::Telemetry::new().snapshot());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct KernelLane {
    /// The lane's name.
    pub lane: String,
    /// What the kernel took there.
    #[serde(flatten)]
    pub estimate: Estimate,
}

/// A recorder, alive or closed.
///
/// ```
/// # fn read(snapshot: &metrale_telemetry::Snapshot) {
/// for recorder in &snapshot.recorders {
///     let lost = recorder.lane_ledger.dropped + recorder.kernel_ledger.dropped;
///     println!("{} on {}: {lost} spans dropped", recorder.label, recorder.gpu);
/// }
/// # }
/// # read(&metrale_telemetry::Telemetry::new().snapshot());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct RecorderSnapshot {
    /// What tells it apart in its process.
    pub label: String,
    /// The UUID of its GPU or MIG instance.
    pub gpu: String,
    /// What became of its lane spans.
    pub lane_ledger: Ledger,
    /// What became of its kernel spans.
    pub kernel_ledger: Ledger,
    /// What became of replays of graphs.
    pub replays: TwinLedger,
    /// How it gets on with the driver.
    pub health: RecorderHealth,
    /// Spans that have not landed: of each ring, the open and the closed one
    /// that were begun first.
    pub oldest: Vec<OldestSpanSnapshot>,
}

/// A span that has not landed.
///
/// ```
/// # fn read(snapshot: &metrale_telemetry::Snapshot) {
/// let spans = snapshot.recorders.iter().flat_map(|recorder| &recorder.oldest);
/// for span in spans.filter(|span| !span.is_open && span.age_ns > Some(1_000_000_000)) {
///     println!("{:?} has been on the GPU for over a second", span.name);
/// }
/// # }
/// # read(&metrale_telemetry::Telemetry::new().snapshot());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct OldestSpanSnapshot {
    /// `lanes` or `kernels`.
    pub ring: String,
    /// The lane's name, or the row's; null where that has none.
    pub name: Option<String>,
    /// The handle of the stream of its end; null while it is open.
    pub stream: Option<u64>,
    /// Begun and not ended; else the GPU has not reached its end, or nobody
    /// could ask.
    pub is_open: bool,
    /// Nanoseconds since a harvest pass first left it behind as the oldest of
    /// its kind; null before that.
    pub age_ns: Option<u64>,
}

/// How a recorder gets on with the driver; counts are since it was made.
///
/// ```
/// # fn read(snapshot: &metrale_telemetry::Snapshot) {
/// for recorder in &snapshot.recorders {
///     if let Some(status) = recorder.health.quarantined {
///         println!("{} measures nothing since the driver said {status}", recorder.label);
///     }
/// }
/// # }
/// # read(&metrale_telemetry::Telemetry::new().snapshot());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
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
    /// Times that cannot be: negative, infinite, not a number, or longer than there
    /// was time for.
    pub invalid_times: u64,
    /// Names that found no room, or were too long.
    pub names_lost: u64,
    /// Records of steps that were overwritten before the application's callback
    /// got them.
    pub records_missed: u64,
    /// Calls of that callback that took over a millisecond.
    pub slow_callbacks: u64,
    /// Calls of it that panicked.
    pub callback_panics: u64,
}

impl Snapshot {
    /// The ledgers of all recorders together, lanes first.
    #[must_use]
    pub fn ledgers(&self) -> (Ledger, Ledger) {
        let sum = |of: fn(&RecorderSnapshot) -> Ledger| {
            let ledgers = self.recorders.iter().map(of);
            ledgers.fold(Ledger::default(), Ledger::plus)
        };
        (sum(|recorder| recorder.lane_ledger), sum(|recorder| recorder.kernel_ledger))
    }
}

/// The version, if this reader knows it: an earlier one is read as this.
fn known_version<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    let found = u32::deserialize(from)?;
    if found > SNAPSHOT_VERSION {
        return Err(serde::de::Error::custom(format_args!(
            "a snapshot of version {found}: this reader knows versions up to {SNAPSHOT_VERSION}; read it with the release that wrote it, or a later one"
        )));
    }
    Ok(SNAPSHOT_VERSION)
}

/// A row's kind, or version 1's `is_graph`.
fn kind_or_is_graph<'de, D: Deserializer<'de>>(from: D) -> Result<RowKind, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Either {
        IsGraph(bool),
        Kind(RowKind),
    }
    Ok(match Either::deserialize(from)? {
        Either::IsGraph(true) => RowKind::Graph,
        Either::IsGraph(false) => RowKind::Kernel,
        Either::Kind(kind) => kind,
    })
}
