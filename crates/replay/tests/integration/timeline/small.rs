// SPDX-License-Identifier: MIT OR Apache-2.0
//! Small recordings with lanes and streams beside one another: what each figure
//! is, to the nanosecond.

use super::{identities, row};
use crate::common::program::{number, replay_events};
use crate::common::record::{DECODE, PREFILL, copy, kernel, kernel_on, launch, step};
use serde_json::Value;

/// Replays a recording; the identities hold.
fn play(events: &[String]) -> Value {
    let (json, text) = replay_events(events, &["--every", "1", "--stamps", "ideal"]);
    identities::hold(&json, &text);
    json
}

/// Figures in microseconds, in this order.
const FIGURES: [&str; 8] = [
    "armed_ns",
    "busy_ns",
    "lead_ns",
    "waited_ns",
    "tail_ns",
    "overlap_busy_ns",
    "outside_ns",
    "gap_ns",
];

fn assert_lane(json: &Value, lane: &str, device: i64, us: [u64; 8]) {
    let row = row(json, lane, device);
    let found = FIGURES.map(|key| number(&row[key]));
    assert_eq!(found, us.map(|us| us * 1_000), "{lane} {device}: {row}");
}

fn assert_device(json: &Value, device: usize, span_us: u64, busy_us: u64) {
    let row = &json["devices"][device];
    let found = [number(&row["span_ns"]), number(&row["busy_ns"])];
    assert_eq!(found, [span_us * 1_000, busy_us * 1_000], "{row}");
}

/// Admit and prefill are lanes of one step of the recorder, decode is one of
/// the next.
#[test]
fn time_between_lanes_is_their_gap_and_in_no_lane() {
    let events = [
        launch(1, 5),
        step(PREFILL, 10, 10),
        launch(2, 12),
        launch(3, 13),
        step(DECODE, 30, 10),
        launch(4, 32),
        launch(5, 33),
        kernel("claim", 7, 1, 100, 50),
        kernel("prefill", 7, 2, 5_150, 100),
        kernel("prefill", 7, 3, 5_260, 40),
        kernel("decode", 7, 4, 10_300, 20),
        kernel("decode", 7, 5, 10_323, 17),
    ];
    let json = play(&events);
    assert_lane(&json, "admit", 0, [50, 50, 0, 0, 0, 0, 0, 0]);
    assert_lane(&json, "prefill", 0, [150, 140, 0, 10, 0, 0, 0, 5_000]);
    assert_lane(&json, "decode", 0, [40, 37, 0, 3, 0, 0, 0, 5_000]);
    assert_device(&json, 0, 240, 227);
}

#[test]
fn lanes_of_two_steps_on_two_streams() {
    let events = [
        step(PREFILL, 10, 10),
        launch(1, 12),
        step(DECODE, 30, 10),
        launch(2, 32),
        launch(3, 33),
        kernel("prefill", 7, 1, 100, 100),
        kernel("decode", 8, 2, 120, 20),
        kernel("decode", 8, 3, 150, 30),
    ];
    let json = play(&events);
    assert_lane(&json, "prefill", 0, [100, 100, 0, 0, 0, 0, 0, 0]);
    assert_lane(&json, "decode", 0, [60, 50, 0, 10, 0, 0, 0, 0]);
    // The lanes are of two steps: their time is added up.
    assert_device(&json, 0, 160, 150);
}

#[test]
fn lanes_of_one_step_on_two_streams() {
    let events = [
        launch(1, 5),
        launch(2, 6),
        step(DECODE, 30, 10),
        launch(3, 32),
        kernel("claim", 20, 1, 100, 10),
        kernel("claim", 20, 2, 130, 20),
        kernel("decode", 7, 3, 135, 65),
    ];
    let json = play(&events);
    assert_lane(&json, "admit", 0, [50, 30, 0, 20, 0, 0, 0, 0]);
    assert_lane(&json, "decode", 0, [65, 65, 0, 0, 0, 0, 0, 0]);
    assert_device(&json, 0, 100, 80);
}

#[test]
fn a_stream_that_stands_empty_while_another_works_is_not_waited_for() {
    let events = [
        step(DECODE, 10, 10),
        launch(1, 12),
        launch(2, 13),
        launch(3, 14),
        kernel("long", 7, 1, 100, 26_000),
        kernel("beside", 8, 2, 26_100, 49_000),
        kernel("long", 7, 3, 75_100, 26_000),
    ];
    let json = play(&events);
    assert_lane(&json, "decode", 0, [101_000, 101_000, 0, 0, 0, 0, 0, 0]);
    assert_device(&json, 0, 101_000, 101_000);
}

#[test]
fn a_side_stream_beside_its_lane_and_outside_it() {
    let events = [
        step(DECODE, 10, 20),
        launch(1, 11),
        launch(2, 12),
        launch(3, 13),
        launch(4, 14),
        launch(5, 15),
        // Ahead of the lane, across its begin, beside a launch of it, past its end.
        kernel("ahead", 20, 1, 210, 30),
        kernel("ahead", 20, 2, 245, 15),
        kernel("decode", 7, 3, 250, 60),
        kernel("beside", 20, 4, 280, 10),
        kernel("beside", 21, 5, 295, 25),
    ];
    let json = play(&events);
    let overlap = 10 + 10 + 15;
    let outside = 30 + 5 + 10;
    assert_lane(&json, "decode", 0, [60, 60, 0, 0, 0, overlap, outside, 0]);
}

/// A copy is a region: it is busy time of the lane, and a row.
#[test]
fn copies_are_busy_time_and_rows_of_their_kind() {
    let events = [
        step(DECODE, 10, 20),
        launch(1, 11),
        launch(2, 12),
        launch(3, 13),
        launch(4, 14),
        launch(5, 15),
        copy("copy", 7, 1, 100, 7),
        kernel("decode", 7, 2, 110, 20),
        copy("copy", 7, 3, 130, 5),
        kernel("decode", 7, 4, 135, 20),
        copy("copy", 7, 5, 160, 11),
    ];
    let json = play(&events);
    assert_lane(&json, "decode", 0, [71, 63, 0, 8, 0, 0, 0, 0]);
    let rows = json["kernels"].as_array().expect("rows").iter();
    let copies = rows.filter(|row| row["kind"] == "copy");
    let copies: Vec<_> = copies
        .map(|row| (&row["name"], number(&row["samples"]), number(&row["total_ns"])))
        .collect();
    assert_eq!(copies, [(&Value::from("copy"), 3, 23_000)]);
}

#[test]
fn each_device_has_its_own_lanes() {
    let events = [
        step(PREFILL, 10, 10),
        launch(1, 12),
        launch(2, 13),
        step(DECODE, 30, 10),
        launch(3, 32),
        launch(4, 33),
        kernel_on(0, "prefill", 7, 1, 100, 50),
        kernel_on(0, "prefill", 7, 2, 160, 40),
        kernel_on(1, "decode", 7, 3, 110, 30),
        kernel_on(1, "decode", 7, 4, 145, 5),
    ];
    let json = play(&events);
    assert_lane(&json, "prefill", 0, [100, 90, 0, 10, 0, 0, 0, 0]);
    assert_lane(&json, "decode", 1, [40, 35, 0, 5, 0, 0, 0, 0]);
    assert_lane(&json, "decode", 0, [0; 8]);
    assert_device(&json, 0, 100, 90);
    assert_device(&json, 1, 40, 35);
}
