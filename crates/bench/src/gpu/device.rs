// SPDX-License-Identifier: MIT OR Apache-2.0
//! A device as an application holds it: its primary context, streams, events
//! and kernels.
//!
//! Invariant: a handle here was made by the driver and is never destroyed, so
//! it may be given to the driver at any time: the process ends with its
//! section.

use super::Failure;
use super::cuda::{Functions, called};
use super::ptx::KERNELS;
use metrale_gpu_runtime::timing::{ContextRef, KernelRef, StreamRef};
use metrale_gpu_sys::cuda::{CUevent, CUstream, Driver, EVENT_DEFAULT, Status};
use std::ffi::{CStr, CString, c_int, c_void};
use std::sync::Arc;

/// A stream that does not wait for the legacy one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stream(pub(super) u64);
/// An event that takes the time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event(pub(super) u64);
/// A kernel that takes one number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kernel(u64);
/// A graph, ready to be launched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Graph(u64);

/// `CU_STREAM_NON_BLOCKING`.
const NON_BLOCKING: u32 = 1;

/// See the module.
pub(crate) struct Gpu {
    pub(crate) driver: Arc<Driver>,
    pub(super) more: Functions,
    pub(crate) context: u64,
    /// Does nothing.
    pub(crate) empty: Kernel,
    /// Runs as many nanoseconds as its argument says.
    pub(crate) spin: Kernel,
    stamp: Kernel,
    ticks: Kernel,
    /// Where `stamp` and `ticks` write.
    memory: u64,
}

/// Numbers that `ticks` writes.
const TICKS: usize = 256;

impl Gpu {
    /// Device `ordinal` of `driver`, current on this thread, with every kernel
    /// loaded and run once.
    pub(crate) fn open(driver: Arc<Driver>, ordinal: u32) -> Result<Self, Failure> {
        let more = Functions::load(&driver)?;
        let ordinal = c_int::try_from(ordinal).unwrap_or(c_int::MAX);
        // SAFETY: takes flags.
        called(c"cuInit", unsafe { (more.init)(0) })?;
        let mut context = 0;
        // SAFETY: a pointer to a live handle.
        let retained = unsafe { (more.retain)(&raw mut context, ordinal) };
        called(c"cuDevicePrimaryCtxRetain", retained)?;
        let nothing = Kernel(0);
        let mut gpu = Self {
            driver,
            more,
            context,
            empty: nothing,
            spin: nothing,
            stamp: nothing,
            ticks: nothing,
            memory: 0,
        };
        gpu.enter()?;
        gpu.load()?;
        let bytes = 8 * TICKS;
        // SAFETY: a pointer to a live handle.
        let made = unsafe { (gpu.more.alloc)(&raw mut gpu.memory, bytes) };
        called(c"cuMemAlloc_v2", made)?;
        // A driver may load a kernel only when it is first run.
        let stream = gpu.stream()?;
        for kernel in [gpu.empty, gpu.spin] {
            gpu.launch(kernel, stream, 0)?;
        }
        gpu.stamped(stream, 0)?;
        gpu.sync(stream)?;
        gpu.tick(stream)?;
        Ok(gpu)
    }

    /// Makes the context current on this thread.
    pub(crate) fn enter(&self) -> Result<(), Failure> {
        // SAFETY: a live context.
        called(c"cuCtxSetCurrent", unsafe {
            (self.more.set_current)(self.context)
        })
    }

    fn load(&mut self) -> Result<(), Failure> {
        let mut module = 0;
        let text = CString::new(KERNELS).unwrap_or_default();
        // SAFETY: a pointer to a live handle, and a C string.
        let status = unsafe { (self.more.load)(&raw mut module, text.as_ptr()) };
        called(c"cuModuleLoadData", status)?;
        let find = |name: &CStr| {
            let mut kernel = 0;
            // SAFETY: a loaded module, a pointer to a live handle, a C string.
            let found = unsafe { (self.more.function)(&raw mut kernel, module, name.as_ptr()) };
            called(c"cuModuleGetFunction", found).map(|()| Kernel(kernel))
        };
        let [empty, spin, stamp, ticks] = [c"empty", c"spin", c"stamp", c"ticks"].map(find);
        (self.empty, self.spin) = (empty?, spin?);
        (self.stamp, self.ticks) = (stamp?, ticks?);
        Ok(())
    }

    pub(crate) fn is_simulated(&self) -> bool {
        self.driver.is_simulated()
    }

    pub(crate) fn stream(&self) -> Result<Stream, Failure> {
        let mut stream = 0;
        // SAFETY: a pointer to a live handle.
        let made = unsafe { (self.more.new_stream)(&raw mut stream, NON_BLOCKING) };
        called(c"cuStreamCreate", made).map(|()| Stream(stream))
    }

    pub(crate) fn event(&self) -> Result<Event, Failure> {
        let mut event: CUevent = std::ptr::null_mut();
        // SAFETY: a pointer to a live handle.
        let made = unsafe { (self.driver.api().event_create)(&raw mut event, EVENT_DEFAULT) };
        called(c"cuEventCreate", made).map(|()| Event(event as u64))
    }

    pub(crate) fn events(&self, count: usize) -> Result<Vec<Event>, Failure> {
        (0..count).map(|_| self.event()).collect()
    }

    pub(crate) fn record(&self, event: Event, stream: Stream) -> Result<(), Failure> {
        let (event, stream) = (event.0 as CUevent, stream.0 as CUstream);
        // SAFETY: a live event and a live stream.
        let status = unsafe { (self.driver.api().event_record)(event, stream) };
        called(c"cuEventRecord", status)
    }

    pub(crate) fn query(&self, event: Event) -> Status {
        // SAFETY: a live event.
        unsafe { (self.driver.api().event_query)(event.0 as CUevent) }
    }

    /// Nanoseconds between two events that are over, by the first form of the
    /// read.
    pub(crate) fn elapsed(&self, from: Event, to: Event) -> Result<f64, Failure> {
        let (status, ns) = self.read_v1(from, to);
        called(c"cuEventElapsedTime", status).map(|()| ns)
    }

    /// The first form of the read.
    pub(crate) fn read_v1(&self, from: Event, to: Event) -> (Status, f64) {
        let (from, to) = (from.0 as CUevent, to.0 as CUevent);
        let mut ms = f32::NAN;
        // SAFETY: live events, and a pointer to a live float.
        let status = unsafe { (self.driver.api().event_elapsed_time)(&raw mut ms, from, to) };
        (status, (f64::from(ms) * 1e6).round())
    }

    /// The second form of the read, where the driver has it.
    pub(crate) fn read_v2(&self, from: Event, to: Event) -> Option<(Status, f64)> {
        let read = self.driver.api().event_elapsed_time_v2?;
        let (from, to) = (from.0 as CUevent, to.0 as CUevent);
        let mut ms = f32::NAN;
        // SAFETY: live events, and a pointer to a live float.
        let status = unsafe { read(&raw mut ms, from, to) };
        Some((status, (f64::from(ms) * 1e6).round()))
    }

    /// `cuStreamIsCapturing`: its status and what it tells.
    pub(crate) fn capturing(&self, stream: u64) -> (Status, u32) {
        let mut told = u32::MAX;
        let call = self.driver.api().stream_is_capturing;
        // SAFETY: a live stream or a special handle; a pointer to a live integer.
        let status = unsafe { call(stream as CUstream, &raw mut told) };
        (status, told)
    }

    /// Puts this thread into a capture mode and gives the one before.
    pub(crate) fn exchange_mode(&self, mut mode: u32) -> Result<u32, Failure> {
        let call = self.driver.api().thread_exchange_stream_capture_mode;
        // SAFETY: a pointer to a live integer.
        let status = unsafe { call(&raw mut mode) };
        called(c"cuThreadExchangeStreamCaptureMode", status).map(|()| mode)
    }

    pub(crate) fn sync(&self, stream: Stream) -> Result<(), Failure> {
        // SAFETY: a live stream.
        called(c"cuStreamSynchronize", unsafe {
            (self.more.sync_stream)(stream.0)
        })
    }

    /// Launches one thread of a kernel of one argument.
    #[inline]
    pub(crate) fn launch(
        &self,
        kernel: Kernel,
        stream: Stream,
        argument: u64,
    ) -> Result<(), Failure> {
        self.launch_with(kernel, stream, [argument])
    }

    #[inline]
    fn launch_with<const N: usize>(
        &self,
        kernel: Kernel,
        stream: Stream,
        mut values: [u64; N],
    ) -> Result<(), Failure> {
        let mut arguments = values
            .each_mut()
            .map(|value| (&raw mut *value).cast::<c_void>());
        let (arguments, none) = (arguments.as_mut_ptr(), std::ptr::null_mut());
        let launch = self.more.launch;
        // SAFETY: a loaded kernel that takes so many numbers, and a live stream.
        let status = unsafe { launch(kernel.0, 1, 1, 1, 1, 1, 1, 0, stream.0, arguments, none) };
        called(c"cuLaunchKernel", status)
    }

    /// Launches a kernel that runs for `ns` and times itself.
    pub(crate) fn stamped(&self, stream: Stream, ns: u64) -> Result<(), Failure> {
        self.launch_with(self.stamp, stream, [self.memory, ns])
    }

    /// How long the last such kernel says that it ran, ns. It is over.
    pub(crate) fn stamp(&self) -> Result<f64, Failure> {
        let mut stamps = [0u64; 2];
        self.read(&mut stamps)?;
        Ok((stamps[1] as f64) - (stamps[0] as f64))
    }

    fn read(&self, into: &mut [u64]) -> Result<(), Failure> {
        let bytes = std::mem::size_of_val(into).min(8 * TICKS);
        let into = into.as_mut_ptr().cast::<c_void>();
        // SAFETY: both are good for so many bytes.
        let status = unsafe { (self.more.to_host)(into, self.memory, bytes) };
        called(c"cuMemcpyDtoH_v2", status)
    }

    /// Times of `%globaltimer` that follow each other and differ, ns.
    pub(crate) fn tick(&self, stream: Stream) -> Result<Vec<f64>, Failure> {
        self.launch_with(self.ticks, stream, [self.memory, TICKS as u64])?;
        self.sync(stream)?;
        let mut times = vec![0u64; TICKS];
        self.read(&mut times)?;
        let first = times.first().copied().unwrap_or(0);
        Ok(times
            .iter()
            .map(|time| time.wrapping_sub(first) as f64)
            .collect())
    }

    pub(crate) fn begin_capture(&self, stream: Stream, mode: u32) -> Result<(), Failure> {
        // SAFETY: a live stream.
        let status = unsafe { (self.more.begin_capture)(stream.0, mode) };
        called(c"cuStreamBeginCapture_v2", status)
    }

    /// Ends a capture; the status and whether there is a graph, which is
    /// destroyed.
    pub(crate) fn end_capture(&self, stream: Stream) -> (Status, bool) {
        let mut graph = 0;
        // SAFETY: a live stream, and a pointer to a live handle.
        let status = unsafe { (self.more.end_capture)(stream.0, &raw mut graph) };
        if graph != 0 {
            // SAFETY: a graph that nobody else has.
            let _ = unsafe { (self.more.destroy_graph)(graph) };
        }
        (status, graph != 0)
    }

    /// A graph of `nodes` kernels that run for `ns` each, one after another.
    pub(crate) fn graph(&self, stream: Stream, nodes: usize, ns: u64) -> Result<Graph, Failure> {
        self.begin_capture(stream, metrale_gpu_sys::cuda::CAPTURE_MODE_RELAXED)?;
        for _ in 0..nodes {
            self.launch(self.spin, stream, ns)?;
        }
        let mut graph = 0;
        // SAFETY: a live stream, and a pointer to a live handle.
        let ended = unsafe { (self.more.end_capture)(stream.0, &raw mut graph) };
        called(c"cuStreamEndCapture", ended)?;
        let mut ready = 0;
        // SAFETY: a live graph, and a pointer to a live handle.
        let made = unsafe { (self.more.instantiate)(&raw mut ready, graph, 0) };
        called(c"cuGraphInstantiateWithFlags", made).map(|()| Graph(ready))
    }

    #[inline]
    pub(crate) fn launch_graph(&self, graph: Graph, stream: Stream) -> Result<(), Failure> {
        // SAFETY: a live graph and a live stream.
        let status = unsafe { (self.more.launch_graph)(graph.0, stream.0) };
        called(c"cuGraphLaunch", status)
    }
}

impl Stream {
    /// The recorder's view of it.
    pub(crate) fn of(self, gpu: &Gpu) -> StreamRef<'static> {
        // SAFETY: streams here live as long as the process, in this context.
        unsafe { StreamRef::from_raw_of(self.0, ContextRef::from_raw(gpu.context)) }
    }
}

impl Kernel {
    /// The recorder's view of it.
    pub(crate) fn named(self) -> KernelRef<'static> {
        // SAFETY: its module stays loaded as long as the process.
        unsafe { KernelRef::from_raw(self.0) }
    }
}
