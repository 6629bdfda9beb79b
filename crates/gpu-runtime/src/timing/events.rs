// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pairs of CUDA events behind the slots of a ring.
//!
//! All events are made when the pool is, in the recorder's context, and none
//! is made or destroyed until it is closed. A pool that is dropped leaks them:
//! destroying can block, and the context may be gone.

use super::elapsed::nanoseconds;
use super::entry::{self, PER_THREAD};
use super::error::InstallError;
use super::handles::FOREIGN;
use super::health::Watch;
use super::making::{pop, push};
use super::verdict::{Verdict, verdict};
use metrale_gpu_sys::cuda::{
    Api, CAPTURE_MODE_RELAXED, CAPTURE_STATUS_NONE, CUcontext, CUevent, CUstream, Driver,
    EVENT_DEFAULT, Status,
};
use metrale_telemetry::kernel::{Edge, EventOps, SpanPoll};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// The legacy default stream: NULL, and its explicit handle.
const LEGACY: [u64; 2] = [0, 1];

/// Event handles as numbers: they are opaque, and used from any thread.
#[derive(Clone, Copy)]
struct Pair {
    start: usize,
    end: usize,
}

impl Pair {
    fn start(self) -> CUevent {
        self.start as CUevent
    }
    fn end(self) -> CUevent {
        self.end as CUevent
    }
}

/// A pool of CUDA event pairs: the [`EventOps`] of a recorder's rings.
pub struct CudaEvents {
    driver: Arc<Driver>,
    context: u64,
    pairs: Box<[Pair]>,
    pub(super) watch: Arc<Watch>,
    refuse_legacy: bool,
    pass: Bracket,
}

/// The bracket of polls that is open. Passes over one pool exclude each other.
struct Bracket {
    /// The mode that the thread had before.
    outer_mode: AtomicU32,
    /// When the last poll ended.
    since_ns: AtomicU64,
    /// No more polls in this pass.
    halted: AtomicBool,
}

impl Bracket {
    fn none() -> Self {
        Self {
            outer_mode: AtomicU32::new(NO_MODE),
            since_ns: AtomicU64::new(0),
            halted: AtomicBool::new(false),
        }
    }
}

impl CudaEvents {
    /// Makes `slots` pairs in `context`, which is current.
    ///
    /// # Safety
    /// `context` is a live context of `driver`, current on this thread.
    pub(super) unsafe fn new(
        driver: Arc<Driver>,
        context: u64,
        slots: usize,
        watch: Arc<Watch>,
        refuse_legacy: bool,
    ) -> Result<Self, InstallError> {
        let mut events: Vec<usize> = Vec::with_capacity(2 * slots);
        while events.len() < 2 * slots {
            let mut event: CUevent = std::ptr::null_mut();
            // SAFETY: the pointer is to a live handle; a context is current.
            let status = unsafe { (driver.api().event_create)(&raw mut event, EVENT_DEFAULT) };
            if let Err(status) = status.ok() {
                for &event in &events {
                    // SAFETY: made above, and never recorded.
                    let _ = unsafe { (driver.api().event_destroy)(event as CUevent) };
                }
                return Err(InstallError::Events {
                    asked: 2 * slots,
                    made: events.len(),
                    status,
                });
            }
            events.push(event as usize);
        }
        let pairs = events.chunks_exact(2).map(|pair| Pair {
            start: pair[0],
            end: pair[1],
        });
        Ok(Self {
            context,
            pairs: pairs.collect(),
            watch,
            refuse_legacy,
            pass: Bracket::none(),
            driver,
        })
    }

    /// The pool's first `pairs` pairs under a watch of their own, for as long as
    /// nobody uses the pool itself.
    pub(super) fn lend(&self, pairs: usize, watch: Arc<Watch>) -> Self {
        Self {
            driver: Arc::clone(&self.driver),
            context: self.context,
            pairs: self.pairs.iter().take(pairs).copied().collect(),
            watch,
            refuse_legacy: self.refuse_legacy,
            pass: Bracket::none(),
        }
    }

    /// How many pairs there are.
    pub(super) fn len(&self) -> usize {
        self.pairs.len()
    }

    /// Destroys the events.
    ///
    /// # Safety
    /// The context is live and current on this thread, and nobody uses the
    /// pool any more.
    pub(super) unsafe fn destroy(&self) {
        for pair in &self.pairs {
            for event in [pair.start(), pair.end()] {
                // SAFETY: made in `new`, and destroyed here only.
                let _ = unsafe { (self.api().event_destroy)(event) };
            }
        }
    }

    pub(super) fn api(&self) -> &Api {
        self.driver.api()
    }

    pub(super) fn context(&self) -> u64 {
        self.context
    }

    /// Whether an event may be recorded on `stream` now. One driver call; on a
    /// default stream one more, and a push where [`entry`] says so.
    fn is_recordable(&self, stream: u64) -> bool {
        let refused = stream == FOREIGN || (self.refuse_legacy && LEGACY.contains(&stream));
        if refused || self.watch.is_silent() {
            return false;
        }
        if stream <= PER_THREAD && !self.owns_default_streams() {
            return false;
        }
        let mut capture = CAPTURE_STATUS_NONE;
        // SAFETY: the caller of the ring passes a live stream; the pointer is
        // to a live integer. The call is legal during any capture.
        let status =
            unsafe { (self.api().stream_is_capturing)(stream as CUstream, &raw mut capture) };
        self.note(status);
        status.is_success() && capture == CAPTURE_STATUS_NONE
    }

    /// Whether a default stream, which is the current context's, is ours now.
    fn owns_default_streams(&self) -> bool {
        let mut current: CUcontext = std::ptr::null_mut();
        // SAFETY: the pointer is to a live handle.
        let status = unsafe { (self.api().ctx_get_current)(&raw mut current) };
        self.note(status) == Verdict::Done
            && (current as u64 == self.context || entry::push_own(self))
    }

    /// Makes the pool's context current on this thread; whether it is.
    pub(super) fn push_context(&self) -> bool {
        if self.watch.is_silent() {
            return false;
        }
        match push(&self.driver, self.context) {
            Ok(()) => true,
            Err(status) => {
                self.note(status);
                false
            }
        }
    }

    /// Undoes [`push_context`](Self::push_context), but not where every call is
    /// over.
    pub(super) fn pop_context(&self) {
        if self.watch.is_over() {
            return;
        }
        if let Err(status) = pop(&self.driver) {
            self.watch.quarantine(status);
        }
    }

    /// What a status means; quarantines where it must.
    pub(super) fn note(&self, status: Status) -> Verdict {
        let verdict = verdict(status);
        if verdict == Verdict::Quarantine {
            self.watch.quarantine(status);
        }
        verdict
    }

    fn query(&self, pair: Pair) -> Status {
        // SAFETY: an event of this pool; pools outlive their use.
        unsafe { (self.api().event_query)(pair.end()) }
    }

    fn elapsed(&self, start: CUevent, end: CUevent) -> (Status, f32) {
        let api = self.api();
        let read = api.event_elapsed_time_v2.unwrap_or(api.event_elapsed_time);
        let mut milliseconds = f32::NAN;
        // SAFETY: events of this pool, and a pointer to a live float.
        let status = unsafe { read(&raw mut milliseconds, start, end) };
        (status, milliseconds)
    }

    /// Polls a span, unless the pass was halted, and looks how long that took.
    fn read_timed(&self, slot: usize, first: bool) -> SpanPoll {
        if self.watch.is_silent() {
            return SpanPoll::Failed;
        }
        if self.pass.halted.load(Ordering::Relaxed) {
            return SpanPoll::Pending;
        }
        let answer = self.read(slot, first);
        let began = self.pass.since_ns.load(Ordering::Relaxed);
        let (now, go_on) = self.watch.pace.polled(began);
        self.pass.since_ns.store(now, Ordering::Relaxed);
        if !go_on {
            self.pass.halted.store(true, Ordering::Relaxed);
        }
        answer
    }

    /// Reads a span's time; `first` asks for its stream's errors before that.
    fn read(&self, slot: usize, first: bool) -> SpanPoll {
        let Some(&pair) = self.pairs.get(slot) else {
            return SpanPoll::Failed;
        };
        if first {
            let asked = self.note(self.query(pair));
            if asked != Verdict::Done {
                return self.unread(asked);
            }
        }
        let (status, milliseconds) = self.elapsed(pair.start(), pair.end());
        match self.note(status) {
            Verdict::Done => match nanoseconds(milliseconds) {
                Some(ns) => SpanPoll::Ready(ns),
                None => {
                    self.watch.invalid_times.add(1);
                    SpanPoll::Failed
                }
            },
            other => self.unread(other),
        }
    }

    fn unread(&self, verdict: Verdict) -> SpanPoll {
        match verdict {
            Verdict::Wait => SpanPoll::Pending,
            Verdict::BackOff => {
                self.watch.pace.refuse();
                self.pass.halted.store(true, Ordering::Relaxed);
                SpanPoll::Pending
            }
            Verdict::Done | Verdict::Drop | Verdict::Quarantine => SpanPoll::Failed,
        }
    }

    /// Puts the thread into `mode` and returns the one it had.
    pub(super) fn exchange_mode(&self, mut mode: u32) -> Result<u32, Status> {
        let api = self.api();
        // SAFETY: the pointer is to a live integer.
        let status = unsafe { (api.thread_exchange_stream_capture_mode)(&raw mut mode) };
        status.ok().map(|()| mode)
    }

    /// Gives the thread back the mode that it had. It is the application's, so
    /// this is done after a quarantine too, but not where every call is over.
    pub(super) fn restore_mode(&self, outer: u32) {
        if self.watch.is_over() {
            return;
        }
        // Nothing that is documented lets the second try fail too.
        let restored = self
            .exchange_mode(outer)
            .or_else(|_| self.exchange_mode(outer));
        if let Err(status) = restored {
            self.watch.quarantine(status);
        }
    }
}

impl EventOps for CudaEvents {
    /// The start's stream was asked about by `admits`; the end's is here: a
    /// capture may have begun since.
    fn record(&self, slot: usize, edge: Edge, stream: u64) -> bool {
        let Some(&pair) = self.pairs.get(slot) else {
            return false;
        };
        let event = match edge {
            Edge::Start if !self.watch.is_silent() => pair.start(),
            Edge::End if self.is_recordable(stream) => pair.end(),
            Edge::Start | Edge::End => return false,
        };
        // SAFETY: an event of this pool, and the caller's live stream, which
        // does not capture.
        let status = unsafe { (self.api().event_record)(event, stream as CUstream) };
        self.note(status) == Verdict::Done
    }

    fn poll(&self, slot: usize) -> SpanPoll {
        if !self.pass_begin() {
            return SpanPoll::Pending;
        }
        let answer = self.read_timed(slot, true);
        self.pass_end();
        answer
    }

    fn admits(&self, stream: u64) -> bool {
        self.is_recordable(stream)
    }

    /// A query by a thread in its ordinary mode would invalidate a capture of
    /// any thread; in the relaxed mode it is legal on all of them.
    fn pass_begin(&self) -> bool {
        if self.watch.is_silent() {
            // Polls make no call then, and give up what they are asked about.
            return true;
        }
        let Some(now) = self.watch.pace.begin_pass() else {
            return false;
        };
        match self.exchange_mode(CAPTURE_MODE_RELAXED) {
            Ok(outer) => {
                let pass = &self.pass;
                pass.outer_mode.store(outer, Ordering::Relaxed);
                pass.since_ns.store(now, Ordering::Relaxed);
                pass.halted.store(false, Ordering::Relaxed);
                true
            }
            Err(status) => {
                if self.note(status) != Verdict::Quarantine {
                    self.watch.pace.refuse();
                }
                false
            }
        }
    }

    /// Also where a poll quarantined the recorder.
    fn pass_end(&self) {
        let outer = self.pass.outer_mode.swap(NO_MODE, Ordering::Relaxed);
        if outer != NO_MODE {
            self.restore_mode(outer);
        }
    }

    fn poll_first(&self, slot: usize) -> SpanPoll {
        self.read_timed(slot, true)
    }

    fn poll_next(&self, slot: usize) -> SpanPoll {
        self.read_timed(slot, false)
    }

    fn gap(&self, prev: usize, slot: usize) -> Option<u64> {
        if self.watch.is_silent() || self.pass.halted.load(Ordering::Relaxed) {
            return None;
        }
        let (prev, next) = (self.pairs.get(prev)?, self.pairs.get(slot)?);
        let (status, milliseconds) = self.elapsed(prev.end(), next.start());
        let asked = self.note(status);
        if asked != Verdict::Done {
            let _ = self.unread(asked);
            return None;
        }
        let gap = nanoseconds(milliseconds);
        if gap.is_none() {
            self.watch.invalid_times.add(1);
        }
        gap
    }
}

/// No bracket is open.
const NO_MODE: u32 = u32::MAX;

impl fmt::Debug for CudaEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CudaEvents")
            .field("pairs", &self.pairs.len())
            .field("driver", &self.driver)
            .finish_non_exhaustive()
    }
}
