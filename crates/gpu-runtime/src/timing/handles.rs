// SPDX-License-Identifier: MIT OR Apache-2.0
//! Streams, functions and graphs, as cudarc's objects or as raw handles.

use super::entry::{PER_THREAD, number_of};
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

    /// As [`from_raw`](Self::from_raw), of the raw `CUcontext` `context`. A
    /// recorder of another context refuses it without asking the driver, which
    /// otherwise has to; the recorder of this one times a default stream (0, 1,
    /// 2) whatever context is current.
    ///
    /// # Safety
    /// As for [`from_raw`](Self::from_raw), and the stream is of that context.
    #[must_use]
    pub const unsafe fn from_raw_of(handle: u64, context: u64) -> Self {
        Self {
            handle,
            context,
            lives: PhantomData,
        }
    }

    /// Whether this is a default stream that is known to be of `context`.
    #[inline]
    pub(super) const fn is_default_of(self, context: u64) -> bool {
        self.handle <= PER_THREAD && self.context == context
    }

    /// What the rings of a recorder of `context` know the stream by; [`FOREIGN`]
    /// if it is known to be of another one.
    #[inline]
    pub(super) fn number_in(self, context: u64) -> u64 {
        if self.context == 0 || self.context == context {
            number_of(self.handle)
        } else {
            FOREIGN
        }
    }
}

/// Stands for a stream of another context. It is never given to the driver.
pub(super) const FOREIGN: u64 = u64::MAX;

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

/// What a launch is of: a function or a graph. It is made from a [`FuncRef`], a
/// [`GraphRef`] or cudarc's `CudaFunction`.
#[derive(Clone, Copy, Debug)]
pub struct KernelRef<'a> {
    handle: u64,
    /// The function is loaded for as long as the value is used.
    is_loaded: bool,
    is_graph: bool,
    lives: PhantomData<&'a ()>,
}

impl KernelRef<'_> {
    /// A function by its raw `CUfunction`, whose name may be asked of the
    /// driver.
    ///
    /// # Safety
    /// The function is loaded for as long as the value is used.
    #[must_use]
    pub const unsafe fn from_raw(handle: u64) -> Self {
        Self {
            handle,
            is_loaded: true,
            is_graph: false,
            lives: PhantomData,
        }
    }

    pub(super) const fn handle(self) -> u64 {
        self.handle
    }

    pub(super) const fn is_loaded(self) -> bool {
        self.is_loaded
    }

    #[inline]
    pub(super) const fn is_graph(self) -> bool {
        self.is_graph
    }
}

impl From<FuncRef> for KernelRef<'_> {
    #[inline]
    fn from(function: FuncRef) -> Self {
        Self {
            handle: function.0,
            is_loaded: false,
            is_graph: false,
            lives: PhantomData,
        }
    }
}

/// A graph of the application, which
/// [`Recorder::graph`](super::Recorder::graph) numbers by name. It says nothing
/// about the driver's graph objects: these come and go, and a graph made anew
/// keeps its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GraphRef(pub(super) u64);

impl GraphRef {
    /// The number of the graph's row, as
    /// [`KernelTime::func`](metrale_telemetry::kernel::KernelTime) gives it
    /// back; 0 where there was no room for the name. No handle is like it.
    #[must_use]
    pub const fn row(self) -> u64 {
        self.0
    }
}

impl From<GraphRef> for KernelRef<'_> {
    fn from(graph: GraphRef) -> Self {
        Self {
            handle: graph.0,
            is_loaded: false,
            is_graph: true,
            lives: PhantomData,
        }
    }
}

#[cfg(feature = "cudarc")]
mod of_cudarc {
    use super::{FuncRef, KernelRef, StreamRef};
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

    impl<'a> From<&'a CudaFunction> for KernelRef<'a> {
        fn from(function: &'a CudaFunction) -> Self {
            // The function keeps its module loaded.
            Self {
                handle: function.cu_function() as u64,
                is_loaded: true,
                is_graph: false,
                lives: PhantomData,
            }
        }
    }

    impl From<&CudaFunction> for FuncRef {
        fn from(function: &CudaFunction) -> Self {
            Self(function.cu_function() as u64)
        }
    }
}
