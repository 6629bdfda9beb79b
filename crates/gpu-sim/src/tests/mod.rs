// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the simulator from a caller's side, by subject. They call the
//! exported functions as C would, one test at a time.

mod captures;
mod driver_kinds;
mod elapsed;
mod faults;
mod graph_launches;
mod graph_refusals;
mod graphs;
mod host_functions;
mod objects;
mod time;

use std::ffi::{CStr, c_void};
use std::mem::MaybeUninit;
use std::ptr;

use crate::abi::{context, device, event, launch, module, stream};

/// A kernel with a duration argument and one without.
const PTX: &CStr = c"
.version 7.0
.target sm_70
.entry timed(.param .u64 timed_duration_ns) { ret; }
.entry plain(.param .u32 plain_param_0) { ret; }
";

/// Calls a function with one out value first: the status and the value.
fn told<T: Copy>(first: T, call: impl FnOnce(&mut MaybeUninit<T>) -> u32) -> (u32, T) {
    let mut out = MaybeUninit::new(first);
    let status = call(&mut out);
    // SAFETY: it was initialised before the call.
    (status, unsafe { out.assume_init() })
}

/// As [`told`], for a call that is to succeed.
fn made<T: Copy + Default>(call: impl FnOnce(&mut MaybeUninit<T>) -> u32) -> T {
    let (status, value) = told(T::default(), call);
    assert_eq!(status, 0);
    value
}

/// Initialises the driver and makes device 0's primary context current.
fn start() -> u64 {
    assert_eq!(device::cuInit(0), 0);
    let context = made(|out| context::cuDevicePrimaryCtxRetain(Some(out), 0));
    assert_eq!(context::cuCtxSetCurrent(context), 0);
    context
}

fn new_stream() -> u64 {
    made(|out| stream::cuStreamCreate(Some(out), 1))
}

fn new_event() -> u64 {
    made(|out| event::cuEventCreate(Some(out), 0))
}

fn load() -> u64 {
    // SAFETY: a C string.
    made(|out| unsafe { module::cuModuleLoadData(Some(out), PTX.as_ptr().cast()) })
}

fn function(module: u64, name: &CStr) -> u64 {
    // SAFETY: a C string.
    made(|out| unsafe { module::cuModuleGetFunction(Some(out), module, name.as_ptr()) })
}

/// Launches a kernel whose one argument is that number.
fn launch(function: u64, stream: u64, mut argument: u64) -> u32 {
    let mut arguments = [(&raw mut argument).cast::<c_void>()];
    let arguments = arguments.as_mut_ptr();
    // SAFETY: the kernels above take one argument of at most 8 bytes.
    unsafe {
        launch::cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, arguments, ptr::null_mut())
    }
}

/// Milliseconds between two events.
fn elapsed(start: u64, end: u64) -> (u32, f32) {
    told(0.0, |out| event::cuEventElapsedTime(Some(out), start, end))
}
