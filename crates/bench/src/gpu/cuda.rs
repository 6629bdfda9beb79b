// SPDX-License-Identifier: MIT OR Apache-2.0
//! The driver functions that an application calls and metrale does not, found
//! by name in the library that metrale uses.

use super::Failure;
use libloading::Library;
use metrale_gpu_sys::cuda::{Driver, Status};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::mem::ManuallyDrop;

macro_rules! functions {
    ($($name:ident = $symbol:literal($($arg:ty),*);)*) => {
        /// The functions. A call is unsafe: the driver dereferences handles.
        pub(crate) struct Functions {
            $(pub(crate) $name: unsafe extern "C" fn($($arg),*) -> Status,)*
        }

        impl Functions {
            /// Those of `library`, which must be a CUDA driver.
            fn of(library: &Library) -> Result<Self, Failure> {
                Ok(Self {
                    $($name: {
                        // SAFETY: the driver gives that name this signature.
                        let found = unsafe { library.get($symbol.to_bytes_with_nul()) };
                        *found.map_err(|_| Failure::Missing($symbol))?
                    },)*
                })
            }
        }
    };
}

functions! {
    init = c"cuInit"(c_uint);
    attribute = c"cuDeviceGetAttribute"(*mut c_int, c_uint, c_int);
    retain = c"cuDevicePrimaryCtxRetain"(*mut u64, c_int);
    set_current = c"cuCtxSetCurrent"(u64);
    new_stream = c"cuStreamCreate"(*mut u64, c_uint);
    sync_stream = c"cuStreamSynchronize"(u64);
    begin_capture = c"cuStreamBeginCapture_v2"(u64, c_uint);
    end_capture = c"cuStreamEndCapture"(u64, *mut u64);
    instantiate = c"cuGraphInstantiateWithFlags"(*mut u64, u64, u64);
    launch_graph = c"cuGraphLaunch"(u64, u64);
    destroy_graph = c"cuGraphDestroy"(u64);
    load = c"cuModuleLoadData"(*mut u64, *const c_char);
    function = c"cuModuleGetFunction"(*mut u64, u64, *const c_char);
    launch = c"cuLaunchKernel"(
        u64, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, u64,
        *mut *mut c_void, *mut *mut c_void
    );
    alloc = c"cuMemAlloc_v2"(*mut u64, usize);
    to_host = c"cuMemcpyDtoH_v2"(*mut c_void, u64, usize);
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
}

/// A failed call with its name.
pub(crate) fn called(call: &'static CStr, status: Status) -> Result<(), Failure> {
    status.ok().map_err(|status| Failure::Call { call, status })
}
