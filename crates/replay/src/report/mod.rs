// SPDX-License-Identifier: MIT OR Apache-2.0
//! The result of a replay: schema 2 of its JSON, and what the text shows more.
//!
//! Invariants: the JSON has exactly the keys declared here, in this order,
//! times in whole nanoseconds; `shown` never reaches it.

mod json;
mod latency;
mod measured;
mod names;
mod text;
mod units;

use std::collections::BTreeMap;

use metrale_telemetry::Snapshot;
use serde::Serialize;

pub use json::{WriteError, write_json_atomically};
pub use latency::{Excess, excess};
pub use names::shorten;
pub use text::render;
pub use units::{count, percent, share, time};

/// Which driver ran the replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Driver {
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
    /// Sum of the gaps: the previous lane span's end to this one's start on
    /// the same stream, nanoseconds.
    pub gap_ns: u64,
    /// Recorded overlap on the spans' streams that a stream in order lays end
    /// to end, nanoseconds.
    pub overlap_ns: u64,
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct KernelRow {
    /// The whole name.
    pub name: String,
    /// Spans landed.
    pub samples: u64,
    /// Their sum, nanoseconds.
    pub total_ns: u64,
    /// What the row is of: `kernel` or `graph`.
    pub kind: &'static str,
    /// The device's number.
    pub device: u32,
    /// It was launched by a graph, and not one by one.
    pub in_graph: bool,
    /// Spans that began while their stream was busy.
    pub busy_start_samples: u64,
}

/// Graph launches of the replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GraphRow {
    /// Launches.
    pub launches: u64,
    /// Kernels in them.
    pub kernels: u64,
}

/// Where every span went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Ledger {
    /// Spans asked for: begun, dropped and refused.
    pub attempts: u64,
    /// Slots claimed.
    pub begun: u64,
    /// Spans measured.
    pub landed: u64,
    /// Turned away because the next slot was in use.
    pub dropped: u64,
    /// Turned away before a claim.
    pub refused: u64,
    /// Lost to the driver.
    pub failed: u64,
    /// Given up by the caller.
    pub cancelled: u64,
    /// Left open and taken back.
    pub reclaimed: u64,
    /// Not over yet.
    pub in_flight: u64,
    /// Ends of spans that were over already.
    pub stale_ends: u64,
    /// Measured, but no row was free.
    pub table_full: u64,
}

/// The result of a replay.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Always [`SCHEMA`].
    pub schema: u32,
    /// Which driver.
    pub driver: Driver,
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
    /// Kernels and graphs with samples, most time first.
    pub kernels: Vec<KernelRow>,
    /// Graph launches.
    pub graphs: GraphRow,
    /// Where every span went.
    pub ledger: Ledger,
    /// Calls into the simulated driver since the recorders were made, by name.
    pub driver_calls: BTreeMap<String, u64>,
    /// What only the text shows.
    #[serde(skip)]
    pub shown: Shown,
}

/// The number of the JSON's schema.
pub const SCHEMA: u32 = 2;

/// What the text shows beyond the JSON.
#[derive(Clone, Debug, PartialEq)]
pub struct Shown {
    /// Everything that was measured, of all devices.
    pub snapshot: Snapshot,
    /// How much longer the kernels read than they ran, nanoseconds: the wait
    /// of an idle stream for its host.
    pub waiting_ns: Option<u64>,
    /// Sums of what was read against the plan's own, where a model predicts
    /// them: under ideal stamps.
    pub check: Option<Check>,
    /// What a reader must know: [`Plan::notes`](crate::plan::Plan::notes) and
    /// the player's own.
    pub notes: Vec<String>,
}

/// How far what was read is from what an in-order device makes of the plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Check {
    /// Time of all lanes by the plan, nanoseconds.
    pub lanes_ns: u64,
    /// The lanes' differences from it, summed, nanoseconds.
    pub lanes_off_ns: u64,
    /// The kernels' differences, summed, nanoseconds; only where every step
    /// was armed.
    pub kernels_off_ns: Option<u64>,
}

impl Report {
    /// Sorts the kernels, most time first, and by name where times are equal.
    pub fn sort_kernels(&mut self) {
        self.kernels.sort_by(|a, b| {
            b.total_ns
                .cmp(&a.total_ns)
                .then_with(|| a.name.cmp(&b.name))
        });
    }
}

#[cfg(test)]
pub(crate) mod sample {
    use super::*;
    use metrale_telemetry::kernel::{Estimate, LANE_DECODE, LaneFigures, StandardError};
    use metrale_telemetry::snapshot::{KernelLane, KernelSnapshot};
    use metrale_telemetry::{Floor, Telemetry};

    /// A report with something in every part.
    pub(crate) fn report() -> Report {
        let lane = |lane: &str, spans, total_ns, p50_ns, p99_ns, gap_ns, overlap_ns| LaneRow {
            lane: lane.into(),
            spans,
            total_ns,
            p50_ns,
            p99_ns,
            gap_ns,
            overlap_ns,
            ..LaneRow::default()
        };
        let kernel = |name: &str, samples, total_ns| KernelRow {
            name: name.into(),
            samples,
            total_ns,
            kind: "kernel",
            ..KernelRow::default()
        };
        let attention = "void serve::attn::paged_decode_kernel<serve::attn::Traits<bf16, 128, 16, \
                         false>, serve::attn::SplitKV<";
        let mut report = Report {
            schema: SCHEMA,
            driver: Driver::Simulated,
            driver_path: "target/sim/libcuda.so.1".into(),
            device: "metrale simulated GPU".into(),
            trace: None,
            every: 64,
            stamps: Stamps::Honest,
            steps: 200,
            armed_steps: 3,
            lanes: vec![
                lane("admit", 12, 310_400, 24_800, 31_007, 0, 0),
                lane(
                    "prefill",
                    11,
                    412_900_113,
                    37_612_000,
                    52_000_100,
                    2_401_000,
                    112,
                ),
                lane(
                    "decode",
                    189,
                    1_893_200_007,
                    10_012_345,
                    10_743_181,
                    61_000_000,
                    0,
                ),
            ],
            devices: vec![DeviceRow::default()],
            kernels: vec![
                kernel("serve_gemm_bf16_lm_head", 3, 936_000),
                kernel(
                    &format!("{attention}true> >(serve::attn::Params)"),
                    3,
                    61_200,
                ),
                kernel(
                    &format!("{attention}false> >(serve::attn::Params)"),
                    3,
                    9_300,
                ),
            ],
            graphs: GraphRow {
                launches: 189,
                kernels: 79_380,
            },
            ledger: Ledger {
                attempts: 233,
                begun: 232,
                landed: 231,
                dropped: 1,
                failed: 1,
                ..Ledger::default()
            },
            driver_calls: [
                ("cuEventRecord", 466),
                ("cuLaunchKernel", 6_210),
                ("cuGraphLaunch", 189),
            ]
            .map(|(name, n)| (name.to_owned(), n))
            .into(),
            shown: Shown {
                snapshot: snapshot(attention),
                waiting_ns: Some(42_100),
                check: Some(Check {
                    lanes_ns: 2_306_410_520,
                    lanes_off_ns: 3,
                    kernels_off_ns: None,
                }),
                notes: vec!["2 records dropped: 2 stamp 0 (never collected)".into()],
            },
        };
        let decode = &mut report.lanes[LANE_DECODE];
        (decode.armed_ns, decode.busy_ns, decode.idle_ns) = (30_400_000, 29_900_000, 500_000);
        (decode.lead_ns, decode.waited_ns, decode.tail_ns) = (100_000, 390_000, 10_000);
        (decode.overlap_busy_ns, decode.outside_ns) = (7_000, 3_000);
        (decode.incomplete_steps, decode.incomplete_ns) = (1, 10_000_000);
        report
    }

    /// What three armed steps in one of 189 decode steps left.
    fn snapshot(attention: &str) -> Snapshot {
        let estimate = |steps, share: f64, error: Option<f64>| {
            let mut estimate = Estimate::default();
            (estimate.steps, estimate.share) = (steps, share);
            estimate.total_ns = share * 1.8932e9;
            estimate.error = error.map(|share| {
                let mut error = StandardError::default();
                (error.total_ns, error.share) = (share * 1.8932e9, share);
                error
            });
            estimate
        };
        let kernel = |name: String, idle_start, lanes: &[(&str, Estimate)]| {
            let mut kernel = KernelSnapshot::default();
            kernel.name = Some(name);
            let lane = |(name, estimate): &(&str, Estimate)| {
                let mut lane = KernelLane::default();
                (lane.lane, lane.estimate) = ((*name).to_owned(), *estimate);
                lane
            };
            kernel.lanes = lanes.iter().map(lane).collect();
            let figures = &mut kernel.figures;
            (figures.busy_start_samples, figures.busy_start_ns) = (64, 640_000);
            (figures.idle_start_samples, figures.idle_start_ns) = idle_start;
            (kernel.samples, kernel.total_ns) = (64 + idle_start.0, 640_000 + idle_start.1);
            kernel
        };
        let mut snapshot = Telemetry::new().snapshot();
        snapshot.lanes[LANE_DECODE].estimate.covered = Some(estimate(3, 0.984, None));
        snapshot.losses.incomplete_steps = 1;
        let mut figures = LaneFigures::default();
        figures.waits = 12;
        snapshot.lanes[LANE_DECODE].figures = Some(figures);
        snapshot.floor = Floor {
            pair_ns: Some(1_650),
            begin_ns: Some(1_650),
            end_ns: Some(1_700),
            harvest_ns: Some(1_003),
            poll_ns: None,
        };
        snapshot.host.launches = 6_210;
        let gemm = [
            ("decode", estimate(64, 0.031, Some(0.0012))),
            ("prefill", estimate(29, 0.2, None)),
        ];
        snapshot.kernels = vec![
            kernel("serve_gemm_bf16_lm_head".to_owned(), (0, 0), &gemm),
            kernel(
                format!("{attention}true> >(serve::attn::Params)"),
                (90, 1_350_000),
                &[("decode", estimate(64, 0.002, Some(0.0001)))],
            ),
            kernel(
                format!("{attention}false> >(serve::attn::Params)"),
                (3, 9_000),
                &[("decode", estimate(3, 0.0003, None))],
            ),
        ];
        snapshot
    }
}
