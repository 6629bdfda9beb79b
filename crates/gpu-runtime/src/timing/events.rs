// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pairs of CUDA events behind the slots of a ring.
//!
//! All events are made when the pool is, in the recorder's context, and none
//! is made or destroyed until it is closed. A pool that is dropped leaks them:
//! destroying can block, and the context may be gone.

use super::anchors::Anchors;
use super::entry;
use super::error::InstallError;
use super::handles::FOREIGN;
use super::health::Watch;
use super::making::{context_id, pop, push};
use super::pair::{Pair, UNKNOWN};
use super::polls::Bracket;
use super::process::unless_exiting;
use super::twin::Twins;
use super::verdict::{Verdict, verdict};
use metrale_gpu_sys::cuda::{
    Api, CAPTURE_STATUS_NONE, CUcontext, CUevent, CUstream, Driver, EVENT_DEFAULT, Status,
};
use metrale_telemetry::kernel::{Edge, EventOps, Place, SpanPoll};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The legacy default stream: NULL, and its explicit handle.
const LEGACY: [u64; 2] = [0, 1];

/// A pool of CUDA event pairs: the [`EventOps`] of a recorder's rings.
pub(super) struct CudaEvents {
    driver: Arc<Driver>,
    context: u64,
    /// Tells the context from a later one with the same handle.
    context_id: Option<u64>,
    pub(super) pairs: Box<[Pair]>,
    pub(super) anchors: Arc<Anchors>,
    pub(super) watch: Arc<Watch>,
    /// Of whose replays its spans may be.
    twins: Option<Arc<Twins>>,
    refuse_legacy: bool,
    /// Gaps are read between its spans: their streams are to be told apart.
    asks_numbers: AtomicBool,
    pub(super) pass: Bracket,
}

impl CudaEvents {
    /// Makes `slots` pairs in `context`, which is current.
    ///
    /// # Safety
    /// `context` is a live context of `driver`, current on this thread.
    pub(super) unsafe fn new(
        driver: Arc<Driver>,
        (context, context_id): (u64, Option<u64>),
        slots: usize,
        anchors: Arc<Anchors>,
        watch: Arc<Watch>,
        refuse_legacy: bool,
    ) -> Result<Self, InstallError> {
        // SAFETY: promised by the caller.
        let events = unsafe { make_all(&driver, 2 * slots) }?;
        let pairs = events.chunks_exact(2).map(|pair| Pair::new(pair[0], pair[1]));
        Ok(Self {
            context,
            context_id,
            pairs: pairs.collect(),
            anchors,
            watch,
            twins: None,
            refuse_legacy,
            asks_numbers: AtomicBool::new(false),
            pass: Bracket::none(),
            driver,
        })
    }

    /// For spans between which gaps are read.
    pub(super) fn with_gaps(self) -> Self {
        self.asks_numbers.store(true, Relaxed);
        self
    }

    /// For spans of replays.
    pub(super) fn with_twins(self, twins: Option<Arc<Twins>>) -> Self {
        Self { twins, ..self }
    }

    /// Says that the span in `slot`, which is open, is of a replay.
    pub(super) fn tag(&self, slot: usize, replay: u32) {
        if let Some(pair) = self.pairs.get(slot) {
            pair.tag(replay);
        }
    }

    /// The event behind the span in `slot`.
    pub(super) fn end_of(&self, slot: usize) -> Option<usize> {
        self.pairs.get(slot).map(|pair| pair.end() as usize)
    }

    /// The span in `slot` is over: read, or without an answer for ever.
    #[inline]
    pub(super) fn replay_over(&self, pair: &Pair, ns: Option<u64>) {
        if let Some(replay) = pair.take_tag()
            && let Some(twins) = &self.twins
        {
            match ns {
                Some(ns) => twins.landed(replay, ns),
                None => twins.lost(replay),
            }
        }
    }

    /// The span in `slot` has no end.
    pub(super) fn replay_lost(&self, slot: usize) {
        if let Some(pair) = self.pairs.get(slot) {
            self.replay_over(pair, None);
        }
    }

    /// The pool's first `pairs` pairs under a watch of their own, for as long as
    /// nobody uses the pool itself.
    pub(super) fn lend(&self, pairs: usize, watch: Arc<Watch>) -> Self {
        Self {
            driver: Arc::clone(&self.driver),
            context: self.context,
            context_id: self.context_id,
            pairs: self.pairs.iter().take(pairs).map(Pair::lend).collect(),
            anchors: Arc::clone(&self.anchors),
            watch,
            twins: None,
            refuse_legacy: self.refuse_legacy,
            asks_numbers: AtomicBool::new(false),
            pass: Bracket::none(),
        }
    }

    /// How many pairs there are.
    pub(super) fn len(&self) -> usize {
        self.pairs.len()
    }

    /// Destroys the events; whether more may be destroyed.
    ///
    /// # Safety
    /// The context is live and current on this thread, and nobody uses the
    /// pool any more.
    pub(super) unsafe fn destroy(&self) -> bool {
        let events = self.pairs.iter().flat_map(Pair::events);
        // SAFETY: made in `new`, and destroyed here only, as the caller promised.
        unsafe { destroy_all(&self.driver, events) }
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
        if entry::is_default(stream) && (!self.owns_default_streams() || self.watch.is_over()) {
            return false;
        }
        let mut capture = CAPTURE_STATUS_NONE;
        // SAFETY: the caller of the ring passes a live stream; the pointer is
        // to a live integer. The call is legal during any capture.
        let status = unsafe { (self.api().stream_is_capturing)(handle(stream), &raw mut capture) };
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

    /// What tells a stream that does not capture from a later one with its handle: a
    /// default stream is never destroyed, and others have numbers of the driver's.
    /// Where these are refused once, nobody asks again: it may have cost a capture.
    #[inline]
    fn identify(&self, stream: u64) -> u64 {
        if entry::is_default(stream) {
            return entry::identity_of_default(stream);
        }
        if !self.asks_numbers.load(Relaxed) || self.watch.is_silent() {
            return UNKNOWN;
        }
        let mut id = UNKNOWN;
        if let Some(get_id) = self.api().stream_get_id {
            let status = self.in_relaxed_mode(|| {
                // SAFETY: the caller of the ring passes a live stream; the pointer is
                // to a live integer.
                unsafe { get_id(handle(stream), &raw mut id) }
            });
            if self.note(status) == Verdict::Done {
                return id;
            }
        }
        self.asks_numbers.store(false, Relaxed);
        UNKNOWN
    }

    /// Records an event; whether it is recorded.
    ///
    /// # Safety
    /// An event of the recorder, and a live stream that does not capture.
    #[inline]
    pub(super) unsafe fn record_on(&self, event: CUevent, stream: u64) -> bool {
        // SAFETY: promised by the caller.
        let status = unsafe { (self.api().event_record)(event, handle(stream)) };
        if status == Status::ERROR_INVALID_HANDLE {
            self.look_at_context();
        }
        self.note(status) == Verdict::Done
    }

    /// The driver does not know a handle: the stream's, or those of our events,
    /// if the context went under them. Then no other is tried.
    #[cold]
    fn look_at_context(&self) {
        if self.context_id.is_none() || self.watch.is_over() {
            return;
        }
        let is_gone = match context_id(&self.driver, self.context) {
            Ok(id) => id != self.context_id,
            Err(Status::ERROR_INVALID_CONTEXT) => true,
            Err(status) => self.note(status) == Verdict::Quarantine,
        };
        if is_gone {
            self.watch.quarantine(Status::ERROR_CONTEXT_IS_DESTROYED);
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
}

impl EventOps for CudaEvents {
    /// The start's stream was asked about by `admits`; the end's is here: a
    /// capture may have begun since.
    fn record(&self, slot: usize, edge: Edge, stream: u64) -> bool {
        let Some(pair) = self.pairs.get(slot) else {
            return false;
        };
        let event = match edge {
            Edge::Start => {
                // Of a span that was given up while its launch hung.
                self.replay_over(pair, None);
                pair.begin(self.watch.pace.passed_ns(), stream, self.identify(stream));
                if self.watch.is_silent() {
                    return false;
                }
                pair.start()
            }
            Edge::End => {
                let is_well =
                    pair.end_on(stream) && self.is_recordable(stream) && !self.watch.is_over();
                if !is_well {
                    return false;
                }
                pair.end()
            }
        };
        // SAFETY: an event of this pool, and the caller's live stream, which
        // does not capture.
        unsafe { self.record_on(event, stream) }
    }

    fn poll(&self, slot: usize) -> SpanPoll {
        if !self.open_pass() {
            return SpanPoll::Pending;
        }
        let answer = self.read_timed(slot, true);
        self.close_pass();
        answer
    }

    fn admits(&self, stream: u64) -> bool {
        self.is_recordable(stream)
    }

    fn pass_begin(&self) -> bool {
        self.open_pass()
    }

    fn pass_end(&self) {
        self.close_pass();
    }

    fn poll_first(&self, slot: usize) -> SpanPoll {
        self.read_timed(slot, true)
    }

    fn poll_next(&self, slot: usize) -> SpanPoll {
        self.read_timed(slot, false)
    }

    fn gap(&self, prev: usize, slot: usize) -> Option<i64> {
        self.read_gap(prev, slot)
    }

    fn place(&self, track: u32, slot: usize) -> Place {
        self.read_place(track, slot)
    }
}

fn handle(stream: u64) -> CUstream {
    entry::handle_of(stream) as CUstream
}

/// Makes events in the current context.
///
/// # Safety
/// A live context of `driver` is current on this thread.
pub(super) unsafe fn make_all(driver: &Driver, count: usize) -> Result<Vec<usize>, InstallError> {
    let mut events: Vec<usize> = Vec::with_capacity(count);
    while events.len() < count {
        let mut event: CUevent = std::ptr::null_mut();
        let status = unless_exiting(|| {
            // SAFETY: the pointer is to a live handle; a context is current.
            unsafe { (driver.api().event_create)(&raw mut event, EVENT_DEFAULT) }
        });
        if let Err(status) = status.ok() {
            // SAFETY: made above, never recorded, and nobody has them.
            let _ = unsafe { destroy_all(driver, events.iter().copied()) };
            return Err(InstallError::Events { asked: count, made: events.len(), status });
        }
        events.push(event as usize);
    }
    Ok(events)
}

/// Destroys events, up to the first status after which no call may follow: the
/// rest are leaked then. Whether there was none.
///
/// # Safety
/// They are live events of a context that is current, and nobody uses them.
pub(super) unsafe fn destroy_all(driver: &Driver, mut events: impl Iterator<Item = usize>) -> bool {
    events.all(|event| {
        let status = unless_exiting(|| {
            // SAFETY: promised by the caller.
            unsafe { (driver.api().event_destroy)(event as CUevent) }
        });
        verdict(status) != Verdict::Quarantine
    })
}

impl fmt::Debug for CudaEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CudaEvents")
            .field("pairs", &self.pairs.len())
            .field("driver", &self.driver)
            .finish_non_exhaustive()
    }
}
