// SPDX-License-Identifier: MIT OR Apache-2.0
//! CUDA driver status codes, kept as the `u32` the driver returned.
//!
//! A newer driver may return a code that this table does not know. Such a code
//! is data like any other: it keeps its number, has no name, and is never
//! transmuted into an enum.

use std::fmt;

/// What a CUDA driver call returned. Any `u32` is a valid value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct Status(pub u32);

macro_rules! statuses {
    ($($name:ident = $code:literal, $meaning:literal;)*) => {
        impl Status {
            $(
                #[doc = concat!("`CUDA_", stringify!($name), "` (", stringify!($code), "): ", $meaning, ".")]
                pub const $name: Status = Status($code);
            )*

            /// Every status this crate has a name for, in numeric order.
            pub const KNOWN: &'static [Status] = &[$(Status::$name,)*];

            /// The driver's name for the code (`CUDA_ERROR_NOT_READY`), or
            /// `None` for a code that this table does not know.
            #[must_use]
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($code => Some(concat!("CUDA_", stringify!($name))),)*
                    _ => None,
                }
            }

            /// What the code means for a caller, in a few words.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self.0 {
                    $($code => $meaning,)*
                    _ => "a status unknown to this version of metrale",
                }
            }
        }
    };
}

// Numbers: `enum cudaError_enum` of the driver API, CUDA 11.4 to 13.x.
statuses! {
    SUCCESS = 0, "the call succeeded";
    ERROR_INVALID_VALUE = 1, "an argument is out of range or NULL";
    ERROR_OUT_OF_MEMORY = 2, "no memory left for the request";
    ERROR_NOT_INITIALIZED = 3, "cuInit was not called, failed, or this is a forked child";
    ERROR_DEINITIALIZED = 4, "the driver is shutting down";
    ERROR_STUB_LIBRARY = 34, "the loaded library is the toolkit's stub, not a driver";
    ERROR_CALL_REQUIRES_NEWER_DRIVER = 36, "the call needs a newer driver";
    ERROR_DEVICE_UNAVAILABLE = 46, "the device is in exclusive or prohibited mode";
    ERROR_NO_DEVICE = 100, "no CUDA device was found";
    ERROR_INVALID_DEVICE = 101, "the device ordinal is out of range";
    ERROR_INVALID_IMAGE = 200, "the module image is not valid";
    ERROR_INVALID_CONTEXT = 201, "no context is current, or it was destroyed";
    ERROR_INVALID_PTX = 218, "the PTX could not be compiled";
    ERROR_CONTAINED = 226, "a fatal error that was contained to this process";
    ERROR_INVALID_SOURCE = 300, "the device source is not valid";
    ERROR_FILE_NOT_FOUND = 301, "the file was not found";
    ERROR_OPERATING_SYSTEM = 304, "a call to the operating system failed";
    ERROR_INVALID_HANDLE = 400, "a handle is not valid for this call";
    ERROR_ILLEGAL_STATE = 401, "a resource is not in a state for this call";
    ERROR_LOSSY_QUERY = 402, "the query would lose information";
    ERROR_NOT_FOUND = 500, "a named symbol was not found";
    ERROR_NOT_READY = 600, "the work has not finished yet";
    ERROR_ILLEGAL_ADDRESS = 700, "a kernel used an illegal address; the context is lost";
    ERROR_LAUNCH_OUT_OF_RESOURCES = 701, "the launch asked for too many resources";
    ERROR_LAUNCH_TIMEOUT = 702, "a kernel ran into the time limit; the context is lost";
    ERROR_LAUNCH_INCOMPATIBLE_TEXTURING = 703, "the launch uses an incompatible texturing mode";
    ERROR_CONTEXT_IS_DESTROYED = 709, "the context was destroyed";
    ERROR_ASSERT = 710, "a device assert fired; the context is lost";
    ERROR_HARDWARE_STACK_ERROR = 714, "a device stack error; the context is lost";
    ERROR_ILLEGAL_INSTRUCTION = 715, "a kernel met an illegal instruction; the context is lost";
    ERROR_MISALIGNED_ADDRESS = 716, "a kernel used a misaligned address; the context is lost";
    ERROR_INVALID_ADDRESS_SPACE = 717, "a kernel used a wrong address space; the context is lost";
    ERROR_INVALID_PC = 718, "a kernel's program counter left its space; the context is lost";
    ERROR_LAUNCH_FAILED = 719, "a kernel failed; the context is lost";
    ERROR_NOT_PERMITTED = 800, "the call is not permitted here";
    ERROR_NOT_SUPPORTED = 801, "the call is not supported on this system";
    ERROR_SYSTEM_NOT_READY = 802, "a system service is not running";
    ERROR_SYSTEM_DRIVER_MISMATCH = 803, "kernel module and driver library do not match";
    ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE = 804, "forward compatibility is not supported on this device";
    ERROR_MPS_CONNECTION_FAILED = 805, "the MPS server could not be reached";
    ERROR_MPS_RPC_FAILURE = 806, "a call to the MPS server failed";
    ERROR_MPS_SERVER_NOT_READY = 807, "the MPS server accepts no clients now";
    ERROR_MPS_MAX_CLIENTS_REACHED = 808, "the MPS server has no room for another client";
    ERROR_MPS_MAX_CONNECTIONS_REACHED = 809, "the MPS server has no connection left";
    ERROR_MPS_CLIENT_TERMINATED = 810, "this MPS client was terminated";
    ERROR_STREAM_CAPTURE_UNSUPPORTED = 900, "the call is not permitted while a stream captures";
    ERROR_STREAM_CAPTURE_INVALIDATED = 901, "the capture was already invalidated";
    ERROR_STREAM_CAPTURE_MERGE = 902, "the call would merge two captures";
    ERROR_STREAM_CAPTURE_UNMATCHED = 903, "the capture was not begun on this stream";
    ERROR_STREAM_CAPTURE_UNJOINED = 904, "a forked stream was not joined to the capture";
    ERROR_STREAM_CAPTURE_ISOLATION = 905, "a dependency would cross the capture's border";
    ERROR_STREAM_CAPTURE_IMPLICIT = 906, "the legacy stream was used while a blocking stream captures";
    ERROR_CAPTURED_EVENT = 907, "the event was last recorded in a capturing stream";
    ERROR_STREAM_CAPTURE_WRONG_THREAD = 908, "the capture was begun on another thread";
    ERROR_TIMEOUT = 909, "the call timed out";
    ERROR_GRAPH_EXEC_UPDATE_FAILURE = 910, "the graph could not be updated in place";
    ERROR_EXTERNAL_DEVICE = 911, "an external device failed; the context is lost";
    ERROR_INVALID_CLUSTER_SIZE = 912, "the cluster size is not valid";
    ERROR_FUNCTION_NOT_LOADED = 913, "the function is not loaded";
    ERROR_INVALID_RESOURCE_TYPE = 914, "the resource type is not valid";
    ERROR_INVALID_RESOURCE_CONFIGURATION = 915, "the resource configuration is not valid";
    ERROR_KEY_ROTATION = 916, "a key rotation is in progress";
    ERROR_STREAM_DETACHED = 917, "the stream's green context was destroyed";
    ERROR_GRAPH_RECAPTURE_FAILURE = 918, "the recaptured graph differs from the first";
    ERROR_FABRIC_NOT_READY = 919, "the fabric is not ready";
    ERROR_UNKNOWN = 999, "an unknown internal error of the driver";
}

impl Status {
    /// Whether the call succeeded.
    #[must_use]
    pub const fn is_success(self) -> bool {
        self.0 == 0
    }

    /// `Ok(())` for success, else the status as an error.
    ///
    /// # Errors
    /// The status itself, where it is anything but success.
    pub const fn ok(self) -> Result<(), Status> {
        if self.is_success() { Ok(()) } else { Err(self) }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{name} ({}: {})", self.0, self.meaning()),
            None => write!(f, "CUDA status {} ({})", self.0, self.meaning()),
        }
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Status {}

#[cfg(test)]
mod tests {
    use super::Status;

    #[test]
    fn known_codes_are_in_order_and_named() {
        assert!(Status::KNOWN.windows(2).all(|pair| pair[0] < pair[1]));
        assert_eq!(Status(907).name(), Some("CUDA_ERROR_CAPTURED_EVENT"));
        assert_eq!(Status(0).name(), Some("CUDA_SUCCESS"));
    }

    #[test]
    fn a_code_of_a_future_driver_keeps_its_number() {
        let future = Status(4_294_967_295);
        assert_eq!(future.name(), None);
        assert_eq!(future.ok(), Err(future));
        assert!(future.to_string().contains("4294967295"));
    }
}
