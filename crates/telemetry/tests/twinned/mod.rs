// SPDX-License-Identifier: MIT OR Apache-2.0
//! A graph that runs as a GPU with room for all of its branches would run it,
//! plain or with marks.

#![allow(dead_code, reason = "no test binary uses all of it")]

use metrale_telemetry::runtime::{GraphEdge, GraphShape, Mark, NodeRow, Planner, Point};

/// An application's graph.
#[derive(Clone, Debug)]
pub(crate) struct Graph {
    pub(crate) rows: Vec<NodeRow>,
    pub(crate) edges: Vec<GraphEdge>,
}

pub(crate) fn edge(from: u32, to: u32) -> GraphEdge {
    GraphEdge { from, to, programmatic: false }
}

impl Graph {
    /// One node after the other, each of the kernel that `func` says.
    pub(crate) fn chain(nodes: u32, func: impl Fn(u32) -> u64) -> Self {
        Self {
            rows: (0..nodes).map(|node| NodeRow::Kernel(func(node))).collect(),
            edges: (1..nodes).map(|node| edge(node - 1, node)).collect(),
        }
    }

    pub(crate) fn nodes(&self) -> usize {
        self.rows.len()
    }

    pub(crate) fn shape(&self) -> GraphShape {
        GraphShape::new(self.rows.clone(), &self.edges).unwrap()
    }

    pub(crate) fn planner(&self, marks: usize, seed: u64) -> Planner {
        Planner::new(self.shape(), marks, seed).unwrap()
    }

    /// Its edges and those of marks; mark `m` is vertex `nodes + m`.
    pub(crate) fn with(&self, marks: &[Mark]) -> Vec<(usize, usize)> {
        let own = self.edges.iter();
        let mut edges: Vec<_> = own.map(|e| (e.from as usize, e.to as usize)).collect();
        for (at, mark) in marks.iter().enumerate() {
            let own = self.nodes() + at;
            for point in &mark.after {
                edges.push(match *point {
                    Point::Node(node) => (node as usize, own),
                    Point::Mark(mark) => (self.nodes() + mark as usize, own),
                });
            }
            edges.extend(mark.before.iter().map(|node| (own, *node as usize)));
        }
        edges
    }

    /// The graph with marks, ready to run.
    pub(crate) fn twin(&self, marks: &[Mark]) -> Twin {
        let vertices = self.nodes() + marks.len();
        let mut before = vec![Vec::new(); vertices];
        for (from, to) in self.with(marks) {
            before[to].push(from);
        }
        let mut order = Vec::new();
        let mut is_sorted = vec![false; vertices];
        while order.len() < vertices {
            let known = order.len();
            for vertex in 0..vertices {
                if !is_sorted[vertex] && before[vertex].iter().all(|own| is_sorted[*own]) {
                    is_sorted[vertex] = true;
                    order.push(vertex);
                }
            }
            assert!(order.len() > known, "the graph with its marks has a cycle");
        }
        Twin { nodes: self.nodes(), before, order }
    }
}

/// A graph with marks.
pub(crate) struct Twin {
    nodes: usize,
    before: Vec<Vec<usize>>,
    order: Vec<usize>,
}

/// What a launch did, nanoseconds from its begin.
pub(crate) struct Run {
    /// When each node began.
    pub(crate) begins: Vec<u64>,
    /// What each mark's event holds.
    pub(crate) stamps: Vec<u64>,
    /// When all was over.
    pub(crate) end: u64,
}

impl Twin {
    /// Node `n` takes `ns[n]`, and a mark `cost`; its event holds its begin.
    pub(crate) fn run(&self, ns: &[u64], cost: u64) -> Run {
        let mut begins = vec![0; self.order.len()];
        let took = |vertex: usize| ns.get(vertex).copied().unwrap_or(cost);
        let mut end = 0;
        for &vertex in &self.order {
            let ends = self.before[vertex].iter().map(|own| begins[*own] + took(*own));
            begins[vertex] = ends.max().unwrap_or(0);
            end = end.max(begins[vertex] + took(vertex));
        }
        let stamps = begins.split_off(self.nodes);
        Run { begins, stamps, end }
    }
}

/// Which vertices can be reached from which, one bit each: Warshall's algorithm.
pub(crate) fn closure(vertices: usize, edges: &[(usize, usize)]) -> Vec<u128> {
    assert!(vertices <= 128);
    let mut reached = vec![0u128; vertices];
    for &(from, to) in edges {
        reached[from] |= 1 << to;
    }
    for over in 0..vertices {
        let behind = reached[over];
        for from in &mut reached {
            if *from >> over & 1 == 1 {
                *from |= behind;
            }
        }
    }
    reached
}
