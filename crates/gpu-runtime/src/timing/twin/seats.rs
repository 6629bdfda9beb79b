// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where twins keep their marks, and how a launch's marks are read.
//!
//! A *seat* is the events of one twin and what is known of its last launch. The
//! thread that holds the twin takes it, launches and gives it back; whoever harvests
//! reads.
//!
//! | state | meaning | left by |
//! |---|---|---|
//! | `Free` | nobody's | a twin that takes it → `Taken` |
//! | `Taken` | a twin's, without an executable | its executable, sent to the device → `Loading` |
//! | `Loading` | the executable is on its way to the device; the first mark's event is behind it | a pass that finds that event done → `Ready` |
//! | `Ready` | nothing is in flight: the twin may be launched | a launch → `Flying`; the twin's end → `Free` |
//! | `Flying` | launched; its graph's span has not landed | the span, landed → `Over`, or lost → `Lost` |
//! | `Over` | every mark is done, and some are unread | the pass that reads the last, or fails to → `Ready` |
//! | `Lost` | nothing tells when its launch is over: the seat is given up | |
//!
//! 1. Events of a seat are recorded by a launch only, which `Ready` alone admits: so
//!    none is recorded anew unread, and none is read in flight.
//! 2. A launch's marks go into the figures together, or none of them does.
//! 3. A seat whose twin has gone is `Free` once its launch was read.

use super::config::{NODE_BYTES, TwinsConfig};
use super::error::TwinError;
use super::graphs::Graphs;
use super::ledger::Counts;
use crate::timing::error::InstallError;
use crate::timing::events::{CudaEvents, destroy_all, make_all};
use crate::timing::process::unless_exiting;
use crate::timing::verdict::{Verdict, verdict};
use metrale_gpu_sys::cuda::{CUevent, CUstream, Driver, STREAM_NON_BLOCKING};
use metrale_telemetry::Telemetry;
use metrale_telemetry::runtime::Plan;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Marks that a pass reads at most: it is to hold up nobody else's landing.
const READS_A_PASS: usize = 256;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum State {
    Free,
    Taken,
    Loading,
    Ready,
    Flying,
    Over,
    Lost,
}

/// The events of one twin. See the module.
pub(super) struct Seat {
    events: Box<[usize]>,
    state: AtomicU32,
    /// Number of the step of the launch.
    step: AtomicU64,
    work: Mutex<Work>,
}

/// What a pass reads by. The thread that holds the twin writes it while nothing is
/// in flight.
#[derive(Default)]
struct Work {
    plan: Option<Plan>,
    /// The graph's place in the figures.
    graph: usize,
    /// From the first mark, ns: those of the launch that were read so far.
    read_ns: Vec<u64>,
    /// Of the graph's span.
    span_ns: u64,
    /// The twin is gone.
    is_left: bool,
}

/// All twins of a recorder, but for their graph objects.
pub(in crate::timing) struct Twins {
    pub(super) config: TwinsConfig,
    pub(in crate::timing) counts: Counts,
    pub(in crate::timing) graphs: Graphs,
    /// Executables are uploaded on it.
    pub(super) stream: usize,
    seats: Box<[Seat]>,
    /// Device memory that twins are reckoned to take.
    bytes: AtomicUsize,
}

/// What a slot of the ring's span is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::timing) struct Tag(u32);

impl Tag {
    const TWIN: u32 = 1 << 31;
    /// Of no twin.
    pub(in crate::timing) const NONE: u32 = 0;

    /// The word of a launch of the twin in that seat, or of its plain executable.
    pub(super) const fn word(seat: usize, is_twin: bool) -> u32 {
        (seat as u32 + 1) | if is_twin { Self::TWIN } else { 0 }
    }

    const fn of(word: u32) -> (usize, bool) {
        ((word & !Self::TWIN) as usize - 1, word & Self::TWIN != 0)
    }
}

impl Seat {
    fn new(events: &[usize]) -> Self {
        Self {
            events: events.into(),
            state: AtomicU32::new(State::Free as u32),
            step: AtomicU64::new(0),
            work: Mutex::default(),
        }
    }

    #[inline]
    pub(super) fn state(&self) -> State {
        // Acquire: a pass is done with the events (partner: the Release of `set`).
        match self.state.load(Ordering::Acquire) {
            0 => State::Free,
            1 => State::Taken,
            2 => State::Loading,
            3 => State::Ready,
            4 => State::Flying,
            5 => State::Over,
            _ => State::Lost,
        }
    }

    fn set(&self, state: State) {
        // Release: what its owner did with the seat comes before (partner: the
        // Acquire of `state`).
        self.state.store(state as u32, Ordering::Release);
    }

    /// Whether the seat was free, and is the caller's now.
    fn take(&self) -> bool {
        let (free, taken) = (State::Free as u32, State::Taken as u32);
        // Acquire: as in `state`. Relaxed: the seat is another's.
        self.state.compare_exchange(free, taken, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Whether a pass has something to ask.
    fn waits(&self) -> bool {
        matches!(self.state(), State::Loading | State::Over)
    }

    fn work(&self) -> MutexGuard<'_, Work> {
        // Every critical section leaves what can be read.
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn events(&self) -> &[usize] {
        &self.events
    }

    /// The events of the marks that nothing stands behind: all of a launch is done
    /// once they are.
    pub(super) fn last_events(&self) -> Vec<usize> {
        let work = self.work();
        let marks = work.plan.iter().flat_map(|plan| plan.marks());
        let last = marks.zip(&self.events).filter(|(mark, _)| mark.before.is_empty());
        last.map(|(_, event)| *event).collect()
    }

    /// A twin of `plan` is on its way to the device, with the first event behind it.
    pub(super) fn load(&self, graph: usize, plan: Plan) {
        let mut work = self.work();
        work.read_ns = Vec::with_capacity(self.events.len());
        (work.graph, work.plan, work.is_left) = (graph, Some(plan), false);
        drop(work);
        self.set(State::Loading);
    }

    /// The twin was launched, in a span of that step that is still open.
    #[inline]
    pub(super) fn fly(&self, step: u64) {
        // Relaxed: `set` publishes.
        self.step.store(step, Ordering::Relaxed);
        self.set(State::Flying);
    }

    /// Gives the seat back, once its launch was read.
    pub(super) fn leave(&self) {
        let mut work = self.work();
        work.is_left = true;
        // Under the lock: no pass is at it.
        if matches!(self.state(), State::Taken | State::Loading | State::Ready) {
            self.set(State::Free);
        }
    }

    /// Reads what is done; whether the pass may go on.
    fn read(
        &self,
        (twins, telemetry): (&Twins, &Telemetry),
        ops: &CudaEvents,
        reads: &mut usize,
    ) -> bool {
        let mut work = self.work();
        let Some(first) = self.events.first().map(|event| *event as CUevent) else {
            return true;
        };
        // Again, under the lock: the twin may have gone, or another pass have read it.
        if !self.waits() {
            return true;
        }
        if self.state() == State::Loading {
            return match ops.ask_mark(first) {
                Verdict::Done => {
                    self.set(State::Ready);
                    true
                }
                Verdict::Wait => true,
                Verdict::BackOff => false,
                Verdict::Drop | Verdict::Quarantine => {
                    self.set(State::Lost);
                    true
                }
            };
        }
        let marks = work.plan.as_ref().map_or(0, |plan| plan.marks().len());
        while work.read_ns.len() < marks {
            let Some(event) = self.events.get(work.read_ns.len()) else {
                break;
            };
            if *reads == 0 {
                return false;
            }
            *reads -= 1;
            match ops.read_mark(first, *event as CUevent) {
                Ok(ns) => work.read_ns.push(ns),
                // The graph's span is over, so its marks are: it cannot be.
                Err(Verdict::Wait | Verdict::BackOff) => return false,
                Err(_) => {
                    twins.counts.lost.add(1);
                    work.rest(self);
                    return true;
                }
            }
        }
        // Relaxed: `state` was asked.
        let of = (work.graph, self.step.load(Ordering::Relaxed));
        if let Some(plan) = &work.plan
            && twins.graphs.add(telemetry, of, (plan, &work.read_ns), work.span_ns)
        {
            twins.counts.read.add(1);
        } else {
            twins.counts.lost.add(1);
        }
        work.rest(self);
        true
    }
}

impl Work {
    /// Nothing is in flight.
    fn rest(&mut self, seat: &Seat) {
        self.read_ns.clear();
        seat.set(if self.is_left { State::Free } else { State::Ready });
    }
}

impl Twins {
    /// Makes the events, and the stream, in the current context, which is that of
    /// `ops`.
    ///
    /// # Safety
    /// A live context of `driver` is current on this thread.
    pub(in crate::timing) unsafe fn new(
        driver: &Driver,
        config: TwinsConfig,
        ops: &CudaEvents,
    ) -> Result<Self, InstallError> {
        let asked = config.marks * config.resident;
        // SAFETY: promised by the caller.
        let events = unsafe { make_all(driver, asked) }?;
        let mut stream: CUstream = std::ptr::null_mut();
        // Nothing says whether making a stream is safe beside a capture.
        let status = ops.in_relaxed_mode(|| {
            // SAFETY: the pointer is to a live handle; a context is current.
            unsafe { (driver.api().stream_create)(&raw mut stream, STREAM_NON_BLOCKING) }
        });
        if let Err(status) = status.ok() {
            // SAFETY: made above, and nobody has them.
            let _ = unsafe { destroy_all(driver, events.iter().copied()) };
            let made = asked;
            return Err(InstallError::Events { asked, made, status });
        }
        Ok(Self {
            config,
            counts: Counts::default(),
            graphs: Graphs::default(),
            stream: stream as usize,
            seats: events.chunks_exact(config.marks).map(Seat::new).collect(),
            bytes: AtomicUsize::new(0),
        })
    }

    /// Destroys the events and the stream; whether more may be destroyed.
    ///
    /// # Safety
    /// The context is live and current on this thread; no twin is launched any more,
    /// and [none may still record](Self::may_destroy).
    pub(in crate::timing) unsafe fn destroy(&self, driver: &Driver) -> bool {
        let events = self.seats.iter().flat_map(|seat| seat.events.iter());
        // SAFETY: promised by the caller.
        if !unsafe { destroy_all(driver, events.copied()) } {
            return false;
        }
        let status = unless_exiting(|| {
            // SAFETY: made by `new`, and destroyed here only; its work completes all
            // the same.
            unsafe { (driver.api().stream_destroy)(self.stream as CUstream) }
        });
        verdict(status) != Verdict::Quarantine
    }

    pub(super) fn seat(&self, seat: usize) -> Option<&Seat> {
        self.seats.get(seat)
    }

    /// Takes a seat.
    pub(super) fn take(&self) -> Result<usize, TwinError> {
        let resident = self.config.resident;
        let free = self.seats.iter().position(Seat::take);
        free.ok_or(TwinError::NoRoom { resident })
    }

    /// Reckons with a graph of so many nodes in place of one of `before`.
    pub(super) fn book(&self, before: usize, nodes: usize) -> Result<(), TwinError> {
        self.unbook(before);
        let needs = nodes * NODE_BYTES;
        // Relaxed: a sum that orders nothing.
        let used = self.bytes.fetch_add(needs, Ordering::Relaxed);
        if used + needs <= self.config.bytes {
            return Ok(());
        }
        self.unbook(nodes);
        let left = self.config.bytes.saturating_sub(used);
        Err(TwinError::NoBytes { needs, left })
    }

    /// Reckons with it no more.
    pub(super) fn unbook(&self, nodes: usize) {
        // Relaxed: a sum that orders nothing.
        self.bytes.fetch_sub(nodes * NODE_BYTES, Ordering::Relaxed);
    }

    /// Whether no launch of a twin is in flight or unread, and no executable on its
    /// way.
    pub(in crate::timing) fn is_at_rest(&self) -> bool {
        let is_at_rest =
            |seat: &Seat| !matches!(seat.state(), State::Loading | State::Flying | State::Over);
        self.seats.iter().all(is_at_rest)
    }

    /// Whether none may still record a mark.
    pub(in crate::timing) fn may_destroy(&self) -> bool {
        let is_over = |seat: &Seat| !matches!(seat.state(), State::Flying | State::Lost);
        self.seats.iter().all(is_over)
    }

    /// The span of a replay landed: all of the graph is done.
    #[cold]
    pub(in crate::timing) fn landed(&self, word: u32, ns: u64) {
        let (seat, is_twin) = Tag::of(word);
        let Some(seat) = self.seats.get(seat) else {
            return;
        };
        let mut work = seat.work();
        if !is_twin {
            self.graphs.add_plain(work.graph, ns);
        } else if seat.state() == State::Flying {
            work.span_ns = ns;
            seat.set(State::Over);
        }
    }

    /// The span of a replay is lost: nothing tells when the graph is done.
    #[cold]
    pub(in crate::timing) fn lost(&self, word: u32) {
        let (seat, is_twin) = Tag::of(word);
        if let Some(seat) = self.seats.get(seat).filter(|_| is_twin)
            && seat.state() == State::Flying
        {
            self.counts.lost.add(1);
            seat.set(State::Lost);
        }
    }

    /// Reads marks that are done, so many a pass at most.
    pub(in crate::timing) fn read(&self, ops: &CudaEvents, telemetry: &Telemetry) {
        if !self.seats.iter().any(Seat::waits) || ops.watch.is_silent() || !ops.open_pass() {
            return;
        }
        let mut reads = READS_A_PASS;
        let mut waiting = self.seats.iter().filter(|seat| seat.waits());
        while let Some(seat) = waiting.next()
            && seat.read((self, telemetry), ops, &mut reads)
        {}
        ops.close_pass();
    }
}
