// SPDX-License-Identifier: MIT OR Apache-2.0
//! The graphs that have or had a twin: their shape, the plans of marks in it, and
//! what the marks said.
//!
//! A graph is known by its name and its shape. One that is made anew goes on where it
//! was; of a name with several shapes each is one of its own.

use super::calls::{KERNEL, Read, Workplace};
use super::error::{NodeType, TwinError};
use crate::timing::handles::KernelRef;
use crate::timing::names::Known;
use crate::timing::shared::Shared;
use metrale_telemetry::Telemetry;
use metrale_telemetry::runtime::{
    GraphEdge, GraphEstimates, GraphShape, GraphTotal, NodeRow, Plan, Planner, TwinLaunch,
};
use metrale_telemetry::snapshot::GraphFigures;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Graphs that are remembered.
const MOST_GRAPHS: usize = 256;
/// `CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC`.
const PROGRAMMATIC: u8 = 1;

/// Nodes and edges of a graph, as they are compared.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Nodes {
    rows: Vec<NodeRow>,
    edges: Vec<GraphEdge>,
}

/// A graph that has or had a twin.
struct Graph {
    /// Of its name.
    row: u64,
    nodes: Nodes,
    planner: Planner,
    estimates: GraphEstimates,
}

/// See the module. The lock is taken where a twin is made or renewed, by whoever
/// harvests, and by readers; never on a launch.
#[derive(Default)]
pub(in crate::timing) struct Graphs(Mutex<Vec<Graph>>);

impl Nodes {
    /// The rows of a graph's nodes; kernels are met.
    pub(super) fn new(at: &Workplace<'_>, shared: &Shared, read: &Read) -> Result<Self, TwinError> {
        let row = |(node, kind): (&_, &NodeType)| {
            Ok(match *kind {
                KERNEL => NodeRow::Kernel(kernel(at, shared, *node)?),
                NodeType(1) => NodeRow::Copy,
                NodeType(2) => NodeRow::Set,
                NodeType(3) => NodeRow::Host,
                NodeType(4) => NodeRow::Child,
                _ => NodeRow::Other,
            })
        };
        let rows: Result<_, TwinError> = read.nodes.iter().zip(&read.kinds).map(row).collect();
        let edge = |(from, to, data): &(usize, usize, metrale_gpu_sys::cuda::CUgraphEdgeData)| {
            GraphEdge {
                // Within `TwinsConfig::nodes`, or refused by the shape.
                from: u32::try_from(*from).unwrap_or(u32::MAX),
                to: u32::try_from(*to).unwrap_or(u32::MAX),
                programmatic: data.kind == PROGRAMMATIC,
            }
        };
        Ok(Self { rows: rows?, edges: read.edges.iter().map(edge).collect() })
    }
}

/// The row of a node's kernel, as where it is launched eagerly.
fn kernel(
    at: &Workplace<'_>,
    shared: &Shared,
    node: metrale_gpu_sys::cuda::CUgraphNode,
) -> Result<u64, TwinError> {
    let params = at.kernel_of(node)?;
    let function = params.function as u64;
    let handle = if function == 0 { params.kernel as u64 } else { function };
    // SAFETY: what a node of a live graph runs is loaded.
    let kernel = unsafe { KernelRef::from_raw(handle) };
    if let Some(row) = shared.names.row(kernel) {
        return Ok(row);
    }
    let known = if function == 0 {
        Known::Driver(at.name_of(handle))
    } else {
        // SAFETY: the same.
        unsafe { at.ops.function_name(function) }
    };
    Ok(shared.names.meet(handle, known))
}

impl Graphs {
    fn lock(&self) -> MutexGuard<'_, Vec<Graph>> {
        // Every critical section leaves graphs that can be read.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The graph of that name and shape.
    pub(super) fn meet(
        &self,
        row: u64,
        nodes: Nodes,
        (marks, seed): (usize, u64),
    ) -> Result<usize, TwinError> {
        let mut graphs = self.lock();
        let is_it = |graph: &Graph| graph.row == row && graph.nodes == nodes;
        if let Some(known) = graphs.iter().position(is_it) {
            return Ok(known);
        }
        if graphs.len() == MOST_GRAPHS {
            return Err(TwinError::TooManyGraphs { most: MOST_GRAPHS });
        }
        let shape = GraphShape::new(nodes.rows.clone(), &nodes.edges);
        let shape = shape.map_err(|_| TwinError::NoShape)?;
        let planner = Planner::new(shape, marks, seed)
            .map_err(|error| TwinError::FewMarks { marks: error.marks, least: error.least })?;
        graphs.push(Graph { row, nodes, estimates: planner.estimates(), planner });
        Ok(graphs.len() - 1)
    }

    /// The next plan of a graph.
    pub(super) fn plan(&self, graph: usize) -> Option<Plan> {
        Some(self.lock().get_mut(graph)?.planner.plan())
    }

    /// A launch of the plain executable landed.
    pub(super) fn add_plain(&self, graph: usize, ns: u64) {
        if let Some(graph) = self.lock().get_mut(graph) {
            graph.estimates.add_plain(ns);
        }
    }

    /// A launch of the twin was read; whether its marks make sense.
    pub(super) fn add(
        &self,
        telemetry: &Telemetry,
        (graph, step): (usize, u64),
        (plan, marks_ns): (&Plan, &[u64]),
        ns: u64,
    ) -> bool {
        let Ok(reading) = plan.read(marks_ns) else {
            return false;
        };
        if let Some(graph) = self.lock().get_mut(graph) {
            graph.estimates.add(&reading, ns);
            let launch = TwinLaunch { step, graph: graph.row, ns };
            telemetry.add_parts(launch, graph.estimates.parts(&reading));
        }
        true
    }

    /// What is known of each, with the row of its name. Graphs of one name share what
    /// the row took, each by the time of its own launches that were timed.
    pub(in crate::timing) fn figures(
        &self,
        total_of: &dyn Fn(u64) -> GraphTotal,
        name_of: impl Fn(u64) -> Option<String>,
    ) -> Vec<(u64, GraphFigures)> {
        let graphs = self.lock();
        let timed_ns = |graph: &Graph| graph.estimates.timed_ns() as f64;
        let figures = graphs.iter().map(|graph| {
            let total = total_of(graph.row);
            let of_row = graphs.iter().filter(|other| other.row == graph.row);
            let (own_ns, all_ns) = (timed_ns(graph), of_row.map(timed_ns).sum::<f64>());
            let part = if all_ns > 0.0 { own_ns / all_ns } else { 1.0 };
            let error_ns = total.error_ns.map(|error| error * part);
            let total = GraphTotal { ns: total.ns * part, error_ns };
            (graph.row, graph.estimates.figures(total, &name_of))
        });
        figures.collect()
    }
}
