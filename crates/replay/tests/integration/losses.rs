// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a replay could not measure stands on its page and in its JSON, by cause
//! and with its amount, and so does what cannot be right in a recording.

use crate::common::program::{fact, number, replay_events, rows};
use crate::common::record::{DECODE, kernel, launch, step};
use serde_json::Value;

fn play(events: &[String]) -> (Value, String) {
    replay_events(events, &["--every", "1", "--stamps", "ideal"])
}

/// The check's causes and amounts, without those that are 0.
fn differences(found: &Value) -> Vec<(&str, u64)> {
    let causes = found.as_object().expect("an object").iter();
    let causes = causes.map(|(cause, amount)| (cause.as_str(), number(amount)));
    causes.filter(|(_, amount)| *amount > 0).collect()
}

/// More launches at once than there are slots for.
#[test]
fn lost_spans_are_told_and_their_step_is_of_unknown_idle_time() {
    let mut events = vec![step(DECODE, 10, 100_000)];
    for i in 0..12_000 {
        events.push(launch(i + 1, 20 + i));
        events.push(kernel("small", 7, i + 1, 100 + i, 50));
    }
    let (json, page) = play(&events);
    let (dropped, row) = (number(&json["ledger"]["dropped"]), &json["lanes"][2]);
    assert!(dropped > 0, "{}", json["ledger"]);
    assert_eq!(row["lane"], "decode");
    assert_eq!(number(&row["incomplete_steps"]), 1);
    assert_eq!(row["incomplete_ns"], row["total_ns"]);
    for key in ["armed_ns", "busy_ns", "idle_ns", "outside_ns", "missed"] {
        assert_eq!(number(&row[key]), 0, "{row}");
    }
    let read_ns = number(&json["kernels"][0]["total_ns"]);
    assert_eq!(read_ns, (12_000 - dropped) * 50_000);
    let read_ms = format!("{:.1}", read_ns as f64 / 1e6);
    assert_eq!(rows(&page), [vec!["small", "!", "-", "-", &read_ms, "ms", "-"]], "{page}");
    assert_eq!(fact(&page, "losses"), "1 armed step that lost a span");
    let unknown = "how 600.0 ms of lane time on armed steps was spent is not known";
    assert!(fact(&page, "busy").contains(unknown), "{page}");

    // What the row misses: how many, and their time to the nanosecond.
    assert_eq!(number(&json["kernels"][0]["missed"]), dropped);
    let thousands = format!("{},{:03}", dropped / 1_000, dropped % 1_000);
    let missing = format!("rows (!) miss spans: small {thousands} of 12,000");
    assert_eq!(fact(&page, "missing"), missing);
    let kernels = [("missed_ns", dropped * 50_000), ("missed_spans", dropped)];
    assert_eq!(differences(&json["check"]["kernels"]), kernels);
    // The launches were recorded at once. The lane lays them end to end.
    let recorded_ns = 11_999 * 1_000 + 50_000;
    let overlap_ns = 600_000_000 - recorded_ns;
    assert_eq!(number(&row["overlap_ns"]), overlap_ns);
    let lanes = [("overlap_ns", overlap_ns)];
    assert_eq!(differences(&json["check"]["lanes"]), lanes);
    let told = fact(&page, "check");
    let missed_ms = (dropped * 50_000) as f64 / 1e6;
    assert_eq!(
        told,
        format!(
            "lanes equal the timeline, but for 588.0 ms of overlap laid end to end; kernels and \
             graphs, but for {missed_ms:.1} ms of {thousands} dropped spans"
        )
    );
}

/// A table has 512 places; these launches come in turn, and none is dropped.
#[test]
fn kernels_without_a_row_are_told() {
    let mut events = Vec::new();
    for i in 0..600 {
        let at = 10 + 1_000 * i;
        events.push(step(DECODE, at, 100));
        events.push(launch(i + 1, at + 1));
        events.push(kernel(&format!("k{i:03}"), 7, i + 1, at + 10, 100 + i));
    }
    let (json, page) = play(&events);
    let table = json["kernels"].as_array().expect("rows");
    assert_eq!(table.len(), 600);
    let (with, without): (Vec<_>, Vec<_>) =
        table.iter().partition(|row| number(&row["samples"]) > 0);
    assert_eq!((with.len(), without.len()), (512, 88));
    // The first come have them.
    let rowless_ns: u64 = (512..600).map(|i| (100 + i) * 1_000).sum();
    for row in &without {
        assert_eq!((number(&row["missed"]), number(&row["total_ns"])), (1, 0));
    }
    let kernels = [("rowless", 88), ("rowless_ns", rowless_ns)];
    assert_eq!(differences(&json["check"]["kernels"]), kernels);
    assert_eq!(differences(&json["check"]["lanes"]), []);
    let told = fact(&page, "check");
    assert!(told.ends_with("of 88 names without a row"), "{told}");
    assert!(!told.contains("rounding"), "{told}");
}

/// Of a second each, which f32 milliseconds give in steps of 60 ns.
#[test]
fn rounding_is_what_f32_milliseconds_round() {
    let mut events = Vec::new();
    let mut rounded = [0u64; 2];
    for i in 0..3 {
        let (at, us) = (10 + 3_000_000 * i, 1_000_003 + 7 * i);
        events.push(step(DECODE, at, 100));
        events.push(launch(i + 1, at + 1));
        events.push(kernel("long", 7, i + 1, at + 10, us));
        let milliseconds: f32 = format!("{}.{:03}", us / 1_000, us % 1_000).parse().expect("f32");
        let read_ns = (f64::from(milliseconds) * 1e6).round() as u64;
        rounded[0] += read_ns;
        rounded[1] += u64::from(us) * 1_000;
    }
    let off_ns = rounded[0].abs_diff(rounded[1]);
    assert!(off_ns > 0);
    let (json, page) = play(&events);
    for of in ["lanes", "kernels"] {
        let found = differences(&json["check"][of]);
        assert_eq!(found, [("rounding_ns", off_ns)], "{of}");
    }
    let told = format!(
        "lanes, kernels and graphs equal the timeline, but for {off_ns} ns of f32 rounding"
    );
    assert_eq!(fact(&page, "check"), told);
}

/// The first step's record runs on over both steps behind it: their work lies in
/// it, and a stream in order lays it end to end.
#[test]
fn a_record_that_overruns_is_marked_and_its_overlap_told() {
    let mut events = Vec::new();
    for (i, us) in [5_000, 10, 20].into_iter().enumerate() {
        let (at, id) = (10 + 100 * i as u32, i as u32 + 1);
        events.push(step(DECODE, at, 50));
        events.push(launch(id, at + 1));
        let name = if i == 0 { "broken" } else { "good" };
        events.push(kernel(name, 7, id, at + 10, us));
    }
    let (json, page) = play(&events);
    let row = &json["lanes"][2];
    assert_eq!(number(&row["total_ns"]), 5_030_000);
    assert_eq!(number(&row["overlap_ns"]), 0);
    assert_eq!(number(&row["overlap_lanes_ns"]), 30_000);
    assert_eq!(number(&row["overruns"]), 1);
    let told = "30.00 µs recorded at once on a lane's stream, 30.00 µs of it between lanes: \
                replayed end to end";
    assert_eq!(fact(&page, "overlap"), told);
    assert!(page.contains("\ndecode ? "), "{page}");
    assert_eq!(rows(&page)[0][..3], ["broken", "?", "decode"], "{page}");
    assert_eq!(rows(&page)[1][..2], ["good", "decode"], "{page}");
    let note = fact(&page, "note");
    assert!(note.starts_with("1 record runs on"), "{note}");
    assert!(note.ends_with("of 5.00 ms"), "{note}");
    assert_eq!(json["notes"].as_array().map(Vec::len), Some(1));
}

/// Kernels that start early overlap the one before them by less than they last.
#[test]
fn an_early_start_is_no_overrun() {
    let mut events = vec![step(DECODE, 10, 100)];
    for i in 0..20 {
        events.push(launch(i + 1, 11 + i));
        events.push(kernel("chained", 7, i + 1, 100 + 40 * i, 45));
    }
    let (json, page) = play(&events);
    assert_eq!(number(&json["lanes"][2]["overruns"]), 0);
    assert_eq!(fact(&page, "note"), "");
    assert_eq!(number(&json["lanes"][2]["overlap_ns"]), 19 * 5_000);
}
