// SPDX-License-Identifier: MIT OR Apache-2.0
//! The driver functions that scripts call, found by name.
//!
//! Each is a method that takes good references and numbers, so that the machine
//! itself has no unsafe code; the promise that the addresses are what their names
//! say is made once, to [`Calls::new`].

use std::ffi::{CStr, c_char, c_void};
use std::ptr::null_mut;

use super::SymbolSource;

/// See the module.
pub(super) struct Calls<'s>(pub(super) &'s SymbolSource<'s>);

/// What a call came to: `Err` names the function that the driver lacks.
pub(super) type Called<T> = Result<T, &'static str>;

/// Calls the function of that name.
macro_rules! call {
    ($driver:ident, $name:tt: $($arg:expr => $kind:ty),*) => {{
        let address = ($driver.0)($name).ok_or($name)?;
        // SAFETY: the function of that name, by the contract of `new`; a script
        // gives live handles, and pointers are to live values.
        let call = unsafe { std::mem::transmute::<*const c_void, extern "C" fn($($kind),*) -> u32>(address) };
        call($($arg),*)
    }};
}

/// Methods that take handles and flags alone.
macro_rules! plain {
    ($($method:ident = $name:literal($($arg:ident: $kind:ty),*);)*) => {
        impl Calls<'_> {
            $(pub(super) fn $method(&self, $($arg: $kind),*) -> Called<u32> {
                Ok(call!(self, $name: $($arg => $kind),*))
            })*
        }
    };
}

plain! {
    init = "cuInit"(flags: u32);
    release = "cuDevicePrimaryCtxRelease_v2"(device: i32);
    destroy_context = "cuCtxDestroy_v2"(context: u64);
    set_current = "cuCtxSetCurrent"(context: u64);
    sync_context = "cuCtxSynchronize"();
    destroy_stream = "cuStreamDestroy_v2"(stream: u64);
    sync_stream = "cuStreamSynchronize"(stream: u64);
    query_stream = "cuStreamQuery"(stream: u64);
    wait_event = "cuStreamWaitEvent"(stream: u64, event: u64, flags: u32);
    destroy_event = "cuEventDestroy_v2"(event: u64);
    record = "cuEventRecord"(event: u64, stream: u64);
    record_flags = "cuEventRecordWithFlags"(event: u64, stream: u64, flags: u32);
    query = "cuEventQuery"(event: u64);
    sync_event = "cuEventSynchronize"(event: u64);
    begin = "cuStreamBeginCapture_v2"(stream: u64, mode: u32);
    launch_graph = "cuGraphLaunch"(exec: u64, stream: u64);
    destroy_exec = "cuGraphExecDestroy"(exec: u64);
    destroy_graph = "cuGraphDestroy"(graph: u64);
    unload = "cuModuleUnload"(module: u64);
    free = "cuMemFree_v2"(address: u64);
    host_function = "cuLaunchHostFunc"(stream: u64, function: extern "C" fn(*mut c_void), data: *mut c_void);
}

/// Methods with one out value, given back beside the status.
macro_rules! telling {
    ($($method:ident = $name:literal($($arg:ident: $kind:ty),*) $told:ident $out:ty = $first:expr; ($($pass:expr => $type:ty),*);)*) => {
        impl Calls<'_> {
            $(pub(super) fn $method(&self, $($arg: $kind),*) -> Called<(u32, $out)> {
                let mut $told: $out = $first;
                let status = call!(self, $name: $($pass => $type),*);
                Ok((status, $told))
            })*
        }
    };
}

telling! {
    retain = "cuDevicePrimaryCtxRetain"(device: i32) told u64 = 0; (&raw mut told => *mut u64, device => i32);
    create_context = "cuCtxCreate_v2"(device: i32) told u64 = 0; (&raw mut told => *mut u64, 0 => u32, device => i32);
    create_stream = "cuStreamCreate"(flags: u32) told u64 = 0; (&raw mut told => *mut u64, flags => u32);
    stream_context = "cuStreamGetCtx"(stream: u64) told u64 = 0; (stream => u64, &raw mut told => *mut u64);
    stream_id = "cuStreamGetId"(stream: u64) told u64 = 0; (stream => u64, &raw mut told => *mut u64);
    create_event = "cuEventCreate"(flags: u32) told u64 = 0; (&raw mut told => *mut u64, flags => u32);
    elapsed = "cuEventElapsedTime"(start: u64, end: u64) told f32 = 0.0; (&raw mut told => *mut f32, start => u64, end => u64);
    end = "cuStreamEndCapture"(stream: u64) told u64 = u64::MAX; (stream => u64, &raw mut told => *mut u64);
    capturing = "cuStreamIsCapturing"(stream: u64) told u32 = u32::MAX; (stream => u64, &raw mut told => *mut u32);
    info = "cuStreamGetCaptureInfo_v2"(stream: u64) told u32 = u32::MAX; (stream => u64, &raw mut told => *mut u32, null_mut() => *mut u64, null_mut() => *mut u64, null_mut() => *mut *const u64, null_mut() => *mut usize);
    mode = "cuThreadExchangeStreamCaptureMode"(mode: u32) told u32 = mode; (&raw mut told => *mut u32);
    instantiate = "cuGraphInstantiateWithFlags"(graph: u64) told u64 = 0; (&raw mut told => *mut u64, graph => u64, 0 => u64);
    nodes = "cuGraphGetNodes"(graph: u64) told usize = usize::MAX; (graph => u64, null_mut() => *mut u64, &raw mut told => *mut usize);
    load = "cuModuleLoadData"(text: &CStr) told u64 = 0; (&raw mut told => *mut u64, text.as_ptr().cast() => *const c_void);
    function = "cuModuleGetFunction"(module: u64, name: &CStr) told u64 = 0; (&raw mut told => *mut u64, module => u64, name.as_ptr() => *const c_char);
    alloc = "cuMemAlloc_v2"(bytes: usize) told u64 = 0; (&raw mut told => *mut u64, bytes => usize);
}

impl<'s> Calls<'s> {
    /// # Safety
    /// Each address that the source gives is the function of that name, good as
    /// long as this value.
    pub(super) unsafe fn new(source: &'s SymbolSource<'s>) -> Self {
        Self(source)
    }

    /// Launches one thread of a kernel whose one argument is a `u64`.
    pub(super) fn launch(&self, function: u64, stream: u64, mut ns: u64) -> Called<u32> {
        let mut arguments = [(&raw mut ns).cast::<c_void>()];
        Ok(
            call!(self, "cuLaunchKernel": function => u64, 1 => u32, 1 => u32, 1 => u32, 1 => u32, 1 => u32, 1 => u32,
            0 => u32, stream => u64, arguments.as_mut_ptr() => *mut *mut c_void, null_mut() => *mut *mut c_void),
        )
    }

    /// Lets time go by: the simulator's, else the host's, with as much again
    /// for a real device to notice.
    pub(super) fn pass(&self, ns: u64) {
        let Some(advance) = (self.0)("sim_advance_ns") else {
            return std::thread::sleep(std::time::Duration::from_nanos(ns.saturating_mul(2)));
        };
        // SAFETY: by the contract of `new`; any number is good.
        let advance = unsafe { std::mem::transmute::<*const c_void, extern "C" fn(u64)>(advance) };
        advance(ns);
    }
}
