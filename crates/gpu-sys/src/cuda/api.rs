// SPDX-License-Identifier: MIT OR Apache-2.0
//! The driver functions that metrale calls, with the types of their arguments.

use super::status::Status;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

/// A driver context.
pub type CUcontext = *mut c_void;
/// A device, by its ordinal handle.
pub type CUdevice = c_int;
/// An event.
pub type CUevent = *mut c_void;
/// A kernel function.
pub type CUfunction = *mut c_void;
/// A stream; NULL, 1 and 2 have special meanings.
pub type CUstream = *mut c_void;

/// A device's UUID: 16 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct CUuuid {
    /// The bytes, in printing order.
    pub bytes: [u8; 16],
}

macro_rules! api {
    (
        $(#[$table:meta])* $Table:ident;
        required { $( $(#[$doc:meta])* $name:ident = $symbol:literal: fn($($arg:ty),*); )* }
        optional { $( $(#[$odoc:meta])* $oname:ident = $osymbol:literal: fn($($oarg:ty),*); )* }
    ) => {
        $(#[$table])*
        #[derive(Clone, Copy)]
        pub struct $Table {
            $( $(#[$doc])* pub $name: unsafe extern "C" fn($($arg),*) -> Status, )*
            $( $(#[$odoc])* pub $oname: Option<unsafe extern "C" fn($($oarg),*) -> Status>, )*
        }

        impl $Table {
            /// Names of the functions without which there is no table.
            pub const REQUIRED: &'static [&'static CStr] = &[$($symbol),*];
            /// Names of the functions that a driver may lack.
            pub const OPTIONAL: &'static [&'static CStr] = &[$($osymbol),*];

            /// Fills the table from `find`, or names the first required
            /// function that it does not have.
            ///
            /// # Safety
            /// For each name, `find` returns NULL or the address of a function
            /// with the signature that the driver gives that name. The
            /// functions stay loaded as long as the table is used.
            pub(in crate::cuda) unsafe fn resolve(
                mut find: impl FnMut(&CStr) -> *const c_void,
            ) -> Result<Self, &'static CStr> {
                $(
                    let address = find($symbol);
                    if address.is_null() {
                        return Err($symbol);
                    }
                    // SAFETY: not NULL, and by the caller's promise a function
                    // of this signature; pointers and functions have one size.
                    let $name = unsafe {
                        std::mem::transmute::<*const c_void, unsafe extern "C" fn($($arg),*) -> Status>(address)
                    };
                )*
                $(
                    // SAFETY: by the caller's promise NULL or a function of
                    // this signature; NULL is `None` of an optional function.
                    let $oname = unsafe {
                        std::mem::transmute::<*const c_void, Option<unsafe extern "C" fn($($oarg),*) -> Status>>(find($osymbol))
                    };
                )*
                Ok(Self { $($name,)* $($oname,)* })
            }
        }
    };
}
pub(super) use api;

api! {
    /// Entry points of a driver. A call is unsafe: the driver dereferences
    /// the handles that it is given, and never validates them.
    Api;
    required {
        /// `cuDriverGetVersion(version)`; works before `cuInit`.
        driver_get_version = c"cuDriverGetVersion": fn(*mut c_int);
        /// `cuDeviceGetCount(count)`.
        device_get_count = c"cuDeviceGetCount": fn(*mut c_int);
        /// `cuDeviceGetName(name, length, device)`.
        device_get_name = c"cuDeviceGetName": fn(*mut c_char, c_int, CUdevice);
        /// `cuDeviceGetUuid(uuid, device)`; of a MIG instance its GPU's.
        device_get_uuid = c"cuDeviceGetUuid": fn(*mut CUuuid, CUdevice);
        /// `cuCtxGetCurrent(context)`; NULL if there is none.
        ctx_get_current = c"cuCtxGetCurrent": fn(*mut CUcontext);
        /// `cuCtxPushCurrent(context)`.
        ctx_push_current = c"cuCtxPushCurrent_v2": fn(CUcontext);
        /// `cuCtxPopCurrent(context)`.
        ctx_pop_current = c"cuCtxPopCurrent_v2": fn(*mut CUcontext);
        /// `cuCtxGetDevice(device)`, of the current context.
        ctx_get_device = c"cuCtxGetDevice": fn(*mut CUdevice);
        /// `cuEventCreate(event, flags)`, in the current context.
        event_create = c"cuEventCreate": fn(*mut CUevent, c_uint);
        /// `cuEventRecord(event, stream)`.
        event_record = c"cuEventRecord": fn(CUevent, CUstream);
        /// `cuEventQuery(event)`; not capture-safe.
        event_query = c"cuEventQuery": fn(CUevent);
        /// `cuEventElapsedTime(milliseconds, start, end)`.
        event_elapsed_time = c"cuEventElapsedTime": fn(*mut f32, CUevent, CUevent);
        /// `cuEventDestroy(event)`.
        event_destroy = c"cuEventDestroy_v2": fn(CUevent);
        /// `cuStreamCreate(stream, flags)`, in the current context.
        stream_create = c"cuStreamCreate": fn(*mut CUstream, c_uint);
        /// `cuStreamDestroy(stream)`; does not wait for its work.
        stream_destroy = c"cuStreamDestroy_v2": fn(CUstream);
        /// `cuStreamIsCapturing(stream, status)`; capture-safe.
        stream_is_capturing = c"cuStreamIsCapturing": fn(CUstream, *mut c_uint);
        /// `cuThreadExchangeStreamCaptureMode(mode)`; swaps.
        thread_exchange_stream_capture_mode = c"cuThreadExchangeStreamCaptureMode": fn(*mut c_uint);
    }
    optional {
        /// `cuDeviceGetUuid_v2(uuid, device)`, since CUDA 11.4; of a MIG
        /// instance its own.
        device_get_uuid_v2 = c"cuDeviceGetUuid_v2": fn(*mut CUuuid, CUdevice);
        /// `cuEventElapsedTime_v2(milliseconds, start, end)`, since CUDA 12.8.
        event_elapsed_time_v2 = c"cuEventElapsedTime_v2": fn(*mut f32, CUevent, CUevent);
        /// `cuCtxGetId(context, id)`, since CUDA 12.0.
        ctx_get_id = c"cuCtxGetId": fn(CUcontext, *mut u64);
        /// `cuStreamGetId(stream, id)`, since CUDA 12.0; not capture-safe.
        stream_get_id = c"cuStreamGetId": fn(CUstream, *mut u64);
        /// `cuFuncGetName(name, function)`, since CUDA 12.3.
        func_get_name = c"cuFuncGetName": fn(*mut *const c_char, CUfunction);
    }
}
