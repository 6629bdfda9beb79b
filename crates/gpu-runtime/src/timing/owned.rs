// SPDX-License-Identifier: MIT OR Apache-2.0
//! Steps and lanes that cross `.await` and threads: as the guards, but they own
//! what they use, and have no NVTX range, which is a thread's.
//!
//! They keep the recorder, so that it cannot be closed under them.

use super::handles::{KernelRef, OwnedStream, StreamRef};
use super::open::{Launches, OpenLane, OpenStep};
use super::recorder::Recorder;
use metrale_telemetry::Step;
use metrale_telemetry::kernel::StepShape;
use std::sync::Arc;

impl Recorder {
    /// As [`step`](Self::step), for a step that crosses `.await` or threads: it
    /// borrows nothing. It costs two read-modify-writes more, on the recorder's
    /// count of owners; each of its lanes as much.
    pub fn step_owned(self: &Arc<Self>) -> OwnedStep {
        OwnedStep { open: OpenStep::begin(self.shared()), recorder: Arc::clone(self) }
    }
}

/// A serving step that may change threads, for async servers. It is over when it
/// goes: its lanes go first.
///
/// ```
/// # use metrale_gpu_runtime::timing::{FuncRef, Recorder, StreamRef};
/// # use metrale_telemetry::kernel::LANE_DECODE;
/// # use std::sync::Arc;
/// # let (recorder, attention) = (Arc::new(Recorder::disabled()), FuncRef::from_raw(0x5000));
/// # // SAFETY: nothing is measured, so no stream is used.
/// # let stream = unsafe { StreamRef::from_raw(0) };
/// # fn launch_attention() -> Result<(), std::fmt::Error> { Ok(()) }
/// # fn spawn(task: impl Future + Send + 'static) {}
/// spawn(async move {
///     let step = recorder.step_owned();
///     let lane = step.lane(LANE_DECODE, stream); // an `Arc<CudaStream>`
///     lane.launch(attention, || launch_attention())?;
///     std::future::ready(()).await; // for what the GPU does
///     lane.launch(attention, || launch_attention())
/// });
/// ```
#[must_use = "the step is over when it goes"]
pub struct OwnedStep {
    recorder: Arc<Recorder>,
    open: OpenStep,
}

impl OwnedStep {
    /// Whether all of the step's launches are timed, and laid out in time.
    #[must_use]
    pub fn is_armed(&self) -> bool {
        self.open.step.is_armed()
    }

    /// How many steps came before; `None` at level `Off`.
    #[must_use]
    pub fn number(&self) -> Option<u64> {
        self.open.step.number()
    }

    /// The step, for the functions that take one.
    #[must_use]
    pub fn step(&self) -> Step {
        self.open.step
    }

    /// As [`StepGuard::shape`](super::StepGuard::shape).
    pub fn shape(&self, shape: StepShape) {
        self.open.shape(self.recorder.shared(), shape);
    }

    /// As [`StepGuard::lane`](super::StepGuard::lane), on a stream that the lane
    /// keeps.
    pub fn lane(&self, lane: usize, stream: impl Into<OwnedStream>) -> OwnedLane {
        let stream = stream.into();
        let shared = self.recorder.shared();
        OwnedLane {
            open: OpenLane::begin(shared, self.open.step, lane, stream.as_ref()),
            recorder: Arc::clone(&self.recorder),
            _stream: stream,
        }
    }
}

impl Drop for OwnedStep {
    fn drop(&mut self) {
        self.open.end(self.recorder.shared());
    }
}

/// A lane that may change threads. Its span ends when it goes, also where its
/// task is dropped. The work in it is put on its stream in the order of its
/// launches, whichever thread makes them.
///
/// ```
/// fn assert_send_and_sync<T: Send + Sync + 'static>() {}
/// assert_send_and_sync::<metrale_gpu_runtime::timing::OwnedLane>();
/// ```
#[must_use = "the lane ends when it goes"]
pub struct OwnedLane {
    recorder: Arc<Recorder>,
    open: OpenLane<'static>,
    /// Lives as long as the lane, which ends on it.
    _stream: OwnedStream,
}

impl OwnedLane {
    /// Whether all of the lane's launches are timed, and laid out in time.
    #[must_use]
    pub fn is_armed(&self) -> bool {
        self.open.step.is_armed()
    }

    /// As [`LaneGuard::launch`](super::LaneGuard::launch). The launch is counted
    /// at once, by one read-modify-write.
    ///
    /// # Errors
    /// Those of `launch`.
    pub fn launch<'f, T, E>(
        &self,
        kernel: impl Into<KernelRef<'f>>,
        launch: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        self.launch_on(kernel, self.open.stream, launch)
    }

    /// As [`launch`](Self::launch), on another stream.
    ///
    /// # Errors
    /// Those of `launch`.
    pub fn launch_on<'f, 's, T, E>(
        &self,
        kernel: impl Into<KernelRef<'f>>,
        stream: impl Into<StreamRef<'s>>,
        launch: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        self.run(kernel.into(), stream.into(), launch)
    }

    /// The lane's stream.
    pub(super) fn stream(&self) -> StreamRef<'static> {
        self.open.stream
    }

    pub(super) fn run<T, E>(
        &self,
        kernel: KernelRef<'_>,
        stream: StreamRef<'_>,
        launch: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        let (shared, launches) = (self.recorder.shared(), Launches::default());
        let guard = self.open.launch(shared, kernel, stream, &launches);
        let launched = guard.run(launch);
        if let Some(shared) = shared.filter(|shared| !shared.is_off()) {
            launches.count(shared);
        }
        launched
    }
}

impl Drop for OwnedLane {
    fn drop(&mut self) {
        if let Some(shared) = self.recorder.shared() {
            self.open.end(shared);
        }
    }
}
