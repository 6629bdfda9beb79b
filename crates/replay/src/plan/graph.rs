// SPDX-License-Identifier: MIT OR Apache-2.0
//! The work that shares a graph launch, as one graph.
//!
//! Invariant: each node runs when it was recorded, measured from the graph's
//! first start. Only where more than [`MOST_BRANCHES`] pieces run at once does one
//! follow another, as late as that takes.

use std::collections::BTreeMap;
use std::mem;

use super::{Graph, Node, NodeWork};
use crate::trace::{Work, WorkKind};

/// Branches of a part at most: each is captured on a stream.
const MOST_BRANCHES: usize = 32;

/// A branch, and when its last node ends.
struct Branch {
    nodes: Vec<Node>,
    end_ns: u64,
}

impl Branch {
    /// Adds a node that starts at `start_ns`, or at the branch's end if that is later.
    fn add(&mut self, start_ns: u64, node: Node) {
        let gap_ns = start_ns.saturating_sub(self.end_ns);
        if gap_ns > 0 {
            self.nodes.push(Node { kind: NodeWork::Gap, duration_ns: gap_ns });
        }
        self.nodes.push(node);
        self.end_ns += gap_ns + node.duration_ns;
    }
}

/// The parts that are over, and the branches of the last one.
#[derive(Default)]
struct Builder {
    parts: Vec<Vec<Vec<Node>>>,
    branches: Vec<Branch>,
    /// When the last part begins.
    from_ns: u64,
}

impl Builder {
    fn add(&mut self, start_ns: u64, node: Node) {
        let end_ns = self.branches.iter().map(|branch| branch.end_ns).max().unwrap_or(0);
        if start_ns >= end_ns && self.branches.len() != 1 {
            self.close();
            self.begin(end_ns, Vec::new());
        } else if start_ns < end_ns && self.branches.len() == 1 {
            self.split();
        }
        let free = self.branches.iter().position(|branch| branch.end_ns <= start_ns);
        let at = match free {
            Some(at) => at,
            None if self.branches.len() < MOST_BRANCHES => {
                self.branches.push(Branch { nodes: Vec::new(), end_ns: self.from_ns });
                self.branches.len() - 1
            }
            None => {
                let ends = self.branches.iter().enumerate();
                ends.min_by_key(|(_, branch)| branch.end_ns).map_or(0, |(at, _)| at)
            }
        };
        self.branches[at].add(start_ns, node);
    }

    /// Leaves the last node of the only branch in a part of its own: what comes next
    /// runs beside it, and behind all before it.
    fn split(&mut self) {
        let last = self.branches.pop().and_then(|mut branch| {
            let last = branch.nodes.pop()?;
            let from_ns = branch.end_ns - last.duration_ns;
            self.branches.push(branch);
            self.close();
            Some((from_ns, last))
        });
        if let Some((from_ns, last)) = last {
            self.begin(from_ns, vec![last]);
        }
    }

    fn begin(&mut self, from_ns: u64, nodes: Vec<Node>) {
        let took_ns: u64 = nodes.iter().map(|node| node.duration_ns).sum();
        self.from_ns = from_ns;
        self.branches = vec![Branch { nodes, end_ns: from_ns + took_ns }];
    }

    fn close(&mut self) {
        let branches = mem::take(&mut self.branches).into_iter().map(|branch| branch.nodes);
        let part: Vec<_> = branches.filter(|nodes| !nodes.is_empty()).collect();
        if !part.is_empty() {
            self.parts.push(part);
        }
    }
}

/// Builds the graph of `works`, which stand in order of their start.
/// `kernel` gives the plan's number of a name.
pub(super) fn build(works: &[Work], mut kernel: impl FnMut(u32) -> u32) -> Graph {
    let name = works.iter().find_map(|work| match work.kind {
        WorkKind::Graph(name) => Some(kernel(name)),
        WorkKind::Kernel(_) | WorkKind::Copy(_) => None,
    });
    let first_ns = works.first().map_or(0, |work| work.start_ns);
    let mut busy: BTreeMap<u32, u64> = BTreeMap::new();
    let mut builder = Builder::default();
    for work in works {
        *busy.entry(work.stream).or_default() += work.duration_ns;
        let kind = match work.kind {
            WorkKind::Kernel(name) | WorkKind::Graph(name) => NodeWork::Kernel(kernel(name)),
            WorkKind::Copy(_) => NodeWork::Copy,
        };
        let node = Node { kind, duration_ns: work.duration_ns };
        builder.add(work.start_ns.abs_diff(first_ns), node);
    }
    builder.close();
    let most = busy.iter().max_by_key(|(stream, ns)| (**ns, std::cmp::Reverse(**stream)));
    Graph { name, stream: most.map_or(0, |(stream, _)| *stream), parts: builder.parts }
}
