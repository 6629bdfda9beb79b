// SPDX-License-Identifier: MIT OR Apache-2.0
//! What programs read is what they know of themselves.

use crate::cc::{Link, Program, file, has};
use metrale_telemetry::Snapshot;
use std::collections::BTreeMap;
use std::fs;

const SERVE: &str = "examples/serve.c";
const TWINS: &str = "tests/c/twins.c";
const WHOLE: &str = "tests/c/whole.c";

/// A program's own sums, by name, and the snapshot after them.
fn told(output: &str) -> (BTreeMap<&str, u64>, Snapshot) {
    let (sums, json) = output.split_at(output.find('{').expect("a snapshot"));
    let own = sums
        .lines()
        .map(|line| line.rsplit_once(' ').expect("name and value"))
        .map(|(name, ns)| (name, ns.parse().expect("a number")));
    (own.collect(), serde_json::from_str(json).expect("a snapshot"))
}

fn check_sums(output: &str) {
    let (own, snapshot) = told(output);
    let lanes = snapshot.lanes.iter();
    let lanes = lanes.map(|lane| (lane.lane.as_str(), lane.gpu.sum_ns()));
    let kernels = snapshot.kernels.iter();
    let kernels = kernels.map(|row| (row.name.as_deref().unwrap_or("?"), row.total_ns));
    assert_eq!(lanes.chain(kernels).collect::<BTreeMap<_, _>>(), own);

    let host = &snapshot.host;
    // Three threads with 100 steps of four launches, of which one fails, and a graph.
    assert_eq!((host.launches, host.graph_launches), (1_200, 300));
    // The one that is refused an argument is never ended.
    assert_eq!((snapshot.steps, host.step_wall.count()), (301, 300));
    let walls = snapshot.lanes.iter().map(|lane| lane.wall.count());
    assert_eq!(walls.collect::<Vec<_>>(), [0, 300, 300, 300]);
    let [recorder] = &snapshot.recorders[..] else {
        panic!("{:?}", snapshot.recorders);
    };
    assert_eq!(recorder.label, "whole");
    assert_eq!(recorder.kernel_ledger.stale_ends, 1);
    assert_eq!(recorder.kernel_ledger.cancelled, 300);
    assert_eq!(recorder.lane_ledger.cancelled, 301);
}

#[test]
fn a_program_in_c_reads_its_own_sums() {
    for link in [Link::Shared, Link::Static] {
        let program = Program::compile(WHOLE, link);
        check_sums(&program.output());
        if has("valgrind") {
            check_sums(&program.checked_output());
        }
    }
}

/// 60 replays of a graph of three kernels, of which the first is plain.
fn check_twins(output: &str) {
    let (own, snapshot) = told(output);
    let [graph] = &snapshot.graphs[..] else {
        panic!("{:?}", snapshot.graphs);
    };
    assert_eq!(graph.name.as_deref(), Some("decode, 8 requests"));
    let rows = graph.figures.rows.iter();
    let rows = rows.map(|row| (row.name.as_deref().unwrap_or("?"), row.sampled_ns));
    assert_eq!(rows.collect::<BTreeMap<_, _>>(), own);
    let samples: Vec<u64> = graph.figures.rows.iter().map(|row| row.samples).collect();
    assert_eq!(samples, [2 * 59, 59]);
    let replays = &snapshot.recorders[0].replays;
    assert_eq!((replays.launched, replays.read, replays.updates_failed), (59, 59, 1));
    assert_eq!(snapshot.recorders[0].kernel_ledger.cancelled, 1);
}

#[test]
fn a_program_in_c_sees_into_its_graph() {
    let program = Program::compile(TWINS, Link::Shared);
    check_twins(&program.output());
    if has("valgrind") {
        check_twins(&program.checked_output());
    }
}

#[test]
fn the_example_of_the_documentation_serves() {
    let program = Program::compile(SERVE, Link::Shared);
    let check = |page: &str| {
        let told = "# 256 steps, 1280000 ns of GPU time in decode\n";
        assert!(page.starts_with(told), "{page}");
        assert!(page.contains("metrale_gpu_lane_seconds_count{gpu="), "{page}");
    };
    check(&program.output());
    if has("valgrind") {
        check(&program.checked_output());
    }
}

#[test]
fn the_documentation_shows_the_example() {
    let page = fs::read_to_string(file("../../docs/c.md")).expect("docs/c.md");
    let example = fs::read_to_string(file(SERVE)).expect(SERVE);
    let (_, example) = example.split_once('\n').expect("a licence line");
    let shown = page.contains(&format!("\n```c\n{example}```\n"));
    assert!(shown, "docs/c.md does not show {SERVE} as it is");
}
