// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kernel launches.
#![allow(non_snake_case, reason = "the driver's own names")]

use std::ffi::{c_uint, c_void};

use metrale_gpu_sys::cuda::Status;

use super::call;
use crate::capture::Target;
use crate::graph::Kind;
use crate::symbols::Symbol;
use crate::thread::Thread;
use crate::world::{Outcome, World};

/// Threads a block has at most.
const MAX_THREADS: u64 = 1_024;

/// What a launch is made of.
struct Launch {
    function: u64,
    grid: [c_uint; 3],
    block: [c_uint; 3],
    stream: (u64, bool),
    parameters: *mut *mut c_void,
    extra: *mut *mut c_void,
}

/// Appends a copy of an argument's bytes: 1 if a pointer on the way is NULL.
///
/// # Safety
/// `parameters` is NULL or has more than `place` pointers, and that one is NULL
/// or good for `bytes`.
unsafe fn argument(
    parameters: *mut *mut c_void,
    place: usize,
    bytes: usize,
    to: &mut Vec<u8>,
) -> Outcome {
    if parameters.is_null() {
        return Err(Status::ERROR_INVALID_VALUE);
    }
    // SAFETY: this function's contract.
    let pointer = unsafe { parameters.add(place) };
    // SAFETY: this function's contract.
    let value = unsafe { pointer.read() };
    if value.is_null() {
        return Err(Status::ERROR_INVALID_VALUE);
    }
    // SAFETY: this function's contract.
    to.extend_from_slice(unsafe { std::slice::from_raw_parts(value.cast::<u8>(), bytes) });
    Ok(())
}

/// # Safety
/// The parameters are as `cuLaunchKernel` wants them: a pointer to each argument
/// of the function, each good for the size that the PTX declares.
unsafe fn launch(world: &mut World, thread: Thread, launch: &Launch) -> Outcome {
    world.ready()?;
    if launch.function == 0 {
        return Err(Status::ERROR_INVALID_HANDLE);
    }
    let Some(function) = world.functions.get(launch.function) else {
        return Err(world.stale());
    };
    let (context, is_loaded) = (function.context, function.is_loaded);
    let key = world.stream_key(thread, launch.stream.0, launch.stream.1)?;
    if world.stream(key)?.context != context {
        return Err(Status::ERROR_INVALID_HANDLE);
    }
    let threads = launch.block.iter().map(|n| u64::from(*n)).product::<u64>();
    if launch.grid.contains(&0) || threads == 0 || threads > MAX_THREADS {
        return Err(Status::ERROR_INVALID_VALUE);
    }
    if !launch.extra.is_null() {
        return Err(Status::ERROR_NOT_SUPPORTED);
    }
    if !is_loaded {
        world.unsafe_call(thread)?;
    }
    let target = world.target(key)?;
    let function = world.functions.get_mut(launch.function);
    let function = function.ok_or(Status::ERROR_INVALID_HANDLE)?;
    function.is_loaded = true;
    let entry = &function.entry;
    let mut arguments = Vec::new();
    let mut ns = None;
    for (place, bytes) in entry.params.iter().enumerate() {
        let is_duration = entry.duration == Some(place);
        // Only a graph keeps all arguments.
        if !is_duration && target == Target::Device && !launch.parameters.is_null() {
            continue;
        }
        // SAFETY: this function's contract.
        unsafe { argument(launch.parameters, place, *bytes, &mut arguments) }?;
        if is_duration {
            ns = arguments.last_chunk().copied().map(u64::from_ne_bytes);
        }
    }
    let ns = ns.unwrap_or_else(|| world.config.kernel_duration(&entry.name));
    match target {
        Target::Device => world.submit(key, ns).map(|_| ()),
        Target::Capture(id) => {
            let kind = Kind::Kernel {
                function: launch.function,
                ns,
                arguments,
            };
            world.add_node(id, key, kind)
        }
    }
}

macro_rules! launch_kernel {
    ($name:ident, $per_thread:literal) => {
        /// # Safety
        /// `parameters` points to a pointer to each argument of the function,
        /// each good for the size that the PTX declares.
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $name(
            function: u64,
            grid_x: c_uint,
            grid_y: c_uint,
            grid_z: c_uint,
            block_x: c_uint,
            block_y: c_uint,
            block_z: c_uint,
            _shared_bytes: c_uint,
            stream: u64,
            parameters: *mut *mut c_void,
            extra: *mut *mut c_void,
        ) -> u32 {
            let asked = Launch {
                function,
                grid: [grid_x, grid_y, grid_z],
                block: [block_x, block_y, block_z],
                stream: (stream, $per_thread),
                parameters,
                extra,
            };
            call(Symbol::$name, function, stream, |world, thread| {
                // SAFETY: this function's contract.
                unsafe { launch(world, thread, &asked) }
            })
        }
    };
}

launch_kernel!(cuLaunchKernel, false);
launch_kernel!(cuLaunchKernel_ptsz, true);

/// `CUlaunchConfig`. Attributes are ignored.
#[repr(C)]
pub(crate) struct LaunchConfig {
    grid: [c_uint; 3],
    block: [c_uint; 3],
    shared_bytes: c_uint,
    stream: u64,
    attributes: *mut c_void,
    attribute_count: c_uint,
}

macro_rules! launch_kernel_ex {
    ($name:ident, $per_thread:literal) => {
        /// # Safety
        /// As for `cuLaunchKernel`.
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $name(
            config: Option<&LaunchConfig>,
            function: u64,
            parameters: *mut *mut c_void,
            extra: *mut *mut c_void,
        ) -> u32 {
            let stream = config.map_or(0, |config| config.stream);
            call(Symbol::$name, function, stream, |world, thread| {
                let config = config.ok_or(Status::ERROR_INVALID_VALUE)?;
                let asked = Launch {
                    function,
                    grid: config.grid,
                    block: config.block,
                    stream: (config.stream, $per_thread),
                    parameters,
                    extra,
                };
                // SAFETY: this function's contract.
                unsafe { launch(world, thread, &asked) }
            })
        }
    };
}

launch_kernel_ex!(cuLaunchKernelEx, false);
launch_kernel_ex!(cuLaunchKernelEx_ptsz, true);
