// SPDX-License-Identifier: MIT OR Apache-2.0
//! Guards for steps, lanes and launches: what they began, they end when they
//! go, on whatever path.
//!
//! Guards stay on their thread, which is what their NVTX ranges need. What
//! crosses threads is an [`OwnedStep`](super::OwnedStep) with its lanes, or a token.

use super::handles::{KernelRef, StreamRef};
use super::open::{Launches, OpenLane, OpenStep};
use super::ranges::OpenRange;
use super::shared::{KERNEL, Shared};
use metrale_telemetry::Step;
use metrale_telemetry::kernel::{SpanToken, StepShape};
use std::cell::Cell;
use std::marker::PhantomData;

/// Makes a guard `!Send`.
type NotSend = PhantomData<*const UseStepOwnedAcrossAwait>;

/// The compiler's error names it where a guard is held across `.await`.
struct UseStepOwnedAcrossAwait;

/// A serving step: a span is of it that begins before the guard goes. From level
/// `Basic` on its wall time is measured, by two reads of the telemetry's clock, and
/// counted when the guard goes, unless the level is `Off` then.
///
/// ```
/// # use metrale_gpu_runtime::timing::{Recorder, StreamRef};
/// # use metrale_telemetry::kernel::{LANE_DECODE, LANE_PREFILL};
/// # let recorder = Recorder::disabled();
/// # // SAFETY: nothing is measured, so no stream is used.
/// # let stream = unsafe { StreamRef::from_raw(0) };
/// let step = recorder.step();
/// drop(step.lane(LANE_PREFILL, stream));
/// drop(step.lane(LANE_DECODE, stream));
/// drop(step); // the step is over
/// ```
///
/// It stays on its thread. A step that crosses `.await` is a
/// [`Recorder::step_owned`](super::Recorder::step_owned).
///
/// ```compile_fail
/// fn assert_send<T: Send>() {}
/// assert_send::<metrale_gpu_runtime::timing::StepGuard<'static>>();
/// ```
#[must_use = "the step is over when its guard goes"]
pub struct StepGuard<'r> {
    not_send: NotSend,
    shared: Option<&'r Shared>,
    open: OpenStep,
    _range: Option<OpenRange>,
}

impl<'r> StepGuard<'r> {
    pub(super) fn new(shared: Option<&'r Shared>) -> Self {
        let open = OpenStep::begin(shared);
        Self { shared, _range: OpenRange::step(open.step), open, not_send: PhantomData }
    }

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

    /// States what the step is made of; the last statement counts. See
    /// [`Telemetry::shape`](metrale_telemetry::Telemetry::shape).
    ///
    /// ```
    /// # use metrale_gpu_runtime::timing::Recorder;
    /// # use metrale_telemetry::kernel::StepShape;
    /// # let recorder = Recorder::disabled();
    /// let step = recorder.step();
    /// step.shape(StepShape::new().prompt_tokens(512).decode_tokens(31).requests(32));
    /// ```
    pub fn shape(&self, shape: StepShape) {
        self.open.shape(self.shared, shape);
    }

    /// Begins a lane, by its index in
    /// [`LANES`](metrale_telemetry::kernel::LANES) or among those that
    /// [`Telemetry::name_lanes`](metrale_telemetry::Telemetry::name_lanes) added,
    /// on `stream`. Its span runs until the guard goes. A lane that is not there is
    /// refused, and so is each launch in it that would be timed: both are counted
    /// in [`Ledger::refused`](metrale_telemetry::kernel::Ledger).
    pub fn lane<'a>(&'a self, lane: usize, stream: impl Into<StreamRef<'a>>) -> LaneGuard<'a> {
        let step = self.open.step;
        LaneGuard {
            shared: self.shared,
            // Pushed before the span begins.
            _range: OpenRange::lane(self.shared, step, lane),
            open: OpenLane::begin(self.shared, step, lane, stream.into()),
            launches: Launches::default(),
            not_send: PhantomData,
        }
    }
}

impl Drop for StepGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.open.end(self.shared);
    }
}

/// A lane of a step, on a stream. From level `Basic` on its wall time is
/// measured and its launches are counted; both are noted when the guard goes,
/// unless the level is `Off` then.
///
/// ```
/// # use metrale_gpu_runtime::timing::{FuncRef, Recorder, StreamRef};
/// # use metrale_telemetry::kernel::LANE_DECODE;
/// # let (recorder, attention) = (Recorder::disabled(), FuncRef::from_raw(0x5000));
/// # // SAFETY: nothing is measured, so no stream is used.
/// # let stream = unsafe { StreamRef::from_raw(0) };
/// # fn launch_attention() -> Result<u32, std::fmt::Error> { Ok(7) }
/// let step = recorder.step();
/// let lane = step.lane(LANE_DECODE, stream);
/// assert_eq!(lane.launch(attention, || launch_attention())?, 7);
/// # Ok::<(), std::fmt::Error>(())
/// ```
///
/// ```compile_fail
/// fn assert_send<T: Send>() {}
/// assert_send::<metrale_gpu_runtime::timing::LaneGuard<'static>>();
/// ```
#[must_use = "the lane ends when its guard goes"]
pub struct LaneGuard<'a> {
    not_send: NotSend,
    shared: Option<&'a Shared>,
    open: OpenLane<'a>,
    launches: Launches,
    /// Popped after the span is ended: fields go after the guard's own drop.
    _range: Option<OpenRange>,
}

impl<'a> LaneGuard<'a> {
    /// Whether all of the lane's launches are timed, and laid out in time.
    #[must_use]
    pub fn is_armed(&self) -> bool {
        self.open.step.is_armed()
    }

    /// Launches a kernel or a graph on the lane's stream, by `launch`, and gives
    /// back what that returned. A launch that failed, or panicked, is not
    /// counted and leaves no sample.
    ///
    /// On a step that is not armed the launch is only counted, without an
    /// atomic write; under [`Sampling::Spread`](metrale_telemetry::Sampling) it
    /// takes a number, and one in N is timed. A graph is a row of its own, as
    /// kernels inside it have none.
    ///
    /// At the first armed launch of a loaded function its name is asked of the
    /// driver and copied; from then on an armed launch costs one look-up
    /// without a lock.
    ///
    /// # Errors
    /// Those of `launch`.
    #[inline]
    pub fn launch<'f, T, E>(
        &self,
        kernel: impl Into<KernelRef<'f>>,
        launch: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        self.launch_guard(kernel).run(launch)
    }

    /// As [`launch`](Self::launch), on another stream.
    ///
    /// # Errors
    /// Those of `launch`.
    #[inline]
    pub fn launch_on<'f, 's, T, E>(
        &self,
        kernel: impl Into<KernelRef<'f>>,
        stream: impl Into<StreamRef<'s>>,
        launch: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        self.begin(kernel.into(), stream.into()).run(launch)
    }

    /// As [`launch`](Self::launch), from now until the guard goes. A launch that
    /// fails is to be [cancelled](LaunchGuard::cancel).
    #[inline]
    pub fn launch_guard<'f>(&self, kernel: impl Into<KernelRef<'f>>) -> LaunchGuard<'_> {
        self.begin(kernel.into(), self.open.stream)
    }

    /// As [`launch_guard`](Self::launch_guard), on another stream.
    #[inline]
    pub fn launch_guard_on<'b, 'f>(
        &'b self,
        kernel: impl Into<KernelRef<'f>>,
        stream: impl Into<StreamRef<'b>>,
    ) -> LaunchGuard<'b> {
        self.begin(kernel.into(), stream.into())
    }

    /// The lane's stream.
    #[inline]
    pub(super) fn stream(&self) -> StreamRef<'a> {
        self.open.stream
    }

    #[inline]
    pub(super) fn step(&self) -> Step {
        self.open.step
    }

    #[inline]
    pub(super) fn begin<'b>(
        &'b self,
        kernel: KernelRef<'_>,
        stream: StreamRef<'b>,
    ) -> LaunchGuard<'b> {
        self.open.launch(self.shared, kernel, stream, &self.launches)
    }
}

impl Drop for LaneGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(shared) = self.shared
            && self.open.end(shared)
        {
            self.launches.count(shared);
        }
    }
}

/// A launch of a kernel or a graph, or a region.
///
/// ```
/// # use metrale_gpu_runtime::timing::{FuncRef, Recorder, StreamRef};
/// # use metrale_telemetry::kernel::LANE_DECODE;
/// # let (recorder, attention) = (Recorder::disabled(), FuncRef::from_raw(0x5000));
/// # // SAFETY: nothing is measured, so no stream is used.
/// # let stream = unsafe { StreamRef::from_raw(0) };
/// # fn launch_attention() -> bool { true }
/// let step = recorder.step();
/// let lane = step.lane(LANE_DECODE, stream);
/// let launch = lane.launch_guard(attention);
/// if launch_attention() {
///     drop(launch); // ends the span
/// } else {
///     launch.cancel();
/// }
/// ```
///
/// ```compile_fail
/// fn assert_send<T: Send>() {}
/// assert_send::<metrale_gpu_runtime::timing::LaunchGuard<'static>>();
/// ```
#[must_use = "the span ends when its guard goes"]
pub struct LaunchGuard<'a> {
    not_send: NotSend,
    /// The lane's count that it is part of.
    count: &'a Cell<u64>,
    stream: StreamRef<'a>,
    span: Option<(&'a Shared, SpanToken)>,
    /// When it goes, nothing was launched.
    failed: bool,
}

impl<'a> LaunchGuard<'a> {
    #[inline]
    pub(super) fn new(
        count: &'a Cell<u64>,
        stream: StreamRef<'a>,
        span: Option<(&'a Shared, SpanToken)>,
    ) -> Self {
        Self { not_send: PhantomData, count, stream, span, failed: false }
    }

    /// Whether this is timed.
    #[must_use]
    pub fn is_timed(&self) -> bool {
        self.span.is_some()
    }

    /// The span, and whose it is.
    #[inline]
    pub(super) fn span(&self) -> Option<(&'a Shared, SpanToken)> {
        self.span
    }

    /// Gives the span up: what was to be launched was not, and is not counted.
    pub fn cancel(mut self) {
        self.failed = true;
    }

    #[inline]
    pub(super) fn run<T, E>(mut self, launch: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        // Also where it panics.
        self.failed = true;
        let launched = launch();
        self.failed = launched.is_err();
        launched
    }
}

impl Drop for LaunchGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.failed {
            self.count.set(self.count.get() - 1);
        }
        match self.span {
            None => {}
            Some((shared, token)) if self.failed => shared.cancel(KERNEL, token),
            Some((shared, token)) => shared.end(KERNEL, token, self.stream),
        }
    }
}
