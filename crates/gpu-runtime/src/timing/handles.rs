// SPDX-License-Identifier: MIT OR Apache-2.0
//! Streams, functions, graphs and regions, as cudarc's objects or as raw handles.

use super::entry::{PER_THREAD, number_of};
use super::error::InstallError;
use super::making::current_context;
use metrale_gpu_sys::cuda::Driver;
use metrale_telemetry::snapshot::RowKind;
use std::marker::PhantomData;

/// A context, by its handle. It names the context; whoever makes something of it
/// says that it lives.
///
/// ```
/// use metrale_gpu_runtime::timing::ContextRef;
/// let context = ContextRef::from_raw(0x7f00);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextRef(u64);

impl ContextRef {
    /// A context by its raw `CUcontext`.
    #[must_use]
    pub const fn from_raw(handle: u64) -> Self {
        Self(handle)
    }

    /// The context that is current on this thread.
    ///
    /// # Errors
    /// [`InstallError::Context`], where there is none.
    pub fn current(driver: &Driver) -> Result<Self, InstallError> {
        current_context(driver).map(Self).map_err(|status| InstallError::Context { status })
    }

    pub(super) const fn handle(self) -> u64 {
        self.0
    }
}

/// A stream that lives for `'a`. The driver dereferences stream handles, so a
/// raw one is unsafe to wrap.
///
/// ```
/// use metrale_gpu_runtime::timing::{ContextRef, StreamRef};
/// let (stream, context) = (0x7f80, ContextRef::from_raw(0x7f00));
/// // SAFETY: an example; nothing uses the stream.
/// let stream = unsafe { StreamRef::from_raw_of(stream, context) };
/// ```
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
        Self { handle, context: 0, lives: PhantomData }
    }

    /// As [`from_raw`](Self::from_raw), of `context`. A
    /// recorder of another context refuses it without asking the driver, which
    /// otherwise has to; the recorder of this one times a default stream (0, 1,
    /// 2) whatever context is current.
    ///
    /// # Safety
    /// As for [`from_raw`](Self::from_raw), and the stream is of that context.
    #[must_use]
    pub const unsafe fn from_raw_of(handle: u64, context: ContextRef) -> Self {
        Self { handle, context: context.0, lives: PhantomData }
    }

    /// As the driver takes it.
    #[inline]
    pub(super) const fn handle(self) -> u64 {
        self.handle
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
        if self.context == 0 || self.context == context { number_of(self.handle) } else { FOREIGN }
    }
}

/// A stream that lives for as long as the value: an `Arc<CudaStream>`, or a
/// [`StreamRef`] of one that lives for ever.
///
/// ```
/// use metrale_gpu_runtime::timing::{OwnedStream, StreamRef};
/// // SAFETY: an example; nothing uses the stream.
/// let stream = OwnedStream::from(unsafe { StreamRef::from_raw(0x7f80) });
/// ```
#[derive(Clone, Debug)]
pub struct OwnedStream {
    stream: StreamRef<'static>,
    #[cfg(feature = "cudarc")]
    _owner: Option<std::sync::Arc<cudarc::driver::CudaStream>>,
}

impl OwnedStream {
    /// Good while the value lives.
    pub(super) const fn as_ref(&self) -> StreamRef<'static> {
        self.stream
    }
}

impl From<StreamRef<'static>> for OwnedStream {
    fn from(stream: StreamRef<'static>) -> Self {
        Self {
            stream,
            #[cfg(feature = "cudarc")]
            _owner: None,
        }
    }
}

/// Stands for a stream of another context. It is never given to the driver.
pub(super) const FOREIGN: u64 = u64::MAX;

/// A kernel function, by its handle. The handle only names the kernel; it is
/// never given to the driver.
///
/// ```
/// use metrale_gpu_runtime::timing::{FuncRef, Recorder};
/// let recorder = Recorder::disabled();
/// recorder.name(FuncRef::from_raw(0x5000), "attention");
/// ```
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
///
/// ```
/// use metrale_gpu_runtime::timing::{FuncRef, KernelRef, Recorder};
/// let graph = KernelRef::from(Recorder::disabled().graph("decode, 8 requests"));
/// let function = KernelRef::from(FuncRef::from_raw(0x5000));
/// // SAFETY: an example; nothing asks for its name.
/// let loaded = unsafe { KernelRef::from_raw(0x5000) };
/// ```
#[derive(Clone, Copy, Debug)]
pub struct KernelRef<'a> {
    handle: u64,
    /// The function is loaded for as long as the value is used.
    is_loaded: bool,
    kind: RowKind,
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
        Self { handle, is_loaded: true, kind: RowKind::Kernel, lives: PhantomData }
    }

    pub(super) const fn handle(self) -> u64 {
        self.handle
    }

    pub(super) const fn is_loaded(self) -> bool {
        self.is_loaded
    }

    #[inline]
    pub(super) const fn kind(self) -> RowKind {
        self.kind
    }
}

impl From<FuncRef> for KernelRef<'_> {
    #[inline]
    fn from(function: FuncRef) -> Self {
        Self { handle: function.0, is_loaded: false, kind: RowKind::Kernel, lives: PhantomData }
    }
}

/// A graph of the application, which
/// [`Recorder::graph`](super::Recorder::graph) numbers by name. It says nothing
/// about the driver's graph objects: these come and go, and a graph made anew
/// keeps its row.
///
/// ```
/// # let recorder = metrale_gpu_runtime::timing::Recorder::disabled();
/// let decode = recorder.graph("decode, 8 requests");
/// assert_eq!(recorder.graph("decode, 8 requests"), decode);
/// ```
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

    /// The graph of the row that [`row`](Self::row) gave.
    #[must_use]
    pub const fn from_row(row: u64) -> Self {
        Self(row)
    }
}

/// A region of the application, or a copy, which
/// [`Recorder::region`](super::Recorder::region) and
/// [`Recorder::copy`](super::Recorder::copy) number by name.
///
/// ```
/// # let recorder = metrale_gpu_runtime::timing::Recorder::disabled();
/// let all_reduce = recorder.region("all-reduce");
/// assert_eq!(recorder.region("all-reduce"), all_reduce);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionRef(pub(super) u64);

impl RegionRef {
    /// The number of its row, as
    /// [`KernelTime::func`](metrale_telemetry::kernel::KernelTime) gives it back; 0
    /// where there was no room for the name. No handle is like it.
    #[must_use]
    pub const fn row(self) -> u64 {
        self.0
    }

    /// The region of the row that [`row`](Self::row) gave.
    #[must_use]
    pub const fn from_row(row: u64) -> Self {
        Self(row)
    }

    /// What begins a span of it.
    pub(super) const fn span(self) -> KernelRef<'static> {
        KernelRef { handle: self.0, is_loaded: false, kind: RowKind::Region, lives: PhantomData }
    }
}

impl From<GraphRef> for KernelRef<'_> {
    fn from(graph: GraphRef) -> Self {
        Self { handle: graph.0, is_loaded: false, kind: RowKind::Graph, lives: PhantomData }
    }
}

// Only plain getters of cudarc's objects are called: its other methods take errors
// that belong to the application.
#[cfg(feature = "cudarc")]
mod of_streams {
    use super::{OwnedStream, StreamRef};
    use cudarc::driver::CudaStream;
    use std::marker::PhantomData;
    use std::sync::Arc;

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

    impl From<Arc<CudaStream>> for OwnedStream {
        fn from(owner: Arc<CudaStream>) -> Self {
            Self {
                stream: StreamRef { lives: PhantomData, ..StreamRef::from(&owner) },
                _owner: Some(owner),
            }
        }
    }

    impl From<&Arc<CudaStream>> for OwnedStream {
        fn from(owner: &Arc<CudaStream>) -> Self {
            Self::from(Arc::clone(owner))
        }
    }
}

#[cfg(feature = "cudarc-function")]
mod of_functions {
    use super::{FuncRef, KernelRef, RowKind};
    use cudarc::driver::CudaFunction;
    use std::marker::PhantomData;

    impl<'a> From<&'a CudaFunction> for KernelRef<'a> {
        fn from(function: &'a CudaFunction) -> Self {
            // The function keeps its module loaded.
            Self {
                handle: function.cu_function() as u64,
                is_loaded: true,
                kind: RowKind::Kernel,
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
