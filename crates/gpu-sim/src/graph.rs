// SPDX-License-Identifier: MIT OR Apache-2.0
//! Graphs: nodes in order of creation, each after the nodes it depends on.
//!
//! A node only ever depends on earlier ones, so the order of creation is a
//! topological order. An executable graph is a snapshot; it never runs beside
//! itself.

use std::sync::Arc;

use metrale_gpu_sys::cuda::Status;

use crate::capture::Target;
use crate::event::State;
use crate::memory::Transfer;
use crate::world::{Outcome, World};

/// What a node does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Runs a kernel with a copy of its arguments.
    Kernel {
        function: u64,
        ns: u64,
        arguments: Vec<u8>,
    },
    /// Moves bytes.
    Copy(Transfer),
    /// Records an event at every launch.
    RecordEvent(u64),
    /// Waits for an event at every launch.
    WaitEvent(u64),
    /// Takes no time: an allocation or a release.
    Memory,
}

#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) kind: Kind,
    /// Places of the nodes that come first; all smaller than this one's.
    pub(crate) deps: Vec<usize>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Graph {
    pub(crate) nodes: Vec<Node>,
}

/// An executable graph.
#[derive(Debug)]
pub(crate) struct Exec {
    /// Shared with the launch under way: no copy per launch.
    pub(crate) nodes: Arc<[Node]>,
    pub(crate) last_end: u64,
}

impl Graph {
    /// Adds a node after those of `deps`; returns its place.
    pub(crate) fn add(&mut self, kind: Kind, deps: Vec<usize>) -> usize {
        self.nodes.push(Node { kind, deps });
        self.nodes.len() - 1
    }

    /// Whether each of `nodes` is among `ends` or comes before one of them.
    pub(crate) fn covers(&self, ends: &[usize], nodes: &[usize]) -> bool {
        let mut reached = vec![false; self.nodes.len()];
        let mut todo = ends.to_vec();
        while let Some(node) = todo.pop() {
            if let Some(seen) = reached.get_mut(node)
                && !std::mem::replace(seen, true)
                && let Some(found) = self.nodes.get(node)
            {
                todo.extend(&found.deps);
            }
        }
        nodes
            .iter()
            .all(|node| reached.get(*node).copied().unwrap_or(false))
    }
}

/// When a node ends that takes `ns` and starts once `start` has come and the
/// nodes of `deps` have ended.
fn node_end(start: u64, ends: &[u64], deps: &[usize], ns: u64) -> u64 {
    deps.iter()
        .filter_map(|dep| ends.get(*dep))
        .copied()
        .fold(start, u64::max)
        .saturating_add(ns)
}

/// The nodes that no other node depends on.
fn leaves(nodes: &[Node]) -> Vec<usize> {
    let mut is_leaf = vec![true; nodes.len()];
    for dep in nodes.iter().flat_map(|node| &node.deps) {
        if let Some(leaf) = is_leaf.get_mut(*dep) {
            *leaf = false;
        }
    }
    (0..nodes.len())
        .filter(|node| is_leaf.get(*node).copied().unwrap_or(false))
        .collect()
}

impl World {
    pub(crate) fn launch_graph(&mut self, key: u64, exec: u64) -> Outcome {
        let Some(found) = self.execs.get(exec) else {
            return Err(self.stale());
        };
        let (nodes, last_end) = (Arc::clone(&found.nodes), found.last_end);
        match self.target(key)? {
            Target::Capture(id) => self.inline(id, key, &nodes),
            Target::Device => {
                let start = self.start_time(key).max(last_end);
                let end = self.run_nodes(start, &nodes)?;
                if let Some(found) = self.execs.get_mut(exec) {
                    found.last_end = end;
                }
                self.stream(key)?.busy_until = end;
                Ok(())
            }
        }
    }

    /// Runs the nodes from `start`; returns when the last one ends.
    fn run_nodes(&mut self, start: u64, nodes: &[Node]) -> Result<u64, Status> {
        let mut ends = Vec::with_capacity(nodes.len());
        for node in nodes {
            let ns = match &node.kind {
                Kind::Kernel { ns, .. } => *ns,
                Kind::Copy(transfer) => {
                    self.memory.run(*transfer)?;
                    self.config.copy_ns
                }
                Kind::RecordEvent(_) | Kind::WaitEvent(_) | Kind::Memory => 0,
            };
            let mut end = node_end(start, &ends, &node.deps, ns);
            match node.kind {
                Kind::RecordEvent(event) => match self.events.get_mut(event) {
                    Some(found) => found.state = State::Recorded(end),
                    None => return Err(self.stale()),
                },
                Kind::WaitEvent(event) => {
                    end = end.max(self.event_time(event)?.unwrap_or(0));
                }
                _ => {}
            }
            ends.push(end);
        }
        Ok(ends.into_iter().fold(start, u64::max))
    }

    /// A graph launched into a capture: its nodes become part of that graph.
    fn inline(&mut self, id: u64, key: u64, nodes: &[Node]) -> Outcome {
        let deps = match &self.stream(key)?.joined {
            Some(joined) => joined.deps.clone(),
            None => Vec::new(),
        };
        let graph = self.capture(id).map_or(0, |capture| capture.graph);
        let graph = self.graphs.get_mut(graph).ok_or(Status::ERROR_UNKNOWN)?;
        let offset = graph.nodes.len();
        for node in nodes {
            let deps = if node.deps.is_empty() {
                deps.clone()
            } else {
                node.deps.iter().map(|dep| dep + offset).collect()
            };
            graph.add(node.kind.clone(), deps);
        }
        if let Some(joined) = &mut self.stream(key)?.joined
            && !nodes.is_empty()
        {
            joined.deps = leaves(nodes).iter().map(|leaf| leaf + offset).collect();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Graph, Kind, leaves, node_end};

    fn kernel(ns: u64) -> Kind {
        Kind::Kernel {
            function: 0,
            ns,
            arguments: Vec::new(),
        }
    }

    /// a(10) → b(20), a → c(5), {b, c} → d(1), started at 100: worked out by hand.
    #[test]
    fn a_diamond_ends_when_its_longer_arm_does() {
        let mut graph = Graph::default();
        let a = graph.add(kernel(10), vec![]);
        let b = graph.add(kernel(20), vec![a]);
        let c = graph.add(kernel(5), vec![a]);
        let d = graph.add(kernel(1), vec![b, c]);
        let mut ends = Vec::new();
        for node in &graph.nodes {
            let Kind::Kernel { ns, .. } = node.kind else {
                panic!("only kernels here");
            };
            ends.push(node_end(100, &ends, &node.deps, ns));
        }
        assert_eq!(ends, [110, 130, 115, 131]);
        assert_eq!(leaves(&graph.nodes), [d]);
        assert!(graph.covers(&[d], &[a, b, c, d]));
        assert!(graph.covers(&[b], &[a, b]));
        assert!(!graph.covers(&[b], &[c]), "c is not joined to b");
        assert!(!graph.covers(&[], &[a]));
        assert!(graph.covers(&[], &[]));
    }
}
