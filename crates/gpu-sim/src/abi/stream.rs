// SPDX-License-Identifier: MIT OR Apache-2.0
//! Streams.
#![allow(non_snake_case, reason = "the driver's own names")]

use std::ffi::{c_int, c_uint};

use metrale_gpu_sys::cuda::Status;

use super::{Out, put, some};
use crate::stream::{LEGACY, PER_THREAD};
use crate::symbols::Symbol;
use crate::thread::Thread;
use crate::world::{Outcome, World};

/// `CU_STREAM_NON_BLOCKING`.
const NON_BLOCKING: c_uint = 1;

fn create(
    world: &mut World,
    thread: Thread,
    out: Out<'_, u64>,
    flags: c_uint,
    priority: c_int,
) -> Outcome {
    some(&out)?;
    let context = world.current(thread)?;
    if flags > NON_BLOCKING {
        return Err(Status::ERROR_INVALID_VALUE);
    }
    let stream = world.new_stream(context, flags != NON_BLOCKING, priority.clamp(-5, 0));
    put(out, stream)
}

exports! {
    fn cuStreamCreate(out: Out<'_, u64>, flags: c_uint) in call(0, 0) |world, thread| {
        create(world, thread, out, flags, 0)
    }

    fn cuStreamCreateWithPriority(out: Out<'_, u64>, flags: c_uint, priority: c_int)
    in call(0, 0) |world, thread| {
        create(world, thread, out, flags, priority)
    }

    /// Does not wait: events recorded on the stream complete as they would have. NULL
    /// gives 400, even before `cuInit`.
    fn cuStreamDestroy_v2(stream: u64) in call(0, stream) |world, _| {
        if stream == 0 {
            return Err(Status::ERROR_INVALID_HANDLE);
        }
        world.ready()?;
        if matches!(stream, LEGACY | PER_THREAD) {
            return Err(Status::ERROR_INVALID_HANDLE);
        }
        let null = Status::ERROR_INVALID_HANDLE;
        let context = world.streams.find(stream, null, &mut world.stale_uses)?.context;
        world.destroy_stream(stream);
        world.healthy(context)
    }

    fn cuStreamSynchronize(stream: u64) in call(0, stream) |world, thread| {
        let key = world.stream_key(thread, stream, false)?;
        world.stream_wait(thread, key)?;
        let end = world.completion(key);
        world.wait(end);
        Ok(())
    }

    fn cuStreamQuery(stream: u64) in call(0, stream) |world, thread| {
        let key = world.stream_key(thread, stream, false)?;
        world.stream_wait(thread, key)?;
        world.is_past(&world.completion(key))
    }

    fn cuStreamWaitEvent / cuStreamWaitEvent_ptsz(stream: u64, event: u64, flags: c_uint)
    in call(event, stream) |world, thread, is_twin| {
        world.event_context(event)?;
        let key = world.stream_key(thread, stream, is_twin)?;
        if flags > 1 {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        world.wait_event(key, event, flags == 1)
    }

    /// A special handle gives the current context, 201 if there is none.
    fn cuStreamGetCtx / cuStreamGetCtx_ptsz(stream: u64, out: Out<'_, u64>)
    in call(0, stream) |world, thread, is_twin| {
        let key = world.stream_key(thread, stream, is_twin)?;
        let context = world.stream(key)?.context;
        put(out, context)
    }

    fn cuStreamGetId(stream: u64, out: Out<'_, u64>) in call(0, stream) |world, thread| {
        let key = world.stream_key(thread, stream, false)?;
        world.stream_wait(thread, key)?;
        let id = world.stream(key)?.id;
        put(out, id)
    }

    fn cuStreamGetDevice(stream: u64, out: Out<'_, c_int>) in call(0, stream) |world, thread| {
        let key = world.stream_key(thread, stream, false)?;
        world.stream_wait(thread, key)?;
        let context = world.stream(key)?.context;
        let device = world.context(context)?.device;
        put(out, device)
    }

    fn cuStreamGetFlags(stream: u64, out: Out<'_, c_uint>) in call(0, stream) |world, thread| {
        let key = world.stream_key(thread, stream, false)?;
        let flags = if world.stream(key)?.is_blocking { 0 } else { NON_BLOCKING };
        put(out, flags)
    }

    fn cuStreamGetPriority(stream: u64, out: Out<'_, c_int>) in call(0, stream) |world, thread| {
        let key = world.stream_key(thread, stream, false)?;
        let priority = world.stream(key)?.priority;
        put(out, priority)
    }
}
