// SPDX-License-Identifier: MIT OR Apache-2.0
//! User objects.
#![allow(non_snake_case, reason = "the driver's own names")]

use std::ffi::{c_int, c_uint, c_void};

use metrale_gpu_sys::cuda::Status;

use super::graph::graph;
use super::{Out, put, some};
use crate::symbols::Symbol;
use crate::user_object::{Callback, UserObject};

/// `CU_USER_OBJECT_NO_DESTRUCTOR_SYNC`, which must be given.
const NO_SYNC: c_uint = 1;
/// `CU_GRAPH_USER_OBJECT_MOVE`: the references are the caller's, not new ones.
const MOVE: c_uint = 1;

/// 1 for 0 and for more than an `int`.
fn counted(count: c_uint) -> Result<u64, Status> {
    match c_int::try_from(count) {
        Ok(1..) => Ok(u64::from(count)),
        _ => Err(Status::ERROR_INVALID_VALUE),
    }
}

exports! {
    fn cuUserObjectCreate(
        out: Out<'_, u64>,
        data: *mut c_void,
        destroy: Option<extern "C" fn(*mut c_void)>,
        count: c_uint,
        flags: c_uint,
    ) in call(0, 0) |world, _| {
        world.ready()?;
        some(&out)?;
        let function = destroy.ok_or(Status::ERROR_INVALID_VALUE)?;
        let count = counted(count)?;
        if flags != NO_SYNC {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        let data = data.expose_provenance();
        let destroy = Callback { function, data };
        let object = world.objects.insert(UserObject { count, destroy });
        put(out, object)
    }

    fn cuUserObjectRetain(object: u64, count: c_uint) in call(object, 0) |world, _| {
        world.retain_object(object, counted(count)?)
    }

    fn cuUserObjectRelease(object: u64, count: c_uint) in call(object, 0) |world, _| {
        world.release_object(object, counted(count)?)
    }

    fn cuGraphRetainUserObject(handle: u64, object: u64, count: c_uint, flags: c_uint)
    in graph_call(handle, 0) |world, _| {
        graph(world, handle)?;
        let count = counted(count)?;
        if flags > MOVE {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        // Also where they are moved, to find the object; the caller's go after.
        world.retain_object(object, count)?;
        if flags == MOVE {
            world.release_object(object, count)?;
        }
        let held = &mut graph(world, handle)?.held;
        match held.iter_mut().find(|(known, _)| *known == object) {
            Some((_, owned)) => *owned += count,
            None => held.push((object, count)),
        }
        Ok(())
    }

    /// 1 for more than the graph holds.
    fn cuGraphReleaseUserObject(handle: u64, object: u64, count: c_uint)
    in graph_call(handle, 0) |world, _| {
        let count = counted(count)?;
        let held = &mut graph(world, handle)?.held;
        let owned = held.iter_mut().find(|(known, _)| *known == object);
        let (_, owned) = owned.ok_or(Status::ERROR_INVALID_VALUE)?;
        *owned = owned.checked_sub(count).ok_or(Status::ERROR_INVALID_VALUE)?;
        held.retain(|(_, owned)| *owned > 0);
        world.release_object(object, count)
    }
}
