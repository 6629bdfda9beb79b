// SPDX-License-Identifier: MIT OR Apache-2.0
//! Contexts.
#![allow(non_snake_case, reason = "the driver's own names")]

use std::ffi::{c_int, c_uint, c_void};

use metrale_gpu_sys::cuda::Status;

use super::device::device;
use super::{Out, put, put_if, some};
use crate::symbols::Symbol;
use crate::thread::Thread;
use crate::world::{Outcome, Primary, World};

exports! {
    fn cuDevicePrimaryCtxRetain(out: Out<'_, u64>, ordinal: c_int) in call(0, 0) |world, _| {
        some(&out)?;
        let place = device(world, ordinal)?;
        let primary = world.primaries.get(place).copied().unwrap_or_default();
        let context =
            if primary.retained == 0 { world.new_context(ordinal, true) } else { primary.context };
        if let Some(primary) = world.primaries.get_mut(place) {
            *primary = Primary { context, retained: primary.retained + 1 };
        }
        put(out, context)
    }

    /// Destroys the context at the last release; 201 if it is not retained.
    fn cuDevicePrimaryCtxRelease_v2(ordinal: c_int) in call(0, 0) |world, _| {
        let place = device(world, ordinal)?;
        let primary = world.primaries.get_mut(place);
        let primary = primary.ok_or(Status::ERROR_INVALID_DEVICE)?;
        if primary.retained == 0 {
            return Err(Status::ERROR_INVALID_CONTEXT);
        }
        primary.retained -= 1;
        let (left, context) = (primary.retained, primary.context);
        if left == 0 {
            world.destroy_context(context);
        }
        Ok(())
    }

    /// Destroys what the context holds under everyone who retained it. The handle
    /// stays, the context behind it is new.
    fn cuDevicePrimaryCtxReset_v2(ordinal: c_int) in call(0, 0) |world, _| {
        let place = device(world, ordinal)?;
        let primary = world.primaries.get(place).copied().unwrap_or_default();
        if primary.retained > 0 {
            world.destroy_context(primary.context);
            let context = world.new_context(ordinal, true);
            if let Some(primary) = world.primaries.get_mut(place) {
                primary.context = context;
            }
        }
        Ok(())
    }
}

fn create(world: &mut World, thread: Thread, out: Out<'_, u64>, ordinal: c_int) -> Outcome {
    some(&out)?;
    device(world, ordinal)?;
    let context = world.new_context(ordinal, false);
    if !thread.push_context(context) {
        world.destroy_context(context);
        return Err(Status::ERROR_OUT_OF_MEMORY);
    }
    put(out, context)
}

exports! {
    fn cuCtxCreate_v2(out: Out<'_, u64>, _flags: c_uint, ordinal: c_int)
    in call(0, 0) |world, thread| {
        create(world, thread, out, ordinal)
    }

    /// Creation parameters (affinity, graphics) are not simulated: 801 if there are any.
    fn cuCtxCreate_v4(out: Out<'_, u64>, parameters: *mut c_void, _flags: c_uint, ordinal: c_int)
    in call(0, 0) |world, thread| {
        if !parameters.is_null() {
            return Err(Status::ERROR_NOT_SUPPORTED);
        }
        create(world, thread, out, ordinal)
    }

    /// NULL gives 1, even before `cuInit`.
    fn cuCtxDestroy_v2(context: u64) in call(context, 0) |world, thread| {
        if context == 0 {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        if world.context(context)?.is_primary {
            return Err(Status::ERROR_INVALID_CONTEXT);
        }
        if thread.context() == context {
            thread.pop_context();
        }
        world.destroy_context(context);
        Ok(())
    }

    /// 0 and NULL where there is none; a destroyed one is still told.
    fn cuCtxGetCurrent(out: Out<'_, u64>) in call(0, 0) |world, thread| {
        world.ready()?;
        put(out, thread.context())
    }

    fn cuCtxSetCurrent(context: u64) in call(context, 0) |world, thread| {
        world.ready()?;
        if context != 0 {
            world.context(context)?;
        }
        thread.set_context(context);
        Ok(())
    }

    fn cuCtxPushCurrent_v2(context: u64) in call(context, 0) |world, thread| {
        world.context(context)?;
        if thread.push_context(context) { Ok(()) } else { Err(Status::ERROR_OUT_OF_MEMORY) }
    }

    fn cuCtxPopCurrent_v2(out: Out<'_, u64>) in call(0, 0) |world, thread| {
        world.ready()?;
        let context = thread.pop_context();
        put_if(out, context.ok_or(Status::ERROR_INVALID_CONTEXT)?);
        Ok(())
    }

    fn cuCtxGetDevice(out: Out<'_, c_int>) in call(0, 0) |world, thread| {
        let context = world.current(thread)?;
        put(out, world.context(context)?.device)
    }

    /// Waits for all streams of the current context.
    fn cuCtxSynchronize() in call(0, 0) |world, thread| {
        let context = world.current(thread)?;
        world.context_wait(context)?;
        let end = world.completion_of(|stream| stream.context == context);
        world.wait(end);
        Ok(())
    }

    /// NULL means the current context.
    fn cuCtxGetId(context: u64, out: Out<'_, u64>) in call(context, 0) |world, thread| {
        let context = match context {
            0 => world.current(thread)?,
            given => given,
        };
        let id = world.context(context)?.id;
        put(out, id)
    }

    /// Either pointer may be NULL. The numbers are those of current devices.
    fn cuCtxGetStreamPriorityRange(least: Out<'_, c_int>, greatest: Out<'_, c_int>)
    in call(0, 0) |world, thread| {
        world.current(thread)?;
        put_if(least, 0);
        put_if(greatest, -5);
        Ok(())
    }
}
