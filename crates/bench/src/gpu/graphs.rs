// SPDX-License-Identifier: MIT OR Apache-2.0
//! Graphs with event-record nodes (*marks*), by the driver's own calls and without a
//! recorder, to compare what forms of them cost.
//!
//! Nothing is destroyed but what is made again and again: see [`super::device`].

use super::Failure;
use super::cuda::{called, library};
use super::device::{Event, Gpu, Graph, Stream};
use metrale_gpu_runtime::timing::{GraphLaunch, RawGraph};
use metrale_gpu_sys::cuda::{
    CAPTURE_MODE_RELAXED, CUevent, CUgraph, CUgraphEdgeData, CUgraphNode, CUstream, GraphApi,
};
use std::ffi::c_void;
use std::ptr::null_mut;

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
    graph: CUgraph,
    pub(crate) ready: Graph,
    /// Each node with those that follow it. Of a chain the first is the root, and so on.
    nodes: Vec<(CUgraphNode, Vec<CUgraphNode>)>,
}

type AddEdges = unsafe extern "C" fn(
    CUgraph,
    *const CUgraphNode,
    *const CUgraphNode,
    *const CUgraphEdgeData,
    usize,
) -> metrale_gpu_sys::cuda::Status;

impl Gpu {
    fn api(&self) -> Result<&GraphApi, Failure> {
        self.driver.graphs().map_err(Failure::Missing)
    }

    /// A graph of what `capture` launches on the stream.
    pub(crate) fn source(
        &self,
        stream: Stream,
        capture: impl FnOnce() -> Result<(), Failure>,
    ) -> Result<Source, Failure> {
        self.begin_capture(stream, CAPTURE_MODE_RELAXED)?;
        capture()?;
        let mut graph = 0;
        self.cuda.end_capture(stream.0, &mut graph)?;
        let (graph, api) = (graph as CUgraph, self.api()?);
        let mut count = 0;
        // SAFETY: a live graph; how many there are is asked for.
        let told = unsafe { (api.get_nodes)(graph, null_mut(), &raw mut count) };
        called(c"cuGraphGetNodes", told)?;
        let mut nodes = vec![null_mut(); count];
        // SAFETY: the same, and room for so many.
        let told = unsafe { (api.get_nodes)(graph, nodes.as_mut_ptr(), &raw mut count) };
        called(c"cuGraphGetNodes", told)?;
        // SAFETY: as above.
        let told = unsafe { (api.get_edges)(graph, null_mut(), null_mut(), &raw mut count) };
        called(c"cuGraphGetEdges", told)?;
        let (mut from, mut to) = (vec![null_mut(); count], vec![null_mut(); count]);
        if count > 0 {
            let (from, to) = (from.as_mut_ptr(), to.as_mut_ptr());
            // SAFETY: as above.
            let told = unsafe { (api.get_edges)(graph, from, to, &raw mut count) };
            called(c"cuGraphGetEdges", told)?;
        }
        let behind = |node: &CUgraphNode| {
            let edges = from.iter().zip(&to).filter(|(of, _)| *of == node);
            edges.map(|(_, to)| *to).collect::<Vec<_>>()
        };
        let mut nodes: Vec<_> = nodes.iter().map(|node| (*node, behind(node))).collect();
        if let Some(root) = nodes.iter().position(|(node, _)| !to.contains(node)) {
            // No order is promised: along the chain, as far as there is one.
            for at in 0..nodes.len() {
                let next = match at.checked_sub(1).map(|last| nodes[last].1.as_slice()) {
                    None => Some(root),
                    Some([one]) => nodes.iter().position(|(node, _)| node == one),
                    Some(_) => None,
                };
                if let Some(next) = next.filter(|next| *next > at) {
                    nodes.swap(at, next);
                }
            }
        }
        let ready = self.ready(graph)?;
        Ok(Source { graph, ready, nodes })
    }

    fn ready(&self, graph: CUgraph) -> Result<Graph, Failure> {
        let mut exec = 0;
        self.cuda.instantiate(&mut exec, graph as u64, 0)?;
        Ok(Graph(exec))
    }

    /// An executable of a copy with marks: each is behind the node of that place.
    pub(crate) fn marked(
        &self,
        source: &Source,
        form: Form,
        marks: impl IntoIterator<Item = (usize, Event)>,
    ) -> Result<Graph, Failure> {
        let copy = self.copy(source)?;
        for (place, event) in marks {
            self.mark(source, copy, form, (place, event))?;
        }
        self.ready(copy)
    }

    /// A copy of the graph.
    pub(crate) fn copy(&self, source: &Source) -> Result<CUgraph, Failure> {
        let mut copy = null_mut();
        // SAFETY: a live graph, and a pointer to a live handle.
        let made = unsafe { (self.api()?.clone_graph)(&raw mut copy, source.graph) };
        called(c"cuGraphClone", made)?;
        Ok(copy)
    }

    /// Adds a mark to a copy.
    pub(crate) fn mark(
        &self,
        source: &Source,
        copy: CUgraph,
        form: Form,
        (place, event): (usize, Event),
    ) -> Result<(), Failure> {
        let api = self.api()?;
        let find = |node: CUgraphNode| {
            let mut found = null_mut();
            // SAFETY: a node of the live original, and its live copy.
            let told = unsafe { (api.find_in_clone)(&raw mut found, node, copy) };
            called(c"cuGraphNodeFindInClone", told).map(|()| found)
        };
        let (node, behind) = &source.nodes[place % source.nodes.len()];
        let node = find(*node)?;
        let behind = behind.iter().map(|node| find(*node)).collect::<Result<Vec<_>, _>>()?;
        let (mut mark, event) = (null_mut(), event.0 as CUevent);
        let add = api.add_event_record_node;
        // SAFETY: a live copy with that node, and a live event.
        let made = unsafe { add(&raw mut mark, copy, &raw const node, 1, event) };
        called(c"cuGraphAddEventRecordNode", made)?;
        if form == Form::Leaf || behind.is_empty() {
            return Ok(());
        }
        let (marks, nodes) = (vec![mark; behind.len()], vec![node; behind.len()]);
        let (to, count) = (behind.as_ptr(), behind.len());
        // SAFETY: nodes of the live copy, as many of each.
        let added = unsafe { (api.add_dependencies)(copy, marks.as_ptr(), to, count) };
        called(c"cuGraphAddDependencies", added)?;
        if form == Form::Cut {
            // SAFETY: the same, and such edges.
            let cut = unsafe { (self.cuda.remove_edges)(copy, nodes.as_ptr(), to, count) };
            called(c"cuGraphRemoveDependencies", cut)?;
        }
        Ok(())
    }

    /// A copy of a chain whose edges are programmatic, with marks.
    pub(crate) fn programmatic(
        &self,
        source: &Source,
        marks: &[(usize, Event)],
    ) -> Result<Graph, Failure> {
        let missing = c"cuGraphAddDependencies_v2";
        let library = library(&self.driver)?;
        // SAFETY: the driver gives that name this signature.
        let add = unsafe { library.get::<AddEdges>(missing.to_bytes_with_nul()) };
        let add = *add.map_err(|_| Failure::Missing(missing))?;
        // `CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC` and its kind of edge.
        let data = CUgraphEdgeData { from_port: 1, kind: 1, ..CUgraphEdgeData::default() };
        let (copy, api) = (self.copy(source)?, self.api()?);
        let find = |node| {
            let mut found = null_mut();
            // SAFETY: a node of the live original, and its live copy.
            let told = unsafe { (api.find_in_clone)(&raw mut found, node, copy) };
            called(c"cuGraphNodeFindInClone", told).map(|()| found)
        };
        for (node, behind) in &source.nodes {
            for next in behind {
                let (from, to) = (find(*node)?, find(*next)?);
                let (from, to) = (&raw const from, &raw const to);
                // SAFETY: nodes of the live copy with an edge between.
                let cut = unsafe { (self.cuda.remove_edges)(copy, from, to, 1) };
                called(c"cuGraphRemoveDependencies", cut)?;
                // SAFETY: the same, and the edge's data.
                let added = unsafe { add(copy, from, to, &raw const data, 1) };
                called(missing, added)?;
            }
        }
        for mark in marks {
            self.mark(source, copy, Form::Between, *mark)?;
        }
        self.ready(copy)
    }

    /// Instantiates a copy.
    pub(crate) fn instantiate(&self, copy: CUgraph) -> Result<Graph, Failure> {
        self.ready(copy)
    }

    pub(crate) fn upload(&self, graph: Graph, stream: Stream) -> Result<(), Failure> {
        let upload = self.api()?.upload;
        // SAFETY: a live executable and a live stream.
        let sent = unsafe { upload(graph.0 as *mut c_void, stream.0 as CUstream) };
        called(c"cuGraphUpload", sent)
    }

    /// Destroys an executable, which is used no more.
    pub(crate) fn destroy(&self, graph: Graph) -> Result<(), Failure> {
        self.cuda.destroy_exec(graph.0)
    }

    /// Free memory of the device, bytes.
    pub(crate) fn free(&self) -> Result<usize, Failure> {
        let (mut free, mut total) = (0, 0);
        self.cuda.memory(&mut free, &mut total)?;
        Ok(free)
    }

    /// Orders `second` behind what is on `first` now.
    pub(crate) fn order(&self, first: Stream, event: Event, second: Stream) -> Result<(), Failure> {
        self.record(event, first)?;
        self.cuda.wait(second.0, event.0, 0)
    }

    /// Captures an event-record node.
    pub(crate) fn record_in_graph(&self, event: Event, stream: Stream) -> Result<(), Failure> {
        self.cuda.record_in_graph(event.0, stream.0, 1)
    }

    /// Captures an allocation that is never freed: such a graph is launched once.
    pub(crate) fn alloc_in_graph(&self, stream: Stream) -> Result<(), Failure> {
        self.cuda.alloc_on(&mut 0, 1 << 16, stream.0)
    }

    /// The recorder's view of a graph.
    pub(crate) fn raw(&self, source: &Source) -> Result<RawGraph, Failure> {
        let library = library(&self.driver)?;
        // SAFETY: the driver gives that name this signature.
        let launch = unsafe { library.get::<GraphLaunch>(b"cuGraphLaunch\0") };
        let launch = *launch.map_err(|_| Failure::Missing(c"cuGraphLaunch"))?;
        let (graph, exec) = (source.graph as u64, source.ready.0);
        Ok(RawGraph { graph, exec, flags: Some(0), launch })
    }
}
