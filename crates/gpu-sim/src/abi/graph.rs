// SPDX-License-Identifier: MIT OR Apache-2.0
//! Graphs and their launches.
#![allow(non_snake_case, reason = "the driver's own names")]

use metrale_gpu_sys::cuda::Status;

use super::{Out, call, put, some};
use crate::graph::Exec;
use crate::symbols::Symbol;
use crate::thread::Thread;
use crate::world::{Outcome, World};

/// `CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH`.
const AUTO_FREE: u64 = 1;
/// `CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH`, not with [`AUTO_FREE`].
const DEVICE_LAUNCH: u64 = 4;
/// All flags there are.
const ALL_FLAGS: u64 = 15;

/// The handle of a graph's node. Graphs' handles are far enough apart for
/// millions of nodes each.
pub(crate) const fn node_handle(graph: u64, node: usize) -> u64 {
    (graph << 16) + node as u64 + 1
}

/// NULL gives 1, an unknown handle 400.
fn known(world: &mut World, handle: u64, is_known: bool) -> Outcome {
    world.ready()?;
    match handle {
        0 => Err(Status::ERROR_INVALID_VALUE),
        _ if is_known => Ok(()),
        _ => Err(world.stale()),
    }
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuGraphInstantiateWithFlags(
    out: Out<'_, u64>,
    graph: u64,
    flags: u64,
) -> u32 {
    let symbol = Symbol::cuGraphInstantiateWithFlags;
    call(symbol, graph, 0, |world, thread| {
        world.current(thread)?;
        some(&out)?;
        let nodes = world.graphs.get(graph).map(|graph| graph.nodes.clone());
        known(world, graph, nodes.is_some())?;
        let both = AUTO_FREE | DEVICE_LAUNCH;
        if flags > ALL_FLAGS || flags & both == both {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        let exec = world.execs.insert(Exec {
            nodes: nodes.unwrap_or_default().into(),
            last_end: 0,
        });
        put(out, exec)
    })
}

fn launch(world: &mut World, thread: Thread, exec: u64, stream: (u64, bool)) -> Outcome {
    let is_known = world.execs.get(exec).is_some();
    known(world, exec, is_known)?;
    let key = world.stream_key(thread, stream.0, stream.1)?;
    world.launch_graph(key, exec)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuGraphLaunch(exec: u64, stream: u64) -> u32 {
    call(Symbol::cuGraphLaunch, exec, stream, |world, thread| {
        launch(world, thread, exec, (stream, false))
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuGraphLaunch_ptsz(exec: u64, stream: u64) -> u32 {
    call(Symbol::cuGraphLaunch_ptsz, exec, stream, |world, thread| {
        launch(world, thread, exec, (stream, true))
    })
}

/// Takes no time.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuGraphUpload(exec: u64, stream: u64) -> u32 {
    call(Symbol::cuGraphUpload, exec, stream, |world, thread| {
        let is_known = world.execs.get(exec).is_some();
        known(world, exec, is_known)?;
        let key = world.stream_key(thread, stream, false)?;
        world.target(key).map(|_| ())
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuGraphExecDestroy(exec: u64) -> u32 {
    call(Symbol::cuGraphExecDestroy, exec, 0, |world, _| {
        let is_known = world.execs.remove(exec).is_some();
        known(world, exec, is_known)
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuGraphDestroy(graph: u64) -> u32 {
    call(Symbol::cuGraphDestroy, graph, 0, |world, _| {
        let is_known = world.graphs.remove(graph).is_some();
        known(world, graph, is_known)
    })
}

/// With `nodes` NULL tells how many there are; else fills in at most `count`
/// handles, NULL where there are fewer.
///
/// # Safety
/// `nodes` is NULL or good for `count` handles.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cuGraphGetNodes(
    graph: u64,
    nodes: *mut u64,
    count: Option<&mut usize>,
) -> u32 {
    call(Symbol::cuGraphGetNodes, graph, 0, |world, _| {
        let found = world.graphs.get(graph).map(|graph| graph.nodes.len());
        known(world, graph, found.is_some())?;
        let (found, count) = (
            found.unwrap_or(0),
            count.ok_or(Status::ERROR_INVALID_VALUE)?,
        );
        if nodes.is_null() {
            *count = found;
            return Ok(());
        }
        for node in 0..*count {
            let handle = if node < found {
                node_handle(graph, node)
            } else {
                0
            };
            // SAFETY: the caller promises room for `count` handles.
            let place = unsafe { nodes.add(node) };
            // SAFETY: as above.
            unsafe { place.write(handle) };
        }
        *count = found.min(*count);
        Ok(())
    })
}
