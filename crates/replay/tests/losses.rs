// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a replay could not measure, or has no estimate of, stands on its page.

mod common;

use common::needs_simulator;
use common::program::{number, replay};
use common::record::{document, kernel, kernel_on, launch, step};
use serde_json::Value;

const DECODE: &str = "execute_1_context_0(0)_generation_1(1)";

fn play(events: &[String]) -> (Value, String) {
    needs_simulator();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("trace.json");
    std::fs::write(&path, document(events)).expect("written");
    let path = path.to_str().expect("UTF-8");
    replay(&["--every", "1", "--stamps", "ideal", "--trace", path])
}

/// The page's rows of kernels: words of name, lane, share and total.
fn rows(page: &str) -> Vec<Vec<&str>> {
    let table = page.split("\n\n").nth(2).expect("a table of kernels");
    let rows = table.lines().skip(1);
    rows.map(|line| line.split_whitespace().collect()).collect()
}

/// What the page says under a label, in one line.
fn fact(page: &str, label: &str) -> String {
    let facts = page.split("\n\n").nth(3).expect("facts");
    let from = facts.lines().skip_while(|line| !line.starts_with(label));
    let own = from
        .enumerate()
        .take_while(|(i, line)| *i == 0 || line.starts_with(' '));
    let words = own.flat_map(|(_, line)| line.split_whitespace());
    words.collect::<Vec<_>>().join(" ")
}

/// A step's lane is on the stream with most of its time; what it launches on
/// another device is in no lane's time there.
#[test]
fn launches_without_a_lane_have_their_rows() {
    let (json, page) = play(&[
        step(DECODE, 10, 20),
        launch(1, 11),
        launch(2, 12),
        launch(3, 13),
        kernel_on(0, "both", 7, 1, 100, 50),
        kernel_on(1, "both", 7, 2, 100, 30),
        kernel_on(1, "alone", 7, 3, 140, 20),
    ]);
    assert_eq!(json["kernels"].as_array().expect("rows").len(), 3);
    assert_eq!(
        rows(&page),
        [
            vec!["both", "decode", "100.0", "%", "50.00", "µs", "1"],
            vec!["both", "-", "-", "30.00", "µs", "-"],
            vec!["alone", "-", "-", "20.00", "µs", "-"],
        ],
        "{page}"
    );
    assert_eq!(
        fact(&page, "losses"),
        "losses steps with launches in a lane without a span 1"
    );
    // All of them are known, and none was lost on the way.
    let check = "check lanes and kernels equal the plan's own sums, to the nanosecond";
    assert_eq!(fact(&page, "check"), check);
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
    for key in ["armed_ns", "busy_ns", "idle_ns", "outside_ns"] {
        assert_eq!(number(&row[key]), 0, "{row}");
    }
    let read_ns = number(&json["kernels"][0]["total_ns"]);
    assert_eq!(read_ns, (12_000 - dropped) * 50_000);
    let read_ms = format!("{:.1}", read_ns as f64 / 1e6);
    assert_eq!(
        rows(&page),
        [vec!["small", "-", "-", &read_ms, "ms", "-"]],
        "{page}"
    );
    assert_eq!(
        fact(&page, "losses"),
        "losses armed steps that lost a span 1"
    );
    let unknown = "how 600.0 ms of lane time on armed steps was spent is not known";
    assert!(fact(&page, "busy").contains(unknown), "{page}");
    // The kernels' sums miss what was lost, and that is no rounding.
    let missing_ms = format!("{:.1} ms", (600_000_000 - read_ns) as f64 / 1e6);
    let check = fact(&page, "check");
    let told = format!("kernels, but for {missing_ms} of lost spans and f32 rounding");
    assert!(check.contains(&told), "{check}");
}
