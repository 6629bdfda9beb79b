// SPDX-License-Identifier: MIT OR Apache-2.0
//! A graph's nodes and edges, and where it is one node wide.
//!
//! A *cut* is a node that every other one is before or behind. Cuts divide the
//! nodes, in topological order, into *segments*: each ends with its cut, but
//! for a last one that has several sinks. A segment of one node is a step of a
//! chain; in a larger one branches run side by side.

use std::collections::VecDeque;
use std::ops::Range;

/// What a node is counted under.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeRow {
    /// A kernel, by its function handle.
    Kernel(u64),
    /// Copies of memory.
    Copy,
    /// Settings of memory.
    Set,
    /// Host functions.
    Host,
    /// Graphs inside the graph.
    Child,
    /// Nodes of any other type.
    Other,
    /// So many nodes that run side by side and are not told apart.
    SideBySide(u32),
}

/// An edge of the application's graph, by indices of its nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GraphEdge {
    /// The node before.
    pub from: u32,
    /// The node behind.
    pub to: u32,
    /// `to` may begin before `from` ends (programmatic dependent launch).
    pub programmatic: bool,
}

/// A graph that no twin can be planned for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShapeError {
    #[error("the graph has no nodes: nothing of it can be timed")]
    /// No nodes.
    Empty,
    #[error("the graph has {nodes} nodes: a twin is planned for up to {most}")]
    /// More nodes than can be numbered.
    TooLarge {
        /// Its nodes.
        nodes: usize,
        /// The most.
        most: u32,
    },
    #[error("an edge goes from node {from} to {to}: the graph has {nodes}, counted from 0")]
    /// An edge of a node that is none.
    NoSuchNode {
        /// The node before.
        from: u32,
        /// The node behind.
        to: u32,
        /// Nodes of the graph.
        nodes: u32,
    },
    #[error("node {node} is on a cycle, or behind one: a graph must have none")]
    /// A node that cannot be sorted.
    Cycle {
        /// The node.
        node: u32,
    },
}

/// The neighbours of each node on one side, each once: those of node `n` are
/// `ends[starts[n]..starts[n + 1]]`.
struct Links {
    starts: Vec<u32>,
    ends: Vec<Link>,
}

#[derive(Clone, Copy)]
pub(super) struct Link {
    pub(super) node: u32,
    pub(super) is_programmatic: bool,
}

impl Links {
    /// From pairs of a node and its neighbour, by node.
    fn new(nodes: u32, mut pairs: Vec<(u32, Link)>) -> Self {
        // Two nodes with an edge of each kind are ordered by the full one.
        pairs.sort_unstable_by_key(|(node, end)| (*node, end.node, end.is_programmatic));
        pairs.dedup_by_key(|(node, end)| (*node, end.node));
        let from = |node: u32| pairs.partition_point(|pair| pair.0 < node) as u32;
        Self {
            starts: (0..=nodes).map(from).collect(),
            ends: pairs.into_iter().map(|(_, end)| end).collect(),
        }
    }

    fn of(&self, node: u32) -> &[Link] {
        let (node, next) = (node as usize, node as usize + 1);
        &self.ends[self.starts[node] as usize..self.starts[next] as usize]
    }
}

/// A part of the graph between two cuts.
#[derive(Clone)]
pub(super) struct Segment {
    /// Places of its nodes in topological order.
    pub(super) places: Range<usize>,
    /// Its last node, where that is a cut.
    pub(super) cut: Option<u32>,
    /// A mark behind it takes the overlap of a programmatic edge.
    pub(super) ends_programmatic: bool,
}

/// A graph without cycles.
pub struct GraphShape {
    rows: Vec<NodeRow>,
    successors: Links,
    predecessors: Links,
    /// Nodes in topological order.
    order: Vec<u32>,
    segments: Vec<Segment>,
}

impl GraphShape {
    /// Of nodes, each given by its row, and the edges between them.
    ///
    /// # Errors
    /// [`ShapeError`].
    pub fn new(rows: Vec<NodeRow>, edges: &[GraphEdge]) -> Result<Self, ShapeError> {
        const MOST: u32 = 1 << 24;
        let nodes = rows.len();
        let too_large = ShapeError::TooLarge { nodes, most: MOST };
        let nodes = u32::try_from(nodes).map_err(|_| too_large)?;
        if nodes == 0 {
            return Err(ShapeError::Empty);
        }
        if nodes > MOST {
            return Err(too_large);
        }
        let is_outside = |edge: &&GraphEdge| edge.from >= nodes || edge.to >= nodes;
        if let Some(&GraphEdge { from, to, .. }) = edges.iter().find(is_outside) {
            return Err(ShapeError::NoSuchNode { from, to, nodes });
        }
        let links = |ends: fn(&GraphEdge) -> (u32, u32)| {
            let pair = |edge: &GraphEdge| {
                let ((near, node), is_programmatic) = (ends(edge), edge.programmatic);
                (near, Link { node, is_programmatic })
            };
            Links::new(nodes, edges.iter().map(pair).collect())
        };
        let mut shape = Self {
            rows,
            successors: links(|edge| (edge.from, edge.to)),
            predecessors: links(|edge| (edge.to, edge.from)),
            order: Vec::new(),
            segments: Vec::new(),
        };
        shape.order = shape.sorted()?;
        shape.segments = shape.divided();
        Ok(shape)
    }

    /// How many nodes it has.
    #[must_use]
    pub fn nodes(&self) -> u32 {
        self.rows.len() as u32
    }

    pub(super) fn row(&self, node: u32) -> NodeRow {
        self.rows[node as usize]
    }

    pub(super) fn successors(&self, node: u32) -> &[Link] {
        self.successors.of(node)
    }

    pub(super) fn predecessors(&self, node: u32) -> &[Link] {
        self.predecessors.of(node)
    }

    pub(super) fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// The nodes of a segment, in topological order.
    pub(super) fn nodes_of(&self, segment: &Segment) -> &[u32] {
        &self.order[segment.places.clone()]
    }

    /// The nodes that nothing is before, or nothing behind.
    pub(super) fn roots(&self) -> impl Iterator<Item = u32> {
        (0..self.nodes()).filter(|&node| self.predecessors(node).is_empty())
    }

    pub(super) fn sinks(&self) -> impl Iterator<Item = u32> {
        (0..self.nodes()).filter(|&node| self.successors(node).is_empty())
    }

    /// Kahn's algorithm.
    fn sorted(&self) -> Result<Vec<u32>, ShapeError> {
        let before = |node| self.predecessors(node).len();
        let mut waits: Vec<usize> = (0..self.nodes()).map(before).collect();
        let mut ready: VecDeque<u32> = self.roots().collect();
        let mut order = Vec::with_capacity(waits.len());
        while let Some(node) = ready.pop_front() {
            order.push(node);
            for next in self.successors(node) {
                let waits = &mut waits[next.node as usize];
                *waits -= 1;
                if *waits == 0 {
                    ready.push_back(next.node);
                }
            }
        }
        match waits.iter().position(|waits| *waits > 0) {
            Some(node) => Err(ShapeError::Cycle { node: node as u32 }),
            None => Ok(order),
        }
    }

    /// The segments. A node is a cut if it is the only one without predecessors
    /// among itself and those sorted behind it, and the only one without
    /// successors among itself and those before it.
    fn divided(&self) -> Vec<Segment> {
        let nodes = self.order.len();
        let mut place = vec![0; nodes];
        for (at, &node) in self.order.iter().enumerate() {
            place[node as usize] = at;
        }
        let place_of = |link: &Link| place[link.node as usize];
        // For each place, as changes from the one before it: how many nodes
        // from there on have no predecessor from there on, and how many up to
        // there have no successor up to there.
        let (mut sources, mut sinks) = (vec![0i64; nodes + 1], vec![0i64; nodes + 1]);
        for (at, &node) in self.order.iter().enumerate() {
            let before = self.predecessors(node).iter().map(place_of).max();
            sources[before.map_or(0, |before| before + 1)] += 1;
            sources[at + 1] -= 1;
            sinks[at] += 1;
            let behind = self.successors(node).iter().map(place_of).min();
            sinks[behind.unwrap_or(nodes)] -= 1;
        }
        let (mut segments, mut first) = (Vec::new(), 0);
        let (mut open_sources, mut open_sinks) = (0, 0);
        for (at, &node) in self.order.iter().enumerate() {
            open_sources += sources[at];
            open_sinks += sinks[at];
            let is_cut = (open_sources, open_sinks) == (1, 1);
            if is_cut || at + 1 == nodes {
                let mut behind = self.successors(node).iter();
                segments.push(Segment {
                    places: first..at + 1,
                    cut: is_cut.then_some(node),
                    ends_programmatic: is_cut && behind.any(|link| link.is_programmatic),
                });
                first = at + 1;
            }
        }
        segments
    }
}
