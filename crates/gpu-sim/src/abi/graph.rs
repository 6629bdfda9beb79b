// SPDX-License-Identifier: MIT OR Apache-2.0
//! Graphs: their making and their nodes.
//!
//! Reading and editing a graph is harmless beside a capture: the graph of a
//! capture itself is edited so. Copying and destroying whole graphs count as
//! unsafe calls, the stricter reading.
#![allow(non_snake_case, reason = "the driver's own names")]

use metrale_gpu_sys::cuda::Status;

use super::{Out, put, some};
use crate::graph::{Graph, Kind, Node, node_handle, node_of};
use crate::symbols::Symbol;
use crate::world::{Outcome, World};

/// A live graph.
pub(super) fn graph(world: &mut World, handle: u64) -> Result<&mut Graph, Status> {
    world.ready()?;
    world.graphs.find(handle, Status::ERROR_INVALID_VALUE, &mut world.stale_uses)
}

/// A live node.
pub(super) fn node(world: &mut World, handle: u64) -> Result<&mut Node, Status> {
    world.ready()?;
    let (graph, place) = node_of(handle);
    match world.graphs.get_mut(graph).and_then(|graph| graph.node_mut(place)) {
        Some(found) => Ok(found),
        None if handle == 0 => Err(Status::ERROR_INVALID_VALUE),
        None => {
            world.stale_uses += 1;
            Err(Status::ERROR_INVALID_HANDLE)
        }
    }
}

/// The values of an array that a caller gives: 1 if it is NULL.
///
/// # Safety
/// `values` is NULL or good for `count`.
pub(super) unsafe fn given<'a, T>(values: *const T, count: usize) -> Result<&'a [T], Status> {
    match count {
        0 => Ok(&[]),
        _ if values.is_null() => Err(Status::ERROR_INVALID_VALUE),
        // SAFETY: not NULL; the rest is this function's contract.
        _ => Ok(unsafe { std::slice::from_raw_parts(values, count) }),
    }
}

/// The place of a live node of that graph: 1 if it is another's.
pub(super) fn place_in(world: &mut World, graph: u64, handle: u64) -> Result<usize, Status> {
    node(world, handle)?;
    match node_of(handle) {
        (owner, place) if owner == graph => Ok(place),
        _ => Err(Status::ERROR_INVALID_VALUE),
    }
}

/// Fills an array of `room`, with default values where there are fewer; nothing
/// if it is NULL.
///
/// # Safety
/// `to` is NULL or good for `room` values.
pub(super) unsafe fn fill<T: Copy + Default>(to: *mut T, room: usize, found: &[T]) {
    if to.is_null() {
        return;
    }
    for place in 0..room {
        let value = found.get(place).copied().unwrap_or_default();
        // SAFETY: this function's contract.
        let to = unsafe { to.add(place) };
        // SAFETY: this function's contract.
        unsafe { to.write(value) };
    }
}

exports! {
    fn cuGraphCreate(out: Out<'_, u64>, flags: u32) in call(0, 0) |world, _| {
        world.ready()?;
        some(&out)?;
        if flags != 0 {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        let graph = world.new_graph();
        put(out, graph)
    }

    /// A graph is the child node's that it belongs to: 1.
    fn cuGraphDestroy(handle: u64) in graph_call(handle, 0) |world, thread| {
        if graph(world, handle)?.is_child {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        world.unsafe_call(thread)?;
        world.remove_graph(handle);
        Ok(())
    }
}

/// Whether the graph or a child of it allocates or frees.
pub(super) fn owns_memory(world: &World, handle: u64) -> bool {
    world.graphs.get(handle).is_some_and(|graph| {
        graph.nodes().any(|(_, node)| match node.kind {
            Kind::Child(child) => owns_memory(world, child),
            _ => node.kind.owns_memory(),
        })
    })
}

exports! {
    /// 1 for a graph that allocates or frees.
    fn cuGraphClone(out: Out<'_, u64>, original: u64)
    in graph_call(original, 0) |world, thread| {
        some(&out)?;
        graph(world, original)?;
        world.unsafe_call(thread)?;
        if owns_memory(world, original) {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        let made = world.clone_graph(original);
        if let Some(copy) = made.and_then(|made| world.graphs.get_mut(made)) {
            copy.is_child = false;
        }
        put(out, made.ok_or(Status::ERROR_UNKNOWN)?)
    }

    /// 1 unless the graph is a direct clone of the node's, and still has the copy.
    fn cuGraphNodeFindInClone(out: Out<'_, u64>, original: u64, copy: u64)
    in graph_call(copy, 0) |world, _| {
        some(&out)?;
        let origin = node(world, original)?.origin;
        let (graph_of_original, _) = node_of(original);
        let id = graph(world, graph_of_original)?.id;
        let found = graph(world, copy)?;
        let mut places = found.nodes().filter(|(_, node)| node.origin == origin);
        match places.next() {
            Some((place, _)) if found.clone_of == id => put(out, node_handle(copy, place)),
            _ => Err(Status::ERROR_INVALID_VALUE),
        }
    }
}

/// Tells the nodes that `is_meant` picks.
///
/// # Safety
/// `nodes` is NULL or good for `count` handles.
unsafe fn nodes_of(
    world: &mut World,
    handle: u64,
    nodes: *mut u64,
    count: Option<&mut usize>,
    is_meant: impl Fn(&Node) -> bool,
) -> Outcome {
    let meant = graph(world, handle)?.nodes().filter(|(_, node)| is_meant(node));
    let found: Vec<u64> = meant.map(|(place, _)| node_handle(handle, place)).collect();
    let count = count.ok_or(Status::ERROR_INVALID_VALUE)?;
    if nodes.is_null() {
        *count = found.len();
        return Ok(());
    }
    // SAFETY: this function's contract.
    unsafe { fill(nodes, *count, &found) };
    *count = found.len().min(*count);
    Ok(())
}

exports! {
    /// With `nodes` NULL tells how many there are; else fills in at most `count`
    /// handles, NULL where there are fewer.
    ///
    /// # Safety
    /// `nodes` is NULL or good for `count` handles.
    unsafe fn cuGraphGetNodes(graph: u64, nodes: *mut u64, count: Option<&mut usize>)
    in graph_call(graph, 0) |world, _| {
        // SAFETY: this function's contract.
        unsafe { nodes_of(world, graph, nodes, count, |_| true) }
    }

    /// # Safety
    /// As for [`cuGraphGetNodes`].
    unsafe fn cuGraphGetRootNodes(graph: u64, nodes: *mut u64, count: Option<&mut usize>)
    in graph_call(graph, 0) |world, _| {
        // SAFETY: this function's contract.
        unsafe { nodes_of(world, graph, nodes, count, |node| node.deps.is_empty()) }
    }
}
