// SPDX-License-Identifier: MIT OR Apache-2.0
//! A device as an application holds it: its primary context, streams, events
//! and kernels.
//!
//! Invariant: a handle here was made by the driver and is never destroyed, so
//! it may be given to the driver at any time: the process ends with its
//! section.

use super::Failure;
use super::cuda::{Event, Functions, Stream, called};
use super::ptx::KERNELS;
use metrale_gpu_runtime::timing::{ContextRef, KernelRef, StreamRef};
use metrale_gpu_sys::cuda::{CUevent, Driver, EVENT_DEFAULT, Status};
use std::ffi::{CString, c_void};
use std::sync::Arc;

/// A kernel that takes one number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kernel(u64);

/// `CU_STREAM_NON_BLOCKING`.
const NON_BLOCKING: u32 = 1;

/// See the module.
pub(crate) struct Gpu {
    pub(crate) driver: Arc<Driver>,
    pub(crate) cuda: Functions,
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
        let cuda = Functions::load(&driver)?;
        let context = cuda.context(ordinal)?;
        cuda.set_current(context)?;
        let [empty, spin, stamp, ticks] = load(&cuda)?;
        let memory = cuda.alloc(8 * TICKS)?;
        let gpu = Self { driver, cuda, context, empty, spin, stamp, ticks, memory };
        // A driver may load a kernel only when it is first run.
        let stream = gpu.stream()?;
        for kernel in [gpu.empty, gpu.spin] {
            gpu.launch(kernel, stream, 0)?;
        }
        gpu.stamped(stream, 0)?;
        gpu.tick(stream)?;
        Ok(gpu)
    }

    pub(crate) fn stream(&self) -> Result<Stream, Failure> {
        self.cuda.stream(NON_BLOCKING)
    }

    pub(crate) fn event(&self) -> Result<Event, Failure> {
        self.cuda.event(EVENT_DEFAULT)
    }

    pub(crate) fn events(&self, count: usize) -> Result<Vec<Event>, Failure> {
        (0..count).map(|_| self.event()).collect()
    }

    /// Whether the event is over.
    pub(crate) fn query(&self, event: Event) -> Result<bool, Failure> {
        match self.cuda.query(event) {
            Ok(()) => Ok(true),
            Err(Failure::Call { status, .. }) if status == Status::ERROR_NOT_READY => Ok(false),
            Err(failure) => Err(failure),
        }
    }

    /// Nanoseconds between two events that are over, by the first form of the
    /// read.
    pub(crate) fn elapsed(&self, from: Event, to: Event) -> Result<f64, Failure> {
        self.cuda.elapsed_ms(from, to).map(ns)
    }

    /// The same by the second form, where the driver has it.
    pub(crate) fn elapsed_v2(&self, from: Event, to: Event) -> Result<f64, Failure> {
        let name = c"cuEventElapsedTime_v2";
        let read = self.driver.api().event_elapsed_time_v2.ok_or(Failure::Missing(name))?;
        let mut ms = f32::NAN;
        // SAFETY: live events, and a pointer to a live float.
        let status = unsafe { read(&raw mut ms, from.0 as CUevent, to.0 as CUevent) };
        called(name, status).map(|()| ns(ms))
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
        let mut arguments = values.each_mut().map(|value| (&raw mut *value).cast::<c_void>());
        let (arguments, none) = (arguments.as_mut_ptr(), std::ptr::null_mut());
        let launch = self.cuda.launch;
        // SAFETY: a loaded kernel that takes so many numbers, and a live stream.
        let status = unsafe { launch(kernel.0, 1, 1, 1, 1, 1, 1, 0, stream, arguments, none) };
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
        let status = unsafe { (self.cuda.to_host)(into, self.memory, bytes) };
        called(c"cuMemcpyDtoH_v2", status)
    }

    /// Times of `%globaltimer` that follow each other and differ, ns.
    pub(crate) fn tick(&self, stream: Stream) -> Result<Vec<f64>, Failure> {
        self.launch_with(self.ticks, stream, [self.memory, TICKS as u64])?;
        self.cuda.sync(stream)?;
        let mut times = vec![0u64; TICKS];
        self.read(&mut times)?;
        let first = times.first().copied().unwrap_or(0);
        Ok(times.iter().map(|time| time.wrapping_sub(first) as f64).collect())
    }

    /// Ends a capture; whether it succeeded and gave a graph, which is destroyed.
    pub(crate) fn end_capture(&self, stream: Stream) -> bool {
        let mut graph = 0;
        let ended = self.cuda.end_capture(stream, &mut graph);
        ended.is_ok() && graph != 0 && self.cuda.destroy_graph(graph).is_ok()
    }

    /// Free memory of the device, bytes.
    pub(crate) fn free(&self) -> Result<usize, Failure> {
        let (mut free, mut total) = (0, 0);
        self.cuda.memory(&mut free, &mut total)?;
        Ok(free)
    }

    /// Orders `second` behind what is on `first` now.
    pub(crate) fn order(&self, first: Stream, event: Event, second: Stream) -> Result<(), Failure> {
        self.cuda.record(event, first)?;
        self.cuda.wait(second, event, 0)
    }
}

/// The kernels, in the order of [`KERNELS`].
fn load(cuda: &Functions) -> Result<[Kernel; 4], Failure> {
    let mut module = 0;
    let text = CString::new(KERNELS).unwrap_or_default();
    // SAFETY: a C string.
    let status = unsafe { (cuda.load)(&mut module, text.as_ptr()) };
    called(c"cuModuleLoadData", status)?;
    let mut kernels = [Kernel(0); 4];
    for (kernel, name) in kernels.iter_mut().zip([c"empty", c"spin", c"stamp", c"ticks"]) {
        // SAFETY: a C string.
        let found = unsafe { (cuda.function)(&mut kernel.0, module, name.as_ptr()) };
        called(c"cuModuleGetFunction", found)?;
    }
    Ok(kernels)
}

/// Whole nanoseconds of a reading.
fn ns(ms: f32) -> f64 {
    (f64::from(ms) * 1e6).round()
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
