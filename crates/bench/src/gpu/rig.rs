// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recorders as a server would have them, and its steps.

use super::Failure;
use super::cuda::{Event, Graph, Stream};
use super::device::Gpu;
use metrale_gpu_runtime::timing::{
    ContextRef, GraphRef, Harvest, LANE_SLOTS, Recorder, RecorderConfig, SPAN_SLOTS,
};
use metrale_telemetry::kernel::{LANE_DECODE, LANES};
use metrale_telemetry::{Level, Sampling, Step, Telemetry, TelemetryConfig};
use std::sync::Arc;
use std::time::{Duration, Instant};

const fn config(level: Level, every: u64, sampling: Sampling) -> TelemetryConfig {
    TelemetryConfig { level, every, sampling, seed: 0 }
}

/// Every step armed.
pub(crate) const EVERY: TelemetryConfig = config(Level::Kernel, 1, Sampling::Hashed);
/// The default.
pub(crate) const DEFAULT: TelemetryConfig = config(Level::Kernel, 64, Sampling::Hashed);

/// What watches a step, the bare step first.
pub(crate) const WATCHES: [(&str, Option<TelemetryConfig>); 6] = [
    ("no recorder", None),
    ("Off", Some(config(Level::Off, 64, Sampling::Hashed))),
    ("Basic", Some(config(Level::Basic, 64, Sampling::Hashed))),
    ("Kernel, N = 64", Some(DEFAULT)),
    ("Kernel, Spread, N = 64", Some(config(Level::Kernel, 64, Sampling::Spread))),
    ("Kernel, N = 1", Some(EVERY)),
];

/// Telemetry that is never dropped.
pub(crate) fn telemetry(config: TelemetryConfig) -> Result<&'static Telemetry, Failure> {
    let telemetry = Telemetry::new().leak();
    telemetry.configure(config).map_err(Failure::other)?;
    Ok(telemetry)
}

/// A recorder over telemetry of its own, which somebody harvests.
pub(crate) fn explicit(gpu: &Gpu, config: TelemetryConfig) -> Result<Recorder, Failure> {
    let harvest = Harvest::Explicit;
    recorder(gpu, telemetry(config)?, RecorderConfig { harvest, ..RecorderConfig::default() })
}

/// A recorder over `telemetry`.
pub(crate) fn recorder(
    gpu: &Gpu,
    telemetry: &'static Telemetry,
    config: RecorderConfig,
) -> Result<Recorder, Failure> {
    let driver = Arc::clone(&gpu.driver);
    // SAFETY: the context lives as long as the process.
    let made =
        unsafe { Recorder::from_raw(driver, ContextRef::from_raw(gpu.context), telemetry, config) };
    made.map_err(Failure::other)
}

/// One launch in a span of its own on the stream.
pub(crate) fn span(
    gpu: &Gpu,
    stream: Stream,
    recorder: &Recorder,
    step: Step,
    launch: impl FnOnce() -> Result<(), Failure>,
) -> Result<(), Failure> {
    let token = recorder.begin_launch(step, LANE_DECODE, gpu.spin.named(), stream.of(gpu));
    let token = token.ok_or_else(dropped)?;
    launch()?;
    recorder.end_launch(token, stream.of(gpu));
    Ok(())
}

/// Where there is no span to measure.
pub(crate) fn dropped() -> Failure {
    Failure::Other("the recorder gave no span".to_owned())
}

/// What a lane launches.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Work {
    /// So many kernels of so many nanoseconds, over the three lanes.
    Eager { launches: usize, ns: u64 },
    /// One graph, in the last lane.
    Graph(Graph),
}

/// One step as `recorder` sees it, or the bare step.
pub(crate) fn step(
    gpu: &Gpu,
    stream: Stream,
    work: Work,
    recorder: Option<(&Recorder, GraphRef)>,
) -> Result<(), Failure> {
    let Some((recorder, name)) = recorder else {
        return match work {
            Work::Eager { launches, ns } => {
                (0..launches).try_for_each(|_| gpu.launch(gpu.spin, stream, ns))
            }
            Work::Graph(graph) => gpu.cuda.launch_graph(graph, stream),
        };
    };
    let step = recorder.step();
    for lane in 0..LANES.len() {
        let guard = step.lane(lane, stream.of(gpu));
        match work {
            Work::Eager { launches, ns } => {
                let share = launches * (lane + 1) / LANES.len() - launches * lane / LANES.len();
                for _ in 0..share {
                    let _launch = guard.launch_guard(gpu.spin.named());
                    gpu.launch(gpu.spin, stream, ns)?;
                }
            }
            Work::Graph(graph) if lane + 1 == LANES.len() => {
                let _launch = guard.launch_guard(name);
                gpu.cuda.launch_graph(graph, stream)?;
            }
            Work::Graph(_) => {}
        }
    }
    Ok(())
}

/// How long to wait for a recorder.
const PATIENCE: Duration = Duration::from_secs(1);

/// Waits until the rings have room for a step of `spans` launches, for a bounded
/// time; a ring that is full drops spans, which are counted.
pub(crate) fn make_room(recorder: &Recorder, spans: usize) {
    let began = Instant::now();
    let is_full = || {
        let kernels = recorder.kernel_ledger().in_flight as usize + spans;
        let lanes = recorder.lane_ledger().in_flight as usize + LANES.len();
        kernels > SPAN_SLOTS || lanes > LANE_SLOTS
    };
    while is_full() && began.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Harvests until nothing is in flight, for a bounded time: a recorder whose
/// polls were slow leaves some harvests out. What was recorded is over.
pub(crate) fn settle(recorder: &Recorder) -> Result<(), Failure> {
    let began = Instant::now();
    loop {
        recorder.harvest();
        let left = recorder.kernel_ledger().in_flight + recorder.lane_ledger().in_flight;
        if left == 0 {
            return Ok(());
        }
        if began.elapsed() > PATIENCE {
            let health = recorder.health();
            return Err(Failure::Other(format!("{left} spans did not land: {health:?}")));
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Runs `work` between two events, which tell what it takes on the GPU.
pub(crate) fn between<T>(
    gpu: &Gpu,
    stream: Stream,
    [from, to]: [Event; 2],
    work: impl FnOnce() -> Result<T, Failure>,
) -> Result<T, Failure> {
    gpu.cuda.record(from, stream)?;
    let given = work()?;
    gpu.cuda.record(to, stream)?;
    Ok(given)
}
