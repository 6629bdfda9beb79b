// SPDX-License-Identifier: MIT OR Apache-2.0
//! Streams and functions, as cudarc's objects or as raw handles.

use std::marker::PhantomData;

/// A stream that lives for `'a`. The driver dereferences stream handles, so a
/// raw one is unsafe to wrap.
#[derive(Clone, Copy, Debug)]
pub struct StreamRef<'a> {
    handle: u64,
    /// 0: not known.
    context: u64,
    lives: PhantomData<&'a ()>,
}

impl StreamRef<'_> {
    /// A stream by its raw `CUstream`. NULL (0) means the legacy default
    /// stream, also for an application built with per-thread default streams:
    /// such a one passes 2.
    ///
    /// # Safety
    /// The stream exists for as long as the value, and what is made from it,
    /// is used.
    #[must_use]
    pub const unsafe fn from_raw(handle: u64) -> Self {
        Self {
            handle,
            context: 0,
            lives: PhantomData,
        }
    }

    pub(super) const fn handle(self) -> u64 {
        self.handle
    }

    /// Whether the stream may belong to `context`.
    pub(super) const fn may_be_of(self, context: u64) -> bool {
        self.context == 0 || self.context == context
    }
}

/// A kernel function, by its handle. The handle only names the kernel; it is
/// never given to the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FuncRef(u64);

impl FuncRef {
    /// A function by its raw `CUfunction`.
    #[must_use]
    pub const fn from_raw(handle: u64) -> Self {
        Self(handle)
    }

    /// The handle, as [`KernelTime::func`](metrale_telemetry::kernel::KernelTime)
    /// gives it back.
    #[must_use]
    pub const fn handle(self) -> u64 {
        self.0
    }
}

#[cfg(feature = "cudarc")]
mod of_cudarc {
    use super::{FuncRef, StreamRef};
    use cudarc::driver::{CudaFunction, CudaStream};
    use std::marker::PhantomData;
    use std::sync::Arc;

    // Only plain getters of cudarc's objects are called: its other methods
    // take errors that belong to the application.
    impl<'a> From<&'a CudaStream> for StreamRef<'a> {
        fn from(stream: &'a CudaStream) -> Self {
            Self {
                handle: stream.cu_stream() as u64,
                context: stream.context().cu_ctx() as u64,
                lives: PhantomData,
            }
        }
    }

    impl<'a> From<&'a Arc<CudaStream>> for StreamRef<'a> {
        fn from(stream: &'a Arc<CudaStream>) -> Self {
            Self::from(&**stream)
        }
    }

    impl From<&CudaFunction> for FuncRef {
        fn from(function: &CudaFunction) -> Self {
            Self(function.cu_function() as u64)
        }
    }
}
