// SPDX-License-Identifier: MIT OR Apache-2.0
//! The result as JSON.

use std::io::{self, Write};

use super::Report;

/// Writes `report` as one line.
///
/// # Errors
/// As `out` fails.
pub fn write_json(out: &mut impl Write, report: &Report) -> io::Result<()> {
    serde_json::to_writer(&mut *out, report)?;
    out.write_all(b"\n")
}

#[cfg(test)]
mod tests {
    use super::super::sample::report;
    use super::*;

    #[test]
    fn the_json_is_schema_two() {
        let mut text = Vec::new();
        write_json(&mut text, &report()).expect("written");
        let value: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
        let keys = |value: &serde_json::Value| -> Vec<String> {
            value.as_object().expect("an object").keys().cloned().collect()
        };
        let sorted = |words: &str| -> Vec<String> {
            let mut words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
            words.sort();
            words
        };
        assert_eq!(
            keys(&value),
            sorted(
                "schema driver driver_path device trace every stamps steps armed_steps lanes \
                 devices kernels graphs twins ledger driver_calls check slowest_steps notes"
            )
        );
        assert_eq!(
            keys(&value["lanes"][1]),
            sorted(
                "lane spans total_ns p50_ns p99_ns gaps gap_ns gap_p50_ns missed overlap_ns \
                 overlap_lanes_ns overruns device armed_ns busy_ns idle_ns lead_ns waited_ns \
                 tail_ns overlap_busy_ns incomplete_steps incomplete_ns outside_ns"
            )
        );
        assert_eq!(keys(&value["devices"][0]), sorted("device span_ns busy_ns idle_ns"));
        assert_eq!(
            keys(&value["kernels"][0]),
            sorted(
                "name samples total_ns missed overruns kind device in_graph marks_ns \
                 busy_start_samples"
            )
        );
        assert_eq!(keys(&value["graphs"]), sorted("launches kernels mark_ns"));
        assert_eq!(
            keys(&value["ledger"]),
            sorted(
                "attempts begun landed dropped refused failed cancelled reclaimed in_flight \
                 stale_ends passes table_full"
            )
        );
        assert_eq!(
            keys(&value["check"]["lanes"]),
            sorted(
                "overlap_ns rounding_ns missed_spans missed_ns rowless rowless_ns unexplained_ns"
            )
        );
        let slowest = &value["slowest_steps"][0];
        assert_eq!(
            keys(slowest),
            sorted("device gpu_ns number armed marked incomplete shape wall_ns age_ns lanes")
        );
        assert_eq!(keys(&slowest["shape"]), sorted("prompt_tokens decode_tokens requests"));
        assert_eq!(keys(&slowest["lanes"][0]), sorted("lane gpu_ns gap_ns"));
        assert_eq!(value["schema"], 2);
        assert_eq!(value["driver"], "simulated");
        assert_eq!(value["stamps"], "honest");
        assert_eq!(value["trace"], serde_json::Value::Null);
        assert_eq!(value["lanes"][1]["overlap_ns"], 112);
        assert_eq!(value["driver_calls"]["cuEventRecord"], 466);
        assert_eq!(value["kernels"][0]["kind"], "kernel");
    }
}
