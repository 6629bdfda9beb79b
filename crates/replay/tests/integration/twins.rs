// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kernels inside graphs: with every step armed their rows and those of kernels
//! launched one by one are what another tool says of the recording, and what marks
//! took is told.

use std::collections::BTreeMap;

use crate::common::http;
use crate::common::program::{Serving, fact, kernels, number, replay, replay_events};
use crate::common::record::{DECODE, copy, kernel, launch_graph, step};
use crate::common::{Recorded, Sums, needs_simulator, planned, recorded};
use metrale_replay::plan::{Timing, What};
use metrale_replay::workload;
use metrale_telemetry::Snapshot;
use serde_json::Value;

fn added(mut sums: Sums, others: Sums) -> Sums {
    for (name, (launches, ns)) in others {
        let sum = sums.entry(name).or_default();
        *sum = (sum.0 + launches, sum.1 + ns);
    }
    sums
}

/// The traces with graphs, and how many launches of graphs they have.
fn with_graphs(mut check: impl FnMut(&Recorded, u64)) {
    needs_simulator();
    let traces = recorded();
    let mut found = 0;
    for recorded in &traces {
        let steps = recorded.table("steps");
        let launches = steps.iter().filter(|row| row[0] == "graph").count() as u64;
        if launches > 0 {
            check(recorded, launches);
            found += 1;
        }
    }
    assert!(found == 3 || traces.is_empty());
}

#[test]
fn eager_and_inside_rows_add_up_to_the_other_tools_kernels() {
    with_graphs(|recorded, launches| {
        let (name, path) = (recorded.name, &recorded.path());
        let (json, text) = replay(&["--every", "1", "--stamps", "ideal", "--trace", path]);
        let (eager, inside) = (kernels(&json, false), kernels(&json, true));
        assert_eq!(eager, recorded.eager(), "{name}");
        // No graph of these traces takes 16 ms, up to which f32 milliseconds are right
        // to the nanosecond.
        assert_eq!(added(eager, inside), recorded.kernels(), "{name}");
        let twins = &json["twins"];
        assert_eq!((number(&twins["launched"]), number(&twins["read"])), (launches, launches));
        assert_eq!(json["graphs"]["mark_ns"], 0, "marks cost nothing under ideal stamps");
        assert_eq!(json["check"]["kernels"]["unexplained_ns"], 0, "{text}");
        assert!(text.contains("\ninside graphs "), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    });
}

#[test]
fn what_marks_take_is_told_and_taken_off() {
    // What the simulator lets a mark take under honest stamps.
    const MARK_NS: u64 = 1_200;
    with_graphs(|recorded, launches| {
        let (name, path) = (recorded.name, &recorded.path());
        let (json, text) = replay(&["--every", "1", "--stamps", "honest", "--trace", path]);
        let inside = kernels(&json, true);
        // Nothing in a graph waits for its host.
        assert_eq!(added(recorded.eager(), inside), recorded.kernels(), "{name}");
        for row in json["kernels"].as_array().expect("rows") {
            let samples = if row["in_graph"] == true { number(&row["samples"]) } else { 0 };
            assert_eq!(number(&row["marks_ns"]), samples * MARK_NS, "{name}: {row}");
        }
        assert_eq!(number(&json["twins"]["read"]), launches, "{name}");
        assert_eq!(number(&json["graphs"]["mark_ns"]), MARK_NS, "{name}");
        assert!(fact(&text, "inside").contains("a mark takes 1.20 µs"), "{text}");
    });
}

/// A graph of which a kernel overlaps the one before it on its stream, with a gap, a
/// copy and a kernel on another stream beside them; launched so often.
fn recording(launches: u32) -> Vec<String> {
    let mut events = Vec::new();
    for i in 0..launches {
        let (id, at) = (i + 1, 1_000 * i);
        events.push(step(DECODE, at + 10, 50));
        events.push(launch_graph(id, at + 11));
        let at = at + 100;
        events.extend([
            kernel("one", 7, id, at, 100),
            kernel("side", 8, id, at + 20, 150),
            kernel("two", 7, id, at + 90, 60),
            copy("Memcpy DtoD", 7, id, at + 150, 10),
            kernel("one", 7, id, at + 200, 100),
        ]);
    }
    events
}

#[test]
fn what_overlaps_in_a_graph_runs_as_it_was_recorded() {
    let (json, text) = replay_events(&recording(3), &["--every", "1", "--stamps", "ideal"]);
    let expected = [("one", (6, 600_000)), ("side", (3, 450_000)), ("two", (3, 180_000))];
    let expected: Sums = expected.map(|(name, sums)| (name.to_owned(), sums)).into();
    assert_eq!(kernels(&json, true), expected, "{text}");
    assert_eq!(json["check"]["kernels"]["unexplained_ns"], 0, "{text}");
    let decode = &json["lanes"][2];
    assert_eq!(number(&decode["total_ns"]), 3 * 300_000, "{text}");
    assert_eq!(number(&json["twins"]["launched"]), 3, "each launch of one graph: {text}");
}

/// The second device's graphs are replayed in lanes without guards.
#[test]
fn each_device_has_the_rows_of_its_own_graphs() {
    let mut events = recording(3);
    for event in recording(3).iter().filter(|event| !event.contains("user_annotation")) {
        let other = event.replace(r#""device":0"#, r#""device":1"#);
        let other = other.replace(r#""correlation":"#, r#""correlation":10"#);
        events.push(other.replace(r#""pid":0"#, r#""pid":1"#).replace("one", "another"));
    }
    let (json, text) = replay_events(&events, &["--every", "1", "--stamps", "ideal"]);
    let found = json["kernels"].as_array().expect("rows").iter().filter(|row| {
        assert_eq!(row["missed"], 0, "{text}");
        row["in_graph"] == true && row["kind"] == "kernel"
    });
    let found: BTreeMap<_, _> = found
        .map(|row| {
            let name = row["name"].as_str().expect("a name");
            ((number(&row["device"]), name), (number(&row["samples"]), number(&row["total_ns"])))
        })
        .collect();
    let expected = [
        ((0, "one"), (6, 600_000)),
        ((0, "side"), (3, 450_000)),
        ((0, "two"), (3, 180_000)),
        ((1, "another"), (6, 600_000)),
        ((1, "side"), (3, 450_000)),
        ((1, "two"), (3, 180_000)),
    ];
    assert_eq!(found, BTreeMap::from(expected), "{text}");
    assert_eq!(number(&json["twins"]["read"]), 6, "{text}");
}

#[test]
fn without_twins_a_graph_is_one_row() {
    let arguments = ["--every", "1", "--stamps", "ideal", "--twins", "off"];
    let (json, text) = replay_events(&recording(3), &arguments);
    assert!(kernels(&json, true).is_empty(), "{text}");
    assert_eq!((&json["twins"], &json["graphs"]["mark_ns"]), (&Value::Null, &Value::Null));
    assert!(!text.contains("inside"), "{text}");
    let [row] = &json["kernels"].as_array().expect("rows")[..] else { panic!("{text}") };
    assert_eq!((&row["kind"], number(&row["samples"])), (&"graph".into(), 3));
}

/// A launch that comes while the last one still runs has no marks.
#[test]
fn launches_that_come_too_early_are_plain_and_told() {
    // Marks make each launch longer than the time between two.
    let mut events = recording(40);
    for event in &mut events {
        *event = event.replace(r#""dur":100"#, r#""dur":890"#);
    }
    let (json, text) = replay_events(&events, &["--every", "1", "--stamps", "honest"]);
    let unread = number(&json["twins"]["unread"]);
    assert!(unread > 0, "{text}");
    let told = format!("{unread} too soon after one that had");
    assert!(fact(&text, "inside").contains(&told), "{text}");
    let missing = json["kernels"].as_array().expect("rows").iter();
    let missing: u64 = missing.map(|row| number(&row["missed"])).sum();
    assert_eq!(missing, 4 * unread, "{text}");
}

/// What the launch of a graph, and the query before it, cost the host under honest
/// stamps: so long an idle stream waits for it.
const WAIT_NS: f64 = 9_150.0;

/// The demo's table of what is in graphs, against the timeline.
#[test]
fn the_demo_names_kernels_in_graphs_and_is_right() {
    needs_simulator();
    let plan = planned(&workload::builtin().trace, Timing::Ideal);
    let (mut of_kernel, mut all_ns) = (BTreeMap::<u32, u64>::new(), 0);
    let launches = plan.graph_totals().0 as f64;
    for op in &plan.ops {
        let What::Graph { graph } = op.what else { continue };
        all_ns += plan.graphs[graph as usize].length_ns();
        for (kernel, from_ns, to_ns) in plan.graphs[graph as usize].inside() {
            *of_kernel.entry(kernel).or_default() += to_ns - from_ns;
        }
    }
    let mut expected: Vec<u64> = of_kernel.into_values().collect();
    expected.sort_unstable_by_key(|ns| std::cmp::Reverse(*ns));

    for (stamps, wait_ns) in [("ideal", 0.0), ("honest", WAIT_NS)] {
        let (_, text) = replay(&["--stamps", stamps]);
        let table =
            text.split("\n\n").find(|table| table.starts_with("inside graphs ")).expect("it");
        let rows: Vec<&str> =
            table.lines().skip(1).filter(|row| !row.starts_with("and ")).collect();
        assert_eq!(rows.len(), 8, "{table}");
        for (row, ns) in rows.iter().zip(&expected) {
            // Name, share and its unit, error and its unit, total and its unit, launches.
            let words: Vec<&str> = row.split_whitespace().rev().collect();
            let number = |at: usize| words[at].parse::<f64>().expect("a number");
            let (total, error, share) = (number(2), number(4), number(6));
            let true_share = 100.0 * *ns as f64 / (all_ns as f64 + launches * wait_ns);
            // Two errors, and what printing rounds.
            assert!((share - true_share).abs() <= 2.0 * error + 0.05, "{row}: {true_share}");
            assert_eq!(words[1], "s");
            assert!((total * 1e9 / *ns as f64 - 1.0).abs() < 0.005, "{row}: {ns} ns");
            assert!(number(0) >= 30.0, "{row}");
        }
    }
}

/// A graph that is launched on an idle stream takes the time of that launch too, which
/// is in no row of it: what rows tell is low by its part of the graph.
#[test]
fn the_wait_for_a_graphs_launch_is_in_no_row() {
    let rest = |stamps: &str| {
        let serving = Serving::start(["--for", "60", "--stamps", stamps]);
        let snapshot: Snapshot = http::json(serving.port, "/snapshot.json");
        let [graph] = &snapshot.graphs[..] else { panic!("{:?}", snapshot.graphs) };
        let figures = &graph.figures;
        let plain_ns = figures.plain_ns as f64 / figures.plain_launches as f64;
        plain_ns * figures.remainder_ns / figures.total_ns
    };
    let (ideal_ns, honest_ns) = (rest("ideal"), rest("honest"));
    // Of 8.4 ms: what windows are off.
    assert!(ideal_ns.abs() < 2_000.0, "{ideal_ns}");
    assert!((honest_ns - ideal_ns - WAIT_NS).abs() < 1_000.0, "{honest_ns}, {ideal_ns}");
}
