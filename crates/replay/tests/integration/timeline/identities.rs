// SPDX-License-Identifier: MIT OR Apache-2.0
//! What holds between the figures of every replay, to the nanosecond.

use crate::common::program::number;
use serde_json::Value;

/// For a replay at `--every 1` in which no two spans of a lane overlap in a step.
pub(crate) fn hold(json: &Value, text: &str) {
    hold_where_spans_overlap(json, text, |_| 0);
}

/// The same where spans of a lane overlap in a step for so long.
pub(crate) fn hold_where_spans_overlap(json: &Value, text: &str, overlap_ns: impl Fn(&str) -> u64) {
    assert_eq!(number(&json["every"]), 1);
    for row in json["lanes"].as_array().expect("rows") {
        let of = |key: &str| number(&row[key]);
        assert_eq!(of("busy_ns") + of("idle_ns"), of("armed_ns"), "{row}");
        let causes = of("lead_ns") + of("waited_ns") + of("tail_ns");
        assert_eq!(of("idle_ns"), causes, "{row}");
        let overlap_ns = overlap_ns(row["lane"].as_str().expect("a name"));
        let time = of("armed_ns") + of("incomplete_ns") + overlap_ns;
        assert_eq!(time, of("total_ns"), "{row}");
    }
    let devices = json["devices"].as_array().expect("rows");
    assert!(!devices.is_empty());
    for device in devices {
        let of = |key: &str| number(&device[key]);
        assert_eq!(of("span_ns"), of("busy_ns") + of("idle_ns"), "{device}");
    }
    nothing_is_over_100_percent(text);
}

fn nothing_is_over_100_percent(text: &str) {
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut shares = 0;
    for pair in words.windows(2).filter(|pair| pair[1].starts_with('%')) {
        let share: f64 = pair[0].parse().expect("a share");
        assert!(share <= 100.0, "{share} %:\n{text}");
        shares += 1;
    }
    assert!(shares > 0, "{text}");
}
