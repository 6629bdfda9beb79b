// SPDX-License-Identifier: MIT OR Apache-2.0
//! One recorder for the process, for stacks whose launch path carries no
//! handle: one GPU, and one thread that schedules.
//!
//! A step begins with the first lane that does not come after the one before
//! it in the order of their indices, and ends with the last lane's end: its wall
//! time is counted when the next step begins. Before [`install`] every function does nothing.

use super::handles::{KernelRef, RegionRef, StreamRef};
use super::recorder::Recorder;
use super::shared::Shared;
use metrale_telemetry::Step;
use metrale_telemetry::kernel::{MAX_LANES, SpanToken, StepShape};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

struct Installed {
    recorder: Recorder,
    /// The open span of each lane as its token's bits; 0: none. (A token that
    /// a ring made is never 0.)
    open: [AtomicU64; MAX_LANES],
    /// The lane begun last; `NO_LANE` before the first.
    lane: AtomicUsize,
    /// The lane that launches are in: as `lane`, or one that does not exist,
    /// which is no part of the order of a step.
    launches_in: AtomicUsize,
    /// The step, as [`Step::to_words`] has it.
    step: [AtomicU64; 2],
    /// Host time of each lane's begin, while it is open, of the step's begin
    /// and of the end of its last lane so far; `NEVER` where not measured.
    lane_began_ns: [AtomicU64; MAX_LANES],
    step_began_ns: AtomicU64,
    step_ended_ns: AtomicU64,
}

const NO_LANE: usize = usize::MAX;
const NEVER: u64 = u64::MAX;

static INSTALLED: OnceLock<Installed> = OnceLock::new();

/// A recorder is installed already; the one given comes back.
///
/// ```
/// use metrale_gpu_runtime::timing::{Recorder, install};
/// install(Recorder::disabled())?;
/// let error = install(Recorder::disabled()).unwrap_err();
/// error.rejected.close();
/// # Ok::<(), metrale_gpu_runtime::timing::AlreadyInstalledError>(())
/// ```
#[derive(Debug, thiserror::Error)]
#[error("this process has a recorder installed already (label {label:?})")]
#[non_exhaustive]
pub struct AlreadyInstalledError {
    /// The label of the one that is installed.
    pub label: String,
    /// The one that is not.
    pub rejected: Box<Recorder>,
}

/// Installs the recorder of the process, for its lifetime.
///
/// # Errors
/// [`AlreadyInstalledError`], with the recorder given.
pub fn install(recorder: Recorder) -> Result<(), AlreadyInstalledError> {
    let installed = Installed {
        recorder,
        open: [const { AtomicU64::new(0) }; MAX_LANES],
        lane: AtomicUsize::new(NO_LANE),
        launches_in: AtomicUsize::new(NO_LANE),
        step: Step::UNMEASURED.to_words().map(AtomicU64::new),
        lane_began_ns: [const { AtomicU64::new(NEVER) }; MAX_LANES],
        step_began_ns: AtomicU64::new(NEVER),
        step_ended_ns: AtomicU64::new(NEVER),
    };
    INSTALLED.set(installed).map_err(|rejected| AlreadyInstalledError {
        label: self::installed().map_or_else(String::new, |known| known.label().to_owned()),
        rejected: Box::new(rejected.recorder),
    })
}

/// The recorder of the process, if one is installed.
#[must_use]
pub fn installed() -> Option<&'static Recorder> {
    INSTALLED.get().map(|installed| &installed.recorder)
}

impl Installed {
    fn is_off(&self) -> bool {
        self.recorder.shared().is_none_or(Shared::is_off)
    }

    fn step(&self) -> Step {
        let words = self.step.each_ref();
        Step::from_words(words.map(|word| word.load(Ordering::Relaxed)))
    }

    /// A lane's open span and begin, if the lane is there.
    fn lane_state(&self, lane: usize) -> Option<(&AtomicU64, &AtomicU64)> {
        let is_there = lane < self.recorder.telemetry().lanes();
        (self.open.get(lane).zip(self.lane_began_ns.get(lane))).filter(|_| is_there)
    }

    /// Counts the wall time of the step before, and begins one at `now_ns`.
    fn next_step(&self, now_ns: u64) {
        let telemetry = self.recorder.telemetry();
        let began_ns = self.step_began_ns.swap(now_ns, Ordering::Relaxed);
        let ended_ns = self.step_ended_ns.swap(NEVER, Ordering::Relaxed);
        let wall = (began_ns != NEVER && ended_ns != NEVER).then_some(began_ns..ended_ns);
        if let Some(wall) = &wall {
            let took_ns = wall.end.saturating_sub(wall.start);
            telemetry.host().step_wall.observe(took_ns);
        }
        let step = telemetry.step_begin();
        if let Some(shared) = self.recorder.shared() {
            shared.end_step(self.step(), wall);
        }
        for (word, value) in self.step.iter().zip(step.to_words()) {
            word.store(value, Ordering::Relaxed);
        }
    }

    /// Counts the wall time of a lane that ends.
    fn lane_over(&self, lane: usize, began: &AtomicU64) {
        let began_ns = began.load(Ordering::Relaxed);
        if began_ns == NEVER {
            return;
        }
        began.store(NEVER, Ordering::Relaxed);
        if self.is_off() {
            // What is left of the step is not measured: the next lane, if
            // there is one, begins a new step.
            self.step_began_ns.store(NEVER, Ordering::Relaxed);
            self.lane.store(NO_LANE, Ordering::Relaxed);
            self.launches_in.store(NO_LANE, Ordering::Relaxed);
            return;
        }
        let telemetry = self.recorder.telemetry();
        let now_ns = telemetry.now_ns();
        let took_ns = now_ns.saturating_sub(began_ns);
        telemetry.host().lane_took(lane, took_ns);
        self.step_ended_ns.store(now_ns, Ordering::Relaxed);
    }

    fn give_up(&self, bits: u64) {
        if bits != 0 {
            self.recorder.cancel_lane(SpanToken::from_bits(bits));
        }
    }
}

/// Begins a lane on `stream`. A lane that is still open is given up first, but
/// not at level `Off`, where nothing happens. An index that is no lane's is refused
/// ([`Ledger::refused`](metrale_telemetry::kernel::Ledger)) and begins no step.
pub fn lane_begin<'a>(lane: usize, stream: impl Into<StreamRef<'a>>) {
    let Some(installed) = INSTALLED.get() else {
        return;
    };
    if installed.is_off() {
        return;
    }
    installed.launches_in.store(lane, Ordering::Relaxed);
    let Some((open, began)) = installed.lane_state(lane) else {
        // Refused, and counted, as by any other way to begin a lane.
        let _ = installed.recorder.begin_lane(installed.step(), lane, stream);
        return;
    };
    installed.give_up(open.swap(0, Ordering::Relaxed));

    let now_ns = installed.recorder.telemetry().now_ns();
    let before = installed.lane.swap(lane, Ordering::Relaxed);
    if before == NO_LANE || lane <= before {
        installed.next_step(now_ns);
    }
    began.store(now_ns, Ordering::Relaxed);
    if let Some(token) = installed.recorder.begin_lane(installed.step(), lane, stream) {
        installed.give_up(open.swap(token.to_bits(), Ordering::Relaxed));
    }
}

/// Ends the lane on `stream`; nothing happens where it is not open.
pub fn lane_end<'a>(lane: usize, stream: impl Into<StreamRef<'a>>) {
    let Some(installed) = INSTALLED.get() else {
        return;
    };
    let Some((open, began)) = installed.lane_state(lane) else {
        return;
    };
    installed.lane_over(lane, began);
    // A read first: where nothing is open, nothing is written.
    if open.load(Ordering::Relaxed) == 0 {
        return;
    }
    let bits = open.swap(0, Ordering::Relaxed);
    if bits != 0 {
        installed.recorder.end_lane(SpanToken::from_bits(bits), stream);
    }
}

/// States what the step is made of that began last: after the begin of its first
/// lane, and before the next step's. See
/// [`Telemetry::shape`](metrale_telemetry::Telemetry::shape).
pub fn step_shape(shape: StepShape) {
    if let Some(installed) = INSTALLED.get() {
        installed.recorder.telemetry().shape(installed.step(), shape);
    }
}

/// Begins a launch of a kernel or a graph on `stream`, in the lane begun last.
/// `None` where the step is not armed, or no span can be had: one that would be
/// timed in a lane that is not there is refused
/// ([`Ledger::refused`](metrale_telemetry::kernel::Ledger)). Where no lane was ever
/// begun there is no step to arm: [`Sampling::Spread`](metrale_telemetry::Sampling)
/// times launches all the same, in no lane.
pub fn launch_begin<'a, 'f>(
    kernel: impl Into<KernelRef<'f>>,
    stream: impl Into<StreamRef<'a>>,
) -> Option<SpanToken> {
    let installed = INSTALLED.get()?;
    if installed.is_off() {
        return None;
    }
    let lane = installed.launches_in.load(Ordering::Relaxed);
    let (kernel, stream) = (kernel.into(), stream.into());
    let shared = installed.recorder.shared()?;
    if lane == NO_LANE {
        shared.begin_without_lane(kernel, stream)
    } else {
        shared.begin_token(kernel, installed.step(), lane, stream)
    }
}

/// Ends a launch on `stream`.
pub fn launch_end<'a>(token: SpanToken, stream: impl Into<StreamRef<'a>>) {
    if let Some(recorder) = installed() {
        recorder.end_launch(token, stream);
    }
}

/// As [`launch_begin`], of a region, which [`Recorder::region`] names.
pub fn region_begin<'a>(region: RegionRef, stream: impl Into<StreamRef<'a>>) -> Option<SpanToken> {
    launch_begin(region.span(), stream)
}

/// Ends a region on `stream`.
pub fn region_end<'a>(token: SpanToken, stream: impl Into<StreamRef<'a>>) {
    launch_end(token, stream);
}

/// Lands what the GPU has finished; see [`Recorder::harvest`].
pub fn harvest() -> usize {
    installed().map_or(0, Recorder::harvest)
}
