// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events.
#![allow(non_snake_case, reason = "the driver's own names")]

use std::ffi::c_uint;

use metrale_gpu_sys::cuda::Status;

use super::{Out, put, some};
use crate::capture::Target;
use crate::event::{Event, State};
use crate::graph::Kind;
use crate::moment::Moment;
use crate::symbols::Symbol;
use crate::thread::Thread;
use crate::world::{Outcome, World};

/// `CU_EVENT_DISABLE_TIMING`.
const DISABLE_TIMING: c_uint = 2;
/// `CU_EVENT_INTERPROCESS`, only with [`DISABLE_TIMING`].
const INTERPROCESS: c_uint = 4;
/// `CU_EVENT_RECORD_EXTERNAL`.
const EXTERNAL: c_uint = 1;

exports! {
    fn cuEventCreate(out: Out<'_, u64>, flags: c_uint) in call(0, 0) |world, thread| {
        some(&out)?;
        let context = world.current(thread)?;
        let is_timed = flags & DISABLE_TIMING == 0;
        if flags > 7 || (flags & INTERPROCESS != 0 && is_timed) {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        let event = world.events.insert(Event {
            context,
            is_timed,
            state: State::Never,
            is_unread_mark: false,
        });
        put(out, event)
    }
}

fn record(
    world: &mut World,
    thread: Thread,
    event: u64,
    (stream, per_thread): (u64, bool),
    flags: c_uint,
) -> Outcome {
    // Of two NULLs the stream is looked at first, which wants a context.
    if event == 0 && stream == 0 && thread.context() == 0 {
        return Err(Status::ERROR_NOT_INITIALIZED);
    }
    let context = world.event_context(event)?;
    let key = world.stream_key(thread, stream, per_thread)?;
    if flags > EXTERNAL {
        return Err(Status::ERROR_INVALID_VALUE);
    }
    if world.stream(key)?.context != context {
        return Err(Status::ERROR_INVALID_HANDLE);
    }
    let state = match world.target(key)? {
        Target::Device if flags == EXTERNAL => return Err(Status::ERROR_INVALID_VALUE),
        Target::Device => State::Recorded(world.submit(key, world.config.event_ns)?),
        Target::Capture(id) if flags == EXTERNAL => {
            return world.add_node(id, key, Kind::RecordEvent(event));
        }
        Target::Capture(capture) => {
            let joined = world.stream(key)?.joined.as_ref();
            let deps = joined.map(|joined| joined.deps.clone()).unwrap_or_default();
            State::Captured { capture, deps }
        }
    };
    if let Some(found) = world.events.get_mut(event) {
        found.state = state;
        found.is_unread_mark = false;
    }
    Ok(())
}

exports! {
    fn cuEventRecord / cuEventRecord_ptsz(event: u64, stream: u64)
    in call(event, stream) |world, thread, is_twin| {
        record(world, thread, event, (stream, is_twin), 0)
    }

    fn cuEventRecordWithFlags / cuEventRecordWithFlags_ptsz(event: u64, stream: u64, flags: c_uint)
    in call(event, stream) |world, thread, is_twin| {
        record(world, thread, event, (stream, is_twin), flags)
    }
}

/// What asking about or waiting for an event begins with: when it completes.
fn ask(world: &mut World, thread: Thread, event: u64) -> Result<Moment, Status> {
    let context = world.event_context(event)?;
    world.healthy(context)?;
    let at = world.event_time(event)?;
    world.unsafe_call(thread)?;
    Ok(at.unwrap_or_default())
}

exports! {
    /// Needs no current context.
    fn cuEventQuery(event: u64) in call(event, 0) |world, thread| {
        let at = ask(world, thread, event)?;
        world.is_past(&at)
    }

    fn cuEventSynchronize(event: u64) in call(event, 0) |world, thread| {
        let at = ask(world, thread, event)?;
        world.wait(at);
        Ok(())
    }
}

/// `tells_errors`: the first version may return a sticky error of earlier work,
/// the second is not bound to and here never does.
fn elapsed(
    world: &mut World,
    thread: Thread,
    out: Out<'_, f32>,
    (start, end): (u64, u64),
    tells_errors: bool,
) -> Outcome {
    for event in [start, end] {
        let context = world.event_context(event)?;
        if tells_errors {
            world.healthy(context)?;
        }
    }
    some(&out)?;
    if world.config.elapsed_needs_context && thread.context() == 0 {
        return Err(Status::ERROR_INVALID_CONTEXT);
    }
    for event in [start, end] {
        world.event_time(event)?;
    }
    world.unsafe_call(thread)?;
    let ms = world.elapsed(start, end)?;
    let symbol = Symbol::cuEventElapsedTime;
    put(out, world.faults.elapsed.take(symbol, thread.id).unwrap_or(ms))
}

exports! {
    fn cuEventElapsedTime(out: Out<'_, f32>, start: u64, end: u64)
    in call(start, 0) |world, thread| {
        elapsed(world, thread, out, (start, end), true)
    }

    fn cuEventElapsedTime_v2(out: Out<'_, f32>, start: u64, end: u64)
    in call(start, 0) |world, thread| {
        elapsed(world, thread, out, (start, end), false)
    }

    /// Legal while pending.
    fn cuEventDestroy_v2(event: u64) in call(event, 0) |world, _| {
        let context = world.event_context(event)?;
        world.events.remove(event);
        world.healthy(context)
    }
}
