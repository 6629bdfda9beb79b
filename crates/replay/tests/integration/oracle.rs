// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plans of the real traces, held against sums that another tool made.
//!
//! The traces lie in `../shared/traces` from the project's root, or where
//! METRALE_TRACES says; `METRALE_TRACES=skip` runs without them. Where they are
//! absent the tests are skipped with a printed reason, except where they were
//! named or under `CI=true`: there that fails.

use crate::common::{Recorded, Sums, modelled, planned, recorded};
use metrale_replay::model;
use metrale_replay::plan::{Plan, Timing, What};
use metrale_replay::steps::Lane;
use metrale_replay::trace::WorkKind;

fn each(mut check: impl FnMut(&Recorded, &Plan)) {
    for recorded in recorded() {
        check(&recorded, &planned(&recorded.trace(), Timing::Ideal));
    }
}

#[test]
fn every_kernel_has_its_launches_and_its_total() {
    for recorded in recorded() {
        let trace = recorded.trace();
        let mut found = Sums::new();
        for work in &trace.work {
            if let WorkKind::Kernel(kernel) = work.kind {
                let sum = found.entry(trace.names.text(kernel)).or_default();
                *sum = (sum.0 + 1, sum.1 + work.duration_ns);
            }
        }
        assert_eq!(found, recorded.kernels(), "{}", recorded.name);
        assert_eq!(trace.drops.total(), 0, "{}", recorded.name);
    }
}

#[test]
fn eager_kernels_are_exact_and_graph_kernels_have_no_row() {
    each(|recorded, plan| assert_eq!(modelled(plan), recorded.eager(), "{}", recorded.name));
}

#[test]
fn lane_spans_are_the_recorded_extents() {
    each(|recorded, plan| {
        let name = recorded.name;
        let outcome = model::run(plan);
        let rows = recorded.table("steps");
        let mut expected = Vec::new();
        for row in rows.iter().filter(|row| row[0] != "graph" && !row[10].is_empty()) {
            let numbers: Vec<i64> = row[10..13].iter().map(|n| n.parse().unwrap()).collect();
            expected.push((row[1].clone(), row[9].clone(), numbers));
        }
        let mut found = Vec::new();
        for (span, &replayed) in plan.spans.iter().zip(&outcome.spans) {
            let step = span.step.map_or("", |s| &plan.steps[s as usize].name);
            let stream = &plan.streams[span.stream as usize].name;
            let numbers = vec![span.start_ns, span.span_ns as i64, span.overlap_ns as i64];
            found.push((step.to_owned(), stream.clone(), numbers));
            // An in-order stream can only lay overlaps end to end.
            assert!(
                (span.span_ns..=span.span_ns + span.overlap_ns).contains(&replayed),
                "{name}: {replayed} for {span:?}"
            );
        }
        expected.sort();
        found.sort();
        assert_eq!(found, expected, "{name}");
    });
}

#[test]
fn graphs_are_the_recorded_launches() {
    each(|recorded, plan| {
        let name = recorded.name;
        let rows = recorded.table("steps");
        let mut launched = plan.ops.iter().filter_map(|op| match op.what {
            What::Graph { graph } => Some((op.at_ns, &plan.graphs[graph as usize])),
            _ => None,
        });
        for row in rows.iter().filter(|row| row[0] == "graph") {
            let number = |column: usize| row[column].parse::<u64>().unwrap();
            let (at_ns, graph) = launched.next().expect("as many launches as rows");
            assert_eq!((at_ns, graph.kernels() as u64), (number(2), number(6)), "{name}");
            // Nodes that overlap are laid end to end.
            let (span, overlap) = (number(3), number(5) - number(4));
            assert!((span..=span + overlap).contains(&graph.length_ns()), "{name} {row:?}");
        }
        assert!(launched.next().is_none(), "{name}");
    });
}

#[test]
fn lanes_are_what_the_names_state() {
    each(|recorded, plan| {
        let lanes: Vec<Lane> = plan.steps.iter().map(|s| s.lane).collect();
        let stated = !plan.notes.iter().any(|n| n.contains("no token count"));
        match recorded.name {
            "vllm-prefill-decode-piecewise" => {
                assert_eq!((lanes, stated), (vec![Lane::Prefill], true))
            }
            "ddp-five-steps" => assert_eq!((lanes, stated), (vec![Lane::Decode; 5], false)),
            "h100-qwen-eager" => assert_eq!((lanes, stated), (vec![Lane::Decode], false)),
            _ => assert_eq!((lanes, stated), (vec![Lane::Decode], true)),
        }
    });
}

#[test]
fn honest_times_keep_the_order_of_every_stream() {
    for recorded in recorded() {
        let (name, trace) = (recorded.name, recorded.trace());
        let [ideal, honest] = [Timing::Ideal, Timing::Honest].map(|timing| planned(&trace, timing));
        assert!(honest.ops.is_sorted_by_key(|op| op.at_ns), "{name}");
        for stream in 0..ideal.streams.len() as u32 {
            let on = |plan: &Plan| -> Vec<String> {
                let mine = plan.ops.iter().filter_map(|op| match op.what {
                    What::Kernel { stream: s, kernel, duration_ns } if s == stream => {
                        Some(format!("{} {duration_ns}", plan.kernels[kernel as usize]))
                    }
                    What::Copy { stream: s, copy, .. } if s == stream => {
                        Some(plan.copies[copy as usize].clone())
                    }
                    What::Graph { graph } if plan.graphs[graph as usize].stream == stream => {
                        Some(format!("graph {graph}"))
                    }
                    _ => None,
                });
                mine.collect()
            };
            assert_eq!(on(&ideal), on(&honest), "{name} stream {stream}");
        }
    }
}
