// SPDX-License-Identifier: MIT OR Apache-2.0
//! What rides in the application: the recorder, and the mistakes that can be put into
//! it, so that it can be shown that they are found.

use crate::sequence::Setup;
use metrale_gpu_runtime::timing::{
    ContextRef, Driver, FuncRef, Harvest, KernelRef, Recorder, RecorderConfig, StreamRef,
};
use metrale_gpu_sim::app;
use metrale_gpu_sim::{control, cu};
use metrale_telemetry::kernel::{Ledger, SpanToken};
use metrale_telemetry::{Step, Telemetry, TelemetryConfig};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Devices of the simulated machine.
pub(crate) const DEVICES: usize = 2;
/// Spans left open for this long, ns, are given up.
pub(crate) const RECLAIM_NS: u64 = 1_000_000;

/// A stream as the application hands it over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// The raw handle, live for the time of the call.
    pub handle: u64,
    /// Its context, 0 where the application does not say.
    pub context: u64,
}

/// What a span is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A lane of a step.
    Lane(usize),
    /// A loaded function.
    Kernel(u64),
    /// A function whose name the driver is not asked for.
    Function(u64),
    /// A graph, by a number that stands for its name.
    Graph(u8),
}

impl What {
    /// Whether it goes into the ring of lanes.
    pub fn is_lane(self) -> bool {
        matches!(self, What::Lane(_))
    }
}

/// What became of a guest's spans.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ledgers {
    /// Of lanes.
    pub lanes: Ledger,
    /// Of launches.
    pub launches: Ledger,
    /// It makes no driver call any more.
    pub silent: bool,
}

/// What a guest does beside what the recorder does: one thing that a recorder must not,
/// to show that it is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// Nothing: the recorder itself.
    None,
    /// It polls in the mode that the thread is in.
    PollsUnguarded,
    /// It polls in the thread-local mode.
    PollsThreadLocal,
    /// It records without asking whether the stream captures.
    RecordsUnasked,
    /// It leaves the thread in the relaxed mode.
    KeepsMode,
    /// It leaves its context current.
    KeepsContext,
    /// It stays in the context that it entered for a default stream.
    StaysEntered,
    /// It waits for the GPU.
    Waits,
    /// It makes its events as it needs them.
    CreatesEvents,
    /// It polls more than the streams that wait.
    PollsMore,
    /// It ends spans on the stream that it was given at their begin.
    KeepsStreams,
}

/// What times GPU work of a context in an application's process.
pub(crate) struct Guest {
    recorder: Recorder,
    /// The armed step that spans are of.
    step: Step,
    context: u64,
    mistake: Mistake,
    /// The mistake's own, and the stream that a span last began on.
    event: u64,
    began_on: Option<u64>,
}

impl Guest {
    /// Makes the guest for a live context of a device; `None` where that fails.
    pub(crate) fn make(
        mistake: Mistake,
        setup: &Setup,
        context: u64,
        device: usize,
    ) -> Option<Self> {
        let config = RecorderConfig {
            lane_slots: usize::from(setup.slots).max(1),
            kernel_slots: usize::from(setup.slots).max(1),
            harvest: Harvest::Explicit,
            refuse_legacy_streams: setup.refuse_legacy,
            reclaim_after: Duration::from_nanos(RECLAIM_NS),
            clock: control::now_ns,
            ..RecorderConfig::default()
        };
        let driver = driver(setup.driver)?;
        // SAFETY: the context is live, and its guests leave before it goes.
        let made = unsafe {
            Recorder::from_raw(driver, ContextRef::from_raw(context), telemetry(device), config)
        };
        let recorder = made.ok()?;
        let step = recorder.telemetry().step_begin();
        let mut event = 0u64;
        if mistake != Mistake::None {
            create(&mut event);
        }
        if mistake == Mistake::KeepsContext {
            let _ = cu!("cuCtxPushCurrent_v2", context => u64);
        }
        Some(Self { recorder, step, context, mistake, event, began_on: None })
    }

    /// Begins a span; a number that names it.
    pub(crate) fn begin(&mut self, what: What, armed: bool, stream: Stream) -> Option<u64> {
        self.err_at_begin(stream);
        let step = if armed { self.step } else { Step::numbered(0) };
        let stream = at(stream);
        let token = match what {
            What::Lane(lane) => self.recorder.begin_lane(step, lane, stream),
            What::Kernel(function) => self.recorder.begin_launch(step, 0, loaded(function), stream),
            What::Function(function) => {
                self.recorder.begin_launch(step, 1, FuncRef::from_raw(function), stream)
            }
            What::Graph(name) => {
                let graph = self.recorder.graph(&format!("graph {name}"));
                self.recorder.begin_launch(step, 2, graph, stream)
            }
        };
        token.map(SpanToken::to_bits)
    }

    /// Ends a span; `what` says the ring only.
    pub(crate) fn end(&mut self, what: What, span: u64, stream: Stream) {
        self.err_at_end(stream);
        let token = SpanToken::from_bits(span);
        if what.is_lane() {
            self.recorder.end_lane(token, at(stream));
        } else {
            self.recorder.end_launch(token, at(stream));
        }
    }

    /// Gives a span up.
    pub(crate) fn cancel(&mut self, what: What, span: u64) {
        let token = SpanToken::from_bits(span);
        if what.is_lane() {
            self.recorder.cancel_lane(token);
        } else {
            self.recorder.cancel_launch(token);
        }
    }

    /// Spans are of a new step from here on. `ends`: the one before counts no
    /// more of them, else it is closed when enough later ones have come.
    pub(crate) fn step(&mut self, ends: bool) {
        if ends {
            self.recorder.end_step(self.step);
        }
        self.step = self.recorder.telemetry().step_begin();
    }

    /// Times `launches`, all within one launch span in one lane of a step of its
    /// own, and tells them the ledgers.
    pub(crate) fn serve(
        &mut self,
        lane: usize,
        function: u64,
        stream: Stream,
        launches: &mut dyn FnMut(Ledgers),
    ) {
        self.err_at_begin(stream);
        {
            let step = self.recorder.step();
            let lane = step.lane(lane, at(stream));
            let _launch = lane.launch_guard(loaded(function));
            launches(self.ledgers());
        }
        self.err_at_end(stream);
    }

    /// Lands what is done.
    pub(crate) fn harvest(&mut self) {
        self.err_at_harvest();
        self.recorder.harvest();
    }

    /// A function is about to be unloaded.
    pub(crate) fn forget(&mut self, function: u64) {
        self.recorder.forget(FuncRef::from_raw(function));
    }

    /// Reads all there is to read.
    pub(crate) fn read(&self) {
        let _ = (self.recorder.kernels(), format!("{:?}", self.recorder));
    }

    /// What became of its spans.
    pub(crate) fn ledgers(&self) -> Ledgers {
        Ledgers {
            lanes: self.recorder.lane_ledger(),
            launches: self.recorder.kernel_ledger(),
            silent: self.recorder.health().quarantined.is_some(),
        }
    }

    /// Ends it, by its close or its drop.
    pub(crate) fn leave(self, close: bool) {
        if close {
            self.recorder.close();
        }
    }

    fn err_at_begin(&mut self, stream: Stream) {
        match self.mistake {
            Mistake::RecordsUnasked => record(self.event, stream.handle),
            Mistake::StaysEntered if stream.handle <= 2 && stream.context == self.context => {
                let _ = cu!("cuCtxPushCurrent_v2", self.context => u64);
            }
            Mistake::CreatesEvents => create(&mut self.event),
            Mistake::KeepsStreams => self.began_on = Some(stream.handle),
            _ => {}
        }
    }

    fn err_at_end(&mut self, stream: Stream) {
        let on = match self.mistake {
            Mistake::Waits => Some(stream.handle),
            _ => self.began_on.take(),
        };
        let Some(on) = on else {
            return;
        };
        let mut capturing = 0u32;
        let asked = cu!("cuStreamIsCapturing", on => u64, &raw mut capturing => *mut u32);
        if asked.is_success() && capturing == 0 {
            record(self.event, on);
        }
    }

    fn err_at_harvest(&self) {
        let poll = || {
            let _ = cu!("cuEventQuery", self.event => u64);
        };
        let poll_in = |mode| {
            let mode = exchange(mode);
            poll();
            exchange(mode);
        };
        match self.mistake {
            Mistake::PollsUnguarded => poll(),
            Mistake::PollsThreadLocal => poll_in(app::THREAD_LOCAL),
            Mistake::PollsMore => poll_in(app::RELAXED),
            Mistake::KeepsMode => _ = exchange(app::RELAXED),
            Mistake::Waits => _ = cu!("cuEventSynchronize", self.event => u64),
            _ => {}
        }
    }
}

/// Telemetry of a device that arms every step. Recorders take turns with a few: their
/// number is without end, and telemetry lives for ever. One takes recorders of one
/// device only.
pub(crate) fn telemetry(device: usize) -> &'static Telemetry {
    static ALL: [[Telemetry; 4]; DEVICES] = [const { [const { Telemetry::new() }; 4] }; DEVICES];
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let own = &ALL[device];
    let telemetry = &own[NEXT.fetch_add(1, Ordering::Relaxed) % own.len()];
    let every_step = TelemetryConfig { every: 1, ..TelemetryConfig::DEFAULT };
    telemetry.configure(every_step).expect("1 is a stride");
    telemetry
}

/// The simulated driver of that version: made once, as its functions stay.
pub(crate) fn driver(version: u32) -> Option<Arc<Driver>> {
    static MADE: Mutex<BTreeMap<u32, Option<Arc<Driver>>>> = Mutex::new(BTreeMap::new());
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    let make = || {
        control::hide_newer_than(version);
        let driver = app::driver();
        control::hide_newer_than(u32::MAX);
        driver.ok()
    };
    made.entry(version).or_insert_with(make).clone()
}

fn at(stream: Stream) -> StreamRef<'static> {
    if stream.context == 0 {
        // SAFETY: a guest gets live streams only, and keeps none.
        unsafe { StreamRef::from_raw(stream.handle) }
    } else {
        // SAFETY: as above, and the application knows its context.
        unsafe { StreamRef::from_raw_of(stream.handle, ContextRef::from_raw(stream.context)) }
    }
}

fn loaded(function: u64) -> KernelRef<'static> {
    // SAFETY: a guest gets loaded functions only, and keeps none.
    unsafe { KernelRef::from_raw(function) }
}

fn create(event: &mut u64) {
    let _ = cu!("cuEventCreate", &raw mut *event => *mut u64, 0 => u32);
}

fn record(event: u64, stream: u64) {
    let _ = cu!("cuEventRecord", event => u64, stream => u64);
}

/// Puts the thread into a capture mode; the one it had.
fn exchange(mut mode: u32) -> u32 {
    let _ = cu!("cuThreadExchangeStreamCaptureMode", &raw mut mode => *mut u32);
    mode
}
