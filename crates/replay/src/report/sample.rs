// SPDX-License-Identifier: MIT OR Apache-2.0
//! A report with something in every part, for tests.

use super::*;
use crate::check::Differences;
use crate::device::GAPS;
use metrale_telemetry::kernel::{LANE_DECODE, LaneFigures, StandardError, StepShape};
use metrale_telemetry::snapshot::{GraphFigures, GraphSnapshot, StepLane};
use metrale_telemetry::{Floor, Telemetry};

pub(crate) fn report() -> Report {
    let attention = "void serve::attn::paged_decode_kernel<serve::attn::Traits<bf16, 128, 16, \
                     false>, serve::attn::SplitKV<";
    let latency = Excess { share: 0.226, is_known: true };
    let mut report = Report {
        schema: SCHEMA,
        driver: DriverKind::Simulated,
        driver_path: "target/sim/libcuda.so.1".into(),
        device: "metrale simulated GPU".into(),
        trace: None,
        every: 64,
        stamps: Stamps::Honest,
        steps: 200,
        armed_steps: 3,
        lanes: vec![
            lane("admit", 12, 310_400, [24_800, 31_007]),
            lane("prefill", 11, 412_900_113, [37_612_000, 52_000_100]),
            lane("decode", 189, 1_893_200_007, [10_012_345, 10_743_181]),
        ],
        devices: vec![DeviceRow::default()],
        kernels: vec![
            KernelRow {
                missed: 2,
                lanes: vec![
                    estimate("decode", 64, 0.031, Some(0.0012)),
                    estimate("prefill", 29, 0.2, None),
                ],
                ..kernel("serve_gemm_bf16_lm_head", 64, 936_000)
            },
            KernelRow {
                overruns: 1,
                excess: Some(latency),
                lanes: vec![estimate("decode", 64, 0.002, Some(0.00002))],
                ..kernel(&format!("{attention}true> >(Params)"), 3, 61_200)
            },
            KernelRow {
                lanes: vec![estimate("decode", 3, 0.0003, None)],
                ..kernel(&format!("{attention}false> >(Params)"), 3, 9_300)
            },
            KernelRow { missed: 7, ..kernel("without_a_row", 0, 0) },
        ],
        graphs: GraphTotals { launches: 189, kernels: 79_380, mark_ns: Some(1_200) },
        twins: Some(twins()),
        ledger: ledger(),
        driver_calls: [("cuEventRecord".to_owned(), 466)].into(),
        check: Some(Check {
            lanes: Differences { overlap_ns: 112, rounding_ns: 3, ..Differences::default() },
            kernels: Some(Differences {
                missed_spans: 2,
                missed_ns: 29_000,
                rowless: 1,
                rowless_ns: 49_560_000,
                unexplained_ns: 9,
                ..Differences::default()
            }),
        }),
        slowest_steps: vec![
            slow_step(17, 52_000_100, Some((8_155, 37, 46))),
            slow_step(12_345_678, 10_743_181, None),
        ],
        notes: vec!["2 records dropped: 2 stamp 0 (never collected)".into()],
        shown: Shown { snapshot: snapshot(), planned_ns: 1_000_000 },
    };
    let prefill = &mut report.lanes[1];
    (prefill.overlap_ns, prefill.overlap_lanes_ns, prefill.overruns) = (112, 5_000, 1);
    let decode = &mut report.lanes[LANE_DECODE];
    (decode.gaps, decode.gap_p50_ns, decode.missed) = (188, 324_000, 1);
    (decode.armed_ns, decode.busy_ns, decode.idle_ns) = (30_400_000, 29_900_000, 500_000);
    (decode.lead_ns, decode.waited_ns, decode.tail_ns) = (100_000, 400_000, 0);
    (decode.overlap_busy_ns, decode.outside_ns) = (7_000, 3_000);
    (decode.incomplete_steps, decode.incomplete_ns) = (1, 10_000_000);
    report
}

fn lane(lane: &str, spans: u64, total_ns: u64, [p50_ns, p99_ns]: [u64; 2]) -> LaneRow {
    LaneRow { lane: lane.into(), spans, total_ns, p50_ns, p99_ns, ..LaneRow::default() }
}

fn kernel(name: &str, samples: u64, total_ns: u64) -> KernelRow {
    KernelRow { name: name.into(), samples, total_ns, ..KernelRow::default() }
}

fn estimate(lane: &str, steps: u64, share: f64, error: Option<f64>) -> KernelLane {
    let mut row = KernelLane::default();
    row.lane = lane.into();
    (row.estimate.steps, row.estimate.share) = (steps, share);
    row.estimate.total_ns = share * 1.8932e9;
    row.estimate.error = error.map(|share| {
        let mut error = StandardError::default();
        (error.total_ns, error.share) = (share * 1.8932e9, share);
        error
    });
    row
}

fn ledger() -> LedgerTotals {
    let mut spans = Ledger::default();
    (spans.attempts, spans.begun, spans.landed) = (233, 232, 231);
    (spans.dropped, spans.failed) = (1, 1);
    LedgerTotals { spans, table_full: 0 }
}

fn slow_step(number: u64, gpu_ns: u64, shape: Option<(u32, u32, u32)>) -> SlowStepRow {
    let mut step = StepSnapshot::default();
    (step.number, step.gpu_ns, step.incomplete) = (number, gpu_ns, shape.is_none());
    step.shape = shape.map(|(prompt, decode, requests)| {
        let shape = StepShape::new().prompt_tokens(prompt);
        shape.decode_tokens(decode).requests(requests)
    });
    step.lanes = [("admit", gpu_ns / 100), ("prefill", gpu_ns - gpu_ns / 100)]
        .map(|(name, gpu_ns)| {
            let mut lane = StepLane::default();
            (lane.lane, lane.gpu_ns) = (name.into(), gpu_ns);
            lane
        })
        .into();
    SlowStepRow { device: 0, step }
}

fn twins() -> TwinLedger {
    let mut twins = TwinLedger::default();
    (twins.launched, twins.read, twins.by_turn, twins.unread) = (31, 30, 32, 1);
    twins
}

/// A graph that took 1.79 s, with a row of enough launches and one of too few.
fn graph() -> GraphSnapshot {
    let mut figures = GraphFigures::default();
    (figures.nodes, figures.twin_launches, figures.total_ns) = (840, 30, 1.79e9);
    (figures.twin_ns, figures.marks_ns) = (290_000_000, 5_000_000);
    let rows = [("gemm", 30, 0.55, Some(0.012)), ("rope", 7, 0.0625, None), (GAPS, 30, 0.04, None)];
    for (name, launches, share, error) in rows {
        let mut row = metrale_telemetry::snapshot::GraphRow::default();
        row.name = Some(name.into());
        row.estimate = estimate("", launches, share, error).estimate;
        figures.rows.push(row);
    }
    GraphSnapshot::new(Some("graph of 420 kernels".into()), figures)
}

/// What three armed steps in one of 189 decode steps left.
fn snapshot() -> Snapshot {
    let mut snapshot = Telemetry::new().snapshot();
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
    snapshot.graphs.push(graph());
    snapshot.host.launches = 6_210;
    snapshot.host.graph_launches = 189;
    snapshot
}
