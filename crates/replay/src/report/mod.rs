// SPDX-License-Identifier: MIT OR Apache-2.0
//! The result of a replay: schema 2 of its JSON, and what the text shows more.
//!
//! Invariants: the JSON has exactly the keys declared here, in this order,
//! times in whole nanoseconds; `shown` never reaches it.

mod facts;
mod inside;
mod json;
mod latency;
mod measured;
mod names;
mod slow;
mod table;
mod text;
mod units;

use std::collections::BTreeMap;

use metrale_telemetry::Snapshot;
use metrale_telemetry::kernel::Ledger;
use metrale_telemetry::snapshot::{KernelLane, RowKind, StepSnapshot, TwinLedger};
use serde::Serialize;

use crate::check::Check;
use crate::plan::RowKey;

pub(crate) use inside::is_recorded;
pub use json::write_json;
pub use latency::{Excess, excess};
pub use names::shorten;
pub use text::render;
use units::listed;
pub use units::{count, number, percent, share, time};

/// Which driver ran the replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DriverKind {
    /// The simulated one.
    Simulated,
    /// A GPU's.
    Cuda,
}

/// Where the times come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Stamps {
    /// A simulated host that costs nothing.
    Ideal,
    /// A simulated host at a real driver's cost.
    Honest,
    /// A GPU.
    Device,
}

/// A lane's row.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LaneRow {
    /// admit, prefill or decode.
    pub lane: String,
    /// Spans landed.
    pub spans: u64,
    /// Their sum, nanoseconds.
    pub total_ns: u64,
    /// Median, nanoseconds.
    pub p50_ns: u64,
    /// 99th percentile, nanoseconds.
    pub p99_ns: u64,
    /// Spans of which the gap before them is known.
    pub gaps: u64,
    /// Sum of these gaps: the previous lane span's end to this one's start on
    /// the same stream, nanoseconds.
    pub gap_ns: u64,
    /// Their median, nanoseconds.
    pub gap_p50_ns: u64,
    /// Spans that were asked for and did not land: the sums miss them.
    pub missed: u64,
    /// Recorded overlap within spans, nanoseconds: a stream in order lays it end to
    /// end, but for what is in one graph.
    pub overlap_ns: u64,
    /// The same of spans and other work on their streams.
    pub overlap_lanes_ns: u64,
    /// Records that run on long after the next one on their stream began.
    pub overruns: u64,
    /// The device's number.
    pub device: u32,
    /// The lane's time on armed steps that were laid out in time, nanoseconds:
    /// busy and idle.
    pub armed_ns: u64,
    /// Of that, time in which a launch of the lane ran.
    pub busy_ns: u64,
    /// Of that, time in which none did: lead, waited and tail.
    pub idle_ns: u64,
    /// Before the first launch.
    pub lead_ns: u64,
    /// Before launches that the GPU waited for.
    pub waited_ns: u64,
    /// After the last launch.
    pub tail_ns: u64,
    /// By how much the launches' lengths are more than the time that they
    /// cover.
    pub overlap_busy_ns: u64,
    /// Armed steps with the lane that could not be laid out in time.
    pub incomplete_steps: u64,
    /// The lane's time on these, nanoseconds.
    pub incomplete_ns: u64,
    /// What launches took outside their lane's time, nanoseconds.
    pub outside_ns: u64,
}

/// All lanes of a device together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DeviceRow {
    /// Its number.
    pub device: u32,
    /// Time that any lane took, on armed steps that were laid out in time,
    /// nanoseconds.
    pub span_ns: u64,
    /// Of that, time in which any launch ran.
    pub busy_ns: u64,
    /// Of that, time in which none did.
    pub idle_ns: u64,
}

/// A kernel's row, or a graph's.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct KernelRow {
    /// The whole name.
    pub name: String,
    /// Spans landed; none where the table had no place for the row.
    pub samples: u64,
    /// Their sum, nanoseconds.
    pub total_ns: u64,
    /// Launches on armed steps that have no sample: the sum misses them.
    pub missed: u64,
    /// Records that run on long after the next one on their stream began.
    pub overruns: u64,
    /// What the row is of.
    pub kind: RowKind,
    /// The device's number.
    pub device: u32,
    /// It was launched by graphs, and not one by one. Then samples are of the launches
    /// with marks, less what these took, and none is missed but where every step was
    /// armed.
    pub in_graph: bool,
    /// What marks took of its samples besides, nanoseconds.
    pub marks_ns: u64,
    /// Spans that began while their stream was busy.
    pub busy_start_samples: u64,
    /// Its estimate in each lane.
    #[serde(skip)]
    pub lanes: Vec<KernelLane>,
    /// By how much it reads too long.
    #[serde(skip)]
    pub excess: Option<Excess>,
}

impl KernelRow {
    /// Whether it is of a kernel launched one by one.
    pub fn is_eager_kernel(&self) -> bool {
        self.kind == RowKind::Kernel && !self.in_graph
    }

    /// What it is the row of.
    pub fn key(&self) -> RowKey {
        (self.device, self.kind, self.name.clone())
    }
}

/// Graph launches of the replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GraphTotals {
    /// Launches.
    pub launches: u64,
    /// Kernels in them.
    pub kernels: u64,
    /// What a mark inside took; null where none was read.
    pub mark_ns: Option<u64>,
}

/// Where every span went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LedgerTotals {
    /// Of lanes and kernels together.
    #[serde(flatten)]
    pub spans: Ledger,
    /// Measured, but no row was free.
    pub table_full: u64,
}

/// A slow step on one device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SlowStepRow {
    /// The device's number.
    pub device: u32,
    /// What it left there.
    #[serde(flatten)]
    pub step: StepSnapshot,
}

/// The result of a replay.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Always [`SCHEMA`].
    pub schema: u32,
    /// Which driver.
    pub driver: DriverKind,
    /// The file it was loaded from.
    pub driver_path: String,
    /// The device's name.
    pub device: String,
    /// The trace; none for the built-in workload.
    pub trace: Option<String>,
    /// One step in so many is armed.
    pub every: u32,
    /// Where the times come from.
    pub stamps: Stamps,
    /// Steps of the recorder.
    pub steps: u64,
    /// Armed ones among them.
    pub armed_steps: u64,
    /// One row for each lane and device that has spans, and one for each lane
    /// on the first device, in lane order.
    pub lanes: Vec<LaneRow>,
    /// One row for each device.
    pub devices: Vec<DeviceRow>,
    /// Kernels and graphs that were timed, or were to be; most time first.
    pub kernels: Vec<KernelRow>,
    /// Graph launches.
    pub graphs: GraphTotals,
    /// What became of those on armed steps: with marks or plain, and why; null without
    /// twins.
    pub twins: Option<TwinLedger>,
    /// Where every span went.
    pub ledger: LedgerTotals,
    /// Calls into the simulated driver since the recorders were made, by name.
    pub driver_calls: BTreeMap<String, u64>,
    /// What was read against the timeline's own sums, where they are predicted:
    /// under ideal stamps.
    pub check: Option<Check>,
    /// The slowest steps by GPU time of all lanes, the slowest first, at most 32 of
    /// the last ten minutes; those that ran a twin behind all others.
    pub slowest_steps: Vec<SlowStepRow>,
    /// What a reader must know: [`Plan::notes`](crate::plan::Plan::notes).
    pub notes: Vec<String>,
    /// What only the text shows.
    #[serde(skip)]
    pub shown: Shown,
}

/// Columns of a lane's name.
const LANE_LABEL: usize = 7;

/// The number of the JSON's schema.
pub const SCHEMA: u32 = 2;

/// What the text shows beyond the JSON.
#[derive(Clone, Debug, PartialEq)]
pub struct Shown {
    /// Everything that was measured, of all devices.
    pub snapshot: Snapshot,
    /// How long the kernels that were timed ran by the plan, nanoseconds.
    pub planned_ns: u64,
}

impl Report {
    /// A lane's name, cut to its column; those that would be cut alike have their
    /// places at the end.
    fn lane_label(&self, name: &str) -> String {
        let cut = |name: &str| match name.chars().count() {
            0..=LANE_LABEL => name.to_owned(),
            _ => format!("{name:.6}…"),
        };
        let label = cut(name);
        let mut names: Vec<&str> = self.lanes.iter().map(|lane| &*lane.lane).collect();
        names.dedup();
        let others = (names.iter()).filter(|other| **other != name && cut(other) == label);
        let place = names.iter().position(|other| *other == name);
        match place.filter(|_| others.count() > 0) {
            Some(place) => format!("{name:.4}…{place}"),
            None => label,
        }
    }

    /// A lane of a device: where there are several, with its number.
    fn on(&self, name: &str, device: u32) -> String {
        let name = self.lane_label(name);
        match self.devices.len() {
            0 | 1 => name,
            _ => format!("{name} {device}"),
        }
    }

    /// The head of a column of lanes.
    fn lane_column(&self) -> &'static str {
        match self.devices.len() {
            0 | 1 => "lane",
            _ => "lane, GPU",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::sample::report;

    #[test]
    fn lanes_cut_to_their_column_stay_unlike() {
        let mut report = report();
        let names = ["draft-extend", "draft-verify", "speculative", "draft"];
        for name in names {
            let mut row = report.lanes[0].clone();
            row.lane = name.to_owned();
            report.lanes.push(row);
        }
        let labels = names.map(|name| report.lane_label(name));
        assert_eq!(labels, ["draf…3", "draf…4", "specul…", "draft"]);
    }
}

#[cfg(test)]
pub(crate) mod sample;
