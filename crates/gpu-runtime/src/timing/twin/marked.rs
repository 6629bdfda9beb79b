// SPDX-License-Identifier: MIT OR Apache-2.0
//! The graph objects of a twin: a clone of the application's graph, the marks in it,
//! and an executable.
//!
//! The clone is kept: the next plan's marks take the place of the last one's, and
//! updates of the executable name its nodes. Who made an object here destroys it
//! here, the executable first.

use super::calls::{Read, Workplace};
use super::error::{NodeType, TwinError};
use super::raw::RawGraph;
use metrale_gpu_sys::cuda::{CUgraph, CUgraphExec, CUgraphNode, CUstream};
use metrale_telemetry::runtime::{Mark, Point};

/// Event-record nodes, and those before them in `CUgraphNodeType`: kernels, copies,
/// sets, calls to the host, child graphs, empty ones, waits for an event.
const LAST_KNOWN: u32 = 7;

/// See the module.
pub(super) struct Marked {
    graph: CUgraph,
    exec: Option<CUgraphExec>,
    flags: u64,
    /// The clone's nodes in the order of its shape.
    nodes: Vec<CUgraphNode>,
    marks: Vec<CUgraphNode>,
    /// The application's nodes with the clone's, in order; none where no update is
    /// told.
    originals: Vec<(CUgraphNode, CUgraphNode)>,
}

impl Marked {
    /// Clones and reads the graph. Where it fails, nothing is left.
    pub(super) fn new(
        at: &Workplace<'_>,
        source: &RawGraph,
        (most, is_told): (usize, bool),
    ) -> Result<(Self, Read), TwinError> {
        let flags = at.flags(source.exec, source.flags)?;
        let original = source.graph as CUgraph;
        let mut copy = Self {
            graph: at.copy(original)?,
            exec: None,
            flags,
            nodes: Vec::new(),
            marks: Vec::new(),
            originals: Vec::new(),
        };
        let read = copy.read(at, original, (most, is_told));
        if read.is_err() {
            copy.destroy(at);
        }
        Ok((copy, read?))
    }

    fn read(
        &mut self,
        at: &Workplace<'_>,
        original: CUgraph,
        (most, is_told): (usize, bool),
    ) -> Result<Read, TwinError> {
        let read = at.read(self.graph, most)?;
        let is_unknown = |kind: &&NodeType| kind.0 > LAST_KNOWN;
        if let Some(kind) = read.kinds.iter().find(is_unknown) {
            return Err(TwinError::Node { kind: *kind });
        }
        self.nodes.clone_from(&read.nodes);
        if is_told {
            for node in at.read(original, most)?.nodes {
                self.originals.push((node, at.find(node, self.graph)?));
            }
            self.originals.sort_unstable();
        }
        Ok(read)
    }

    /// Makes the executable of the clone with marks, one event for each, and sends it to the device. Where it fails, the clone is to be
    /// destroyed.
    pub(super) fn instantiate(
        &mut self,
        at: &Workplace<'_>,
        marks: &[Mark],
        events: &[usize],
        stream: CUstream,
    ) -> Result<(), TwinError> {
        // Before the next one is made, which takes memory.
        self.destroy_exec(at);
        while let Some(mark) = self.marks.pop() {
            at.remove(mark)?;
        }
        for (mark, event) in marks.iter().zip(events) {
            let node = |place: u32| self.nodes.get(place as usize).copied();
            let point = |point: &Point| match *point {
                Point::Node(place) => node(place),
                Point::Mark(place) => self.marks.get(place as usize).copied(),
            };
            let after: Vec<_> = mark.after.iter().filter_map(point).collect();
            let before: Vec<_> = mark.before.iter().filter_map(|place| node(*place)).collect();
            let made = at.add_mark(self.graph, *event, (&after, &before))?;
            self.marks.push(made);
        }
        let exec = at.instantiate(self.graph, self.flags)?;
        self.exec = Some(exec);
        let first = events.first().copied().unwrap_or_default();
        at.upload(exec, stream, first)
    }

    /// The executable.
    pub(super) fn exec(&self) -> Option<u64> {
        self.exec.map(|exec| exec as u64)
    }

    /// The clone's node for one of the application's.
    pub(super) fn node_of(&self, original: u64) -> Option<u64> {
        let key = original as CUgraphNode;
        let at = self.originals.binary_search_by_key(&key, |(original, _)| *original).ok()?;
        self.originals.get(at).map(|(_, node)| *node as u64)
    }

    fn destroy_exec(&mut self, at: &Workplace<'_>) {
        if let Some(exec) = self.exec.take() {
            let _ = at.destroy_exec(exec);
        }
    }

    /// Destroys what was made, in order.
    pub(super) fn destroy(&mut self, at: &Workplace<'_>) {
        self.destroy_exec(at);
        self.marks.clear();
        if !self.graph.is_null() {
            let _ = at.destroy_graph(self.graph);
            self.graph = std::ptr::null_mut();
        }
    }
}
