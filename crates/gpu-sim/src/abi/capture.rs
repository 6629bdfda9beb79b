// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stream capture.
#![allow(non_snake_case, reason = "the driver's own names")]

use std::ffi::c_uint;
use std::ptr;

use metrale_gpu_sys::cuda::Status;

use super::{Out, put, put_if, some};
use crate::graph::node_handle;
use crate::symbols::Symbol;
use crate::thread::RELAXED;
use crate::world::{Init, Outcome, World};

/// `CUstreamCaptureStatus`.
const NONE: u32 = 0;
const ACTIVE: u32 = 1;
const INVALIDATED: u32 = 2;

exports! {
    fn cuStreamBeginCapture_v2(stream: u64, mode: c_uint) in call(0, stream) |world, thread| {
        let key = world.stream_key(thread, stream, false)?;
        world.begin_capture(thread, key, mode)
    }

    /// The graph is NULL where the capture did not end well.
    fn cuStreamEndCapture(stream: u64, out: Out<'_, u64>) in call(0, stream) |world, thread| {
        some(&out)?;
        let key = world.stream_key(thread, stream, false)?;
        let graph = world.end_capture(thread, key);
        put(out, graph.unwrap_or(0))?;
        graph.map(|_| ())
    }
}

/// Status and id of the capture a stream is in; 906, harmlessly, for the legacy
/// stream beside a blocking capture.
fn state(world: &mut World, key: u64) -> Result<(u32, u64), Status> {
    if world.is_implicitly_captured(key) {
        return Err(Status::ERROR_STREAM_CAPTURE_IMPLICIT);
    }
    let Some(joined) = &world.stream(key)?.joined else {
        return Ok((NONE, 0));
    };
    let id = joined.capture;
    match world.capture(id) {
        Some(capture) if capture.is_valid => Ok((ACTIVE, id)),
        _ => Ok((INVALIDATED, id)),
    }
}

exports! {
    fn cuStreamIsCapturing / cuStreamIsCapturing_ptsz(stream: u64, out: Out<'_, u32>)
    in call(0, stream) |world, thread, is_twin| {
        let key = world.stream_key(thread, stream, is_twin)?;
        some(&out)?;
        let (status, _) = state(world, key)?;
        put(out, status)
    }
}

/// Where the optional results of `cuStreamGetCaptureInfo` go.
#[derive(Default)]
struct Info<'a> {
    id: Out<'a, u64>,
    graph: Out<'a, u64>,
    deps: Out<'a, *const u64>,
    count: Out<'a, usize>,
}

/// Only the status is told of a stream that does not capture.
fn info(world: &mut World, key: u64, status_out: Out<'_, u32>, out: Info<'_>) -> Outcome {
    some(&status_out)?;
    let (status, id) = state(world, key)?;
    put(status_out, status)?;
    if status != ACTIVE {
        return Ok(());
    }
    put_if(out.id, id);
    let graph = world.capture(id).map_or(0, |capture| capture.graph);
    put_if(out.graph, graph);
    let stream = world.stream(key)?;
    let deps = stream.joined.iter().flat_map(|joined| &joined.deps);
    stream.lent = deps.map(|dep| node_handle(graph, *dep)).collect();
    put_if(out.count, stream.lent.len());
    put_if(out.deps, stream.lent.as_ptr());
    Ok(())
}

exports! {
    fn cuStreamGetCaptureInfo(stream: u64, status: Out<'_, u32>, id: Out<'_, u64>)
    in call(0, stream) |world, thread| {
        let key = world.stream_key(thread, stream, false)?;
        let out = Info { id, ..Info::default() };
        info(world, key, status, out)
    }

    fn cuStreamGetCaptureInfo_v2(
        stream: u64,
        status: Out<'_, u32>,
        id: Out<'_, u64>,
        graph: Out<'_, u64>,
        deps: Out<'_, *const u64>,
        count: Out<'_, usize>,
    ) in call(0, stream) |world, thread| {
        let key = world.stream_key(thread, stream, false)?;
        let out = Info { id, graph, deps, count };
        info(world, key, status, out)
    }

    /// 402 where dependencies are asked for without their edge data. Edge data is
    /// NULL: every edge is an ordinary one.
    fn cuStreamGetCaptureInfo_v3(
        stream: u64,
        status: Out<'_, u32>,
        id: Out<'_, u64>,
        graph: Out<'_, u64>,
        deps: Out<'_, *const u64>,
        edges: Out<'_, *const u64>,
        count: Out<'_, usize>,
    ) in call(0, stream) |world, thread| {
        let key = world.stream_key(thread, stream, false)?;
        if deps.is_some() && edges.is_none() {
            return Err(Status::ERROR_LOSSY_QUERY);
        }
        put_if(edges, ptr::null());
        let out = Info { id, graph, deps, count };
        info(world, key, status, out)
    }

    /// Works once `cuInit` was tried, even if it failed; before that 3, and the
    /// caller's mode is left alone.
    fn cuThreadExchangeStreamCaptureMode(mode: Option<&mut u32>) in call(0, 0) |world, thread| {
        if world.init == Init::NotYet {
            return Err(Status::ERROR_NOT_INITIALIZED);
        }
        let mode = mode.ok_or(Status::ERROR_INVALID_VALUE)?;
        if *mode > RELAXED {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        *mode = thread.set_mode(*mode);
        Ok(())
    }
}
