// SPDX-License-Identifier: MIT OR Apache-2.0
//! The built-in workload, planned, is what its generator added up.

use crate::common::{modelled, planned};
use metrale_replay::plan::{Timing, What};
use metrale_replay::steps::Lane;
use metrale_replay::{model, workload};

#[test]
fn the_plan_adds_up_to_the_generators_sums() {
    let work = workload::builtin();
    let plan = planned(&work.trace, Timing::Ideal);
    let outcome = model::run(&plan);
    assert_eq!(modelled(&plan), work.eager);
    assert_eq!(plan.graph_totals(), work.graphs);

    let lanes: Vec<(Lane, u64)> = plan
        .spans
        .iter()
        .zip(&outcome.spans)
        .filter(|(span, _)| span.step.is_some())
        .map(|(span, ns)| (span.lane, *ns))
        .collect();
    assert_eq!(lanes, work.steps);
    assert!(plan.spans.iter().all(|span| span.overlap_ns == 0));
    assert!(plan.notes.is_empty(), "{:?}", plan.notes);
}

#[test]
fn it_is_shaped_like_a_server() {
    let work = workload::builtin();
    let plan = planned(&work.trace, Timing::Honest);
    let outcome = model::run(&plan);
    assert_eq!(plan.steps.len(), workload::STEPS);
    let of = |lane| plan.spans.iter().filter(|span| span.lane == lane).count();
    let (admit, prefill, decode) = (of(Lane::Admit), of(Lane::Prefill), of(Lane::Decode));
    assert!(admit > 0 && prefill > 0 && decode > 2 * prefill, "{admit} {prefill} {decode}");
    assert!(plan.graphs.len() <= 4, "one graph per batch size: {}", plan.graphs.len());
    assert_eq!(plan.graphs[0].kernels(), 420);
    assert!(outcome.length_ns < 80_000_000_000, "{}", outcome.length_ns);
    let longest = plan.ops.iter().filter_map(|op| match op.what {
        What::Kernel { duration_ns, .. } => Some(duration_ns),
        _ => None,
    });
    assert!(longest.max().expect("kernels") < 8_000_000);
    assert!(plan.kernels.len() >= 22);
}

#[test]
fn it_is_the_same_every_time() {
    let plan = || {
        let trace = workload::generate(200, 7).trace;
        planned(&trace, Timing::Ideal)
    };
    let (one, two) = (plan(), plan());
    assert_eq!(one.ops, two.ops);
    assert_eq!(one.graphs, two.graphs);
}
