// SPDX-License-Identifier: MIT OR Apache-2.0
//! Streams.
#![allow(non_snake_case, reason = "the driver's own names")]

use std::ffi::{c_int, c_uint};

use metrale_gpu_sys::cuda::Status;

use super::{Out, call, put, some};
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

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuStreamCreate(out: Out<'_, u64>, flags: c_uint) -> u32 {
    call(Symbol::cuStreamCreate, 0, 0, |world, thread| create(world, thread, out, flags, 0))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuStreamCreateWithPriority(
    out: Out<'_, u64>,
    flags: c_uint,
    priority: c_int,
) -> u32 {
    call(Symbol::cuStreamCreateWithPriority, 0, 0, |world, thread| {
        create(world, thread, out, flags, priority)
    })
}

/// Does not wait: events recorded on the stream complete as they would have. NULL
/// gives 400, even before `cuInit`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuStreamDestroy_v2(stream: u64) -> u32 {
    call(Symbol::cuStreamDestroy_v2, 0, stream, |world, _| {
        if stream == 0 {
            return Err(Status::ERROR_INVALID_HANDLE);
        }
        world.ready()?;
        if matches!(stream, LEGACY | PER_THREAD) {
            return Err(Status::ERROR_INVALID_HANDLE);
        }
        let Some(found) = world.streams.get(stream) else {
            return Err(world.stale());
        };
        let context = found.context;
        world.destroy_stream(stream);
        world.healthy(context)
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuStreamSynchronize(stream: u64) -> u32 {
    call(Symbol::cuStreamSynchronize, 0, stream, |world, thread| {
        let key = world.stream_key(thread, stream, false)?;
        world.stream_wait(thread, key)?;
        let end = world.completion(key);
        world.wait(end);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuStreamQuery(stream: u64) -> u32 {
    call(Symbol::cuStreamQuery, 0, stream, |world, thread| {
        let key = world.stream_key(thread, stream, false)?;
        world.stream_wait(thread, key)?;
        if world.completion(key).is_past(world.clock.now()) {
            Ok(())
        } else {
            Err(Status::ERROR_NOT_READY)
        }
    })
}

fn wait(
    world: &mut World,
    thread: Thread,
    (stream, per_thread): (u64, bool),
    event: u64,
    flags: c_uint,
) -> Outcome {
    world.event_context(event)?;
    let key = world.stream_key(thread, stream, per_thread)?;
    if flags > 1 {
        return Err(Status::ERROR_INVALID_VALUE);
    }
    world.wait_event(key, event, flags == 1)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuStreamWaitEvent(stream: u64, event: u64, flags: c_uint) -> u32 {
    call(Symbol::cuStreamWaitEvent, event, stream, |world, thread| {
        wait(world, thread, (stream, false), event, flags)
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuStreamWaitEvent_ptsz(stream: u64, event: u64, flags: c_uint) -> u32 {
    let symbol = Symbol::cuStreamWaitEvent_ptsz;
    call(symbol, event, stream, |world, thread| wait(world, thread, (stream, true), event, flags))
}

/// A special handle gives the current context, 201 if there is none.
fn context_of(world: &mut World, key: Result<u64, Status>, out: Out<'_, u64>) -> Outcome {
    let context = world.stream(key?)?.context;
    put(out, context)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuStreamGetCtx(stream: u64, out: Out<'_, u64>) -> u32 {
    call(Symbol::cuStreamGetCtx, 0, stream, |world, thread| {
        let key = world.stream_key(thread, stream, false);
        context_of(world, key, out)
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuStreamGetCtx_ptsz(stream: u64, out: Out<'_, u64>) -> u32 {
    call(Symbol::cuStreamGetCtx_ptsz, 0, stream, |world, thread| {
        let key = world.stream_key(thread, stream, true);
        context_of(world, key, out)
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuStreamGetId(stream: u64, out: Out<'_, u64>) -> u32 {
    call(Symbol::cuStreamGetId, 0, stream, |world, thread| {
        let key = world.stream_key(thread, stream, false)?;
        world.stream_wait(thread, key)?;
        let id = world.stream(key)?.id;
        put(out, id)
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuStreamGetDevice(stream: u64, out: Out<'_, c_int>) -> u32 {
    call(Symbol::cuStreamGetDevice, 0, stream, |world, thread| {
        let key = world.stream_key(thread, stream, false)?;
        world.stream_wait(thread, key)?;
        let context = world.stream(key)?.context;
        let device = world.context(context)?.device;
        put(out, device)
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuStreamGetFlags(stream: u64, out: Out<'_, c_uint>) -> u32 {
    call(Symbol::cuStreamGetFlags, 0, stream, |world, thread| {
        let key = world.stream_key(thread, stream, false)?;
        let flags = if world.stream(key)?.is_blocking { 0 } else { NON_BLOCKING };
        put(out, flags)
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuStreamGetPriority(stream: u64, out: Out<'_, c_int>) -> u32 {
    call(Symbol::cuStreamGetPriority, 0, stream, |world, thread| {
        let key = world.stream_key(thread, stream, false)?;
        let priority = world.stream(key)?.priority;
        put(out, priority)
    })
}
