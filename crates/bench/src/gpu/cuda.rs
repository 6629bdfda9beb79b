// SPDX-License-Identifier: MIT OR Apache-2.0
//! The driver functions that an application calls and metrale does not, found
//! by name in the library that metrale uses.

use super::Failure;
use libloading::Library;
use metrale_gpu_sys::cuda::{Driver, Status};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::mem::ManuallyDrop;

/// A stream that does not wait for the legacy one.
#[derive(Clone, Copy, Debug, Default)]
#[repr(transparent)]
pub(crate) struct Stream(pub(super) u64);
/// An event that takes the time.
#[derive(Clone, Copy, Debug, Default)]
#[repr(transparent)]
pub(crate) struct Event(pub(super) u64);
/// A graph, ready to be launched.
#[derive(Clone, Copy, Debug, Default)]
#[repr(transparent)]
pub(crate) struct Graph(pub(super) u64);

macro_rules! functions {
    (does {$($name:ident = $symbol:literal($($arg:ident: $kind:ty),*);)*}
     gives {$($new:ident: $given:ty = $new_symbol:literal($($new_arg:ident: $new_kind:ty),*);)*}
     pointers {$($raw:ident = $raw_symbol:literal($($raw_kind:ty),*);)*}) => {
        /// The functions. Handles are live, which this crate's [`super::device`]
        /// sees to.
        pub(crate) struct Functions {
            $($name: extern "C" fn($($kind),*) -> Status,)*
            $($new: extern "C" fn(&mut $given, $($new_kind),*) -> Status,)*
            $(pub(crate) $raw: unsafe extern "C" fn($($raw_kind),*) -> Status,)*
        }

        impl Functions {
            /// The functions of `driver`.
            pub(crate) fn load(driver: &Driver) -> Result<Self, Failure> {
                let library = &*library(driver)?;
                // A reference is a pointer that is good, and a handle 64 bits.
                Ok(Self {
                    // SAFETY: the driver gives that name this signature.
                    $($name: unsafe { function(library, $symbol) }?,)*
                    // SAFETY: as above.
                    $($new: unsafe { function(library, $new_symbol) }?,)*
                    // SAFETY: as above.
                    $($raw: unsafe { function(library, $raw_symbol) }?,)*
                })
            }

            $(#[inline]
            pub(crate) fn $name(&self, $($arg: $kind),*) -> Result<(), Failure> {
                called($symbol, (self.$name)($($arg),*))
            })*

            $(pub(crate) fn $new(&self, $($new_arg: $new_kind),*) -> Result<$given, Failure> {
                let mut given = <$given>::default();
                called($new_symbol, (self.$new)(&mut given, $($new_arg),*)).map(|()| given)
            })*
        }
    };
}

functions! {
does {
    init = c"cuInit"(flags: c_uint);
    device_name = c"cuDeviceGetName"(name: &mut [u8; 256], room: c_int, device: c_int);
    set_current = c"cuCtxSetCurrent"(context: u64);
    sync = c"cuStreamSynchronize"(stream: Stream);
    wait = c"cuStreamWaitEvent"(stream: Stream, event: Event, flags: c_uint);
    record = c"cuEventRecord"(event: Event, stream: Stream);
    record_in_graph = c"cuEventRecordWithFlags"(event: Event, stream: Stream, flags: c_uint);
    query = c"cuEventQuery"(event: Event);
    capturing = c"cuStreamIsCapturing"(stream: Stream, told: &mut u32);
    exchange_mode = c"cuThreadExchangeStreamCaptureMode"(mode: &mut u32);
    begin_capture = c"cuStreamBeginCapture_v2"(stream: Stream, mode: c_uint);
    end_capture = c"cuStreamEndCapture"(stream: Stream, graph: &mut u64);
    add_edge = c"cuGraphAddDependencies"(graph: u64, from: &u64, to: &u64, count: usize);
    remove_edge = c"cuGraphRemoveDependencies"(graph: u64, from: &u64, to: &u64, count: usize);
    upload_graph = c"cuGraphUpload"(graph: Graph, stream: Stream);
    launch_graph = c"cuGraphLaunch"(graph: Graph, stream: Stream);
    destroy_graph = c"cuGraphDestroy"(graph: u64);
    destroy_exec = c"cuGraphExecDestroy"(graph: Graph);
    memory = c"cuMemGetInfo_v2"(free: &mut usize, total: &mut usize);
}
gives {
    attribute: c_int = c"cuDeviceGetAttribute"(which: c_uint, device: c_int);
    retain: u64 = c"cuDevicePrimaryCtxRetain"(device: c_int);
    stream: Stream = c"cuStreamCreate"(flags: c_uint);
    event: Event = c"cuEventCreate"(flags: c_uint);
    elapsed_ms: f32 = c"cuEventElapsedTime"(from: Event, to: Event);
    clone_graph: u64 = c"cuGraphClone"(graph: u64);
    find_in_clone: u64 = c"cuGraphNodeFindInClone"(node: u64, copy: u64);
    add_mark: u64 = c"cuGraphAddEventRecordNode"(
        graph: u64, behind: &u64, count: usize, event: Event
    );
    instantiate: Graph = c"cuGraphInstantiateWithFlags"(graph: u64, flags: u64);
    alloc: u64 = c"cuMemAlloc_v2"(bytes: usize);
    alloc_on: u64 = c"cuMemAllocAsync"(bytes: usize, stream: Stream);
}
pointers {
    load = c"cuModuleLoadData"(&mut u64, *const c_char);
    function = c"cuModuleGetFunction"(&mut u64, u64, *const c_char);
    launch = c"cuLaunchKernel"(
        u64, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Stream,
        *mut *mut c_void, *mut *mut c_void
    );
    to_host = c"cuMemcpyDtoH_v2"(*mut c_void, u64, usize);
    nodes = c"cuGraphGetNodes"(u64, *mut u64, &mut usize);
    edges = c"cuGraphGetEdges"(u64, *mut u64, *mut u64, &mut usize);
}
}

/// The function of that name.
///
/// # Safety
/// `F` is its type.
pub(crate) unsafe fn function<F: Copy>(
    library: &Library,
    name: &'static CStr,
) -> Result<F, Failure> {
    // SAFETY: this function's contract.
    let found = unsafe { library.get::<F>(name.to_bytes_with_nul()) };
    found.map(|function| *function).map_err(|_| Failure::Missing(name))
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
    /// The primary context of a device, initialised and retained.
    pub(crate) fn context(&self, ordinal: u32) -> Result<u64, Failure> {
        self.init(0)?;
        self.retain(c_int::try_from(ordinal).unwrap_or(c_int::MAX))
    }
}

/// A failed call with its name.
pub(crate) fn called(call: &'static CStr, status: Status) -> Result<(), Failure> {
    status.ok().map_err(|status| Failure::Call { call, status })
}
