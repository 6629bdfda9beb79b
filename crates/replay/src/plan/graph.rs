// SPDX-License-Identifier: MIT OR Apache-2.0
//! The work that shares a graph launch, as one graph.
//!
//! Invariant: each node starts where it was recorded, measured from the
//! graph's first start, unless the node before it on its stream still runs:
//! then it follows at once, and the time lost is taken from the next gaps.

use std::collections::BTreeMap;

use super::{Chain, Graph, Node};
use crate::trace::{Work, WorkKind};

/// Builds the graph of `works`, which stand in order of their start.
/// `kernel` gives the plan's number of a name.
pub(super) fn build(works: &[Work], mut kernel: impl FnMut(u32) -> u32) -> Graph {
    let name = works.iter().find_map(|work| match work.kind {
        WorkKind::Graph(name) => Some(kernel(name)),
        WorkKind::Kernel(_) | WorkKind::Copy(_) => None,
    });
    let first = works.first().map_or(0, |w| w.start_ns);
    // Per stream: the chain, the in-order end of its last node, its GPU time.
    let mut chains: BTreeMap<u32, (Vec<Node>, u64, u64)> = BTreeMap::new();
    for work in works {
        let (nodes, end, busy) = chains.entry(work.stream).or_default();
        let start = work.start_ns.abs_diff(first);
        let gap_ns = start.saturating_sub(*end);
        nodes.push(Node {
            kernel: match work.kind {
                WorkKind::Kernel(name) | WorkKind::Graph(name) => Some(kernel(name)),
                WorkKind::Copy(_) => None,
            },
            gap_ns,
            duration_ns: work.duration_ns,
        });
        *end += gap_ns + work.duration_ns;
        *busy += work.duration_ns;
    }
    let mut chains: Vec<(u32, Vec<Node>, u64)> =
        chains.into_iter().map(|(stream, (nodes, _, busy))| (stream, nodes, busy)).collect();
    chains.sort_by_key(|(stream, _, busy)| (std::cmp::Reverse(*busy), *stream));
    Graph {
        name,
        chains: chains.into_iter().map(|(stream, nodes, _)| Chain { stream, nodes }).collect(),
    }
}
