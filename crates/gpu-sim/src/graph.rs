// SPDX-License-Identifier: MIT OR Apache-2.0
//! Graphs: nodes and the edges between them, from a capture or built by hand.
//!
//! A node's place names it within its graph and is never another node's, not
//! even once the node is destroyed. Edges may run in any direction; a graph with
//! a cycle has no order and cannot be instantiated.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::handles::STRIDE;
use crate::kernel::Kernel;
use crate::memory::Transfer;
use crate::user_object::{Callback, Held};
use crate::world::World;

/// `CUgraphEdgeData`; all zero is full completion before start.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EdgeData {
    pub(crate) from_port: u8,
    pub(crate) to_port: u8,
    pub(crate) kind: u8,
    pub(crate) reserved: [u8; 5],
}

impl EdgeData {
    /// `CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC`: the second kernel may start
    /// before the first is done.
    pub(crate) const PROGRAMMATIC: u8 = 1;
}

/// What a node does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Runs a kernel.
    Kernel(Kernel),
    /// Moves bytes.
    Copy(Transfer),
    /// Calls a function of the host.
    Host(Callback),
    /// Runs the nodes of the graph of this handle, which is the node's own.
    Child(u64),
    /// Nothing: only its edges count.
    Empty,
    /// Waits for an event at every launch.
    WaitEvent(u64),
    /// Records an event at every launch.
    RecordEvent(u64),
    /// Takes no time: the memory is there from the capture on, and stays.
    Allocate,
    /// As [`Kind::Allocate`].
    Release,
}

impl Kind {
    /// `CUgraphNodeType`.
    pub(crate) const fn number(&self) -> u32 {
        match self {
            Self::Kernel(_) => 0,
            Self::Copy(Transfer::Fill { .. }) => 2,
            Self::Copy(_) => 1,
            Self::Host(_) => 3,
            Self::Child(_) => 4,
            Self::Empty => 5,
            Self::WaitEvent(_) => 6,
            Self::RecordEvent(_) => 7,
            Self::Allocate => 10,
            Self::Release => 11,
        }
    }

    /// Whether it allocates or frees, which its graph may do in one place only.
    pub(crate) const fn owns_memory(&self) -> bool {
        matches!(self, Self::Allocate | Self::Release)
    }
}

/// What comes before a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Edge {
    /// The place of the node that comes first.
    pub(crate) from: usize,
    pub(crate) data: EdgeData,
}

/// A node for ever: the id of the graph that it was first added to, and its
/// place there. A clone's nodes have the origins of those they are copies of.
pub(crate) type Origin = (u64, usize);

#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) origin: Origin,
    pub(crate) kind: Kind,
    pub(crate) deps: Vec<Edge>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Graph {
    /// Unique for ever, unlike the handle.
    pub(crate) id: u64,
    /// The id of the graph that it was cloned from, through whatever clones, or
    /// its own: graphs of one family work on the same memory.
    pub(crate) family: u64,
    /// The id of the graph that it is a direct clone of, else 0.
    pub(crate) clone_of: u64,
    /// Whether it is a child node's own.
    pub(crate) is_child: bool,
    /// By place; `None` once destroyed.
    places: Vec<Option<Node>>,
    /// References to user objects.
    pub(crate) held: Held,
}

impl Graph {
    pub(crate) fn new(id: u64) -> Self {
        Self { id, family: id, ..Self::default() }
    }

    /// Adds a node; returns its place.
    pub(crate) fn add(&mut self, kind: Kind, deps: Vec<Edge>) -> usize {
        let place = self.places.len();
        let origin = (self.id, place);
        self.places.push(Some(Node { origin, kind, deps }));
        place
    }

    /// Adds a node after others in the ordinary way; returns its place.
    pub(crate) fn add_after(&mut self, kind: Kind, deps: &[usize]) -> usize {
        let data = EdgeData::default();
        let edge = |from: &usize| Edge { from: *from, data };
        self.add(kind, deps.iter().map(edge).collect())
    }

    pub(crate) fn node(&self, place: usize) -> Option<&Node> {
        self.places.get(place)?.as_ref()
    }

    pub(crate) fn node_mut(&mut self, place: usize) -> Option<&mut Node> {
        self.places.get_mut(place)?.as_mut()
    }

    /// The nodes with their places, in the order in which they were added.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = (usize, &Node)> {
        let places = self.places.iter().enumerate();
        places.filter_map(|(place, node)| Some((place, node.as_ref()?)))
    }

    /// As [`Graph::nodes`].
    pub(crate) fn nodes_mut(&mut self) -> impl Iterator<Item = (usize, &mut Node)> {
        let places = self.places.iter_mut().enumerate();
        places.filter_map(|(place, node)| Some((place, node.as_mut()?)))
    }

    /// Takes a node out with all its edges.
    pub(crate) fn remove(&mut self, place: usize) -> Option<Node> {
        let removed = self.places.get_mut(place)?.take();
        for (_, node) in self.nodes_mut() {
            node.deps.retain(|edge| edge.from != place);
        }
        removed
    }

    /// Every edge: the places it comes from and goes to, and its data.
    pub(crate) fn edges(&self) -> impl Iterator<Item = (usize, usize, EdgeData)> {
        self.nodes().flat_map(|(to, node)| {
            let deps = node.deps.iter();
            deps.map(move |edge| (edge.from, to, edge.data))
        })
    }

    /// Whether a node allocates or frees.
    pub(crate) fn owns_memory(&self) -> bool {
        self.nodes().any(|(_, node)| node.kind.owns_memory())
    }

    /// The places in an order in which each comes after those that it depends
    /// on, and otherwise as they were added; a node of a cycle, if there is one.
    pub(crate) fn order(&self) -> Result<Vec<usize>, usize> {
        let mut left: Vec<usize> = vec![0; self.places.len()];
        let mut next: Vec<Vec<usize>> = vec![Vec::new(); self.places.len()];
        for (from, to, _) in self.edges() {
            if let (Some(left), Some(next)) = (left.get_mut(to), next.get_mut(from)) {
                *left += 1;
                next.push(to);
            }
        }
        let roots = self.nodes().filter(|(_, node)| node.deps.is_empty());
        let mut ready: BinaryHeap<_> = roots.map(|(place, _)| Reverse(place)).collect();
        let mut order = Vec::with_capacity(self.places.len());
        while let Some(Reverse(place)) = ready.pop() {
            order.push(place);
            for to in next.get(place).into_iter().flatten() {
                if let Some(left) = left.get_mut(*to) {
                    *left -= 1;
                    if *left == 0 {
                        ready.push(Reverse(*to));
                    }
                }
            }
        }
        let stuck = |(place, _): &(usize, &Node)| left.get(*place).is_some_and(|left| *left > 0);
        match self.nodes().find(stuck) {
            Some((place, _)) => Err(place),
            None => Ok(order),
        }
    }

    /// Whether each of `nodes` is among `ends` or comes before one of them.
    pub(crate) fn covers(&self, ends: &[usize], nodes: &[usize]) -> bool {
        let mut reached = vec![false; self.places.len()];
        let mut todo = ends.to_vec();
        while let Some(place) = todo.pop() {
            if let Some(seen) = reached.get_mut(place)
                && !std::mem::replace(seen, true)
                && let Some(found) = self.node(place)
            {
                todo.extend(found.deps.iter().map(|edge| edge.from));
            }
        }
        nodes.iter().all(|node| reached.get(*node).copied().unwrap_or(false))
    }
}

/// Distance between the node handles of two graphs whose handles are one apart:
/// graphs' handles are far enough apart for millions of nodes each.
const NODE_SHIFT: u32 = 16;

/// The handle of a graph's node.
pub(crate) const fn node_handle(graph: u64, place: usize) -> u64 {
    (graph << NODE_SHIFT) + place as u64 + 1
}

/// The graph's handle and the place that a node's handle is made of.
pub(crate) fn node_of(handle: u64) -> (u64, usize) {
    let whole = handle.saturating_sub(1);
    let graph = (whole >> NODE_SHIFT) & !(STRIDE - 1);
    let place = whole - (graph << NODE_SHIFT);
    (graph, usize::try_from(place).unwrap_or(usize::MAX))
}

impl World {
    pub(crate) fn new_graph(&mut self) -> u64 {
        self.ids.graph += 1;
        self.graphs.insert(Graph::new(self.ids.graph))
    }

    /// Copies a live graph and its child graphs.
    pub(crate) fn clone_graph(&mut self, graph: u64) -> Option<u64> {
        let mut copy = self.graphs.get(graph)?.clone();
        self.ids.graph += 1;
        copy.clone_of = std::mem::replace(&mut copy.id, self.ids.graph);
        for (_, node) in copy.nodes_mut() {
            if let Kind::Child(child) = &mut node.kind {
                *child = self.clone_graph(*child)?;
            }
        }
        self.share_held(&copy.held);
        Some(self.graphs.insert(copy))
    }

    /// Destroys a graph and its child graphs; whether there was one.
    pub(crate) fn remove_graph(&mut self, graph: u64) -> bool {
        let Some(gone) = self.graphs.remove(graph) else {
            return false;
        };
        self.let_go(&gone.held);
        for (_, node) in gone.nodes() {
            if let Kind::Child(child) = node.kind {
                self.remove_graph(child);
            }
        }
        true
    }

    /// The handle of the node of that name, NULL once it or its graph is gone.
    pub(crate) fn handle_of(&self, (id, place): (u64, usize)) -> u64 {
        let found = self.graphs.iter().find(|(_, graph)| graph.id == id);
        match found {
            Some((handle, graph)) if graph.node(place).is_some() => node_handle(handle, place),
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Edge, EdgeData, Graph, Kind};

    #[test]
    fn what_is_joined_to_the_ends_is_covered() {
        let mut graph = Graph::new(1);
        let a = graph.add_after(Kind::Empty, &[]);
        let b = graph.add_after(Kind::Empty, &[a]);
        let c = graph.add_after(Kind::Empty, &[a]);
        let d = graph.add_after(Kind::Empty, &[b, c]);
        assert!(graph.covers(&[d], &[a, b, c, d]));
        assert!(graph.covers(&[b], &[a, b]));
        assert!(!graph.covers(&[b], &[c]), "c is not joined to b");
        assert!(!graph.covers(&[], &[a]));
        assert!(graph.covers(&[], &[]));
    }

    #[test]
    fn an_order_follows_the_edges_and_a_cycle_has_none() {
        let mut graph = Graph::new(1);
        let [a, b, c] = [(); 3].map(|()| graph.add_after(Kind::Empty, &[]));
        assert_eq!(graph.order(), Ok(vec![a, b, c]), "as added");
        let data = EdgeData::default();
        let depend = |graph: &mut Graph, from, to: usize| {
            let node = graph.node_mut(to).expect("a node");
            node.deps.push(Edge { from, data });
        };
        depend(&mut graph, c, a);
        depend(&mut graph, b, c);
        assert_eq!(graph.order(), Ok(vec![b, c, a]));
        depend(&mut graph, a, b);
        assert!(graph.order().is_err());
        // With the node go its edges, and the cycle.
        assert!(graph.remove(c).is_some());
        assert_eq!(graph.order(), Ok(vec![a, b]));
        assert_eq!(graph.edges().count(), 1);
        assert_eq!(graph.add_after(Kind::Empty, &[]), 3, "no place twice");
        assert!(graph.node(c).is_none());
    }
}
