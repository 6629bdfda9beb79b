// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random graphs, their plans and what readings of these say, against a graph
//! that runs and a transitive closure.

use super::twinned::{Graph, Run, closure, edge};
use metrale_telemetry::runtime::{
    GraphTotal, Inside, Mark, MarkPlace, NodeRow, Plan, Planner, Reading, ShapeError, WINDOW_NODES,
};
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::BTreeSet;

/// What a mark takes. Times of nodes are multiples of 1,000, so that no number
/// of marks makes a shorter path the longer one.
const MARK_NS: u64 = 7;

/// Stages of so many branches of so many nodes, one after the other, with edges
/// across and nodes numbered at random.
fn graphs() -> impl Strategy<Value = Graph> {
    let stage = prop_oneof![3 => Just((1, 1)), 2 => (1..6usize, 1..4usize)];
    let across = (any::<u16>(), any::<u16>(), any::<bool>());
    (vec(stage, 1..14), vec(across, 0..4), any::<u64>(), 0..3u32)
        .prop_filter("fits the closure", |(stages, ..)| {
            stages.iter().map(|(wide, long)| wide * long).sum::<usize>() < 60
        })
        .prop_map(|(stages, across, seed, programmatic)| {
            let (mut edges, mut ends, mut nodes) = (Vec::new(), Vec::new(), 0);
            for (wide, long) in stages {
                let mut own = Vec::new();
                for _ in 0..wide {
                    edges.extend(ends.iter().map(|end| edge(*end, nodes)));
                    edges.extend((1..long as u32).map(|at| edge(nodes + at - 1, nodes + at)));
                    nodes += long as u32;
                    own.push(nodes - 1);
                }
                ends = own;
            }
            for (one, other, is_twice) in across {
                let (one, other) = (u32::from(one) % nodes, u32::from(other) % nodes);
                if one != other {
                    let across = edge(one.min(other), one.max(other));
                    edges.extend([across].repeat(1 + usize::from(is_twice)));
                }
            }
            let mut chance = fastrand::Rng::with_seed(seed);
            let mut names: Vec<u32> = (0..nodes).collect();
            chance.shuffle(&mut names);
            for edge in &mut edges {
                edge.from = names[edge.from as usize];
                edge.to = names[edge.to as usize];
                edge.programmatic = chance.u32(0..3) < programmatic;
            }
            let row = |_| match chance.u64(0..9) {
                0 => NodeRow::Copy,
                func => NodeRow::Kernel(func),
            };
            Graph { rows: (0..nodes).map(row).collect(), edges }
        })
}

/// Each node's time.
fn times(graph: &Graph, seed: u64) -> Vec<u64> {
    let mut chance = fastrand::Rng::with_seed(seed);
    graph.rows.iter().map(|_| 1_000 * chance.u64(1..50)).collect()
}

/// Nodes that every other one is before or behind.
fn cuts(graph: &Graph) -> Vec<bool> {
    let nodes = graph.nodes();
    let reached = closure(nodes, &graph.with(&[]));
    let is_tied = |one: usize, other: usize| {
        one == other || (reached[one] >> other | reached[other] >> one) & 1 == 1
    };
    let is_cut = |one| (0..nodes).all(|other| is_tied(one, other));
    (0..nodes).map(is_cut).collect()
}

/// Between the nodes of the application the order is what it was.
fn assert_order(graph: &Graph, marks: &[Mark]) {
    let nodes = graph.nodes();
    let plain = closure(nodes, &graph.with(&[]));
    let twin = closure(nodes + marks.len(), &graph.with(marks));
    let own = (1 << nodes) - 1;
    for node in 0..nodes {
        assert_eq!(twin[node] & own, plain[node], "behind node {node}");
    }
    for (vertex, reached) in twin.iter().enumerate() {
        assert_eq!(reached >> vertex & 1, 0, "vertex {vertex} is on a cycle");
    }
}

/// Marks are where they say, and what is not between nodes is at cuts.
fn assert_marks(graph: &Graph, plan: &Plan) {
    let cuts = cuts(graph);
    let marks = plan.marks();
    assert_eq!(marks[0].place, MarkPlace::Entry);
    let zeros = vec![0; marks.len()];
    let reading = plan.read(&zeros).unwrap();
    let mut border = 0;
    let mut measured = BTreeSet::new();
    for ((at, mark), segment) in (1..).zip(&marks[1..]).zip(reading.segments()) {
        match segment.inside {
            Inside::Node(node) => {
                assert_eq!(mark.place, MarkPlace::After(node));
                assert!(measured.insert(node), "node {node} twice");
            }
            Inside::Mark => assert_eq!((mark.place, border + 1), (MarkPlace::Double, at)),
            Inside::Block(_) | Inside::Rest(_) => match mark.place {
                MarkPlace::After(node) => assert!(cuts[node as usize], "node {node}"),
                place => assert_eq!((place, at + 1), (MarkPlace::Last, marks.len())),
            },
        }
        border = at;
    }
    for mark in marks {
        let mut ends = mark.before.clone();
        ends.dedup();
        assert_eq!(ends, mark.before, "an edge twice");
    }
}

/// What a reading says of a launch is what the launch did.
fn assert_reading(graph: &Graph, ns: &[u64], reading: &Reading<'_>, run: &Run) {
    let mark_ns = reading.mark_ns();
    assert!([None, Some(MARK_NS)].contains(&mark_ns));
    let (mut nodes, mut sum_ns) = (0, 0);
    let mut covered = Vec::new();
    for segment in reading.segments() {
        let took = segment.to_ns - segment.from_ns;
        match segment.inside {
            Inside::Node(node) => {
                let node = node as usize;
                nodes += 1;
                assert_eq!(took, ns[node] + MARK_NS, "node {node}");
                assert_eq!(segment.from_ns + MARK_NS, run.begins[node]);
            }
            Inside::Block(own) | Inside::Rest(own) => nodes += own as usize,
            Inside::Mark => assert_eq!(took, MARK_NS),
        }
        sum_ns += took;
        covered.push((segment.from_ns, segment.to_ns));
    }
    assert_eq!(nodes, graph.nodes(), "each node is in one segment");
    covered.sort_unstable();
    let mut until = run.stamps[0];
    for (from, to) in covered {
        assert!(from <= until, "nothing covers {until}..{from}");
        until = until.max(to);
    }
    assert_eq!(until - run.stamps[0], reading.span_ns());
    assert!(sum_ns >= reading.span_ns());
    if cuts(graph).iter().all(|is_cut| *is_cut) {
        assert_eq!(sum_ns, reading.span_ns(), "a chain has no overlap");
    }
    if mark_ns.is_some() {
        let plain = graph.twin(&[]).run(ns, 0);
        assert_eq!(reading.span_ns() - reading.marks_ns(), plain.end);
    }
}

/// Nodes that a plan measures, alone or with those beside them.
fn measured(plan: &Plan) -> BTreeSet<u32> {
    let behind = plan.marks().iter().filter_map(|mark| match mark.place {
        MarkPlace::After(node) => Some(node),
        _ => None,
    });
    behind.collect()
}

/// Plans until each node was in one that measures it.
fn plans_of_a_round(planner: &mut Planner, graph: &Graph, most: usize) -> Vec<Plan> {
    let mut left: BTreeSet<u32> = (0..graph.nodes() as u32).collect();
    let mut plans = Vec::new();
    while !left.is_empty() {
        assert!(plans.len() < most, "{left:?} after {most} plans");
        let plan = planner.plan();
        let zeros = vec![0; plan.marks().len()];
        for segment in plan.read(&zeros).unwrap().segments() {
            if let Inside::Node(node) = segment.inside {
                left.remove(&node);
            }
        }
        plans.push(plan);
    }
    plans
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_twin_orders_what_the_graph_orders_and_reads_what_ran(
        graph in graphs(),
        marks in 5..70usize,
        seed in any::<u64>(),
    ) {
        let mut planner = graph.planner(marks.max(5), seed);
        let mut estimates = planner.estimates();
        let mut truth_ns = 0;
        for number in 0..6 {
            let plan = planner.plan();
            prop_assert_eq!(plan.number(), number);
            prop_assert!(plan.marks().len() <= marks);
            prop_assert_eq!(plan.is_complete(), marks > graph.nodes());
            assert_order(&graph, plan.marks());
            assert_marks(&graph, &plan);
            let ns = times(&graph, seed ^ number);
            let run = graph.twin(plan.marks()).run(&ns, MARK_NS);
            let reading = plan.read(&run.stamps).unwrap();
            assert_reading(&graph, &ns, &reading, &run);
            estimates.add(&reading, reading.span_ns());
            for segment in reading.segments() {
                if let Inside::Node(node) = segment.inside {
                    truth_ns += ns[node as usize];
                }
            }
        }
        let total = GraphTotal { ns: 1e9 + 0.4, error_ns: Some(1e6) };
        let found = estimates.figures(total, |func| Some(func.to_string()));
        let told: f64 = found.rows.iter().map(|row| row.estimate.total_ns).sum();
        prop_assert_eq!(told + found.remainder_ns, 1e9);
        prop_assert_eq!((found.plans, found.twin_launches), (6, 6));
        if marks != graph.nodes() + 1 {
            prop_assert_eq!(found.mark_ns, Some(MARK_NS as f64));
            let exact = found.rows.iter().filter(|row| row.width == 1);
            prop_assert_eq!(exact.clone().map(|row| row.sampled_ns).sum::<u64>(), truth_ns);
            for row in exact {
                prop_assert_eq!(row.marks_ns, row.samples * MARK_NS);
            }
        }
    }

    #[test]
    fn a_round_of_plans_measures_every_node(
        stages in vec(1..4usize, 1..40),
        marks in 8..50usize,
        seed in any::<u64>(),
    ) {
        // Forks of up to three and their joins.
        let mut graph = Graph::chain(1, u64::from);
        for wide in stages {
            let join = graph.nodes() as u32 - 1;
            let first = join + 1;
            for node in first..first + wide as u32 {
                graph.edges.push(edge(join, node));
                graph.edges.push(edge(node, first + wide as u32));
            }
            let rows = graph.nodes() as u64..graph.nodes() as u64 + wide as u64 + 1;
            graph.rows.extend(rows.map(NodeRow::Kernel));
        }
        let mut planner = graph.planner(marks, seed);
        // Any two plans in a row need more than the marks that windows have.
        let windows = graph.nodes() + graph.nodes().div_ceil(2);
        let most = 2 + 2 * windows / (marks - 3);
        for _ in 0..3 {
            let plans = plans_of_a_round(&mut planner, &graph, most);
            if marks > graph.nodes() {
                prop_assert_eq!(plans.len(), 1);
            }
            prop_assert!(plans.iter().all(|plan| !measured(plan).is_empty()));
        }
    }

    #[test]
    fn a_chain_needs_as_many_plans_as_it_has_windows_for(
        nodes in 1..500u32,
        marks in 20..60usize,
        seed in any::<u64>(),
    ) {
        let graph = Graph::chain(nodes, |_| 1);
        let mut planner = graph.planner(marks, seed);
        // An entry, a last and a double mark are no window's.
        let at_once = (marks - 3) / (WINDOW_NODES + 1);
        let windows = (nodes as usize).div_ceil(WINDOW_NODES) + 1;
        plans_of_a_round(&mut planner, &graph, windows.div_ceil(at_once));
    }

    #[test]
    fn a_graph_with_a_cycle_is_refused(graph in graphs(), back in any::<(u16, u16)>()) {
        let (from, to) = (back.0 as usize % graph.nodes(), back.1 as usize % graph.nodes());
        let mut edges = graph.edges.clone();
        edges.push(edge(from as u32, to as u32));
        let pairs: Vec<_> = edges.iter().map(|e| (e.from as usize, e.to as usize)).collect();
        let reached = closure(graph.nodes(), &pairs);
        let cyclic = |node: usize| reached[node] >> node & 1 == 1;
        let is_behind_one = |node: usize| {
            cyclic(node) || (0..graph.nodes()).any(|own| cyclic(own) && reached[own] >> node & 1 == 1)
        };
        let shape = metrale_telemetry::runtime::GraphShape::new(graph.rows.clone(), &edges);
        match shape {
            Ok(_) => prop_assert!((0..reached.len()).all(|node| !cyclic(node))),
            Err(ShapeError::Cycle { node }) => prop_assert!(is_behind_one(node as usize)),
            Err(other) => prop_assert!(false, "{}", other),
        }
    }
}
