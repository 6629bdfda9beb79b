// SPDX-License-Identifier: MIT OR Apache-2.0
//! How lanes' time was spent: held against what the recording itself says, and
//! figures against each other.

mod expected;
mod identities;
mod recording;
mod small;

use std::collections::BTreeMap;

use crate::common::program::{number, replay};
use crate::common::{needs_simulator, planned, recorded};
use expected::Length;
use metrale_replay::plan::{Op, Plan, Timing, What};
use metrale_replay::steps::Lane;
use metrale_replay::workload;
use metrale_telemetry::kernel::LANES;
use recording::Recording;
use serde_json::Value;

/// The row of a lane.
fn row<'a>(json: &'a Value, lane: &str, device: i64) -> &'a Value {
    let mut rows = json["lanes"].as_array().expect("rows").iter();
    rows.find(|row| row["lane"] == lane && row["device"] == device).expect("a row")
}

#[test]
fn recorded_traces_were_busy_when_their_launches_ran() {
    needs_simulator();
    for recorded in recorded() {
        let (name, path) = (recorded.name, recorded.path());
        let (json, text) = replay(&["--every", "1", "--stamps", "ideal", "--trace", &path]);
        let recording = Recording::read(path.as_ref());
        let lanes = expected::lanes(&recording);
        assert!(!lanes.is_empty(), "{name}");
        // The plan numbers devices by their first work; here there is one.
        for ((lane, _), expected) in &lanes {
            let row = row(&json, lane, 0);
            let is = |key: &str, length: Length| {
                let found = number(&row[key]);
                let off = (found as f64 - length.ns as f64).abs();
                assert!(
                    off <= length.within_ns,
                    "{name} {lane} {key}: {found}, not {} ± {:.1}",
                    length.ns,
                    length.within_ns
                );
            };
            is("armed_ns", expected.armed);
            is("busy_ns", expected.busy);
            is("lead_ns", expected.lead);
            is("waited_ns", expected.waited);
            is("tail_ns", expected.tail);
            is("overlap_busy_ns", expected.overlap);
            is("outside_ns", expected.outside);
        }
        let others = json["lanes"].as_array().expect("rows").iter();
        for row in others.filter(|row| number(&row["spans"]) > 0) {
            let lane = row["lane"].as_str().expect("a name");
            assert!(lanes.keys().any(|(known, _)| *known == lane), "{name} {lane}");
        }
        identities::hold(&json, &text);
        if ["h100-qwen-eager", "ddp-five-steps"].contains(&name) {
            // All is on one stream: its lanes and their gaps lie end to end.
            let found: u64 = (json["lanes"].as_array().expect("rows").iter())
                .map(|row| number(&row["armed_ns"]) + number(&row["gap_ns"]))
                .sum();
            let extent = expected::extent(&recording);
            let off = (found as f64 - extent.ns as f64).abs();
            assert!(off <= extent.within_ns, "{name}: {found}, not {extent:?}");
        }
    }
}

#[test]
fn the_built_in_workload_adds_up_in_time() {
    needs_simulator();
    let (json, text) = replay(&["--every", "1", "--stamps", "ideal"]);
    let plan = planned(&workload::builtin().trace, Timing::Ideal);
    let overlaps = lane_overlaps(&plan);
    // Admit work comes on two streams at once, and only that.
    assert!(overlaps["admit"] > 0, "{overlaps:?}");
    assert_eq!((overlaps["prefill"], overlaps["decode"]), (0, 0));
    identities::hold_where_spans_overlap(&json, &text, |lane| overlaps[lane]);
    for lane in ["admit", "prefill", "decode"] {
        assert!(number(&row(&json, lane, 0)["busy_ns"]) > 0, "{lane}");
    }
}

/// By how much the spans of each lane are longer than their union in each step.
fn lane_overlaps(plan: &Plan) -> BTreeMap<&'static str, u64> {
    let mut overlaps = BTreeMap::from(Lane::ALL.map(|lane| (LANES[lane.index()], 0)));
    let begins_step = |op: &Op| matches!(op.what, What::StepBegin { .. });
    for step in plan.ops.chunk_by(|_, op| !begins_step(op)) {
        let mut spans: Vec<_> = (step.iter())
            .filter_map(|op| match op.what {
                What::LaneBegin { span } => Some(plan.spans[span as usize]),
                _ => None,
            })
            .collect();
        spans.sort_by_key(|span| (span.lane, span.start_ns));
        for of_lane in spans.chunk_by(|a, b| a.lane == b.lane) {
            let mut reach_ns = i64::MIN;
            for span in of_lane {
                let end_ns = span.start_ns + span.span_ns as i64;
                let twice_ns = reach_ns.min(end_ns).saturating_sub(span.start_ns).max(0);
                *overlaps.get_mut(LANES[span.lane.index()]).expect("a lane") += twice_ns as u64;
                reach_ns = reach_ns.max(end_ns);
            }
        }
    }
    overlaps
}
