// SPDX-License-Identifier: MIT OR Apache-2.0
//! The anchors of steps: one event for each step that is followed, recorded
//! before the step's first span, from which all of its spans are placed.

use super::elapsed::place_ns;
use super::error::InstallError;
use super::events::{CudaEvents, destroy_all, make_all};
use super::verdict::Verdict;
use metrale_gpu_sys::cuda::{CUevent, Driver};
use metrale_telemetry::Step;
use metrale_telemetry::kernel::{Place, StepId};
use metrale_telemetry::runtime::{Anchor, Entered, FOLLOWED_STEPS, StepTable};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// See the module.
pub(super) struct Anchors {
    /// The steps that are followed.
    pub(super) table: StepTable,
    driver: Arc<Driver>,
    events: Box<[usize]>,
    /// By anchor: the track whose anchor was asked about to the end, plus 1, and
    /// in bit 0 whether it can never be read; else it is done.
    known: [AtomicU64; FOLLOWED_STEPS],
    /// By anchor: the pass that last found it not done.
    not_done_in: [AtomicU64; FOLLOWED_STEPS],
    passes: AtomicU64,
}

impl Anchors {
    /// Makes the events in the current context.
    ///
    /// # Safety
    /// A live context of `driver` is current on this thread.
    pub(super) unsafe fn new(driver: Arc<Driver>) -> Result<Self, InstallError> {
        // SAFETY: promised by the caller.
        let events = unsafe { make_all(&driver, FOLLOWED_STEPS) }?;
        Ok(Self {
            table: StepTable::new(),
            driver,
            events: events.into_boxed_slice(),
            known: [const { AtomicU64::new(0) }; FOLLOWED_STEPS],
            not_done_in: [const { AtomicU64::new(0) }; FOLLOWED_STEPS],
            passes: AtomicU64::new(1),
        })
    }

    /// Destroys the events; whether more may be destroyed.
    ///
    /// # Safety
    /// As for [`CudaEvents::destroy`].
    pub(super) unsafe fn destroy(&self) -> bool {
        // SAFETY: promised by the caller.
        unsafe { destroy_all(&self.driver, self.events.iter().copied()) }
    }

    /// Counts a span that is about to begin in `step`, on a stream that admits
    /// it, and records the anchor before the step's first one. How the span is
    /// to name its step.
    #[inline]
    pub(super) fn enter(&self, step: Step, ops: &CudaEvents, stream: u64) -> StepId {
        let (Some(track), Some(number)) = (step.track(), step.number()) else {
            return step.id();
        };
        match self.table.enter(track, number, step.is_armed()) {
            Entered::Counted => {}
            Entered::Alone => return step.id(),
            Entered::First(taking) => {
                if step.is_armed() && self.record(taking.anchor(), ops, stream) {
                    taking.placed();
                }
            }
        }
        StepId::Track(track)
    }

    fn event(&self, anchor: usize) -> Option<CUevent> {
        self.events.get(anchor).map(|event| *event as CUevent)
    }

    fn record(&self, anchor: usize, ops: &CudaEvents, stream: u64) -> bool {
        let Some(event) = self.event(anchor).filter(|_| !ops.watch.is_silent()) else {
            return false;
        };
        // SAFETY: an event of ours, and the caller's live stream, which admits
        // a span: it does not capture.
        unsafe { ops.record_on(event, stream) }
    }

    /// A pass begins.
    pub(super) fn pass_begin(&self) {
        self.passes.fetch_add(1, Relaxed);
    }

    /// From the anchor of the step on `track` to `start`, an event of `ops`
    /// that is done.
    pub(super) fn place(&self, track: u32, start: CUevent, ops: &CudaEvents) -> Place {
        let anchor = match self.table.anchor(track) {
            Anchor::Coming => return Place::Pending,
            Anchor::None => return Place::Unknown,
            Anchor::At(anchor) => anchor,
        };
        let Some(event) = self.event(anchor) else {
            return Place::Unknown;
        };
        match self.ask(anchor, track, event, ops) {
            Verdict::Done => {}
            Verdict::Wait | Verdict::BackOff => return Place::Pending,
            Verdict::Drop | Verdict::Quarantine => return Place::Unknown,
        }
        // The question may have taken long.
        if ops.watch.is_over() {
            return Place::Pending;
        }
        let (status, milliseconds) = ops.elapsed(event, start);
        match ops.judge(status) {
            Verdict::Done => place_ns(milliseconds).map_or(Place::Unknown, Place::At),
            Verdict::Wait | Verdict::BackOff => Place::Pending,
            Verdict::Drop | Verdict::Quarantine => {
                self.known[anchor].store(lost(track), Relaxed);
                Place::Unknown
            }
        }
    }

    /// Whether an anchor is done: asked once in a pass until it is, or can never
    /// be read.
    #[inline]
    fn ask(&self, anchor: usize, track: u32, event: CUevent, ops: &CudaEvents) -> Verdict {
        let known = self.known[anchor].load(Relaxed);
        if known == done(track) {
            return Verdict::Done;
        }
        if known == lost(track) {
            return Verdict::Drop;
        }
        let pass = self.passes.load(Relaxed);
        if self.not_done_in[anchor].load(Relaxed) == pass {
            return Verdict::Wait;
        }
        let verdict = ops.judge(ops.query(event));
        match verdict {
            Verdict::Done => self.known[anchor].store(done(track), Relaxed),
            Verdict::Drop => self.known[anchor].store(lost(track), Relaxed),
            Verdict::Wait => self.not_done_in[anchor].store(pass, Relaxed),
            Verdict::BackOff | Verdict::Quarantine => {}
        }
        verdict
    }
}

fn done(track: u32) -> u64 {
    (u64::from(track) + 1) << 1
}

fn lost(track: u32) -> u64 {
    done(track) | 1
}
