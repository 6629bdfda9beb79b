// SPDX-License-Identifier: MIT OR Apache-2.0
//! What plans and estimates say of the inside of a graph, against what a graph
//! that runs really did.

#![cfg(not(metrale_loom))]

mod servers;
#[path = "../twinned/mod.rs"]
mod twinned;

use metrale_telemetry::runtime::{ENOUGH_PLANS, GraphTotal, Inside, MarkPlace, NodeRow};
use metrale_telemetry::snapshot::NodeKind;
use servers::{Server, Truth, serve};
use twinned::{Graph, edge};

#[test]
fn marks_cost_what_they_are_told_to_and_what_is_left_is_exact() {
    for mark_ns in [0, 1, 1_300] {
        let mut server = Server::new(3, Graph::chain(50, |node| u64::from(node) % 7));
        let mut planner = server.graph.planner(52, 1);
        let plan = planner.plan();
        assert!(plan.is_complete());
        let twin = server.graph.twin(plan.marks());
        let (mut truth, mut estimates) = (Truth::default(), planner.estimates());
        let (mut raw_ns, mut spans_ns) = (0, 0);
        for _ in 0..40 {
            server.drift();
            let ns = server.launch();
            truth.add(&server.graph, &server.graph.twin(&[]), &ns);
            let run = twin.run(&ns, mark_ns);
            let reading = plan.read(&run.stamps).unwrap();
            let segments = reading.segments();
            raw_ns += segments.map(|own| own.to_ns - own.from_ns).sum::<u64>();
            spans_ns += reading.span_ns();
            estimates.add(&reading, reading.span_ns());
            estimates.add_plain(ns.iter().sum());
        }
        // The segments of a chain add up to the span: the double mark has one.
        assert_eq!(raw_ns, spans_ns);
        assert_eq!(raw_ns, truth.total_ns + 40 * 51 * mark_ns);
        let figures = truth.figures(&estimates);
        assert_eq!(figures.mark_ns, Some(mark_ns as f64));
        assert_eq!(figures.rows.len(), 7);
        for row in &figures.rows {
            assert_eq!(row.sampled_ns, truth.of(row));
            assert_eq!(row.marks_ns, row.samples * mark_ns);
            assert_eq!(row.samples, 40 * row.nodes);
            assert!((row.estimate.total_ns - truth.of(row) as f64).abs() <= 0.5);
            assert!(!row.overcorrected);
        }
        assert!(figures.remainder_ns.abs() <= 7.0);
        let perturbation = (truth.total_ns + 40 * 51 * mark_ns) as f64 / truth.total_ns as f64;
        assert_eq!(figures.perturbation, Some(perturbation));
    }
}

/// Without a double mark nothing is taken off.
#[test]
fn a_budget_of_one_mark_a_node_and_an_entry_has_none_to_read_the_cost_with() {
    let graph = Graph::chain(5, u64::from);
    let mut planner = graph.planner(6, 0);
    let plan = planner.plan();
    assert!(plan.is_complete());
    let reading_of = [0, 110, 220, 330, 440, 550];
    let reading = plan.read(&reading_of).unwrap();
    assert_eq!((reading.mark_ns(), reading.marks_ns()), (None, 0));
    let mut estimates = planner.estimates();
    estimates.add(&reading, 600);
    let figures = estimates.figures(GraphTotal::default(), |_| None);
    assert_eq!((figures.mark_ns, figures.perturbation), (None, None));
    let told = figures.rows.iter().map(|row| (row.sampled_ns, row.marks_ns));
    assert!(told.eq([(110, 0); 5]));
}

#[test]
fn a_correction_stops_at_zero_and_says_so() {
    let graph = Graph::chain(3, u64::from);
    let mut planner = graph.planner(9, 0);
    let plan = planner.plan();
    let twin = graph.twin(plan.marks());
    let mut estimates = planner.estimates();
    let mut run = twin.run(&[10_000, 10_000, 10_000], 500);
    // The last node's mark is read early: it took less than a mark costs.
    let last = run.stamps.len() - 1;
    run.stamps[last] -= 10_100;
    estimates.add(&plan.read(&run.stamps).unwrap(), 0);
    let figures = estimates.figures(GraphTotal::default(), |func| Some(func.to_string()));
    for row in figures.rows {
        let is_last = row.name.as_deref() == Some("2");
        let expected = if is_last { 0 } else { 10_000 };
        assert_eq!((row.sampled_ns, row.overcorrected), (expected, is_last));
    }
}

#[test]
fn few_plans_or_few_launches_claim_no_error() {
    for (plans, launches, claims) in [
        (ENOUGH_PLANS as u32 - 1, 40, false),
        (ENOUGH_PLANS as u32, 4, false),
        (ENOUGH_PLANS as u32, 5, true),
    ] {
        // Three nodes of one kernel in windows of two: each plan measures it.
        let mut server = Server::new(1, Graph::chain(5, |_| 1));
        let mut planner = server.graph.planner(5, 1);
        let (truth, estimates) = serve(&mut server, &mut planner, (plans, launches), 1_000);
        let figures = truth.figures(&estimates);
        let found = figures.rows[0].estimate;
        assert_eq!(found.steps, u64::from(plans * launches));
        assert_eq!(found.error.is_some(), claims, "{plans} plans, {launches} launches");
        let unknown = GraphTotal { ns: 1e6, error_ns: None };
        let figures = estimates.figures(unknown, |_| None);
        assert_eq!(figures.rows[0].estimate.error, None, "the total has none");
    }
}

#[test]
fn names_that_were_not_seen_come_first() {
    // Layers of fifteen kernels, and one of each of three others on the way.
    for seed in 0..100 {
        let func = |node: u32| match node {
            17 | 201 | 333 => 1_000 + u64::from(node),
            node => u64::from(node) % 15,
        };
        let graph = Graph::chain(421, func);
        let mut planner = graph.planner(32, seed);
        let mut estimates = planner.estimates();
        for _ in 0..3 {
            let plan = planner.plan();
            let run = graph.twin(plan.marks()).run(&[1_000; 421], 10);
            estimates.add(&plan.read(&run.stamps).unwrap(), run.end);
        }
        let found = estimates.figures(GraphTotal::default(), |func| Some(func.to_string()));
        assert_eq!(found.rows.len(), 18, "seed {seed}");
    }
}

#[test]
fn windows_border_where_no_programmatic_edge_is() {
    for seed in 0..50 {
        // Of six nodes three overlap.
        let mut graph = Graph::chain(200, |_| 1);
        for edge in &mut graph.edges {
            edge.programmatic = [1, 2].contains(&(edge.to % 6));
        }
        let mut planner = graph.planner(32, seed);
        let mut estimates = planner.estimates();
        let mut serialised = 0;
        for _ in 0..7 {
            let plan = planner.plan();
            let run = graph.twin(plan.marks()).run(&[1_000; 200], 10);
            let reading = plan.read(&run.stamps).unwrap();
            for (mark, segment) in plan.marks()[1..].iter().zip(reading.segments()) {
                if let (MarkPlace::After(node), Inside::Rest(_)) = (mark.place, segment.inside) {
                    assert!(node % 6 >= 2, "seed {seed}: a border behind node {node}");
                }
                let overlaps = |node| node % 6 < 3;
                let is_serialised = matches!(segment.inside, Inside::Node(node) if overlaps(node));
                serialised += u64::from(is_serialised);
            }
            estimates.add(&reading, run.end);
        }
        let rows = estimates.figures(GraphTotal::default(), |_| None).rows;
        assert_eq!(rows[0].serialised, serialised);
        assert!((1..rows[0].samples).contains(&serialised));
    }
}

#[test]
fn a_block_with_more_branches_than_marks_is_one_row() {
    // A fork of 40 and its join, between two chains, twice.
    let mut graph = Graph::chain(1, |_| 1);
    for _ in 0..2 {
        let fork = graph.nodes() as u32 - 1;
        let join = fork + 41;
        for node in fork + 1..join {
            graph.edges.extend([edge(fork, node), edge(node, join)]);
        }
        graph.rows.extend([NodeRow::Copy; 40]);
        graph.rows.extend([NodeRow::Kernel(1); 10]);
        graph.edges.extend((join..join + 9).map(|node| edge(node, node + 1)));
    }
    let mut planner = graph.planner(20, 1);
    let mut estimates = planner.estimates();
    let mut ns = vec![1_000; graph.nodes()];
    (ns[7], ns[57]) = (5_000, 5_000);
    for _ in 0..20 {
        let plan = planner.plan();
        let run = graph.twin(plan.marks()).run(&ns, 3);
        estimates.add(&plan.read(&run.stamps).unwrap(), run.end);
    }
    let rows = estimates.figures(GraphTotal { ns: 31e3, error_ns: None }, |_| None).rows;
    let block = rows.iter().find(|row| row.kind == NodeKind::SideBySide).unwrap();
    // Each with its join: 5 and 1 microseconds.
    assert_eq!((block.width, block.nodes), (41, 2));
    assert_eq!(block.estimate.total_ns, 12e3);
    let alone = rows.iter().find(|row| row.kind == NodeKind::Kernel).unwrap();
    assert_eq!((alone.width, alone.nodes), (1, 19));
    assert_eq!(alone.estimate.total_ns, 19e3);
    assert_eq!(rows.len(), 2);
}
