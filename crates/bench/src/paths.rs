// SPDX-License-Identifier: MIT OR Apache-2.0
//! The hot paths whose instructions are counted. Each does the same set-up
//! whatever `n` is and then the path `n` times, so that the difference between
//! a run of `2n` and one of `n` is the path alone. Each checks that it did what
//! it is named for.

use crate::app::{recorder, stream_ref};
use crate::armed::Armed;
use crate::events::{Done, Waiting};
use crate::spans::{Spans, handle, kernel};
use metrale_gpu_runtime::timing::{
    FuncRef, RawGraph, Recorder, Status, TwinState, TwinsConfig, Updates,
};
use metrale_gpu_sim::app::App;
use metrale_telemetry::instrument::NanosHistogram;
use metrale_telemetry::kernel::{KernelInstruments, SpanKey, SpanRing, StepShape};
use metrale_telemetry::runtime::{Fold, StepTable};
use metrale_telemetry::{Level, Telemetry, TelemetryConfig};
use std::ffi::c_void;
use std::hint::black_box;

/// A path.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub struct HotPath {
    /// Its name in `limits.toml`.
    pub name: &'static str,
    /// How often it is run, and twice as often.
    pub n: u64,
    /// The path whose instructions are in this one and are taken off.
    pub minus: Option<&'static str>,
    /// Runs it so many times.
    #[serde(skip)]
    pub run: fn(u64),
}

const fn path(name: &'static str, n: u64, run: fn(u64)) -> HotPath {
    HotPath { name, n, minus: None, run }
}

/// All of them.
pub const PATHS: &[HotPath] = &[
    path("begin_end", 10_000, begin_end),
    path("begin_end_armed", 10_000, |n| drop(filled_armed(n))),
    HotPath { minus: Some("begin_end"), ..path("harvest_landed", 10_000, harvest_landed) },
    HotPath { minus: Some("begin_end_armed"), ..path("harvest_armed", 10_000, harvest_armed) },
    path("harvest_idle", 10_000, harvest_idle),
    path("harvest_pending_1", 1_000, |n| harvest_pending(n, 1, 1)),
    path("harvest_pending_16", 1_000, |n| harvest_pending(n, 16, 1)),
    path("harvest_pending_256", 100, |n| harvest_pending(n, 256, 1)),
    path("harvest_pending_1000", 100, |n| harvest_pending(n, 1_000, 1)),
    path("harvest_pending_4096", 20, |n| harvest_pending(n, 4_096, 1)),
    path("harvest_pending_8_streams", 100, |n| harvest_pending(n, 1_000, 8)),
    path("harvest_open_0", 1_000, |n| harvest_open(n, 0)),
    path("harvest_open_16", 1_000, |n| harvest_open(n, 16)),
    path("harvest_open_256", 100, |n| harvest_open(n, 256)),
    path("harvest_open_4096", 20, |n| harvest_open(n, 4096)),
    path("observe", 10_000, observe),
    path("table_hit", 10_000, table_hit),
    path("step_begin_off", 10_000, |n| step_begin(n, Level::Off)),
    path("step_begin_basic", 10_000, |n| step_begin(n, Level::Basic)),
    path("step_begin_kernel", 10_000, |n| step_begin(n, Level::Kernel)),
    path("step_recorded", 10_000, step_recorded),
    path("lane_off", 10_000, lane_off),
    path("launch_off", 10_000, |n| launch(n, Level::Off)),
    path("launch_unarmed", 10_000, |n| launch(n, Level::Kernel)),
    path("replay_unarmed", 10_000, replay_unarmed),
    path("step_disabled", 10_000, step_disabled),
];

/// More slots than any path fills.
const SLOTS: usize = 1 << 16;

static INTO: KernelInstruments = KernelInstruments::new();

#[inline(never)]
fn fill(ring: &SpanRing<Done>, n: u64) {
    assert_eq!(ring.fill(n as usize, 1, &INTO) as u64, n);
}

fn begin_end(n: u64) {
    fill(&SpanRing::new(Done, SLOTS), n);
}

fn harvest_landed(n: u64) {
    let ring = SpanRing::new(Done, SLOTS);
    fill(&ring, n);
    assert_eq!(ring.harvest(&INTO) as u64, n);
}

/// Launches to an armed step.
const TO_STEP: usize = 1_000;

/// `n` launches in armed steps.
fn filled_armed(n: u64) -> Armed {
    let armed = Armed::new(SLOTS / TO_STEP, TO_STEP);
    armed.fill(n as usize / TO_STEP);
    armed
}

/// The pass that lands them and folds their steps.
fn harvest_armed(n: u64) {
    let armed = filled_armed(n);
    assert_eq!(armed.harvest(&INTO, || ()) as u64, n);
    assert!(armed.is_idle());
}

fn harvest_idle(n: u64) {
    let ring = SpanRing::new(Done, 4096);
    fill(&ring, 4096);
    assert_eq!(ring.harvest(&INTO), 4096);
    for _ in 0..n {
        assert_eq!(black_box(&ring).harvest(&INTO), 0);
    }
}

/// Passes over so many pending spans, turn by turn of so many streams.
fn harvest_pending(n: u64, spans: usize, streams: u64) {
    let ring = SpanRing::new(Waiting, 4096);
    assert_eq!(ring.fill(spans, streams, &INTO), spans);
    for _ in 0..n {
        assert_eq!(black_box(&ring).harvest(&INTO), 0);
    }
}

/// Passes over a span left open and `landed` spans after it that are over.
fn harvest_open(n: u64, landed: usize) {
    let ring = SpanRing::new(Done, SLOTS);
    let open = ring.begin(SpanKey::Kernel(kernel(0)), 1, &INTO);
    assert!(open.is_some());
    fill(&ring, landed as u64);
    assert_eq!(ring.harvest(&INTO), landed);
    for _ in 0..n {
        assert_eq!(black_box(&ring).harvest(&INTO), 0);
    }
    assert_eq!(ring.ledger().in_flight, 1);
}

/// Durations from 1 µs to 16 ms, spread over the octaves; the same each time.
#[must_use]
pub fn durations() -> [u64; 256] {
    let mut random = fastrand::Rng::with_seed(0);
    std::array::from_fn(|_| (1_000 << random.u32(0..14)) + random.u64(0..1_000))
}

/// The first function handles.
#[must_use]
pub fn handles() -> [u64; 64] {
    std::array::from_fn(handle)
}

fn observe(n: u64) {
    static HISTOGRAM: NanosHistogram = NanosHistogram::new();
    let durations = durations();
    for at in 0..n as usize {
        HISTOGRAM.observe(durations[at & 255]);
    }
    assert_eq!(HISTOGRAM.count(), n);
}

fn table_hit(n: u64) {
    let (handles, durations) = (handles(), durations());
    for handle in handles {
        INTO.record(SpanKey::Kernel(handle), 1);
    }
    for at in 0..n as usize {
        INTO.record(SpanKey::Kernel(handles[at & 63]), durations[at & 255]);
    }
    let samples: u64 = INTO.kernels().iter().map(|row| row.samples).sum();
    assert_eq!(samples, n + 64);
}

fn step_begin(n: u64, level: Level) {
    static TELEMETRY: Telemetry = Telemetry::new();
    let config = TelemetryConfig { level, ..TelemetryConfig::DEFAULT };
    TELEMETRY.configure(config).expect("the default stride");
    for _ in 0..n {
        black_box(TELEMETRY.step_begin());
    }
    let counted = if level == Level::Off { 0 } else { n };
    assert_eq!(TELEMETRY.steps(), counted);
}

/// Steps that state a shape and count a lane's span, and the record that each
/// leaves at a pass.
fn step_recorded(n: u64) {
    static TELEMETRY: Telemetry = Telemetry::new();
    let (mut fold, table) = (Fold::default(), StepTable::new());
    for at in 0..n {
        let step = TELEMETRY.step_begin();
        TELEMETRY.shape(step, black_box(StepShape::new().decode_tokens(8).requests(8)));
        TELEMETRY.enter_lane(step);
        TELEMETRY.leave_lane(at, false);
        TELEMETRY.close_step(step, Some(0..black_box(at)));
        if at % 256 == 255 {
            let folding = fold.harvest(&table, TELEMETRY.instruments());
            folding.finish(TELEMETRY.newest_track(), None);
        }
    }
    assert_eq!(TELEMETRY.step_losses().unrecorded_steps, 0);
}

fn lane_off(n: u64) {
    let app = App::default();
    let recorder = recorder(&app, Level::Off, 1, None);
    let step = recorder.step();
    for _ in 0..n {
        drop(black_box(step.lane(0, stream_ref(app.stream))));
    }
    assert_eq!(recorder.lane_ledger().attempts, 0);
}

/// A launch guard on a step that is not armed.
fn launch(n: u64, level: Level) {
    let app = App::default();
    let recorder = recorder(&app, level, 64, None);
    let step = std::iter::repeat_with(|| recorder.step())
        .take(64)
        .find(|step| !step.is_armed())
        .expect("one step in 64 is armed");
    let lane = step.lane(0, stream_ref(app.stream));
    let spin = FuncRef::from_raw(app.spin);
    for _ in 0..n {
        drop(black_box(lane.launch_guard(spin)));
    }
    assert_eq!(recorder.kernel_ledger().attempts, 0);
}

/// A replay on a step that is not armed, of a graph with a twin; the driver's part
/// does nothing.
fn replay_unarmed(n: u64) {
    unsafe extern "C" fn nothing(_: *mut c_void, _: *mut c_void) -> Status {
        Status::SUCCESS
    }
    let app = App::default();
    let recorder = recorder(&app, Level::Kernel, 64, Some(TwinsConfig::default()));
    let stream = stream_ref(app.stream);
    let (graph, exec) = app.graph(1_000);
    let graph = RawGraph { graph, exec, flags: Some(0), launch: nothing };
    // SAFETY: the graph lives as long as the simulator's world.
    let twin = unsafe { recorder.twin_raw(graph, "graph", Updates::Never) };
    assert_eq!(twin.state(), TwinState::Ready);
    let mut steps = std::iter::repeat_with(|| recorder.step()).take(128);
    // The stream of the last launch is known of armed ones.
    let armed = steps.find(|step| step.is_armed()).expect("one in 64");
    armed.lane(0, stream).replay(&twin).expect("nothing fails");
    drop(armed);
    let step = steps.find(|step| !step.is_armed()).expect("most are not");
    let lane = step.lane(0, stream);
    for _ in 0..n {
        black_box(lane.replay(black_box(&twin))).expect("nothing fails");
    }
    assert_eq!(recorder.twin_ledger().plain(), 1, "{:?}", recorder.twin_ledger());
}

/// A step of one lane with one launch where nothing is measured.
fn step_disabled(n: u64) {
    let recorder = black_box(Recorder::disabled());
    for _ in 0..n {
        let step = black_box(recorder.step());
        let lane = black_box(step.lane(0, stream_ref(1)));
        drop(black_box(lane.launch_guard(FuncRef::from_raw(1))));
    }
    assert!(recorder.is_disabled());
}
