// SPDX-License-Identifier: MIT OR Apache-2.0
//! What steps were made of, and lanes that the caller named, from the names of a
//! recording's annotations to the result.

use std::collections::BTreeMap;

use crate::common::program::{number, replay, replay_events};
use crate::common::record::{kernel, launch, step};
use metrale_replay::workload;
use serde_json::{Value, json};

const PROPOSE: &str = "propose_4";

/// Steps of 100 µs with one kernel each, by name and its time in microseconds.
fn events(steps: &[(&str, u32)]) -> Vec<String> {
    let of_step = |(at, (name, took)): (u32, &(&str, u32))| {
        let (ts, id) = (1_000_000 + at * 100, at + 1);
        [step(name, ts, 90), launch(id, ts + 1), kernel("forward", 7, id, ts + 10, *took)]
    };
    (0..).zip(steps).flat_map(of_step).collect()
}

#[test]
fn a_step_is_in_the_lane_and_has_the_shape_that_its_name_tells() {
    let events = events(&[
        ("execute_520_context_1(512)_generation_8(8)", 50),
        (PROPOSE, 20),
        ("step[DECODE bs=8]", 30),
        (PROPOSE, 10),
    ]);
    let arguments = ["--stamps", "ideal", "--lane", "draft", "--step-pattern", "propose*=draft"];
    let (json, text) = replay_events(&events, &arguments);
    let lanes = json["lanes"].as_array().expect("lanes");
    let lanes: BTreeMap<_, _> = (lanes.iter())
        .map(|lane| (lane["lane"].as_str().expect("a name"), number(&lane["total_ns"])))
        .collect();
    let expected = [("admit", 0), ("decode", 30_000), ("draft", 30_000), ("prefill", 50_000)];
    assert_eq!(lanes, BTreeMap::from(expected));
    assert!(text.contains("check     lanes, equal") || text.contains("lanes equal"), "{text}");
    let slowest = json["slowest_steps"].as_array().expect("steps");
    let told: Vec<_> = (slowest.iter())
        .map(|step| {
            let lane = step["lanes"][0]["lane"].as_str().expect("a name");
            (number(&step["number"]), number(&step["gpu_ns"]), lane, step["shape"].clone())
        })
        .collect();
    let shape = |prompt, decode, requests| json!({"prompt_tokens": prompt, "decode_tokens": decode, "requests": requests});
    assert_eq!(
        told,
        [
            (0, 50_000, "prefill", shape(512, 8, 9)),
            (2, 30_000, "decode", shape(0, 8, 8)),
            (1, 20_000, "draft", Value::Null),
            (3, 10_000, "draft", Value::Null),
        ]
    );
}

/// The slowest steps of the built-in workload are those of its own sums, with the
/// tokens that their names tell.
#[test]
fn the_slowest_steps_of_the_workload_are_told_with_their_shape() {
    crate::common::needs_simulator();
    let workload = workload::builtin();
    let (json, _) = replay(&["--stamps", "ideal"]);
    let slowest = json["slowest_steps"].as_array().expect("steps");
    assert_eq!(slowest.len(), 32);
    let annotations = &workload.trace.annotations;
    for step in slowest {
        let name = workload.trace.names.text(annotations[number(&step["number"]) as usize].name);
        let shape = |key: &str| number(&step["shape"][key]);
        let (prompt, decode) = (shape("prompt_tokens"), shape("decode_tokens"));
        let end = format!("_generation_{decode}({decode})");
        assert!(name.contains(&format!("({prompt})_")) && name.ends_with(&end), "{name}: {step}");
    }
    // A step's record has its admit work too, so no step is faster than its own.
    let mut own: Vec<u64> = workload.steps.iter().map(|(_, ns)| *ns).collect();
    own.sort_unstable_by(|a, b| b.cmp(a));
    for (step, own_ns) in slowest.iter().zip(own) {
        assert!(number(&step["gpu_ns"]) >= own_ns, "{step}: {own_ns}");
    }
}
