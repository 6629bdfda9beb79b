// SPDX-License-Identifier: MIT OR Apache-2.0
//! Executable graphs: instantiation and launches. Making, uploading and
//! destroying one counts as an unsafe call beside a capture, the stricter reading.
#![allow(non_snake_case, reason = "the driver's own names")]

use std::ffi::{c_char, c_uint};

use metrale_gpu_sys::cuda::Status;

use super::graph::{graph, owns_memory};
use super::{Out, put, put_if, some};
use crate::exec::{Exec, Flaw, Step};
use crate::graph::Kind;
use crate::moment::Moment;
use crate::symbols::Symbol;
use crate::thread::Thread;
use crate::world::World;

/// `CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH`.
const AUTO_FREE: u64 = 1;
/// `CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD`, where a stream is given with it.
const UPLOAD: u64 = 2;
/// `CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH`, not with [`AUTO_FREE`].
const DEVICE_LAUNCH: u64 = 4;
/// All flags there are.
const ALL_FLAGS: u64 = 15;

/// Makes an executable; why not, where it cannot be.
fn instantiate(
    world: &mut World,
    thread: Thread,
    handle: u64,
    flags: u64,
) -> Result<u64, (Status, Flaw)> {
    let flaw = |result, node| (Status::ERROR_INVALID_VALUE, Flaw { result, node });
    let other = |status| (status, Flaw { result: Flaw::ERROR, node: None });
    world.current(thread).map_err(other)?;
    graph(world, handle).map_err(other)?;
    let both = AUTO_FREE | DEVICE_LAUNCH;
    if flags > ALL_FLAGS || flags & both == both {
        return Err(flaw(Flaw::ERROR, None));
    }
    world.unsafe_call(thread).map_err(other)?;
    let source = graph(world, handle).map_err(other)?.clone();
    if owns_memory(world, handle) && world.execs.iter().any(|(_, exec)| exec.graph == source.id) {
        return Err(flaw(Flaw::ERROR, None));
    }
    let steps = world.steps(&source).map_err(|flaw| (Status::ERROR_INVALID_VALUE, flaw))?;
    if flags & DEVICE_LAUNCH != 0 {
        let is_work = |step: &Step| matches!(step.kind, Kind::Kernel(_) | Kind::Copy(_));
        let is_known = |step: &Step| is_work(step) || matches!(step.kind, Kind::Child(_));
        if let Some(step) = steps.iter().find(|step| !is_known(step)) {
            return Err(flaw(Flaw::NODE, Some(step.node)));
        }
        if !steps.iter().any(is_work) {
            return Err(flaw(Flaw::ERROR, None));
        }
    }
    let bytes = world.config.graph.node_bytes.saturating_mul(steps.len());
    world.memory.reserve(bytes).map_err(other)?;
    let cost = world.config.graph.instantiate_ns.saturating_mul(steps.len() as u64);
    world.clock.advance(cost);
    world.share_held(&source.held);
    Ok(world.execs.insert(Exec {
        steps: steps.into(),
        graph: source.id,
        family: source.family,
        flags: flags & !UPLOAD,
        bytes,
        held: source.held,
        last_end: Moment::default(),
    }))
}

exports! {
    fn cuGraphInstantiateWithFlags(out: Out<'_, u64>, graph: u64, flags: u64)
    in graph_call(graph, 0) |world, thread| {
        some(&out)?;
        let made = instantiate(world, thread, graph, flags);
        put(out, made.map_err(|(status, _)| status)?)
    }
}

macro_rules! with_log {
    ($($name:ident;)*) => {
        exports! {
            $(
                /// The form of before CUDA 12. The log is left alone.
                fn $name(
                    out: Out<'_, u64>, graph: u64, error_node: Out<'_, u64>,
                    _log: *mut c_char, _log_bytes: usize
                ) in graph_call(graph, 0) |world, thread| {
                    some(&out)?;
                    let made = instantiate(world, thread, graph, 0);
                    let node = made.err().and_then(|(_, flaw)| flaw.node);
                    put_if(error_node, node.map_or(0, |node| world.handle_of(node)));
                    put(out, made.map_err(|(status, _)| status)?)
                }
            )*
        }
    };
}

with_log! {
    cuGraphInstantiate;
    cuGraphInstantiate_v2;
}

/// `CUDA_GRAPH_INSTANTIATE_PARAMS`.
#[repr(C)]
pub(crate) struct InstantiateParams {
    pub(crate) flags: u64,
    pub(crate) upload_stream: u64,
    pub(crate) error_node: u64,
    pub(crate) result: c_uint,
}

exports! {
    fn cuGraphInstantiateWithParams(
        out: Out<'_, u64>,
        graph: u64,
        params: Option<&mut InstantiateParams>,
    ) in graph_call(graph, 0) |world, thread| {
        some(&out)?;
        let params = params.ok_or(Status::ERROR_INVALID_VALUE)?;
        if params.flags & UPLOAD != 0 {
            let key = world.stream_key(thread, params.upload_stream, false)?;
            world.target(key)?;
        }
        let made = instantiate(world, thread, graph, params.flags);
        let flaw = made.err().map(|(_, flaw)| flaw);
        params.result = flaw.map_or(0, |flaw| flaw.result);
        let node = flaw.and_then(|flaw| flaw.node);
        params.error_node = node.map_or(0, |node| world.handle_of(node));
        put(out, made.map_err(|(status, _)| status)?)
    }
}

/// A live executable.
pub(super) fn exec(world: &mut World, handle: u64) -> Result<&mut Exec, Status> {
    world.ready()?;
    world.execs.find(handle, Status::ERROR_INVALID_VALUE, &mut world.stale_uses)
}

exports! {
    fn cuGraphLaunch / cuGraphLaunch_ptsz(handle: u64, stream: u64)
    in graph_call(handle, stream) |world, thread, is_twin| {
        exec(world, handle)?;
        let key = world.stream_key(thread, stream, is_twin)?;
        world.launch_graph(key, handle)
    }

    /// Takes no time.
    fn cuGraphUpload / cuGraphUpload_ptsz(handle: u64, stream: u64)
    in graph_call(handle, stream) |world, thread, is_twin| {
        exec(world, handle)?;
        let key = world.stream_key(thread, stream, is_twin)?;
        world.target(key)?;
        world.unsafe_call(thread)
    }

    fn cuGraphExecDestroy(handle: u64) in graph_call(handle, 0) |world, thread| {
        exec(world, handle)?;
        world.unsafe_call(thread)?;
        if let Some(gone) = world.execs.remove(handle) {
            world.memory.give_back(gone.bytes);
            world.let_go(&gone.held);
        }
        Ok(())
    }

    /// Without [`UPLOAD`].
    fn cuGraphExecGetFlags(handle: u64, out: Out<'_, u64>) in graph_call(handle, 0) |world, _| {
        put(out, exec(world, handle)?.flags)
    }
}
