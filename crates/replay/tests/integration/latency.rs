// SPDX-License-Identifier: MIT OR Apache-2.0
//! Launch latency told apart from work, on a host that costs: rows against what
//! the recordings say of their kernels.

use crate::common::http;
use crate::common::program::{Serving, fact, number, replay_events};
use crate::common::record::{DECODE, kernel, launch, step};
use crate::common::{Sums, needs_simulator, recorded};
use metrale_replay::report::excess;
use metrale_telemetry::Snapshot;

/// A host's time for a launch, as the replay has it: from the record of a span's
/// start to the launch it takes that long.
const LAUNCH_NS: f64 = 4_500.0;
const ENOUGH: u64 = 30;

/// What an honest replay of the file measured.
fn honest(path: &str) -> Snapshot {
    let serving = Serving::start(["--every", "1", "--for", "60", "--trace", path]);
    http::json(serving.port, "/snapshot.json")
}

/// Whether the replay was not repeated yet when the snapshot was taken.
fn is_of_one_run(snapshot: &Snapshot, recorded: &Sums) -> bool {
    let mut rows = snapshot.kernels.iter();
    rows.all(|row| {
        let launches = row.name.as_deref().and_then(|name| recorded.get(name));
        launches.is_none_or(|(launches, _)| *launches == row.samples)
    })
}

#[test]
fn rows_that_read_too_long_say_so() {
    needs_simulator();
    let (mut compared, mut marked, mut unmarked) = (0, 0, 0);
    let traces = recorded();
    for trace in &traces {
        let (name, recorded) = (trace.name, trace.eager());
        let is_eager = !name.starts_with("vllm") && !name.starts_with("sglang");
        // A short one is repeated at once; it has few launches outside graphs.
        let snapshot = (0..10)
            .map(|_| honest(&trace.path()))
            .find(|snapshot| !is_eager || is_of_one_run(snapshot, &recorded))
            .expect("a snapshot of one run");
        let floor_ns = snapshot.floor.pair_ns;
        for row in &snapshot.kernels {
            let recorded = row.name.as_deref().and_then(|name| recorded.get(name));
            let Some(&(launches, total_ns)) = recorded else { continue };
            let mean_ns = total_ns as f64 / launches as f64;
            let figures = row.figures;
            if is_eager && figures.busy_start_samples >= ENOUGH {
                let read_ns = figures.busy_start_ns as f64 / figures.busy_start_samples as f64;
                let floor_ns = floor_ns.expect("a floor") as f64;
                let bound_ns = 0.05 * mean_ns + 2.0 * floor_ns + LAUNCH_NS;
                let off_ns = (read_ns - mean_ns).abs();
                assert!(off_ns <= bound_ns, "{name}: {read_ns} for {mean_ns}: {row:?}");
                compared += 1;
            }
            let times = row.total_ns as f64 / row.samples as f64 / mean_ns;
            let excess = excess(row, floor_ns);
            assert!(times < 1.5 || excess.is_some(), "{name}: {times} × {row:?}");
            if figures.busy_start_samples == row.samples {
                assert_eq!(excess, None, "{name}: {row:?}");
            }
            marked += u32::from(excess.is_some());
            unmarked += u32::from(excess.is_none());
        }
    }
    println!("compared {compared}, marked {marked}, unmarked {unmarked}");
    assert!(compared >= 50 && marked >= 20 && unmarked >= 90 || traces.is_empty());
}

/// Replays a recording with one kernel's row: the row, the page's line of it,
/// and what the page says of latency.
fn page(events: &[String]) -> (serde_json::Value, String, String) {
    let (json, text) = replay_events(events, &["--every", "1", "--stamps", "honest"]);
    let rows = json["kernels"].as_array().expect("rows").iter();
    let mut rows = rows.filter(|row| row["name"] == "small");
    let mut lines = text.lines().filter(|line| line.starts_with("small"));
    (
        rows.next().expect("a row").clone(),
        lines.next().expect("a line").to_owned(),
        fact(&text, "latency"),
    )
}

#[test]
fn a_loop_of_small_kernels_never_finds_its_stream_busy() {
    let mut events = vec![step(DECODE, 10, 5_000)];
    for i in 0..200 {
        events.push(launch(i + 1, 20 + 3 * i));
        events.push(kernel("small", 7, i + 1, 30 + 3 * i, 2));
    }
    let (row, line, fact) = page(&events);
    assert_eq!(number(&row["samples"]), 200);
    assert_eq!(number(&row["busy_start_samples"]), 0);
    assert!(number(&row["total_ns"]) > 3 * 200 * 2_000, "{row}");
    assert!(line.starts_with("small * "), "{line}");
    // 1.65 of the 6.5 µs that each reads.
    assert!(fact.contains("1 row (*) may read up to 25.4 % too long"), "{fact}");
}

#[test]
fn samples_on_a_busy_stream_tell_how_long_the_others_read() {
    let mut events = vec![step(DECODE, 10, 9_000), launch(1, 20), kernel("long", 7, 1, 30, 2_000)];
    // Launched while the long one runs, and then one by one.
    for i in 0..40 {
        events.push(launch(i + 2, 40 + 20 * i));
        events.push(kernel("small", 7, i + 2, 2_030 + 10 * i, 10));
    }
    for i in 0..40 {
        events.push(launch(i + 42, 4_000 + 100 * i));
        events.push(kernel("small", 7, i + 42, 4_005 + 100 * i, 10));
    }
    let (row, line, fact) = page(&events);
    assert_eq!(number(&row["busy_start_samples"]), 40);
    assert_eq!(number(&row["total_ns"]), 40 * (10_000 + 14_500));
    assert!(line.starts_with("small * "), "{line}");
    // 4.5 of each 14.5 µs, as a part of all that was read.
    assert!(fact.contains("1 row (*) read up to 18.4 % too long"), "{fact}");
}
