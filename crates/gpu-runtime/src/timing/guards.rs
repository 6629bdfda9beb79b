// SPDX-License-Identifier: MIT OR Apache-2.0
//! Guards for steps, lanes and launches: what they began, they end when they
//! go, on whatever path.
//!
//! Guards stay on their thread. A span that changes threads is a token, by the
//! rings or by the functions of an installed recorder.

use super::handles::{GraphRef, KernelRef, StreamRef};
use super::ranges::OpenRange;
use super::recorder::{KERNEL, Shared, tag};
use metrale_telemetry::Step;
use metrale_telemetry::kernel::{SpanKey, SpanTag, SpanToken};
use std::marker::PhantomData;

/// Makes a guard `!Send`.
type NotSend = PhantomData<*const ()>;

/// A serving step.
///
/// ```compile_fail
/// fn assert_send<T: Send>() {}
/// assert_send::<metrale_gpu_runtime::timing::StepGuard<'static>>();
/// ```
#[must_use = "the step is over when its guard goes"]
pub struct StepGuard<'r> {
    shared: &'r Shared,
    step: Step,
    _range: Option<OpenRange>,
    not_send: NotSend,
}

impl<'r> StepGuard<'r> {
    pub(super) fn new(shared: &'r Shared, step: Step) -> Self {
        Self {
            shared,
            step,
            _range: OpenRange::step(step),
            not_send: PhantomData,
        }
    }

    /// Whether the step's kernels are timed.
    #[must_use]
    pub fn armed(&self) -> bool {
        self.step.armed
    }

    /// How many steps came before; `None` at level `Off`.
    #[must_use]
    pub fn number(&self) -> Option<u64> {
        self.step.number
    }

    /// Begins a lane, by its index in
    /// [`LANES`](metrale_telemetry::kernel::LANES), on `stream`. Its span runs
    /// until the guard goes.
    pub fn lane<'a>(&'a self, lane: usize, stream: impl Into<StreamRef<'a>>) -> LaneGuard<'a> {
        let stream = stream.into();
        let tag = tag(self.step, lane);
        let range = OpenRange::lane(self.step, lane);
        let token = self.shared.begin(SpanKey::Lane(lane), tag, stream);
        LaneGuard {
            shared: self.shared,
            tag,
            lane,
            stream,
            token,
            _range: range,
            not_send: PhantomData,
        }
    }
}

/// A lane of a step, on a stream.
///
/// ```compile_fail
/// fn assert_send<T: Send>() {}
/// assert_send::<metrale_gpu_runtime::timing::LaneGuard<'static>>();
/// ```
#[must_use = "the lane ends when its guard goes"]
pub struct LaneGuard<'a> {
    shared: &'a Shared,
    tag: SpanTag,
    lane: usize,
    stream: StreamRef<'a>,
    token: Option<SpanToken>,
    /// Popped after the span is ended: fields go after the guard's own drop.
    _range: Option<OpenRange>,
    not_send: NotSend,
}

impl<'a> LaneGuard<'a> {
    /// Whether the lane's kernels are timed.
    #[must_use]
    pub fn armed(&self) -> bool {
        self.tag.armed
    }

    /// Begins a launch of `kernel` on the lane's stream. On a step that is not
    /// armed nothing happens.
    ///
    /// At the first armed launch of a loaded function its name is asked of the
    /// driver and copied; from then on an armed launch costs one look-up
    /// without a lock.
    pub fn launch<'f>(&self, kernel: impl Into<KernelRef<'f>>) -> LaunchGuard<'_> {
        self.begin(kernel.into(), self.stream)
    }

    /// Begins a launch of a whole graph on the lane's stream: a row of its own,
    /// as kernels inside a graph have none. On a step that is not armed nothing
    /// happens.
    pub fn graph(&self, graph: GraphRef) -> LaunchGuard<'_> {
        self.begin(graph.into(), self.stream)
    }

    /// As [`launch`](Self::launch), on another stream.
    pub fn launch_on<'b, 'f>(
        &'b self,
        kernel: impl Into<KernelRef<'f>>,
        stream: impl Into<StreamRef<'b>>,
    ) -> LaunchGuard<'b> {
        self.begin(kernel.into(), stream.into())
    }

    fn begin<'b>(&'b self, kernel: KernelRef<'_>, stream: StreamRef<'b>) -> LaunchGuard<'b> {
        let token = if self.tag.armed {
            self.shared.begin_launch(kernel, self.tag, stream)
        } else {
            None
        };
        LaunchGuard {
            shared: self.shared,
            stream,
            token,
            not_send: PhantomData,
        }
    }
}

impl Drop for LaneGuard<'_> {
    fn drop(&mut self) {
        if let Some(token) = self.token {
            self.shared
                .end(SpanKey::Lane(self.lane), token, self.stream);
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
    stream: StreamRef<'a>,
    token: Option<SpanToken>,
    not_send: NotSend,
}

impl LaunchGuard<'_> {
    /// Whether this launch is timed.
    #[must_use]
    pub fn is_timed(&self) -> bool {
        self.token.is_some()
    }

    /// Gives the span up: the launch failed.
    pub fn cancel(mut self) {
        if let Some(token) = self.token.take() {
            self.shared.cancel(KERNEL, token);
        }
    }
}

impl Drop for LaunchGuard<'_> {
    fn drop(&mut self) {
        if let Some(token) = self.token {
            self.shared.end(KERNEL, token, self.stream);
        }
    }
}
