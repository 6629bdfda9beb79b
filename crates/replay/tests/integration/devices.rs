// SPDX-License-Identifier: MIT OR Apache-2.0
//! Several GPUs in one process: a step has a lane on each that it launches on,
//! and the page tells them apart.

use crate::common::program::{fact, number, replay_events, rows};
use crate::common::record::{DECODE, kernel_on, launch, step};
use serde_json::Value;

const STEPS: u32 = 40;

/// Steps that launch one kernel on each of two devices at once, of 300 and of
/// 290 µs.
fn recording(names: [&str; 2]) -> Vec<String> {
    let mut events = Vec::new();
    for i in 0..STEPS {
        let at = 10 + 1_000 * i;
        events.push(step(DECODE, at, 50));
        for (device, name) in (0..).zip(names) {
            let id = 2 * i + device + 1;
            events.push(launch(id, at + 1 + device));
            let us = 300 - 10 * device;
            events.push(kernel_on(device, name, 7, id, at + 10, us));
        }
    }
    events
}

/// Spans or samples and nanoseconds of the row of each device.
fn sums(json: &Value, rows: &str, of: &str, name: &str) -> Vec<(u64, u64, u64)> {
    let rows = json[rows].as_array().expect("rows").iter();
    let rows = rows.filter(|row| [&row["lane"], &row["name"]].contains(&&name.into()));
    rows.map(|row| {
        let number = |key| number(&row[key]);
        (number("device"), number(of), number("total_ns"))
    })
    .collect()
}

#[test]
fn a_step_on_two_devices_has_a_lane_on_each() {
    for names in [["left", "right"], ["both", "both"]] {
        let events = recording(names);
        let (json, page) = replay_events(&events, &["--every", "1", "--stamps", "ideal"]);
        let each = [(0, 40, 12_000_000), (1, 40, 11_600_000)];
        assert_eq!(sums(&json, "lanes", "spans", "decode"), each);
        for (name, expected) in names.iter().zip(each) {
            let found = sums(&json, "kernels", "samples", name);
            assert!(found.contains(&expected), "{name}: {found:?}");
        }
        for (device, ns) in [12_000_000, 11_600_000].into_iter().enumerate() {
            let row = &json["devices"][device];
            let found = [number(&row["span_ns"]), number(&row["busy_ns"])];
            assert_eq!(found, [ns, ns], "{row}");
        }
        assert_eq!(
            rows(&page),
            [
                [names[0], "decode", "0", "100.0", "%", "12.00", "ms", "40"],
                [names[1], "decode", "1", "100.0", "%", "11.60", "ms", "40"],
            ],
            "{page}"
        );
        assert_eq!(fact(&page, "losses"), "", "{page}");
        assert_eq!(
            fact(&page, "check"),
            "lanes, kernels and graphs equal the timeline, to the nanosecond"
        );
        assert_eq!(
            fact(&page, "busy"),
            "100.0 % of 23.60 ms of lane time on armed steps GPU 0: 100.0 % of 12.00 ms that any \
             lane took GPU 1: 100.0 % of 11.60 ms that any lane took"
        );
    }
}

/// On the device with less of the step's time, too, the lane is on the stream
/// with most of it there.
#[test]
fn the_lane_is_on_each_devices_busiest_stream() {
    let (json, page) = replay_events(
        &[
            step(DECODE, 10, 20),
            launch(1, 11),
            launch(2, 12),
            launch(3, 13),
            launch(4, 14),
            kernel_on(0, "k", 7, 1, 100, 50),
            kernel_on(0, "k", 8, 2, 100, 60),
            kernel_on(1, "k", 7, 3, 100, 30),
            kernel_on(1, "k", 9, 4, 140, 20),
        ],
        &["--every", "1", "--stamps", "ideal"],
    );
    let each = [(0, 1, 60_000), (1, 1, 30_000)];
    assert_eq!(sums(&json, "lanes", "spans", "decode"), each);
    let each = [(0, 2, 110_000), (1, 2, 50_000)];
    assert_eq!(sums(&json, "kernels", "samples", "k"), each);
    assert!(rows(&page).iter().all(|row| row[1] == "decode"), "{page}");
}

/// Each device has a record of each step, with its shape.
#[test]
fn a_step_leaves_its_record_on_every_device() {
    let mut events = recording(["left", "right"]);
    // One step more, on the second device only.
    let at = 10 + 1_000 * STEPS;
    events.extend([step(DECODE, at, 50), launch(1_000, at + 1)]);
    events.push(kernel_on(1, "right", 7, 1_000, at + 10, 310));
    let (json, page) = replay_events(&events, &["--stamps", "ideal"]);
    let slowest = json["slowest_steps"].as_array().expect("steps");
    let told: Vec<_> = (slowest.iter())
        .map(|step| ["number", "device", "gpu_ns"].map(|key| number(&step[key])))
        .collect();
    let on_the_first = (0..31).map(|step| [step, 0, 300_000]);
    assert_eq!(told[0], [40, 1, 310_000], "{page}");
    assert!(told[1..].iter().copied().eq(on_the_first), "{told:?}");
    assert!(slowest.iter().all(|step| step["shape"]["decode_tokens"] == 1), "{json}");
    let lanes: Vec<_> = page.lines().filter(|line| line.ends_with("decode 1")).collect();
    assert_eq!(lanes.len(), 1, "{page}");
}
