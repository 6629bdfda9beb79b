// SPDX-License-Identifier: MIT OR Apache-2.0
//! The polls of a pass.
//!
//! 1. They are made in the relaxed mode, which the thread had not before and
//!    has not after.
//! 2. Each is timed, and so are the calls around them. On a thread of the
//!    application they have a budget: once it is over no other span is asked about,
//!    and the next pass begins with the span that was left out first. The
//!    recorder's own thread has none: it holds up nobody, and the pace bounds it.
//! 3. Once the driver refused one, or several took very long, there is none.
//! 4. Where one was refused because the thread has no current context (201),
//!    later passes make the recorder's current, for as long as they last.

use super::elapsed::{gap_ns, span_ns};
use super::events::CudaEvents;
use super::pair::Pair;
use super::process::unless_exiting;
use super::verdict::{Verdict, verdict};
use metrale_gpu_sys::cuda::{CAPTURE_MODE_RELAXED, CUevent, Status};
use metrale_telemetry::kernel::{Place, SpanPoll};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};

/// No bracket is open.
const NO_MODE: u32 = u32::MAX;
/// No slot.
const NONE: usize = usize::MAX;

thread_local! {
    // Without a destructor: passes are made while threads end.
    static IS_OWN: Cell<bool> = const { Cell::new(false) };
}

/// Says that this thread is a recorder's own: its passes have no budget.
pub(super) fn this_thread_is_own() {
    IS_OWN.set(true);
}

/// The bracket of polls that is open. Passes over one pool exclude each other.
pub(super) struct Bracket {
    /// The mode that the thread had before.
    outer_mode: AtomicU32,
    /// The context was pushed.
    is_entered: AtomicBool,
    /// When the last call ended.
    since_ns: AtomicU64,
    /// When the budget is over.
    until_ns: AtomicU64,
    /// It is.
    is_spent: AtomicBool,
    /// No more calls in this pass.
    halted: AtomicBool,
    /// The slot that the pass begins with, until it is met; else [`NONE`].
    first: AtomicUsize,
    /// The first slot that was left out; else [`NONE`].
    left_out: AtomicUsize,
}

impl Bracket {
    pub(super) fn none() -> Self {
        Self {
            outer_mode: AtomicU32::new(NO_MODE),
            is_entered: AtomicBool::new(false),
            since_ns: AtomicU64::new(0),
            until_ns: AtomicU64::new(0),
            is_spent: AtomicBool::new(false),
            halted: AtomicBool::new(false),
            first: AtomicUsize::new(NONE),
            left_out: AtomicUsize::new(NONE),
        }
    }

    fn begin(&self, outer: u32, (now_ns, until_ns): (u64, u64)) {
        self.outer_mode.store(outer, Relaxed);
        self.since_ns.store(now_ns, Relaxed);
        self.until_ns.store(until_ns, Relaxed);
        self.is_spent.store(false, Relaxed);
        self.halted.store(false, Relaxed);
        // A span that was left out is still there, and the oldest of its
        // stream. Where it is not met after all, that costs one pass.
        self.first.store(self.left_out.swap(NONE, Relaxed), Relaxed);
    }

    /// Whether the span of a slot may be asked about.
    fn admits(&self, slot: usize) -> bool {
        if self.halted.load(Relaxed) {
            return false;
        }
        let first = self.first.load(Relaxed);
        if first != NONE {
            if first != slot {
                return false;
            }
            self.first.store(NONE, Relaxed);
        }
        if !self.is_spent.load(Relaxed) {
            return true;
        }
        if self.left_out.load(Relaxed) == NONE {
            self.left_out.store(slot, Relaxed);
        }
        false
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
        let pace = &self.watch.pace;
        let Some(now) = pace.begin_pass() else {
            return false;
        };
        let until = if IS_OWN.get() { u64::MAX } else { now.saturating_add(pace.budget_ns()) };
        let is_entered = self.watch.lacks_context.load(Relaxed);
        if is_entered && !self.push_context() {
            self.refuse();
            return false;
        }
        match self.exchange_mode(CAPTURE_MODE_RELAXED) {
            Ok(outer) => {
                self.pass.is_entered.store(is_entered, Relaxed);
                self.pass.begin(outer, (now, until));
                self.anchors.pass_begin();
                true
            }
            Err(status) => {
                self.note(status);
                if is_entered {
                    self.pop_context();
                }
                self.refuse();
                false
            }
        }
    }

    /// Also where a poll quarantined the recorder.
    pub(super) fn close_pass(&self) {
        let outer = self.pass.outer_mode.swap(NO_MODE, Relaxed);
        if outer == NO_MODE {
            return;
        }
        self.restore_mode(outer);
        if self.pass.is_entered.swap(false, Relaxed) {
            self.pop_context();
        }
        self.take_time();
    }

    /// The driver does not allow polls now.
    fn refuse(&self) {
        if !self.watch.is_quarantined() {
            self.watch.pace.refuse();
        }
    }

    /// Looks how long it took since the call before.
    fn take_time(&self) {
        let pass = &self.pass;
        let (now, go_on) = self.watch.pace.polled(pass.since_ns.load(Relaxed));
        pass.since_ns.store(now, Relaxed);
        if !go_on {
            pass.halted.store(true, Relaxed);
        }
        if now >= pass.until_ns.load(Relaxed) {
            pass.is_spent.store(true, Relaxed);
        }
    }

    /// GPU nanoseconds from the end of one slot's span to the start of
    /// another's, if the stream is the same, also where that span took the last of
    /// the budget.
    pub(super) fn read_gap(&self, prev: usize, slot: usize) -> Option<i64> {
        if self.watch.is_silent() || self.pass.halted.load(Relaxed) {
            return None;
        }
        let (prev, next) = (self.pairs.get(prev)?, self.pairs.get(slot)?);
        if !prev.precedes(next) {
            return None;
        }
        let (status, milliseconds) = self.elapsed(prev.end(), next.start());
        self.take_time();
        if self.note(status) != Verdict::Done {
            let _ = self.unread(status);
            return None;
        }
        self.believe(gap_ns(milliseconds, self.age_ns(self.watch.pace.born_ns())))
    }

    /// Where a span began in its step, also where it took the last of the
    /// budget.
    pub(super) fn read_place(&self, track: u32, slot: usize) -> Place {
        if self.watch.is_silent() {
            return Place::Unknown;
        }
        if self.pass.halted.load(Relaxed) {
            return Place::Pending;
        }
        let Some(pair) = self.pairs.get(slot) else {
            return Place::Unknown;
        };
        let place = self.anchors.place(track, pair.start(), self);
        self.take_time();
        place
    }

    /// What a status of a question about an anchor means for its span.
    pub(super) fn judge(&self, status: Status) -> Verdict {
        let verdict = self.note(status);
        let _ = self.unread(status);
        verdict
    }

    pub(super) fn query(&self, event: CUevent) -> Status {
        // SAFETY: an event of the recorder; pools outlive their use.
        unsafe { (self.api().event_query)(event) }
    }

    pub(super) fn elapsed(&self, start: CUevent, end: CUevent) -> (Status, f32) {
        let api = self.api();
        let read = api.event_elapsed_time_v2.unwrap_or(api.event_elapsed_time);
        let mut milliseconds = f32::NAN;
        // SAFETY: events of this pool, and a pointer to a live float.
        let status = unsafe { read(&raw mut milliseconds, start, end) };
        (status, milliseconds)
    }

    /// Polls a span, unless the pass has come to its end.
    pub(super) fn read_timed(&self, slot: usize, first: bool) -> SpanPoll {
        if self.watch.is_silent() {
            return SpanPoll::Failed;
        }
        if !self.pass.admits(slot) {
            return SpanPoll::Pending;
        }
        let Some(pair) = self.pairs.get(slot) else {
            return SpanPoll::Failed;
        };
        let answer = self.read(pair, first);
        self.take_time();
        let poll = match answer {
            Ok(milliseconds) => {
                let ns = span_ns(milliseconds, self.age_ns(pair.after_ns()));
                self.believe(ns).map_or(SpanPoll::Failed, SpanPoll::Ready)
            }
            Err(unread) => unread,
        };
        match poll {
            SpanPoll::Ready(ns) => self.replay_over(pair, Some(ns)),
            SpanPoll::Failed => self.replay_over(pair, None),
            SpanPoll::Pending => {}
        }
        poll
    }

    /// Whether an event of a twin is done.
    pub(super) fn ask_mark(&self, event: CUevent) -> Verdict {
        let verdict = self.judge(self.query(event));
        self.take_time();
        verdict
    }

    /// GPU nanoseconds from the first mark of a twin's launch, which is over, to
    /// another one.
    pub(super) fn read_mark(&self, first: CUevent, mark: CUevent) -> Result<u64, Verdict> {
        if self.pass.halted.load(Relaxed) || self.pass.is_spent.load(Relaxed) {
            return Err(Verdict::BackOff);
        }
        let (status, milliseconds) = self.elapsed(first, mark);
        self.take_time();
        match self.judge(status) {
            Verdict::Done => {
                let ns = span_ns(milliseconds, self.age_ns(self.watch.pace.born_ns()));
                self.believe(ns).ok_or(Verdict::Drop)
            }
            verdict => Err(verdict),
        }
    }

    /// How long ago that was, as of the end of the last call.
    fn age_ns(&self, at_ns: u64) -> u64 {
        self.pass.since_ns.load(Relaxed).saturating_sub(at_ns)
    }

    /// Counts a time that cannot be.
    fn believe<T>(&self, time: Option<T>) -> Option<T> {
        if time.is_none() {
            self.watch.invalid_times.add(1);
        }
        time
    }

    /// The milliseconds of a span; `first` asks for its stream's errors before that.
    fn read(&self, pair: &Pair, first: bool) -> Result<f32, SpanPoll> {
        if first {
            let status = self.query(pair.end());
            if self.note(status) != Verdict::Done {
                return Err(self.unread(status));
            }
            // The question may have taken long.
            if self.watch.is_over() {
                return Err(SpanPoll::Pending);
            }
        }
        let (status, milliseconds) = self.elapsed(pair.start(), pair.end());
        if self.note(status) == Verdict::Done { Ok(milliseconds) } else { Err(self.unread(status)) }
    }

    fn unread(&self, status: Status) -> SpanPoll {
        match verdict(status) {
            Verdict::Wait => SpanPoll::Pending,
            Verdict::BackOff => {
                if status == Status::ERROR_INVALID_CONTEXT {
                    self.watch.lacks_context.store(true, Relaxed);
                }
                self.watch.pace.refuse();
                self.pass.halted.store(true, Relaxed);
                SpanPoll::Pending
            }
            Verdict::Done | Verdict::Drop | Verdict::Quarantine => SpanPoll::Failed,
        }
    }

    /// Makes a call of which nothing says that it is safe beside a capture: in the
    /// relaxed mode nothing forbids it. Its status, or that of the exchange.
    pub(super) fn in_relaxed_mode(&self, call: impl FnOnce() -> Status) -> Status {
        let outer = match self.exchange_mode(CAPTURE_MODE_RELAXED) {
            Ok(outer) => outer,
            Err(status) => return status,
        };
        let status = unless_exiting(call);
        self.restore_mode(outer);
        status
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
        let restored = self.exchange_mode(outer).or_else(|_| self.exchange_mode(outer));
        if let Err(status) = restored {
            self.watch.quarantine(status);
        }
    }
}
