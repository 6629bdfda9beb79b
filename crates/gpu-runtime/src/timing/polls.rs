// SPDX-License-Identifier: MIT OR Apache-2.0
//! The polls of a pass: in the relaxed mode, timed, and no more of them once
//! the driver refused one.

use super::elapsed::nanoseconds;
use super::events::{CudaEvents, Pair};
use super::process::unless_exiting;
use super::verdict::Verdict;
use metrale_gpu_sys::cuda::{CAPTURE_MODE_RELAXED, CUevent, Status};
use metrale_telemetry::kernel::SpanPoll;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// No bracket is open.
const NO_MODE: u32 = u32::MAX;

/// The bracket of polls that is open. Passes over one pool exclude each other.
pub(super) struct Bracket {
    /// The mode that the thread had before.
    outer_mode: AtomicU32,
    /// When the last poll ended.
    since_ns: AtomicU64,
    /// No more polls in this pass.
    halted: AtomicBool,
}

impl Bracket {
    pub(super) fn none() -> Self {
        Self {
            outer_mode: AtomicU32::new(NO_MODE),
            since_ns: AtomicU64::new(0),
            halted: AtomicBool::new(false),
        }
    }
}

impl CudaEvents {
    /// A query by a thread in its ordinary mode would invalidate a capture of
    /// any thread; in the relaxed mode it is legal on all of them.
    pub(super) fn open_pass(&self) -> bool {
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
    pub(super) fn close_pass(&self) {
        let outer = self.pass.outer_mode.swap(NO_MODE, Ordering::Relaxed);
        if outer != NO_MODE {
            self.restore_mode(outer);
        }
    }

    pub(super) fn read_gap(&self, prev: usize, slot: usize) -> Option<u64> {
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
    pub(super) fn read_timed(&self, slot: usize, first: bool) -> SpanPoll {
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
            // The question may have taken long.
            if self.watch.is_over() {
                return SpanPoll::Pending;
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
        let status = unless_exiting(|| {
            // SAFETY: the pointer is to a live integer.
            unsafe { (api.thread_exchange_stream_capture_mode)(&raw mut mode) }
        });
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
