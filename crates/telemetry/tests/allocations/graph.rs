// SPDX-License-Identifier: MIT OR Apache-2.0
//! A reading of a twin lands without asking for memory.

use super::asked;
use metrale_telemetry::runtime::{GraphEdge, GraphShape, NodeRow, Planner};

#[test]
fn a_reading_asks_for_nothing_whatever_the_plan() {
    let rows = (0..500).map(|node| NodeRow::Kernel(1 + node % 90)).collect();
    let edge = |to| GraphEdge { from: to - 1, to, programmatic: false };
    let edges: Vec<GraphEdge> = (1..500).map(edge).collect();
    let shape = GraphShape::new(rows, &edges).expect("a chain");
    let mut planner = Planner::new(shape, 32, 7).expect("enough marks");
    let mut estimates = planner.estimates();
    for _ in 0..40 {
        let plan = planner.plan();
        let stamps: Vec<u64> = (0..plan.marks().len() as u64).map(|at| 900 * at).collect();
        let asked = asked(|| {
            for _ in 0..3 {
                let reading = plan.read(&stamps).expect("in order");
                estimates.add(&reading, reading.span_ns());
                estimates.add_plain(30_000);
            }
        });
        assert_eq!(asked, 0, "plan {}", plan.number());
    }
}
