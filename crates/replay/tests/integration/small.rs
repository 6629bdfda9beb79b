// SPDX-License-Identifier: MIT OR Apache-2.0
//! A small trace made by hand, whose plan is checked against sums made by hand.

use crate::common::bytes::read;
use crate::common::{Sums, modelled, planned};
use metrale_replay::model;
use metrale_replay::plan::{Node, NodeWork, Plan, Timing, What};
use metrale_replay::steps::Lane;

fn plan(timing: Timing) -> Plan {
    let trace = read(include_bytes!("../data/small.json")).expect("a good trace");
    assert_eq!(trace.drops.total(), 0);
    planned(&trace, timing)
}

#[test]
fn kernels() {
    let expected = [
        ("void claim_slot_kernel(int*)", (1, 2_250)),
        ("gemm_bf16_128x64", (2, 79_750)),
        ("void attn<\"q\", 128>(Params)", (1, 12_000)),
        ("void side_kernel<float>(float*, int)", (1, 5_000)),
        ("void sample_kernel<1024>(float const*, int*)", (2, 15_778)),
        ("void append_token_kernel(int*) é", (1, 2_000)),
        ("void unlaunched_kernel()", (1, 3_000)),
    ];
    let expected: Sums = expected.into_iter().map(|(name, sum)| (name.to_owned(), sum)).collect();
    assert_eq!(modelled(&plan(Timing::Ideal)), expected);
}

#[test]
fn lanes() {
    let plan = plan(Timing::Ideal);
    let outcome = model::run(&plan);
    let found: Vec<(Lane, &str, i64, u64, u64, u64)> = plan
        .spans
        .iter()
        .zip(&outcome.spans)
        .map(|(span, &replayed)| {
            let stream = plan.streams[span.stream as usize].name.as_str();
            (span.lane, stream, span.start_ns, span.span_ns, span.overlap_ns, replayed)
        })
        .collect();
    let expected = [
        (Lane::Admit, "20", 0, 3_001, 0, 3_001),
        (Lane::Admit, "7", 3_500, 2_250, 0, 2_250),
        (Lane::Prefill, "7", 25_125, 92_875, 0, 92_875),
        (Lane::Decode, "7", 325_000, 39_000, 0, 39_000),
        // The last two kernels overlap by one nanosecond.
        (Lane::Decode, "7", 625_000, 39_000, 1, 39_001),
        (Lane::Admit, "7", 695_000, 3_000, 0, 3_000),
    ];
    assert_eq!(found, expected);
    assert_eq!(plan.steps.len(), 3);
    assert_eq!(plan.notes, ["1 pieces of GPU work have no launch record: admit"]);
}

#[test]
fn the_graph_is_one_and_forks() {
    let plan = plan(Timing::Ideal);
    assert_eq!(plan.graph_totals(), (2, 8));
    assert_eq!(plan.graphs.len(), 1, "both launches are of one graph");
    let kernel = |name: &str, duration_ns| {
        let number = plan.kernels.iter().position(|kernel| kernel.contains(name)).expect(name);
        Node { kind: NodeWork::Kernel(number as u32), duration_ns }
    };
    let gap = |duration_ns| Node { kind: NodeWork::Gap, duration_ns };
    let graph = &plan.graphs[0];
    assert_eq!(plan.streams[graph.stream as usize].name, "7");
    // The second kernel of stream 7 runs beside that of stream 20.
    let parts = [
        vec![vec![kernel("gemm", 10_000), gap(500)]],
        vec![vec![kernel("attn", 5_500)], vec![gap(500), kernel("side", 4_000)]],
        vec![vec![gap(250), kernel("gemm", 10_750)]],
    ];
    assert_eq!(graph.parts, parts);
}

/// The operations without their numbers, and when they come.
fn script(plan: &Plan) -> Vec<(u64, &'static str)> {
    let word = |what: &What| match what {
        What::StepBegin { .. } => "step",
        What::StepEnd => "step end",
        What::LaneBegin { .. } => "lane",
        What::LaneEnd { .. } => "lane end",
        What::Kernel { .. } => "kernel",
        What::Copy { .. } => "copy",
        What::Graph { .. } => "graph",
    };
    plan.ops.iter().map(|op| (op.at_ns, word(&op.what))).collect()
}

#[test]
fn admit_work_comes_in_the_step_that_it_precedes() {
    let first = [
        (0, "step"),
        (0, "lane"),
        (0, "copy"),
        (0, "lane end"),
        (3_500, "lane"),
        (3_500, "kernel"),
        (3_500, "lane end"),
        (25_125, "lane"),
        (25_125, "kernel"),
        (45_000, "copy"),
        (66_000, "kernel"),
        (85_000, "kernel"),
        (106_000, "kernel"),
        (106_000, "lane end"),
        (325_000, "step end"),
        (325_000, "step"),
        (325_000, "lane"),
        (325_000, "graph"),
    ];
    let plan = plan(Timing::Ideal);
    assert_eq!(script(&plan)[..first.len()], first);
    let last =
        [(695_000, "lane"), (695_000, "kernel"), (695_000, "lane end"), (695_000, "step end")];
    assert!(script(&plan).ends_with(&last));
}

#[test]
fn honest_launches_come_at_host_times() {
    let first = [
        (0, "step"),
        (0, "lane"),
        (0, "copy"),
        (0, "lane end"),
        (2_000, "lane"),
        (2_000, "kernel"),
        (2_000, "lane end"),
        (18_000, "lane"),
        (18_000, "kernel"),
        (23_000, "kernel"),
        (28_000, "kernel"),
        (28_000, "lane end"),
        (33_000, "copy"),
        (38_000, "kernel"),
        (308_500, "step end"),
    ];
    assert_eq!(script(&plan(Timing::Honest))[..first.len()], first);
}
