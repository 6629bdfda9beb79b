// SPDX-License-Identifier: MIT OR Apache-2.0
//! Launching a graph or its twin.
//!
//! The driver orders launches of one executable, and does not order a twin with its
//! plain one. So a twin is launched only on the stream of the last launch, and a
//! launch on another stream than the twin's waits for the twin, unless it is over.
//! Which stream was last is known of launches in a span: a stream with one does not
//! capture. One without, on another stream, makes it unknown, and one that failed.

use super::error::TwinError;
use super::ledger::Plain;
use super::life::{Twin, TwinState};
use super::seats::{Seat, State, Tag, Twins};
use crate::timing::entry::number_of;
use crate::timing::guards::LaneGuard;
use crate::timing::handles::StreamRef;
use crate::timing::recorder::Recorder;
use crate::timing::shared::{KERNEL, Shared};
use metrale_gpu_sys::cuda::{CAPTURE_STATUS_NONE, CUevent, CUstream, Status};
use metrale_telemetry::kernel::SpanToken;
use metrale_telemetry::{Sampling, Step};
use std::cell::Cell;
use std::ffi::c_void;

/// No stream, as rings know streams: which was last is not known.
const NONE: u64 = u64::MAX;
/// Neither executable was launched yet.
const UNLAUNCHED: u64 = u64::MAX - 1;
/// Keeps turns apart from the hash that arms steps.
const SALT: u64 = 0x7477_696e;

/// What was launched where.
pub(super) struct Last {
    /// The stream of the last launch of either executable.
    stream: Cell<u64>,
    /// The stream, the span's slot and the seat of the twin's last launch, until it is known
    /// to be over.
    twin: Cell<Option<(u64, usize, usize)>>,
}

impl Last {
    /// `is_first`: nothing was launched before the twin was made.
    pub(super) const fn none(is_first: bool) -> Self {
        let stream = if is_first { UNLAUNCHED } else { NONE };
        Self { stream: Cell::new(stream), twin: Cell::new(None) }
    }
}

impl LaneGuard<'_> {
    /// Launches the graph of a twin on the lane's stream, by `cuGraphLaunch`: the
    /// twin in place of the plain executable where nothing speaks against it. See
    /// [`launch`](Self::launch) for what is counted and timed.
    ///
    /// # Errors
    /// What `cuGraphLaunch` of the plain executable returned.
    #[inline]
    pub fn replay(&self, twin: &Twin<'_>) -> Result<(), Status> {
        twin.prepare(self.stream());
        let launch = self.launch_guard(twin.row);
        let span = launch.span();
        launch.run(|| twin.launch(self.step(), span, self.stream()))
    }
}

impl Recorder {
    /// As [`LaneGuard::replay`], in a lane of `step` that has no guard. The launch is
    /// counted at once, as by [`begin_launch`](Self::begin_launch). In a step that is
    /// not measured, and where nothing is recorded, the plain executable is launched.
    ///
    /// # Errors
    /// What `cuGraphLaunch` of the plain executable returned.
    pub fn replay<'a>(
        &self,
        step: Step,
        lane: usize,
        twin: &Twin<'_>,
        stream: impl Into<StreamRef<'a>>,
    ) -> Result<(), Status> {
        let stream = stream.into();
        twin.prepare(stream);
        let measured = self.shared().filter(|_| step.number().is_some());
        let span = measured.and_then(|shared| {
            let token = self.begin_launch(step, lane, twin.row, stream)?;
            Some((shared, token))
        });
        let launched = twin.launch(step, span, stream);
        match span {
            None => {}
            Some((shared, token)) if launched.is_ok() => shared.end(KERNEL, token, stream),
            Some((shared, token)) => shared.cancel(KERNEL, token),
        }
        launched
    }
}

impl Twin<'_> {
    /// Before the launch and its span, which is of the graph alone.
    #[inline]
    fn prepare(&self, stream: StreamRef<'_>) {
        if self.last.twin.get().is_some() {
            self.wait_for_twin(stream);
        }
    }

    #[inline]
    fn launch(
        &self,
        step: Step,
        span: Option<(&Shared, SpanToken)>,
        stream: StreamRef<'_>,
    ) -> Result<(), Status> {
        if !step.is_armed() && self.last.stream.get() == number_of(stream.handle()) {
            self.launch_plain(stream)
        } else {
            self.launch_noted(step, span, stream)
        }
    }

    #[inline]
    fn launch_plain(&self, stream: StreamRef<'_>) -> Result<(), Status> {
        let source = self.source.get();
        let (exec, stream) = (source.exec as *mut c_void, stream.handle() as *mut c_void);
        // SAFETY: whoever made the twin keeps the executable alive, and nobody uses
        // it on another thread; the stream lives for the call.
        unsafe { (source.launch)(exec, stream) }.ok()
    }

    #[inline(never)]
    fn launch_noted(
        &self,
        step: Step,
        span: Option<(&Shared, SpanToken)>,
        stream: StreamRef<'_>,
    ) -> Result<(), Status> {
        let Some((own, twins)) = self.recorder() else {
            return self.launch_plain(stream);
        };
        let number = number_of(stream.handle());
        let last = self.last.stream.get();
        let is_same = last == number;
        let launched = if step.is_armed() {
            self.launch_armed((own, twins), (step, span), (stream, is_same || last == UNLAUNCHED))
        } else {
            self.launch_plain(stream)
        };
        let is_known = launched.is_ok() && (is_same || span.is_some());
        self.last.stream.set(if is_known { number } else { NONE });
        launched
    }

    fn launch_armed(
        &self,
        (own, twins): (&Shared, &Twins),
        (step, span): (Step, Option<(&Shared, SpanToken)>),
        (stream, is_same): (StreamRef<'_>, bool),
    ) -> Result<(), Status> {
        let is_own = |(of, _): &(&Shared, SpanToken)| std::ptr::eq(*of, own);
        let span = span.filter(is_own).map(|(_, token)| token);
        let seat = self.seat.get().and_then(|at| Some((at, twins.seat(at)?)));
        match self.twin_for(own, twins, (step, span), (seat, is_same)) {
            Ok((exec, at, seat, token)) => {
                let (twin, on) = (exec as *mut c_void, stream.handle() as *mut c_void);
                // SAFETY: the twin's own executable, and as for the plain one.
                let status = unsafe { (self.source.get().launch)(twin, on) };
                if status.is_success() {
                    own.kernels.ops().tag(token.slot(), Tag::word(at, true));
                    seat.fly(step.number().unwrap_or(0));
                    own.telemetry.mark_step(step);
                    self.last.twin.set(Some((number_of(stream.handle()), token.slot(), at)));
                    self.plan_left.set(self.plan_left.get().saturating_sub(1));
                    twins.counts.launched.add(1);
                    return Ok(());
                }
                self.state.set(TwinState::Retired(TwinError::Launch { status }));
                twins.counts.plain(Plain::Failed);
                self.launch_plain(stream)
            }
            Err(why) => {
                twins.counts.plain(why);
                let launched = self.launch_plain(stream);
                // A sample of what the graph takes without marks.
                if let (Ok(()), Some(token), Some((at, _))) = (launched, span, seat) {
                    own.kernels.ops().tag(token.slot(), Tag::word(at, false));
                }
                launched
            }
        }
    }

    /// The executable to launch, or what speaks against it.
    fn twin_for<'a>(
        &self,
        own: &Shared,
        twins: &Twins,
        (step, span): (Step, Option<SpanToken>),
        (seat, is_same): (Option<(usize, &'a Seat)>, bool),
    ) -> Result<(u64, usize, &'a Seat, SpanToken), Plain> {
        match self.state.get() {
            TwinState::Ready => {}
            TwinState::Stale => return Err(Plain::Stale),
            TwinState::Refused(_) | TwinState::Retired(_) => return Err(Plain::NoTwin),
        }
        let (Some((at, seat)), Some(exec)) = (seat, self.exec.get()) else {
            return Err(Plain::NoTwin);
        };
        let Some(token) = span.filter(|_| !own.watch.is_silent()) else {
            return Err(Plain::Span);
        };
        match seat.state() {
            State::Ready => {}
            State::Lost => {
                self.state.set(TwinState::Retired(TwinError::Lost));
                return Err(Plain::NoTwin);
            }
            _ => return Err(Plain::Unread),
        }
        if self.plan_left.get() == 0 {
            return Err(Plain::Spent);
        }
        if !is_same {
            return Err(Plain::Stream);
        }
        if !twins.config.always && !is_turn(own, step) {
            return Err(Plain::Turn);
        }
        Ok((exec, at, seat, token))
    }

    /// Before a launch on another stream than that of a twin which may still run:
    /// that stream waits for it. One that captures does not: nothing runs there yet,
    /// and the wait would break the capture.
    #[cold]
    fn wait_for_twin(&self, stream: StreamRef<'_>) {
        let (Some((flew_on, slot, seat)), Some((own, twins))) =
            (self.last.twin.get(), self.recorder())
        else {
            return;
        };
        let seat = twins.seat(seat).map(|seat| (seat.state(), seat));
        if !matches!(seat, Some((State::Flying | State::Lost, _))) {
            self.last.twin.set(None);
            return;
        }
        if flew_on == number_of(stream.handle()) {
            return;
        }
        // Also after a quarantine: the order of its work is the application's.
        let (Some(_busy), Ok(api)) = (own.watch.busy(), own.driver.graphs()) else {
            return;
        };
        let ops = own.kernels.ops();
        // Both are recorded behind all of the twin; where the span's end could not
        // be, its last marks are.
        let events = match seat {
            Some((State::Lost, seat)) => seat.last_events(),
            _ => ops.end_of(slot).into_iter().collect(),
        };
        let (on, mut capture) = (stream.handle() as CUstream, CAPTURE_STATUS_NONE);
        // SAFETY: the caller's live stream, and a pointer to a live integer.
        let asked = unsafe { (ops.api().stream_is_capturing)(on, &raw mut capture) };
        if !asked.is_success() || capture != CAPTURE_STATUS_NONE {
            return;
        }
        twins.counts.waits.add(1);
        for event in events {
            // SAFETY: the same stream, which does not capture, and an event of ours:
            // it was recorded, on the twin's stream.
            let status = unsafe { (api.stream_wait_event)(on, event as CUevent, 0) };
            ops.note(status);
        }
    }
}

/// Whether an armed step is the twin's: one in two, by a hash that all ranks of a job
/// with one seed share.
fn is_turn(own: &Shared, step: Step) -> bool {
    let config = own.telemetry.config();
    let block = step.number().unwrap_or_default() / config.every.max(1);
    Sampling::Hashed.arms(block, 2, config.seed ^ SALT)
}
