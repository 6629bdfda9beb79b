// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pairs of CUDA events behind the slots of a ring.
//!
//! All events are made when the pool is, in the recorder's context, and none
//! is made or destroyed until it is closed. A pool that is dropped leaks them:
//! destroying can block, and the context may be gone.

use super::error::InstallError;
use super::health::Watch;
use super::verdict::{Verdict, verdict};
use metrale_gpu_sys::cuda::{
    Api, CAPTURE_MODE_RELAXED, CAPTURE_STATUS_NONE, CUcontext, CUevent, CUstream, Driver,
    EVENT_DEFAULT, Status,
};
use metrale_telemetry::kernel::{Edge, EventOps, SpanPoll};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// The legacy default stream: NULL, and its explicit handle.
const LEGACY: [u64; 2] = [0, 1];
/// The last of the handles that mean a default stream of the current context.
const PER_THREAD: u64 = 2;

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
    watch: Arc<Watch>,
    refuse_legacy: bool,
    /// The mode of the thread that has a bracket of polls open. Passes over
    /// one pool exclude each other.
    outer_mode: AtomicU32,
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
            outer_mode: AtomicU32::new(NO_MODE),
            driver,
        })
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

    fn api(&self) -> &Api {
        self.driver.api()
    }

    /// Whether an event may be recorded on `stream` now. One driver call.
    fn is_recordable(&self, stream: u64) -> bool {
        if self.watch.is_silent() || (self.refuse_legacy && LEGACY.contains(&stream)) {
            return false;
        }
        // A default stream is the current context's, which may not be ours.
        if stream <= PER_THREAD && !self.is_current() {
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

    fn is_current(&self) -> bool {
        let mut current: CUcontext = std::ptr::null_mut();
        // SAFETY: the pointer is to a live handle.
        let status = unsafe { (self.api().ctx_get_current)(&raw mut current) };
        status.is_success() && current as u64 == self.context
    }

    /// What a status means; quarantines where it must.
    fn note(&self, status: Status) -> Verdict {
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

    /// Reads a span's time; `first` asks for its stream's errors before that.
    fn read(&self, slot: usize, first: bool) -> SpanPoll {
        let Some(&pair) = self.pairs.get(slot) else {
            return SpanPoll::Failed;
        };
        if self.watch.is_silent() {
            return SpanPoll::Failed;
        }
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
                self.watch.polls_refused.add(1);
                SpanPoll::Pending
            }
            Verdict::Done | Verdict::Drop | Verdict::Quarantine => SpanPoll::Failed,
        }
    }

    /// Puts the thread into `mode` and returns the one it had.
    fn exchange_mode(&self, mut mode: u32) -> Result<u32, Status> {
        let api = self.api();
        // SAFETY: the pointer is to a live integer.
        let status = unsafe { (api.thread_exchange_stream_capture_mode)(&raw mut mode) };
        status.ok().map(|()| mode)
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
        let answer = self.read(slot, true);
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
        match self.exchange_mode(CAPTURE_MODE_RELAXED) {
            Ok(outer) => {
                self.outer_mode.store(outer, Ordering::Relaxed);
                true
            }
            Err(status) => {
                self.note(status);
                false
            }
        }
    }

    fn pass_end(&self) {
        // Also where a poll quarantined the recorder: the thread's mode is the
        // application's. In a child nothing may be called.
        if !self.watch.is_child() {
            let outer = self.outer_mode.swap(NO_MODE, Ordering::Relaxed);
            if outer != NO_MODE {
                let _ = self.exchange_mode(outer);
            }
        }
    }

    fn poll_first(&self, slot: usize) -> SpanPoll {
        self.read(slot, true)
    }

    fn poll_next(&self, slot: usize) -> SpanPoll {
        self.read(slot, false)
    }

    fn gap(&self, prev: usize, slot: usize) -> Option<u64> {
        if self.watch.is_silent() {
            return None;
        }
        let (prev, next) = (self.pairs.get(prev)?, self.pairs.get(slot)?);
        let (status, milliseconds) = self.elapsed(prev.end(), next.start());
        if self.note(status) != Verdict::Done {
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

/// Whole nanoseconds of the driver's f32 milliseconds, rounded in f64; `None`
/// for what is no duration.
fn nanoseconds(milliseconds: f32) -> Option<u64> {
    let valid = milliseconds.is_finite() && milliseconds >= 0.0;
    valid.then(|| (f64::from(milliseconds) * 1e6).round() as u64)
}

impl fmt::Debug for CudaEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CudaEvents")
            .field("pairs", &self.pairs.len())
            .field("driver", &self.driver)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::nanoseconds;

    #[test]
    fn milliseconds_become_whole_nanoseconds_or_nothing() {
        assert_eq!(nanoseconds(0.0), Some(0));
        assert_eq!(nanoseconds(0.055_709), Some(55_709));
        assert_eq!(nanoseconds(-0.0), Some(0));
        for invalid in [
            -133.07,
            f32::NAN,
            f32::INFINITY,
            f32::NEG_INFINITY,
            -f32::MIN_POSITIVE,
        ] {
            assert_eq!(nanoseconds(invalid), None, "{invalid}");
        }
    }

    #[test]
    fn spans_under_8_ms_keep_every_nanosecond() {
        for ns in (0..8_000_000u32).step_by(997) {
            assert_eq!(
                nanoseconds((f64::from(ns) / 1e6) as f32),
                Some(u64::from(ns))
            );
        }
    }
}
