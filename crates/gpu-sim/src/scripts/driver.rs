// SPDX-License-Identifier: MIT OR Apache-2.0
//! The driver functions that scripts call, found by name.
//!
//! Each is kept as a function that takes good references and numbers, so that
//! the machine itself has no unsafe code; the promise that the addresses are
//! what their names say is made once, to [`Driver::new`].

use std::ffi::c_void;
use std::ptr;

use super::Source;

macro_rules! driver {
    ($($field:ident = $name:literal($($arg:ty),*);)*) => {
        /// The functions, `None` where the driver has none of that name.
        pub(super) struct Driver {
            $($field: Option<unsafe extern "C" fn($($arg),*) -> u32>,)*
            advance: Option<unsafe extern "C" fn(u64)>,
        }

        impl Driver {
            /// # Safety
            /// Each address that the source gives is the function of that name,
            /// good as long as this value.
            pub(super) unsafe fn new(source: &Source<'_>) -> Self {
                Self {
                    $($field: source($name).map(|address| {
                        // SAFETY: this function's contract; a function's address
                        // has the size of a pointer.
                        unsafe { std::mem::transmute::<*const c_void, unsafe extern "C" fn($($arg),*) -> u32>(address) }
                    }),)*
                    advance: source("sim_advance_ns").map(|address| {
                        // SAFETY: as above.
                        unsafe { std::mem::transmute::<*const c_void, unsafe extern "C" fn(u64)>(address) }
                    }),
                }
            }
        }
    };
}

driver! {
    init = "cuInit"(u32);
    retain = "cuDevicePrimaryCtxRetain"(*mut u64, i32);
    release = "cuDevicePrimaryCtxRelease_v2"(i32);
    create_context = "cuCtxCreate_v2"(*mut u64, u32, i32);
    destroy_context = "cuCtxDestroy_v2"(u64);
    set_current = "cuCtxSetCurrent"(u64);
    sync_context = "cuCtxSynchronize"();
    create_stream = "cuStreamCreate"(*mut u64, u32);
    destroy_stream = "cuStreamDestroy_v2"(u64);
    sync_stream = "cuStreamSynchronize"(u64);
    query_stream = "cuStreamQuery"(u64);
    wait_event = "cuStreamWaitEvent"(u64, u64, u32);
    stream_context = "cuStreamGetCtx"(u64, *mut u64);
    stream_id = "cuStreamGetId"(u64, *mut u64);
    create_event = "cuEventCreate"(*mut u64, u32);
    destroy_event = "cuEventDestroy_v2"(u64);
    record = "cuEventRecord"(u64, u64);
    record_flags = "cuEventRecordWithFlags"(u64, u64, u32);
    query = "cuEventQuery"(u64);
    sync_event = "cuEventSynchronize"(u64);
    elapsed = "cuEventElapsedTime"(*mut f32, u64, u64);
    begin = "cuStreamBeginCapture_v2"(u64, u32);
    end = "cuStreamEndCapture"(u64, *mut u64);
    capturing = "cuStreamIsCapturing"(u64, *mut u32);
    info = "cuStreamGetCaptureInfo_v2"(u64, *mut u32, *mut u64, *mut u64, *mut *const u64, *mut usize);
    mode = "cuThreadExchangeStreamCaptureMode"(*mut u32);
    instantiate = "cuGraphInstantiateWithFlags"(*mut u64, u64, u64);
    launch_graph = "cuGraphLaunch"(u64, u64);
    destroy_exec = "cuGraphExecDestroy"(u64);
    destroy_graph = "cuGraphDestroy"(u64);
    nodes = "cuGraphGetNodes"(u64, *mut u64, *mut usize);
    load = "cuModuleLoadData"(*mut u64, *const c_void);
    unload = "cuModuleUnload"(u64);
    function = "cuModuleGetFunction"(*mut u64, u64, *const std::ffi::c_char);
    launch = "cuLaunchKernel"(u64, u32, u32, u32, u32, u32, u32, u32, u64, *mut *mut c_void, *mut *mut c_void);
    alloc = "cuMemAlloc_v2"(*mut u64, usize);
    free = "cuMemFree_v2"(u64);
}

/// What a call came to: `Err` names the function that the driver lacks.
pub(super) type Called<T> = Result<T, &'static str>;

/// Methods that take handles and flags alone.
macro_rules! plain {
    ($($method:ident: $field:ident = $name:literal($($arg:ident: $kind:ty),*);)*) => {
        impl Driver {
            $(pub(super) fn $method(&self, $($arg: $kind),*) -> Called<u32> {
                let call = self.$field.ok_or($name)?;
                // SAFETY: the function of that name, by the contract of `new`;
                // a script gives live handles.
                Ok(unsafe { call($($arg),*) })
            })*
        }
    };
}

plain! {
    init: init = "cuInit"(flags: u32);
    release: release = "cuDevicePrimaryCtxRelease_v2"(device: i32);
    destroy_context: destroy_context = "cuCtxDestroy_v2"(context: u64);
    set_current: set_current = "cuCtxSetCurrent"(context: u64);
    sync_context: sync_context = "cuCtxSynchronize"();
    destroy_stream: destroy_stream = "cuStreamDestroy_v2"(stream: u64);
    sync_stream: sync_stream = "cuStreamSynchronize"(stream: u64);
    query_stream: query_stream = "cuStreamQuery"(stream: u64);
    wait_event: wait_event = "cuStreamWaitEvent"(stream: u64, event: u64, flags: u32);
    destroy_event: destroy_event = "cuEventDestroy_v2"(event: u64);
    record: record = "cuEventRecord"(event: u64, stream: u64);
    record_flags: record_flags = "cuEventRecordWithFlags"(event: u64, stream: u64, flags: u32);
    query: query = "cuEventQuery"(event: u64);
    sync_event: sync_event = "cuEventSynchronize"(event: u64);
    begin: begin = "cuStreamBeginCapture_v2"(stream: u64, mode: u32);
    launch_graph: launch_graph = "cuGraphLaunch"(exec: u64, stream: u64);
    destroy_exec: destroy_exec = "cuGraphExecDestroy"(exec: u64);
    destroy_graph: destroy_graph = "cuGraphDestroy"(graph: u64);
    unload: unload = "cuModuleUnload"(module: u64);
    free: free = "cuMemFree_v2"(address: u64);
}

/// Methods with one out value, given back beside the status.
macro_rules! telling {
    ($($method:ident: $field:ident = $name:literal($($arg:ident: $kind:ty),*), $told:ident: $out:ty = $first:expr => ($($pass:expr),*);)*) => {
        impl Driver {
            $(pub(super) fn $method(&self, $($arg: $kind),*) -> Called<(u32, $out)> {
                let call = self.$field.ok_or($name)?;
                let mut $told: $out = $first;
                // SAFETY: the function of that name, by the contract of `new`;
                // the out pointer is good.
                let status = unsafe { call($($pass),*) };
                Ok((status, $told))
            })*
        }
    };
}

telling! {
    retain: retain = "cuDevicePrimaryCtxRetain"(device: i32), told: u64 = 0 => (&raw mut told, device);
    create_context: create_context = "cuCtxCreate_v2"(device: i32), told: u64 = 0 => (&raw mut told, 0, device);
    create_stream: create_stream = "cuStreamCreate"(flags: u32), told: u64 = 0 => (&raw mut told, flags);
    stream_context: stream_context = "cuStreamGetCtx"(stream: u64), told: u64 = 0 => (stream, &raw mut told);
    stream_id: stream_id = "cuStreamGetId"(stream: u64), told: u64 = 0 => (stream, &raw mut told);
    create_event: create_event = "cuEventCreate"(flags: u32), told: u64 = 0 => (&raw mut told, flags);
    elapsed: elapsed = "cuEventElapsedTime"(start: u64, end: u64), told: f32 = 0.0 => (&raw mut told, start, end);
    end: end = "cuStreamEndCapture"(stream: u64), told: u64 = u64::MAX => (stream, &raw mut told);
    capturing: capturing = "cuStreamIsCapturing"(stream: u64), told: u32 = u32::MAX => (stream, &raw mut told);
    info: info = "cuStreamGetCaptureInfo_v2"(stream: u64), told: u32 = u32::MAX
        => (stream, &raw mut told, ptr::null_mut(), ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
    mode: mode = "cuThreadExchangeStreamCaptureMode"(mode: u32), told: u32 = mode => (&raw mut told);
    instantiate: instantiate = "cuGraphInstantiateWithFlags"(graph: u64), told: u64 = 0 => (&raw mut told, graph, 0);
    nodes: nodes = "cuGraphGetNodes"(graph: u64), told: usize = usize::MAX => (graph, ptr::null_mut(), &raw mut told);
    load: load = "cuModuleLoadData"(text: &std::ffi::CStr), told: u64 = 0 => (&raw mut told, text.as_ptr().cast());
    function: function = "cuModuleGetFunction"(module: u64, name: &std::ffi::CStr), told: u64 = 0
        => (&raw mut told, module, name.as_ptr());
    alloc: alloc = "cuMemAlloc_v2"(bytes: usize), told: u64 = 0 => (&raw mut told, bytes);
}

impl Driver {
    /// Launches one thread of a kernel whose one argument is a `u64`.
    pub(super) fn launch(&self, function: u64, stream: u64, mut ns: u64) -> Called<u32> {
        let call = self.launch.ok_or("cuLaunchKernel")?;
        let mut arguments = [(&raw mut ns).cast::<c_void>()];
        let arguments = arguments.as_mut_ptr();
        // SAFETY: as above; the kernel's one argument is a u64.
        Ok(unsafe {
            call(
                function,
                1,
                1,
                1,
                1,
                1,
                1,
                0,
                stream,
                arguments,
                ptr::null_mut(),
            )
        })
    }

    /// Lets time go by: the simulator's, else the host's, with as much again
    /// for a real device to notice.
    pub(super) fn pass(&self, ns: u64) {
        match self.advance {
            // SAFETY: by the contract of `new`; any number is good.
            Some(advance) => unsafe { advance(ns) },
            None => std::thread::sleep(std::time::Duration::from_nanos(ns.saturating_mul(2))),
        }
    }
}
