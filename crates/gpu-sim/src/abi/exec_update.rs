// SPDX-License-Identifier: MIT OR Apache-2.0
//! Changes to an executable graph, for its later launches; the graph that it was
//! made of does not see them. All count as unsafe calls beside a capture, the
//! stricter reading.
#![allow(non_snake_case, reason = "the driver's own names")]

use std::ffi::c_uint;
use std::sync::Arc;

use metrale_gpu_sys::cuda::Status;

use super::exec::exec;
use super::graph::{graph, node};
use super::graph_nodes::{KernelParams, KernelParamsV2, kernel_of};
use super::{Out, put, put_if};
use crate::exec::Step;
use crate::graph::{Kind, node_of};
use crate::symbols::Symbol;
use crate::thread::Thread;
use crate::world::{Outcome, World};

/// `CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE`.
const UPDATE_FAILURE: Status = Status(910);

/// Where the step of a node is: 1 unless the executable was made of the node's
/// graph, or of one that it is a child's, while the node was there.
fn step_of(world: &mut World, handle: u64, node_handle: u64) -> Result<usize, Status> {
    exec(world, handle)?;
    node(world, node_handle)?;
    let (owner, place) = node_of(node_handle);
    let id = graph(world, owner)?.id;
    let steps = exec(world, handle)?.steps.iter();
    let found = steps.enumerate().find(|(_, step)| step.node == (id, place));
    found.map(|(index, _)| index).ok_or(Status::ERROR_INVALID_VALUE)
}

/// Changes one step of an executable. A launch under way keeps its own.
fn change(
    world: &mut World,
    handle: u64,
    index: usize,
    edit: impl FnOnce(&mut Step) -> Outcome,
) -> Outcome {
    let steps = Arc::make_mut(&mut exec(world, handle)?.steps);
    let step = steps.get_mut(index).ok_or(Status::ERROR_INVALID_VALUE)?;
    edit(step)?;
    let (origin, kind) = (step.origin, step.kind.clone());
    if matches!(kind, Kind::Kernel(_) | Kind::Copy(_)) {
        world.watch.told.insert(origin, kind);
    }
    Ok(())
}

/// Gives a step parameters for a node of the same kind: 1 if it is of another.
fn replace(world: &mut World, handle: u64, index: usize, kind: Kind) -> Outcome {
    change(world, handle, index, |step| {
        if step.kind.number() != kind.number() {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        step.kind = kind;
        Ok(())
    })
}

macro_rules! set_params {
    ($($name:ident($arg:ident: $type:ty) $kind:expr;)*) => {
        exports! {
            $(
                /// For later launches.
                ///
                /// # Safety
                /// Parameters are as the driver wants them.
                unsafe fn $name(exec: u64, node: u64, $arg: $type)
                in graph_call(exec, 0) |world, thread| {
                    let index = step_of(world, exec, node)?;
                    world.unsafe_call(thread)?;
                    let make: fn(&mut World, $type) -> Result<Kind, Status> = $kind;
                    let kind = make(world, $arg)?;
                    replace(world, exec, index, kind)
                }
            )*
        }
    };
}

set_params! {
    cuGraphExecKernelNodeSetParams(params: Option<&KernelParams>) |world, params| {
        // SAFETY: the caller's parameters.
        unsafe { kernel_of(world, params.map(KernelParamsV2::from)) }.map(Kind::Kernel)
    };
    cuGraphExecKernelNodeSetParams_v2(params: Option<&KernelParamsV2>) |world, params| {
        // SAFETY: the caller's parameters.
        unsafe { kernel_of(world, params.copied()) }.map(Kind::Kernel)
    };
    cuGraphExecEventRecordNodeSetEvent(event: u64) |world, event| {
        world.event_context(event).map(|_| Kind::RecordEvent(event))
    };
    cuGraphExecEventWaitNodeSetEvent(event: u64) |world, event| {
        world.event_context(event).map(|_| Kind::WaitEvent(event))
    };
}

exports! {
    /// Only kernels, copies and sets can be switched off: 1 for others.
    fn cuGraphNodeSetEnabled(exec: u64, node: u64, is_enabled: c_uint)
    in graph_call(exec, 0) |world, thread| {
        let index = step_of(world, exec, node)?;
        world.unsafe_call(thread)?;
        change(world, exec, index, |step| match step.kind {
            Kind::Kernel(_) | Kind::Copy(_) => {
                step.is_enabled = is_enabled != 0;
                Ok(())
            }
            _ => Err(Status::ERROR_INVALID_VALUE),
        })
    }

    fn cuGraphNodeGetEnabled(handle: u64, node: u64, out: Out<'_, c_uint>)
    in graph_call(handle, 0) |world, _| {
        let index = step_of(world, handle, node)?;
        let found = exec(world, handle)?.steps.get(index);
        let step = found.ok_or(Status::ERROR_INVALID_VALUE)?;
        match step.kind {
            Kind::Kernel(_) | Kind::Copy(_) => put(out, c_uint::from(step.is_enabled)),
            _ => Err(Status::ERROR_INVALID_VALUE),
        }
    }
}

/// `CUgraphExecUpdateResultInfo`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct UpdateResult {
    pub(crate) result: c_uint,
    pub(crate) error_node: u64,
    pub(crate) error_from_node: u64,
}

/// `CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED`.
const TOPOLOGY_CHANGED: c_uint = 2;
/// `CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED`.
const TYPE_CHANGED: c_uint = 3;

/// Why the steps from `first` on cannot be told to do what `new` do: the result
/// and the node of `new`.
fn mismatch(old: &[Step], first: usize, new: &[Step]) -> Option<(c_uint, Option<(u64, usize)>)> {
    let last = new.last().map(|step| step.node);
    if old.len() != new.len() {
        return Some((TOPOLOGY_CHANGED, last));
    }
    old.iter().zip(new).find_map(|(old, new)| {
        // Edges into a child's nodes from outside are none of the child's.
        let within = old.deps.iter().filter(|edge| edge.from >= first);
        let moved = within.map(|edge| (edge.from - first, edge.data));
        if !moved.eq(new.deps.iter().map(|edge| (edge.from, edge.data))) {
            Some((TOPOLOGY_CHANGED, Some(new.node)))
        } else if old.kind.number() != new.kind.number() {
            Some((TYPE_CHANGED, Some(new.node)))
        } else {
            None
        }
    })
}

/// Tells the executable's steps from `first` on to do what those of a graph do.
fn update(
    world: &mut World,
    handle: u64,
    (first, count): (usize, Option<usize>),
    source: u64,
) -> Result<(), UpdateResult> {
    let failed = |result, error_node| UpdateResult { result, error_node, error_from_node: 0 };
    let new = graph(world, source).map_err(|_| failed(1, 0))?.clone();
    let new = world.steps(&new).map_err(|_| failed(TOPOLOGY_CHANGED, 0))?;
    let steps = exec(world, handle).map_err(|_| failed(1, 0))?.steps.clone();
    let end = count.map_or(steps.len(), |count| first + count);
    let old = steps.get(first..end).unwrap_or_default();
    if let Some((result, node)) = mismatch(old, first, &new) {
        return Err(failed(result, node.map_or(0, |node| world.handle_of(node))));
    }
    drop(steps);
    for (index, step) in (first..).zip(new) {
        if !matches!(step.kind, Kind::Child(_)) {
            replace(world, handle, index, step.kind).map_err(|_| failed(1, 0))?;
        }
    }
    Ok(())
}

fn update_all(
    world: &mut World,
    thread: Thread,
    handle: u64,
    source: u64,
) -> Result<UpdateResult, Status> {
    exec(world, handle)?;
    graph(world, source)?;
    world.unsafe_call(thread)?;
    let done = update(world, handle, (0, None), source);
    if done.is_ok() {
        // From now on both work on the same memory.
        graph(world, source)?.family = exec(world, handle)?.family;
    }
    Ok(done.err().unwrap_or_default())
}

const fn told(result: UpdateResult) -> Outcome {
    match result.result {
        0 => Ok(()),
        _ => Err(UPDATE_FAILURE),
    }
}

exports! {
    /// The form of before CUDA 12.
    fn cuGraphExecUpdate(exec: u64, graph: u64, error_node: Out<'_, u64>, result: Out<'_, c_uint>)
    in graph_call(exec, 0) |world, thread| {
        let done = update_all(world, thread, exec, graph)?;
        put_if(error_node, done.error_node);
        put_if(result, done.result);
        told(done)
    }

    fn cuGraphExecUpdate_v2(exec: u64, graph: u64, result: Out<'_, UpdateResult>)
    in graph_call(exec, 0) |world, thread| {
        let done = update_all(world, thread, exec, graph)?;
        put_if(result, done);
        told(done)
    }

    /// As an update, of the part of the executable that a child node stands for.
    fn cuGraphExecChildGraphNodeSetParams(handle: u64, child_node: u64, source: u64)
    in graph_call(handle, 0) |world, thread| {
        let index = step_of(world, handle, child_node)?;
        graph(world, source)?;
        let Kind::Child(child) = node(world, child_node)?.kind else {
            return Err(Status::ERROR_INVALID_VALUE);
        };
        world.unsafe_call(thread)?;
        let within = graph(world, child)?.clone();
        let steps = world.steps(&within);
        let count = steps.map_err(|_| Status::ERROR_INVALID_VALUE)?.len();
        let first = index.checked_sub(count).ok_or(Status::ERROR_INVALID_VALUE)?;
        let done = update(world, handle, (first, Some(count)), source);
        done.map_err(|_| Status::ERROR_INVALID_VALUE)
    }
}
