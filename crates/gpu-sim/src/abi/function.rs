// SPDX-License-Identifier: MIT OR Apache-2.0
//! Attributes of functions.
#![allow(non_snake_case, reason = "the driver's own names")]

use std::ffi::{c_int, c_uint};

use metrale_gpu_sys::cuda::Status;

use super::launch::live;
use super::{Out, put};
use crate::symbols::Symbol;

/// What each attribute of a function is before it is set: threads of a block,
/// shared, constant and local bytes, registers, versions of PTX and binary, cache mode,
/// dynamic shared bytes, carveout (-1: the driver's choice), and those of clusters.
const UNSET: [c_int; 16] = [1_024, 0, 0, 0, 32, 80, 90, 0, 49_152, -1, 0, 0, 0, 0, 0, 0];

/// The first attribute that can be set; what is below tells what was compiled.
const MAX_DYNAMIC_SHARED_SIZE_BYTES: c_uint = 8;

/// Dynamic shared bytes that a block of the simulated device may have.
const MOST_SHARED: c_int = 227 << 10;

exports! {
    /// 1 for an attribute that there is not.
    fn cuFuncGetAttribute(out: Out<'_, c_int>, attribute: c_uint, function: u64)
    in call(function, 0) |world, _| {
        world.ready()?;
        let found = live(world, function)?;
        let unset = usize::try_from(attribute).ok().and_then(|at| UNSET.get(at));
        let unset = unset.ok_or(Status::ERROR_INVALID_VALUE)?;
        put(out, *found.attributes.get(&attribute).unwrap_or(unset))
    }

    /// 1 for an attribute that there is not or that is compiled in, and for more shared
    /// memory than a block may have.
    fn cuFuncSetAttribute(function: u64, attribute: c_uint, value: c_int)
    in call(function, 0) |world, _| {
        world.ready()?;
        let found = live(world, function)?;
        let is_known = usize::try_from(attribute).is_ok_and(|at| at < UNSET.len());
        let is_size = attribute == MAX_DYNAMIC_SHARED_SIZE_BYTES;
        if !is_known
            || attribute < MAX_DYNAMIC_SHARED_SIZE_BYTES
            || (is_size && !(0..=MOST_SHARED).contains(&value))
        {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        found.attributes.insert(attribute, value);
        Ok(())
    }
}
