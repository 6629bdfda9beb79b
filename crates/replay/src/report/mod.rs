// SPDX-License-Identifier: MIT OR Apache-2.0
//! The result of a replay: schema 1 of its JSON, and what the text shows more.
//!
//! Invariants: the JSON has exactly the keys declared here, in this order,
//! times in whole nanoseconds; `shown` never reaches it.

mod json;
mod measured;
mod names;
mod text;
mod units;

use std::collections::BTreeMap;

use metrale_telemetry::Snapshot;
use serde::Serialize;

pub use json::{WriteError, write_json_atomically};
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
}

/// A kernel's row.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct KernelRow {
    /// The whole name.
    pub name: String,
    /// Spans landed.
    pub samples: u64,
    /// Their sum, nanoseconds.
    pub total_ns: u64,
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
    /// One row per lane, in lane order.
    pub lanes: Vec<LaneRow>,
    /// Kernels with samples, most time first.
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
pub const SCHEMA: u32 = 1;

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
    use metrale_telemetry::kernel::{Estimate, LANE_DECODE, StandardError};
    use metrale_telemetry::snapshot::{KernelLane, KernelSnapshot, LaunchBound};
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
        };
        let kernel = |name: &str, samples, total_ns| KernelRow {
            name: name.into(),
            samples,
            total_ns,
        };
        let attention = "void serve::attn::paged_decode_kernel<serve::attn::Traits<bf16, 128, 16, \
                         false>, serve::attn::SplitKV<";
        Report {
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
        }
    }

    /// What three armed steps in one of 189 decode steps left.
    fn snapshot(attention: &str) -> Snapshot {
        let estimate = |steps, share: f64, error: Option<f64>| Estimate {
            steps,
            total_ns: share * 1.8932e9,
            share,
            error: error.map(|error| StandardError {
                total_ns: error * 1.8932e9,
                share: error,
            }),
        };
        let kernel = |name: String, near_floor, lanes: &[(&str, Estimate)]| KernelSnapshot {
            name: Some(name),
            near_floor: Some(near_floor),
            lanes: (lanes.iter())
                .map(|(lane, estimate)| KernelLane {
                    lane: (*lane).to_owned(),
                    estimate: *estimate,
                })
                .collect(),
            ..KernelSnapshot::default()
        };
        let mut snapshot = Telemetry::new().snapshot();
        let decode = &mut snapshot.lanes[LANE_DECODE];
        (decode.armed_ns, decode.kernel_ns) = (30_400_000, 29_900_000);
        decode.estimate.covered = Some(estimate(3, 0.984, None));
        for lane in &mut snapshot.lanes {
            lane.launch_bound = Some(LaunchBound {
                launches: 4,
                gap_ns: 9_000,
            });
        }
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
            kernel("serve_gemm_bf16_lm_head".to_owned(), false, &gemm),
            kernel(
                format!("{attention}true> >(serve::attn::Params)"),
                false,
                &[("decode", estimate(64, 0.002, Some(0.0001)))],
            ),
            kernel(
                format!("{attention}false> >(serve::attn::Params)"),
                true,
                &[("decode", estimate(3, 0.0003, None))],
            ),
        ];
        snapshot
    }
}
