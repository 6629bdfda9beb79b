// SPDX-License-Identifier: MIT OR Apache-2.0
//! Graphs with event-record nodes (*marks*), by the driver's own calls and without a
//! recorder, to compare what forms of them cost.
//!
//! Nothing is destroyed but what is made again and again: see [`super::device`].

use super::Failure;
use super::cuda::{Event, Graph, Stream, called, function, library};
use super::device::Gpu;
use metrale_gpu_runtime::timing::RawGraph;
use metrale_gpu_sys::cuda::{CAPTURE_MODE_RELAXED, CUgraphEdgeData, Status};
use std::collections::{BTreeMap, VecDeque};

/// How marks stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Between a node and what is behind it, all edges kept: a twin's.
    Between,
    /// Behind a node, and nothing behind them.
    Leaf,
    /// In place of the edges between a node and what is behind it.
    Cut,
}

/// A graph of the application's.
pub(crate) struct Source {
    pub(crate) graph: u64,
    pub(crate) ready: Graph,
    /// Each node with those that follow it, from the root on.
    nodes: Vec<(u64, Vec<u64>)>,
}

/// The most nodes, and edges, of a graph.
const MOST: usize = 1 << 13;

type AddEdges = extern "C" fn(u64, &u64, &u64, &CUgraphEdgeData, usize) -> Status;

impl Gpu {
    /// A graph of what `capture` launches on the stream.
    pub(crate) fn source(
        &self,
        stream: Stream,
        capture: impl FnOnce() -> Result<(), Failure>,
    ) -> Result<Source, Failure> {
        self.cuda.begin_capture(stream, CAPTURE_MODE_RELAXED)?;
        capture()?;
        let mut graph = 0;
        self.cuda.end_capture(stream, &mut graph)?;
        let (mut count, mut from, mut to) = (MOST, vec![0; MOST], vec![0; MOST]);
        // SAFETY: there is room for so many.
        let told = unsafe { (self.cuda.nodes)(graph, from.as_mut_ptr(), &mut count) };
        called(c"cuGraphGetNodes", told)?;
        let mut behind: BTreeMap<u64, Vec<u64>> =
            from[..count].iter().map(|node| (*node, Vec::new())).collect();
        let (of, next) = (from.as_mut_ptr(), to.as_mut_ptr());
        count = MOST;
        // SAFETY: as above.
        let told = unsafe { (self.cuda.edges)(graph, of, next, &mut count) };
        called(c"cuGraphGetEdges", told)?;
        to.truncate(count);
        for (node, next) in from.iter().zip(&to) {
            behind.entry(*node).or_default().push(*next);
        }
        // The driver promises no order.
        let roots = behind.keys().filter(|node| !to.contains(node));
        let (mut found, mut nodes): (VecDeque<u64>, _) = (roots.copied().collect(), Vec::new());
        while let Some(node) = found.pop_front() {
            // Where several lead to it, it is found again.
            if let Some(next) = behind.remove(&node) {
                found.extend(&next);
                nodes.push((node, next));
            }
        }
        Ok(Source { graph, ready: self.cuda.instantiate(graph, 0)?, nodes })
    }

    /// A graph of `nodes` kernels that run for `ns` each, one after another.
    pub(crate) fn chain(&self, stream: Stream, nodes: usize, ns: u64) -> Result<Source, Failure> {
        self.source(stream, || (0..nodes).try_for_each(|_| self.launch(self.spin, stream, ns)))
    }

    /// An executable of a copy with marks: each is behind the node of that place.
    pub(crate) fn marked(
        &self,
        source: &Source,
        form: Form,
        marks: impl IntoIterator<Item = (usize, Event)>,
    ) -> Result<Graph, Failure> {
        let copy = self.cuda.clone_graph(source.graph)?;
        for (place, event) in marks {
            self.mark(source, copy, form, (place, event))?;
        }
        self.cuda.instantiate(copy, 0)
    }

    /// Adds a mark to a copy.
    pub(crate) fn mark(
        &self,
        source: &Source,
        copy: u64,
        form: Form,
        (place, event): (usize, Event),
    ) -> Result<(), Failure> {
        let (node, behind) = &source.nodes[place % source.nodes.len()];
        let node = self.cuda.find_in_clone(*node, copy)?;
        let mark = self.cuda.add_mark(copy, &node, 1, event)?;
        for next in behind.iter().filter(|_| form != Form::Leaf) {
            let next = self.cuda.find_in_clone(*next, copy)?;
            self.cuda.add_edge(copy, &mark, &next, 1)?;
            if form == Form::Cut {
                self.cuda.remove_edge(copy, &node, &next, 1)?;
            }
        }
        Ok(())
    }

    /// A copy of a chain whose edges are programmatic, with marks.
    pub(crate) fn programmatic(
        &self,
        source: &Source,
        marks: &[(usize, Event)],
    ) -> Result<Graph, Failure> {
        let name = c"cuGraphAddDependencies_v2";
        // SAFETY: the driver gives that name this signature.
        let add: AddEdges = unsafe { function(&*library(&self.driver)?, name) }?;
        // `CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC` and its kind of edge.
        let data = CUgraphEdgeData { from_port: 1, kind: 1, ..CUgraphEdgeData::default() };
        let copy = self.cuda.clone_graph(source.graph)?;
        for (node, behind) in &source.nodes {
            for next in behind {
                let find = |node: &u64| self.cuda.find_in_clone(*node, copy);
                let (node, next) = (find(node)?, find(next)?);
                self.cuda.remove_edge(copy, &node, &next, 1)?;
                called(name, add(copy, &node, &next, &data, 1))?;
            }
        }
        for mark in marks {
            self.mark(source, copy, Form::Between, *mark)?;
        }
        self.cuda.instantiate(copy, 0)
    }

    /// The recorder's view of a graph.
    pub(crate) fn raw(&self, source: &Source) -> Result<RawGraph, Failure> {
        let launch = self.driver.graphs().map_err(Failure::Missing)?.launch;
        Ok(RawGraph { graph: source.graph, exec: source.ready.0, flags: Some(0), launch })
    }
}
