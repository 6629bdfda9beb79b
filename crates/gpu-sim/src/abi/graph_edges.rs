// SPDX-License-Identifier: MIT OR Apache-2.0
//! The edges of graphs: told and changed, with and without their data.
#![allow(non_snake_case, reason = "the driver's own names")]

use std::ptr::{null, null_mut};

use metrale_gpu_sys::cuda::Status;

use super::graph::{fill, given, graph, node, place_in};
use crate::graph::{Edge, EdgeData, Graph, Kind, node_handle, node_of};
use crate::symbols::Symbol;
use crate::world::{Outcome, World};

/// `CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER`.
const LAST_PORT: u8 = 2;

/// Edges as arrays that are told together.
#[derive(Default)]
struct Listed {
    from: Vec<u64>,
    to: Vec<u64>,
    data: Vec<EdgeData>,
}

/// Where [`Listed`] goes: NULL for what is not asked.
struct Lists<'a> {
    from: *mut u64,
    to: *mut u64,
    data: *mut EdgeData,
    count: Option<&'a mut usize>,
}

impl Listed {
    fn push(&mut self, graph: u64, (from, to, data): (usize, usize, EdgeData)) {
        self.from.push(node_handle(graph, from));
        self.to.push(node_handle(graph, to));
        self.data.push(data);
    }

    /// With no list tells how many there are; else fills in at most `count`. 402
    /// where that would lose an edge's data.
    ///
    /// # Safety
    /// Lists are NULL or good for `count`.
    unsafe fn tell(&self, lists: Lists<'_>) -> Outcome {
        let count = lists.count.ok_or(Status::ERROR_INVALID_VALUE)?;
        if lists.from.is_null() && lists.to.is_null() {
            *count = self.from.len();
            return Ok(());
        }
        if lists.data.is_null() && self.data.iter().any(|data| *data != EdgeData::default()) {
            return Err(Status::ERROR_LOSSY_QUERY);
        }
        // SAFETY: this function's contract.
        unsafe { fill(lists.from, *count, &self.from) };
        // SAFETY: this function's contract.
        unsafe { fill(lists.to, *count, &self.to) };
        // SAFETY: this function's contract.
        unsafe { fill(lists.data, *count, &self.data) };
        *count = self.from.len().min(*count);
        Ok(())
    }
}

/// Tells a graph's edges, or those of them that `is_meant` picks.
///
/// # Safety
/// Lists are NULL or good for `count`.
unsafe fn edges_of(
    world: &mut World,
    handle: u64,
    lists: Lists<'_>,
    is_meant: impl Fn(usize, usize) -> bool,
) -> Outcome {
    let found = graph(world, handle)?;
    let mut listed = Listed::default();
    for edge in found.edges().filter(|(from, to, _)| is_meant(*from, *to)) {
        listed.push(handle, edge);
    }
    // SAFETY: this function's contract.
    unsafe { listed.tell(lists) }
}

/// `$data` is the parameter of that name in the second versions, NULL in the
/// first.
macro_rules! edges {
    ($name:ident, ($($arg:ident: $kind:ty)?), $data:expr) => {
        exports! {
            /// 402 where an edge has data that is not asked for.
            ///
            /// # Safety
            /// Lists are NULL or good for `count`.
            unsafe fn $name(
                graph: u64, from: *mut u64, to: *mut u64,
                $($arg: $kind,)? count: Option<&mut usize>
            ) in graph_call(graph, 0) |world, _| {
                if from.is_null() != to.is_null() {
                    return Err(Status::ERROR_INVALID_VALUE);
                }
                let lists = Lists { from, to, data: $data, count };
                // SAFETY: this function's contract.
                unsafe { edges_of(world, graph, lists, |_, _| true) }
            }
        }
    };
}

edges!(cuGraphGetEdges, (), null_mut());
edges!(cuGraphGetEdges_v2, (data: *mut EdgeData), data);

macro_rules! neighbours {
    ($name:ident, before: $before:literal, ($($arg:ident: $kind:ty)?), $data:expr) => {
        exports! {
            /// 402 where an edge has data that is not asked for.
            ///
            /// # Safety
            /// Lists are NULL or good for `count`.
            unsafe fn $name(
                handle: u64, nodes: *mut u64, $($arg: $kind,)? count: Option<&mut usize>
            ) in graph_call(node_of(handle).0, 0) |world, _| {
                node(world, handle)?;
                let (graph, place) = node_of(handle);
                let (from, to) = if $before { (nodes, null_mut()) } else { (null_mut(), nodes) };
                let lists = Lists { from, to, data: $data, count };
                let is_ours = |from, to| if $before { to == place } else { from == place };
                // SAFETY: this function's contract.
                unsafe { edges_of(world, graph, lists, is_ours) }
            }
        }
    };
}

neighbours!(cuGraphNodeGetDependencies, before: true, (), null_mut());
neighbours!(cuGraphNodeGetDependencies_v2, before: true, (data: *mut EdgeData), data);
neighbours!(cuGraphNodeGetDependentNodes, before: false, (), null_mut());
neighbours!(cuGraphNodeGetDependentNodes_v2, before: false, (data: *mut EdgeData), data);

/// 1 for data that no edge between these nodes can have.
fn check_data(graph: &Graph, from: usize, to: usize, data: EdgeData) -> Outcome {
    let is_kernel = |place| {
        let found = graph.node(place);
        found.is_some_and(|node| matches!(node.kind, Kind::Kernel(_)))
    };
    let is_known = data.to_port == 0
        && data.reserved == [0; 5]
        && data.kind <= EdgeData::PROGRAMMATIC
        && data.from_port <= LAST_PORT;
    let is_special = data.kind == EdgeData::PROGRAMMATIC || data.from_port > 0;
    if is_known && (!is_special || (is_kernel(from) && is_kernel(to))) {
        Ok(())
    } else {
        Err(Status::ERROR_INVALID_VALUE)
    }
}

/// Adds edges, or takes them away: all, or none where one cannot be.
///
/// # Safety
/// The arrays are NULL or good for `count`.
unsafe fn change(
    world: &mut World,
    handle: u64,
    (from, to, data): (*const u64, *const u64, *const EdgeData),
    count: usize,
    edit: impl Fn(&mut Graph, usize, Edge) -> Outcome,
) -> Outcome {
    graph(world, handle)?;
    // SAFETY: this function's contract.
    let from = unsafe { given(from, count) }?;
    // SAFETY: this function's contract.
    let to = unsafe { given(to, count) }?;
    let data = if data.is_null() {
        vec![EdgeData::default(); count]
    } else {
        // SAFETY: this function's contract.
        unsafe { given(data, count) }?.to_vec()
    };
    let mut edited = graph(world, handle)?.clone();
    for ((from, to), data) in from.iter().zip(to).zip(data) {
        let from = place_in(world, handle, *from)?;
        let to = place_in(world, handle, *to)?;
        edit(&mut edited, to, Edge { from, data })?;
    }
    *graph(world, handle)? = edited;
    Ok(())
}

/// 1 for an edge that there is, or from a node to itself.
pub(super) fn add_edge(graph: &mut Graph, to: usize, edge: Edge) -> Outcome {
    check_data(graph, edge.from, to, edge.data)?;
    let node = graph.node_mut(to).ok_or(Status::ERROR_INVALID_VALUE)?;
    if edge.from == to || node.deps.iter().any(|known| known.from == edge.from) {
        return Err(Status::ERROR_INVALID_VALUE);
    }
    node.deps.push(edge);
    Ok(())
}

/// 1 for an edge that there is not, or not with that data; and in a graph that
/// allocates or frees.
fn remove_edge(graph: &mut Graph, to: usize, edge: Edge) -> Outcome {
    if graph.owns_memory() {
        return Err(Status::ERROR_INVALID_VALUE);
    }
    let node = graph.node_mut(to).ok_or(Status::ERROR_INVALID_VALUE)?;
    let found = node.deps.iter().position(|known| *known == edge);
    node.deps.remove(found.ok_or(Status::ERROR_INVALID_VALUE)?);
    Ok(())
}

macro_rules! dependencies {
    ($name:ident, $edit:ident, ($($arg:ident: $kind:ty)?), $data:expr) => {
        exports! {
            /// A cycle is found at instantiation.
            ///
            /// # Safety
            /// The arrays are NULL or good for `count`.
            unsafe fn $name(
                graph: u64, from: *const u64, to: *const u64, $($arg: $kind,)? count: usize
            ) in graph_call(graph, 0) |world, _| {
                // SAFETY: this function's contract.
                unsafe { change(world, graph, (from, to, $data), count, $edit) }
            }
        }
    };
}

dependencies!(cuGraphAddDependencies, add_edge, (), null());
dependencies!(cuGraphAddDependencies_v2, add_edge, (data: *const EdgeData), data);
dependencies!(cuGraphRemoveDependencies, remove_edge, (), null());
dependencies!(cuGraphRemoveDependencies_v2, remove_edge, (data: *const EdgeData), data);
