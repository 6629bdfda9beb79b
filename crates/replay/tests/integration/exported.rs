// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `--timeline` writes, read back by the replay: the same rows, and the same
//! lanes.

use std::collections::BTreeMap;
use std::path::Path;

use crate::common::program::{number, replay};
use crate::common::record::{DECODE, PREFILL, copy, file, kernel, launch, step};
use crate::common::{needs_simulator, recorded};
use metrale_telemetry::kernel::MAX_RECORDED_STEPS;
use serde_json::Value;

/// Figures of a row or a lane, by name.
type Rows = BTreeMap<String, Vec<u64>>;

fn rows(json: &Value, list: &str, key: impl Fn(&Value) -> String, figures: &[&str]) -> Rows {
    let mut found = Rows::new();
    for row in json[list].as_array().expect("rows") {
        let figures: Vec<u64> = figures.iter().map(|figure| number(&row[figure])).collect();
        if figures.iter().any(|figure| *figure > 0) {
            let before = found.insert(key(row), figures);
            assert_eq!(before, None, "{row}");
        }
    }
    found
}

/// But for those inside graphs, which a timeline does not have.
fn kernels(json: &Value) -> Rows {
    let mut json = json.clone();
    let rows_of = json["kernels"].as_array_mut().expect("rows");
    rows_of.retain(|row| row["in_graph"] == false);
    let key = |row: &Value| format!("{} {}", row["kind"], row["name"]);
    rows(&json, "kernels", key, &["samples", "total_ns"])
}

fn lanes(json: &Value) -> Rows {
    let figures = [
        "spans",
        "total_ns",
        "armed_ns",
        "busy_ns",
        "lead_ns",
        "waited_ns",
        "tail_ns",
        "overlap_busy_ns",
        "outside_ns",
    ];
    rows(json, "lanes", |row| row["lane"].to_string(), &figures)
}

/// A replay of a recording of which all steps are recorded, and one of what that
/// wrote.
fn there_and_back(from: &str, timeline: &Path) -> (Value, Value) {
    let ideal = ["--every", "1", "--stamps", "ideal", "--trace"];
    let most = MAX_RECORDED_STEPS.to_string();
    let to = timeline.to_str().expect("UTF-8");
    let record = [from, "--timeline", to, "--record-steps", &most];
    let (before, _) = replay(&[&ideal[..], &record].concat());
    assert!(number(&before["steps"]) <= MAX_RECORDED_STEPS as u64);
    let (after, _) = replay(&[&ideal[..], &[to]].concat());
    (before, after)
}

/// By how much the figures of a lane with so many spans may differ: places are read
/// as f32 milliseconds, which have whole nanoseconds up to 8 ms. None is further
/// from its step's first than the timeline's last event is from its first.
fn rounding_ns(timeline: &Path, spans: u64) -> u64 {
    let text = std::fs::read_to_string(timeline).expect("written");
    let json: Value = serde_json::from_str(&text).expect("JSON");
    let events = json["traceEvents"].as_array().expect("events");
    let ends_us = events.iter().filter_map(|event| {
        let start_us = event["ts"].as_f64()?;
        Some(start_us + event["dur"].as_f64()?)
    });
    let milliseconds = (ends_us.fold(0.0, f64::max) / 1e3) as f32;
    let step_ns = f64::from(milliseconds.next_up() - milliseconds) * 1e6;
    if step_ns < 1.0 { 0 } else { spans * (2.0 * step_ns).ceil() as u64 }
}

#[test]
fn recorded_traces_come_back() {
    needs_simulator();
    for recorded in recorded() {
        let name = recorded.name;
        let timeline = tempfile::NamedTempFile::new().expect("a file");
        let (before, after) = there_and_back(&recorded.path(), timeline.path());
        assert_eq!(kernels(&after), kernels(&before), "{name}");
        assert!(!kernels(&after).is_empty());
        assert_eq!(after["notes"], serde_json::json!([]), "{name}");
        let (before, after) = (lanes(&before), lanes(&after));
        assert!(before.keys().eq(after.keys()), "{name}: {after:?}");
        for (lane, before) in before {
            let within_ns = rounding_ns(timeline.path(), before[0]);
            for (was, is) in before.iter().zip(&after[&lane]) {
                let off_ns = is.abs_diff(*was);
                assert!(off_ns <= within_ns, "{name} {lane}: {before:?}, not {after:?}");
            }
        }
    }
}

/// A lane that ends with a copy, and one whose side stream is
/// busy when the lane is over.
#[test]
fn a_lane_comes_back_with_its_ends() {
    needs_simulator();
    let events = [
        step(PREFILL, 10, 20),
        launch(1, 12),
        launch(2, 14),
        launch(5, 16),
        step(DECODE, 40, 20),
        launch(3, 42),
        launch(4, 44),
        kernel("prefill", 7, 1, 100, 50),
        copy("Memcpy", 7, 5, 150, 30),
        kernel("decode", 7, 3, 200, 20),
        kernel("side", 20, 2, 160, 60),
        kernel("decode", 7, 4, 225, 40),
    ];
    let timeline = tempfile::NamedTempFile::new().expect("a file");
    let (before, after) = there_and_back(&file(&events).path, timeline.path());
    assert_eq!(kernels(&after), kernels(&before));
    let of = lanes(&after);
    assert_eq!(of, lanes(&before));
    let prefill = &of["\"prefill\""];
    assert_eq!(prefill[..2], [1, 80_000], "with the copy");
    assert_eq!(prefill[5..7], [0, 0], "the copy is busy, and the side stream");
    assert_eq!(prefill[8], 40_000, "and goes on");
}

/// The last steps of the built-in workload.
#[test]
fn the_last_steps_are_written_without_a_recording() {
    needs_simulator();
    let to = tempfile::NamedTempFile::new().expect("a file");
    let to = to.path().to_str().expect("UTF-8");
    replay(&["--every", "64", "--timeline", to]);
    let text = std::fs::read_to_string(to).expect("written");
    let json: Value = serde_json::from_str(&text).expect("JSON");
    let events = json["traceEvents"].as_array().expect("events");
    let of = |category: &str| {
        let own = events.iter().filter(|event| event["cat"] == category);
        own.count()
    };
    let steps = events.iter().filter(|event| {
        let name = event["name"].as_str();
        name.is_some_and(|name| name.starts_with("ProfilerStep#"))
    });
    assert_eq!(steps.count(), 4);
    let launches = of("kernel") + of("gpu_memcpy");
    assert_eq!(launches, of("cuda_driver"));
    // It is replayed with all of its launches.
    let (after, _) = replay(&["--every", "1", "--stamps", "ideal", "--trace", to]);
    let samples: u64 = kernels(&after).values().map(|row| row[0]).sum();
    assert_eq!(samples as usize, launches);
}
