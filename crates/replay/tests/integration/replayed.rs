// SPDX-License-Identifier: MIT OR Apache-2.0
//! The whole program on the simulated driver: what the recorder read, held
//! against the workload's own sums, another tool's, and an in-order model.

use std::collections::BTreeMap;

use crate::common::program::{fact, kernels, number, replay};
use crate::common::{Recorded, needs_simulator, planned, recorded};
use metrale_replay::plan::{Plan, Timing};
use metrale_replay::steps::Lane;
use metrale_replay::{model, workload};
use serde_json::Value;

/// What a recorder must have done with every span: landed it.
fn assert_closed(json: &Value) {
    let ledger = |part: &str| number(&json["ledger"][part]);
    assert_eq!(ledger("attempts"), ledger("begun"), "{}", json["ledger"]);
    assert_eq!(ledger("begun"), ledger("landed"), "{}", json["ledger"]);
    let lost = "dropped refused failed cancelled reclaimed in_flight stale_ends table_full";
    for part in lost.split(' ') {
        assert_eq!(ledger(part), 0, "{part}: {}", json["ledger"]);
    }
}

/// The budget of driver calls, from the simulator's own counts.
fn assert_within_budget(json: &Value) {
    let calls = |name: &str| json["driver_calls"].get(name).map_or(0, number);
    let (begun, steps) = (number(&json["ledger"]["begun"]), number(&json["steps"]));
    let devices = json["devices"].as_array().expect("rows").len() as u64;
    // A step is followed on each device that has a span of it.
    let anchors = number(&json["armed_steps"]) * devices;
    let lanes = json["lanes"].as_array().expect("rows").iter();
    let lanes: u64 = lanes.map(|row| number(&row["spans"])).sum();
    // Two marks of a fork or join are the application's own.
    let own = calls("cuStreamWaitEvent");
    assert!(calls("cuEventRecord") - own <= 2 * begun + anchors + own, "{}", json["driver_calls"]);
    assert_eq!(calls("cuStreamIsCapturing"), 2 * begun, "one query to a record");
    let reads = calls("cuEventElapsedTime") + calls("cuEventElapsedTime_v2");
    let modes = calls("cuThreadExchangeStreamCaptureMode");
    // A pass with a poll exchanges the mode twice, on each of two rings; on
    // each stream it may ask once and read once in vain.
    let streams = calls("cuStreamCreate");
    assert!(calls("cuEventQuery") <= modes / 2 * (streams + anchors), "{}", json["driver_calls"]);
    assert!(
        // Its time, its place, and before a lane's span the gap.
        reads <= 2 * begun + lanes + modes / 2 * streams,
        "{}",
        json["driver_calls"]
    );
    assert!(modes <= 4 * (steps + json["driver_calls"]["cuLaunchKernel"].as_u64().unwrap_or(0)));
    for forbidden in ["cuCtxSynchronize", "cuEventSynchronize", "cuEventDestroy_v2"] {
        let allowed = if forbidden == "cuEventDestroy_v2" { own } else { 0 };
        assert!(calls(forbidden) <= allowed, "{forbidden}");
    }
}

/// Each lane's total is that of an in-order device: to the nanosecond where a
/// span is under 16 ms (an f32 millisecond's step is under 1 ns there), else to
/// the f32 milliseconds that the driver gives.
fn assert_lanes(json: &Value, plan: &Plan) {
    let outcome = model::run(plan);
    let names = [(Lane::Admit, "admit"), (Lane::Prefill, "prefill"), (Lane::Decode, "decode")];
    for (row, (lane, name)) in json["lanes"].as_array().expect("rows").iter().zip(names) {
        assert_eq!(row["lane"], name);
        let spans: Vec<u64> = (plan.spans.iter().zip(&outcome.spans))
            .filter(|(span, _)| span.lane == lane)
            .map(|(_, ns)| *ns)
            .collect();
        let rounding: f64 = spans
            .iter()
            .map(|&ns| if ns < 16_000_000 { 0.0 } else { 0.5 + ns as f64 / f64::from(1 << 24) })
            .sum();
        assert_eq!(number(&row["spans"]), spans.len() as u64, "{name}");
        let (found, expected) = (number(&row["total_ns"]), spans.iter().sum::<u64>());
        assert!(found.abs_diff(expected) as f64 <= rounding, "{name}: {found}, not {expected}");
    }
}

#[test]
fn the_built_in_workload_adds_up_to_the_nanosecond() {
    needs_simulator();
    let (json, text) = replay(&["--every", "1", "--stamps", "ideal", "--twins", "off"]);
    let workload = workload::builtin();
    assert_eq!(kernels(&json, false), workload.eager);
    let plan = planned(&workload.trace, Timing::Ideal);
    assert_lanes(&json, &plan);
    assert_closed(&json);
    assert_within_budget(&json);
    assert_eq!(
        (number(&json["steps"]), number(&json["armed_steps"])),
        (workload::STEPS as u64, workload::STEPS as u64)
    );
    assert_eq!(json["driver"], "simulated");
    assert_eq!(json["trace"], Value::Null);
    let path = json["driver_path"].as_str().expect("a path");
    assert!(path.ends_with("libcuda.so.1") || path.ends_with("libcuda.so"), "{path}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn one_step_in_64_is_armed_and_the_page_says_so() {
    needs_simulator();
    let (json, text) = replay(&["--stamps", "ideal"]);
    assert_eq!((number(&json["every"]), number(&json["armed_steps"])), (64, 128));
    assert!(text.contains("one in 64 armed: 128"), "{text}");
    assert_closed(&json);
    // Lanes are timed on every step all the same.
    let plan = planned(&workload::builtin().trace, Timing::Ideal);
    assert_lanes(&json, &plan);
}

#[test]
fn the_same_replay_gives_the_same_result() {
    needs_simulator();
    assert_eq!(replay(&["--every", "7"]), replay(&["--every", "7"]));
}

#[test]
fn recorded_traces_give_exactly_the_other_tools_sums() {
    needs_simulator();
    for recorded in recorded() {
        let path = &recorded.path();
        let (json, _) =
            replay(&["--every", "1", "--stamps", "ideal", "--twins", "off", "--trace", path]);
        // No launch of these traces reaches 8 ms; no kernel of a graph has a row.
        assert_eq!(kernels(&json, false), recorded.eager(), "{}", recorded.name);
        assert_steps(&json, &recorded);
        assert_gaps(&json, &recorded);
        assert_closed(&json);
        assert_within_budget(&json);
        assert_lanes(&json, &planned(&recorded.trace(), Timing::Ideal));
        assert_eq!(json["trace"], *path);

        let (sampled, text) = replay(&["--every", "64", "--trace", path]);
        assert!(text.contains("one in 64 armed"), "{text}");
        assert!(number(&sampled["armed_steps"]) <= 1);
        assert_closed(&sampled);
    }
}

/// Lane totals against the other tool's extents of each step.
fn assert_steps(json: &Value, recorded: &Recorded) {
    let name = recorded.name;
    let (mut spans, mut overlap, mut graphs) = (BTreeMap::<&str, Vec<u64>>::new(), 0, (0, 0));
    for row in recorded.table("steps") {
        let lane_span: u64 = row[11].parse().unwrap();
        if row[0] == "graph" {
            graphs = (graphs.0 + 1, graphs.1 + row[6].parse::<u64>().unwrap());
            continue;
        }
        overlap += row[12].parse::<u64>().unwrap();
        let prompt = row[1].contains("_context_") && !row[1].contains("_context_0(");
        let lane = match (row[0].as_str(), prompt) {
            ("outside", _) => "admit",
            (_, true) => "prefill",
            (_, false) => "decode",
        };
        if lane_span > 0 {
            spans.entry(lane).or_default().push(lane_span);
        }
    }
    for row in json["lanes"].as_array().expect("rows") {
        let of_lane = spans.remove(row["lane"].as_str().expect("a name")).unwrap_or_default();
        assert_eq!(number(&row["spans"]), of_lane.len() as u64, "{name}: {row}");
        let rounding: f64 = of_lane.iter().map(|&ns| 0.5 + ns as f64 / f64::from(1 << 24)).sum();
        let stated = number(&row["overlap_ns"]);
        let (found, expected) = (number(&row["total_ns"]), of_lane.iter().sum::<u64>());
        assert!(found as f64 >= expected as f64 - rounding, "{name}: {row}, not {expected}");
        assert!(found as f64 <= (expected + stated) as f64 + rounding, "{name}: {row}");
        overlap -= stated;
    }
    assert_eq!(overlap, 0, "{name}: the overlap is stated");
    let found = (number(&json["graphs"]["launches"]), number(&json["graphs"]["kernels"]));
    assert_eq!(found, graphs, "{name}");
}

/// Gaps before lanes: from one extent's end to the next one's start on the
/// stream, by the other tool's table. Of these traces no neighbours overlap.
fn assert_gaps(json: &Value, recorded: &Recorded) {
    let (name, rows) = (recorded.name, recorded.table("steps"));
    let mut extents: Vec<(&str, u64, u64, u64)> = rows
        .iter()
        .filter(|row| row[0] != "graph" && row[11] != "0")
        .map(|row| {
            let numbers = [10, 11, 12].map(|column| row[column].parse::<u64>().unwrap());
            (row[9].as_str(), numbers[0], numbers[1], numbers[2])
        })
        .collect();
    extents.sort_unstable();
    let (mut expected, mut gaps) = (0, 0);
    for pair in extents.windows(2).filter(|pair| pair[0].0 == pair[1].0) {
        let (_, start, span, overlap) = pair[0];
        assert_eq!(overlap, 0, "{name}: it would move the end");
        expected += pair[1].1 - (start + span);
        gaps += 1;
    }
    let steps = match name {
        "h100-qwen-eager" => 1,
        "ddp-five-steps" => 4,
        _ => 0,
    };
    assert_eq!(gaps, steps, "{name}");
    let lanes = json["lanes"].as_array().expect("rows");
    let found: u64 = lanes.iter().map(|row| number(&row["gap_ns"])).sum();
    assert_eq!(found, expected, "{name}");
}

#[test]
fn an_honest_host_reads_more_and_says_how_much() {
    needs_simulator();
    let small = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/small.json");
    let (ideal, _) = replay(&["--every", "1", "--stamps", "ideal", "--trace", small]);
    let (honest, text) = replay(&["--every", "1", "--stamps", "honest", "--trace", small]);
    assert_closed(&honest);
    let sum = |json: &Value| kernels(json, false).values().map(|row| row.1).sum::<u64>();
    assert!(sum(&honest) > sum(&ideal));
    let more = fact(&text, "check");
    let told = more.starts_with("kernels read ") && more.contains(" longer than they ran");
    assert!(told, "{text}");
    assert_eq!(kernels(&honest, false).len(), kernels(&ideal, false).len());
}
