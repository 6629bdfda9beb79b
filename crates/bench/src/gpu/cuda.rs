// SPDX-License-Identifier: MIT OR Apache-2.0
//! The driver functions that an application calls and metrale does not, found
//! by name in the library that metrale uses.

use super::Failure;
use libloading::Library;
use metrale_gpu_sys::cuda::{Driver, Status};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::mem::ManuallyDrop;

macro_rules! functions {
    ({$($name:ident = $symbol:literal($($arg:ident: $kind:ty),*);)*}
     pointers {$($raw:ident = $raw_symbol:literal($($raw_kind:ty),*);)*}) => {
        /// The functions. Handles are live, which this crate's [`super::device`]
        /// sees to.
        pub(crate) struct Functions {
            $($name: extern "C" fn($($kind),*) -> Status,)*
            $(pub(crate) $raw: unsafe extern "C" fn($($raw_kind),*) -> Status,)*
        }

        impl Functions {
            /// Those of `library`, which must be a CUDA driver.
            fn of(library: &Library) -> Result<Self, Failure> {
                Ok(Self {
                    $($name: {
                        // SAFETY: the driver gives that name this signature; a
                        // reference is a pointer that is good.
                        let found = unsafe { library.get($symbol.to_bytes_with_nul()) };
                        *found.map_err(|_| Failure::Missing($symbol))?
                    },)*
                    $($raw: {
                        // SAFETY: the driver gives that name this signature.
                        let found = unsafe { library.get($raw_symbol.to_bytes_with_nul()) };
                        *found.map_err(|_| Failure::Missing($raw_symbol))?
                    },)*
                })
            }

            $(#[inline]
            pub(crate) fn $name(&self, $($arg: $kind),*) -> Result<(), Failure> {
                called($symbol, (self.$name)($($arg),*))
            })*
        }
    };
}

functions! {
{
    init = c"cuInit"(flags: c_uint);
    attribute = c"cuDeviceGetAttribute"(value: &mut c_int, which: c_uint, device: c_int);
    device_name = c"cuDeviceGetName"(name: &mut [u8; 256], room: c_int, device: c_int);
    retain = c"cuDevicePrimaryCtxRetain"(context: &mut u64, device: c_int);
    set_current = c"cuCtxSetCurrent"(context: u64);
    new_stream = c"cuStreamCreate"(stream: &mut u64, flags: c_uint);
    sync_stream = c"cuStreamSynchronize"(stream: u64);
    capturing = c"cuStreamIsCapturing"(stream: u64, told: &mut u32);
    exchange_mode = c"cuThreadExchangeStreamCaptureMode"(mode: &mut u32);
    new_event = c"cuEventCreate"(event: &mut u64, flags: c_uint);
    record = c"cuEventRecord"(event: u64, stream: u64);
    query = c"cuEventQuery"(event: u64);
    elapsed = c"cuEventElapsedTime"(ms: &mut f32, from: u64, to: u64);
    begin_capture = c"cuStreamBeginCapture_v2"(stream: u64, mode: c_uint);
    end_capture = c"cuStreamEndCapture"(stream: u64, graph: &mut u64);
    instantiate = c"cuGraphInstantiateWithFlags"(exec: &mut u64, graph: u64, flags: u64);
    clone_graph = c"cuGraphClone"(copy: &mut u64, graph: u64);
    find_in_clone = c"cuGraphNodeFindInClone"(found: &mut u64, node: u64, copy: u64);
    add_mark = c"cuGraphAddEventRecordNode"(
        mark: &mut u64, graph: u64, behind: &u64, count: usize, event: u64
    );
    add_edge = c"cuGraphAddDependencies"(graph: u64, from: &u64, to: &u64, count: usize);
    remove_edge = c"cuGraphRemoveDependencies"(graph: u64, from: &u64, to: &u64, count: usize);
    upload_graph = c"cuGraphUpload"(exec: u64, stream: u64);
    launch_graph = c"cuGraphLaunch"(exec: u64, stream: u64);
    destroy_graph = c"cuGraphDestroy"(graph: u64);
    destroy_exec = c"cuGraphExecDestroy"(exec: u64);
    record_in_graph = c"cuEventRecordWithFlags"(event: u64, stream: u64, flags: c_uint);
    wait = c"cuStreamWaitEvent"(stream: u64, event: u64, flags: c_uint);
    alloc = c"cuMemAlloc_v2"(address: &mut u64, bytes: usize);
    alloc_on = c"cuMemAllocAsync"(address: &mut u64, bytes: usize, stream: u64);
    memory = c"cuMemGetInfo_v2"(free: &mut usize, total: &mut usize);
}
pointers {
    load = c"cuModuleLoadData"(&mut u64, *const c_char);
    function = c"cuModuleGetFunction"(&mut u64, u64, *const c_char);
    launch = c"cuLaunchKernel"(
        u64, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, u64,
        *mut *mut c_void, *mut *mut c_void
    );
    to_host = c"cuMemcpyDtoH_v2"(*mut c_void, u64, usize);
    nodes = c"cuGraphGetNodes"(u64, *mut u64, &mut usize);
    edges = c"cuGraphGetEdges"(u64, *mut u64, *mut u64, &mut usize);
}
}

/// The library of `driver`; it is never unloaded.
pub(crate) fn library(driver: &Driver) -> Result<ManuallyDrop<Library>, Failure> {
    let path = driver.origin().path();
    // SAFETY: the library is loaded already; no initialiser runs.
    let library = unsafe { Library::new(path) };
    let library =
        library.map_err(|error| Failure::Other(format!("{}: {error}", path.display())))?;
    Ok(ManuallyDrop::new(library))
}

impl Functions {
    /// The functions of `driver`.
    pub(crate) fn load(driver: &Driver) -> Result<Self, Failure> {
        Self::of(&*library(driver)?)
    }

    /// The primary context of a device, initialised and retained.
    pub(crate) fn context(&self, ordinal: u32) -> Result<u64, Failure> {
        self.init(0)?;
        let (mut context, ordinal) = (0, c_int::try_from(ordinal).unwrap_or(c_int::MAX));
        self.retain(&mut context, ordinal)?;
        Ok(context)
    }
}

/// A failed call with its name.
pub(crate) fn called(call: &'static CStr, status: Status) -> Result<(), Failure> {
    status.ok().map_err(|status| Failure::Call { call, status })
}
