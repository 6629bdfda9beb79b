// SPDX-License-Identifier: MIT OR Apache-2.0
//! Guards for steps, lanes and launches: what they began, they end when they
//! go, on whatever path.
//!
//! Guards stay on their thread. A span that changes threads is a token, by the
//! rings or by the functions of an installed recorder.

use super::handles::{KernelRef, StreamRef};
use super::ranges::OpenRange;
use super::shared::{KERNEL, Shared};
use metrale_telemetry::Step;
use metrale_telemetry::kernel::{SpanKey, SpanToken};
use std::cell::Cell;
use std::marker::PhantomData;

/// Makes a guard `!Send`.
type NotSend = PhantomData<*const ()>;

/// A serving step: a span is of it that begins before the guard goes. From level `Basic` on its wall time is measured, by two
/// reads of the telemetry's clock, and counted when the guard goes, unless the
/// level is `Off` then.
///
/// ```compile_fail
/// fn assert_send<T: Send>() {}
/// assert_send::<metrale_gpu_runtime::timing::StepGuard<'static>>();
/// ```
#[must_use = "the step is over when its guard goes"]
pub struct StepGuard<'r> {
    shared: &'r Shared,
    step: Step,
    /// Host time of its begin, where it is measured.
    began_ns: Option<u64>,
    _range: Option<OpenRange>,
    not_send: NotSend,
}

impl<'r> StepGuard<'r> {
    pub(super) fn new(shared: &'r Shared, step: Step) -> Self {
        Self {
            shared,
            step,
            began_ns: step.number().map(|_| shared.telemetry.now_ns()),
            _range: OpenRange::step(step),
            not_send: PhantomData,
        }
    }

    /// Whether all of the step's launches are timed, and laid out in time.
    #[must_use]
    pub fn is_armed(&self) -> bool {
        self.step.is_armed()
    }

    /// How many steps came before; `None` at level `Off`.
    #[must_use]
    pub fn number(&self) -> Option<u64> {
        self.step.number()
    }

    /// The step, for the functions that take one.
    #[must_use]
    pub fn step(&self) -> Step {
        self.step
    }

    /// Begins a lane, by its index in
    /// [`LANES`](metrale_telemetry::kernel::LANES), on `stream`. Its span runs
    /// until the guard goes. A lane that is not there is refused, and so is each
    /// launch in it that would be timed: both are counted in
    /// [`Ledger::refused`](metrale_telemetry::kernel::Ledger).
    pub fn lane<'a>(&'a self, lane: usize, stream: impl Into<StreamRef<'a>>) -> LaneGuard<'a> {
        let stream = stream.into();
        let range = OpenRange::lane(self.step, lane);
        let token = self.shared.begin_lane(self.step, lane, stream);
        LaneGuard {
            shared: self.shared,
            // The span's own begin is no part of the lane.
            began_ns: self.step.number().map(|_| self.shared.telemetry.now_ns()),
            spread: self.step.number().is_some() && self.shared.telemetry.spreads(),
            launches: Cell::new(0),
            graphs: Cell::new(0),
            step: self.step,
            lane,
            stream,
            token,
            _range: range,
            not_send: PhantomData,
        }
    }
}

impl Drop for StepGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.shared.end_step(self.step);
        if let Some(took_ns) = self.shared.since(self.began_ns) {
            self.shared.telemetry.host().step_wall.observe(took_ns);
        }
    }
}

/// A lane of a step, on a stream. From level `Basic` on its wall time is
/// measured and its launches are counted; both are noted when the guard goes,
/// unless the level is `Off` then.
///
/// ```compile_fail
/// fn assert_send<T: Send>() {}
/// assert_send::<metrale_gpu_runtime::timing::LaneGuard<'static>>();
/// ```
#[must_use = "the lane ends when its guard goes"]
pub struct LaneGuard<'a> {
    shared: &'a Shared,
    /// Host time of its begin, where it is measured.
    began_ns: Option<u64>,
    /// Launches are sampled one by one.
    spread: bool,
    /// Launches so far: counted here, so that each costs no atomic write.
    launches: Cell<u64>,
    graphs: Cell<u64>,
    step: Step,
    lane: usize,
    stream: StreamRef<'a>,
    token: Option<SpanToken>,
    /// Popped after the span is ended: fields go after the guard's own drop.
    _range: Option<OpenRange>,
    not_send: NotSend,
}

impl<'a> LaneGuard<'a> {
    /// Whether all of the lane's launches are timed, and laid out in time.
    #[must_use]
    pub fn is_armed(&self) -> bool {
        self.step.is_armed()
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
        self.begin(kernel.into(), self.stream)
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

    #[inline]
    fn begin<'b>(&'b self, kernel: KernelRef<'_>, stream: StreamRef<'b>) -> LaunchGuard<'b> {
        let count = if kernel.is_graph() {
            &self.graphs
        } else {
            &self.launches
        };
        count.set(count.get() + 1);
        let is_timed =
            self.step.is_armed() || (self.spread && self.shared.telemetry.sample_launch());
        let token = if is_timed {
            self.shared
                .begin_launch(kernel, self.step, self.lane, stream)
        } else {
            None
        };
        LaunchGuard {
            shared: self.shared,
            count,
            stream,
            token,
            failed: false,
            not_send: PhantomData,
        }
    }
}

impl Drop for LaneGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        let took_ns = self.shared.since(self.began_ns);
        if let Some(token) = self.token {
            self.shared
                .end(SpanKey::Lane(self.lane), token, self.stream);
        }
        if let Some(took_ns) = took_ns {
            let host = self.shared.telemetry.host();
            host.lane_took(self.lane, took_ns);
            host.launched(self.launches.get(), self.graphs.get());
        }
    }
}

/// A launch of a kernel or a graph.
///
/// ```compile_fail
/// fn assert_send<T: Send>() {}
/// assert_send::<metrale_gpu_runtime::timing::LaunchGuard<'static>>();
/// ```
#[must_use = "the launch ends when its guard goes"]
pub struct LaunchGuard<'a> {
    shared: &'a Shared,
    /// The lane's count that it is part of.
    count: &'a Cell<u64>,
    stream: StreamRef<'a>,
    token: Option<SpanToken>,
    /// When it goes, nothing was launched.
    failed: bool,
    not_send: NotSend,
}

impl LaunchGuard<'_> {
    /// Whether this launch is timed.
    #[must_use]
    pub fn is_timed(&self) -> bool {
        self.token.is_some()
    }

    /// Gives the span up: the launch failed, and is not counted.
    pub fn cancel(mut self) {
        self.failed = true;
    }

    #[inline]
    fn run<T, E>(mut self, launch: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
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
        match self.token {
            None => {}
            Some(token) if self.failed => self.shared.cancel(KERNEL, token),
            Some(token) => self.shared.end(KERNEL, token, self.stream),
        }
    }
}
