// SPDX-License-Identifier: MIT OR Apache-2.0
//! What rides in the application: the recorder, behind a trait that bad
//! recorders implement too, so that it can be shown that they are found.

use crate::naive::{Mistake, Naive};
use crate::sequence::Setup;
use metrale_gpu_runtime::timing::{
    ContextRef, Driver, FuncRef, Harvest, KernelRef, Recorder, RecorderConfig, StreamRef,
};
use metrale_gpu_sim::control;
use metrale_telemetry::kernel::{Ledger, SpanToken};
use metrale_telemetry::{Step, Telemetry, TelemetryConfig};
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
    #[must_use]
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

/// Something that times GPU work of a context in an application's process.
pub trait Guest: Send {
    /// Begins a span; a number that names it.
    fn begin(&mut self, what: What, armed: bool, stream: Stream) -> Option<u64>;
    /// Ends a span; `what` says the ring only.
    fn end(&mut self, what: What, span: u64, stream: Stream);
    /// Gives a span up.
    fn cancel(&mut self, what: What, span: u64);
    /// Spans are of a new step from here on. `ends`: the one before counts no
    /// more of them, else it is closed when enough later ones have come.
    fn step(&mut self, ends: bool);
    /// Times `launches`, all within one launch span in one lane of a step of its
    /// own, and tells them the ledgers.
    fn serve(
        &mut self,
        lane: usize,
        function: u64,
        stream: Stream,
        launches: &mut dyn FnMut(Ledgers),
    );
    /// Lands what is done; how many spans that were.
    fn harvest(&mut self) -> usize;
    /// A function is about to be unloaded.
    fn forget(&mut self, function: u64);
    /// What became of its spans.
    fn ledgers(&self) -> Ledgers;
    /// Reads all there is to read.
    fn read(&self);
    /// Ends it, by its close or its drop.
    fn leave(self: Box<Self>, close: bool);
}

/// Which guest rides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maker {
    /// The recorder.
    Recorder,
    /// A plain one with this mistake.
    Naive(Mistake),
}

impl Maker {
    /// Makes the guest for a live context of a device; `None` where that fails.
    pub(crate) fn make(self, setup: &Setup, context: u64, device: usize) -> Option<Box<dyn Guest>> {
        match self {
            Self::Recorder => Recorded::make(setup, context, device),
            Self::Naive(mistake) => Naive::make(mistake, setup, context),
        }
    }
}

struct Recorded {
    recorder: Recorder,
    /// The armed step that spans are of.
    step: Step,
}

impl Recorded {
    fn make(setup: &Setup, context: u64, device: usize) -> Option<Box<dyn Guest>> {
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
        Some(Box::new(Self { recorder, step }))
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
fn driver(version: u32) -> Option<Arc<Driver>> {
    static MADE: Mutex<Vec<(u32, Arc<Driver>)>> = Mutex::new(Vec::new());
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, driver)) = made.iter().find(|(of, _)| *of == version) {
        return Some(Arc::clone(driver));
    }
    let driver = metrale_gpu_sim::app::driver().ok()?;
    made.push((version, Arc::clone(&driver)));
    Some(driver)
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

impl Guest for Recorded {
    fn begin(&mut self, what: What, armed: bool, stream: Stream) -> Option<u64> {
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

    fn end(&mut self, what: What, span: u64, stream: Stream) {
        let token = SpanToken::from_bits(span);
        if what.is_lane() {
            self.recorder.end_lane(token, at(stream));
        } else {
            self.recorder.end_launch(token, at(stream));
        }
    }

    fn cancel(&mut self, what: What, span: u64) {
        let token = SpanToken::from_bits(span);
        if what.is_lane() {
            self.recorder.cancel_lane(token);
        } else {
            self.recorder.cancel_launch(token);
        }
    }

    fn step(&mut self, ends: bool) {
        if ends {
            self.recorder.end_step(self.step);
        }
        self.step = self.recorder.telemetry().step_begin();
    }

    fn serve(
        &mut self,
        lane: usize,
        function: u64,
        stream: Stream,
        launches: &mut dyn FnMut(Ledgers),
    ) {
        let step = self.recorder.step();
        let lane = step.lane(lane, at(stream));
        let _launch = lane.launch_guard(loaded(function));
        launches(self.ledgers());
    }

    fn harvest(&mut self) -> usize {
        self.recorder.harvest()
    }

    fn forget(&mut self, function: u64) {
        self.recorder.forget(FuncRef::from_raw(function));
    }

    fn read(&self) {
        let _ = (self.recorder.kernels(), format!("{:?}", self.recorder));
    }

    fn ledgers(&self) -> Ledgers {
        Ledgers {
            lanes: self.recorder.lane_ledger(),
            launches: self.recorder.kernel_ledger(),
            silent: self.recorder.health().quarantined.is_some(),
        }
    }

    fn leave(self: Box<Self>, close: bool) {
        if close {
            self.recorder.close();
        }
    }
}
