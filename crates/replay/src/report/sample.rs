// SPDX-License-Identifier: MIT OR Apache-2.0
//! A report with something in every part, for tests.

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
