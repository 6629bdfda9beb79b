// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether captures survive that a recorder records and harvests meanwhile.

use super::{Body, Section};
use crate::gpu::Failure;
use crate::gpu::cuda::Stream;
use crate::gpu::device::Gpu;
use crate::gpu::rig::{self, EVERY};
use crate::gpu::run::Bench;
use metrale_gpu_runtime::timing::{Harvest, Recorder, RecorderConfig};
use metrale_telemetry::kernel::LANE_DECODE;
use serde_json::json;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

pub(super) const SECTION: Section = Section {
    id: "captures",
    title: "Captures beside a harvest",
    about: "One thread captures four kernels again and again, in each of the three modes, while another \
            records lanes on a stream of its own and somebody harvests. A capture stays open until a span landed. It survives if it ends with \
            status 0 and a graph: all must. The last row shows that the check can fail: one poll as a \
            library without guards would make it.",
    seconds: 25,
    body: Body::OnDevice(measure),
};

const MODES: [(&str, u32); 3] = [("global", 0), ("thread-local", 1), ("relaxed", 2)];
const CAPTURES: u32 = 400;
/// Between two harvests: far more often than a server would.
const INTERVAL: Duration = Duration::from_micros(100);
/// How long a capture stays open for a span to land.
const PATIENCE: Duration = Duration::from_millis(20);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    /// The recorder's own thread.
    Recorder,
    /// The thread that records lanes.
    Other,
    /// The thread that captures.
    Capturing,
}

const HARVESTERS: [(&str, Who); 3] = [
    ("the recorder's thread", Who::Recorder),
    ("another thread", Who::Other),
    ("the capturing thread", Who::Capturing),
];

fn measure(bench: &Bench) -> Result<(), Failure> {
    let columns = [
        "capture mode",
        "who harvests",
        "captures",
        "with a harvest inside",
        "survived",
        "lanes landed meanwhile",
        "polls refused",
    ];
    let table = bench.page.table("captures", "Captures that survived.", &columns);
    let mut left = (MODES.len() * HARVESTERS.len()) as u32;
    let mut broken = 0;
    for (mode_name, mode) in MODES {
        for (name, who) in HARVESTERS {
            let told = case(bench, left, mode, who)?;
            left -= 1;
            broken += told.tried - told.survived;
            let Told { tried, harvested, survived, landed, refused } = told;
            table.row(json!([mode_name, name, tried, harvested, survived, landed, refused]));
        }
    }
    let survived = u8::from(unguarded(&bench.gpu)?);
    let name = "nobody; an unguarded poll by another thread";
    table.row(json!(["global", name, 1, 0, survived, 0, 0]));
    if broken > 0 {
        return Err(Failure::Other(format!("{broken} captures were broken")));
    }
    Ok(())
}

#[derive(Clone, Copy, Debug, Default)]
struct Told {
    tried: u64,
    /// Captures during which spans landed.
    harvested: u64,
    survived: u64,
    landed: u64,
    refused: u64,
}

fn case(bench: &Bench, left: u32, mode: u32, who: Who) -> Result<Told, Failure> {
    let gpu = &bench.gpu;
    let harvest = match who {
        Who::Recorder => Harvest::OwnThread(INTERVAL),
        Who::Other | Who::Capturing => Harvest::Explicit,
    };
    let config = RecorderConfig { harvest, ..RecorderConfig::default() };
    let recorder = rig::recorder(gpu, rig::telemetry(EVERY)?, config)?;
    let streams = (gpu.stream()?, gpu.stream()?);
    let apart = gpu.stream()?;
    let stop = AtomicBool::new(false);
    let mut told = Told::default();
    std::thread::scope(|scope| {
        let beside = scope.spawn(|| beside(gpu, &recorder, apart, who, &stop));
        for _ in bench.budget.part(left).rounds(20, CAPTURES) {
            let before = recorder.lane_ledger().landed;
            told.tried += 1;
            told.survived += u64::from(capture(gpu, &recorder, streams, mode, who));
            told.harvested += u64::from(recorder.lane_ledger().landed > before);
        }
        stop.store(true, Ordering::Relaxed);
        let ended = beside.join();
        ended.map_err(|_| Failure::Other("the recording thread panicked".to_owned()))?
    })?;
    gpu.cuda.sync(apart)?;
    gpu.cuda.sync(streams.1)?;
    rig::settle(&recorder)?;
    told.landed = recorder.lane_ledger().landed;
    told.refused = recorder.health().polls_refused;
    recorder.close();
    Ok(told)
}

/// Records lanes until it is stopped.
fn beside(
    gpu: &Gpu,
    recorder: &Recorder,
    stream: Stream,
    who: Who,
    stop: &AtomicBool,
) -> Result<(), Failure> {
    gpu.enter()?;
    while !stop.load(Ordering::Relaxed) {
        lane(gpu, recorder, stream);
        if who == Who::Other {
            recorder.harvest();
        }
        std::thread::sleep(Duration::from_micros(50));
    }
    Ok(())
}

fn lane(gpu: &Gpu, recorder: &Recorder, stream: Stream) {
    let step = recorder.telemetry().step_begin();
    if let Some(token) = recorder.begin_lane(step, LANE_DECODE, stream.of(gpu)) {
        recorder.end_lane(token, stream.of(gpu));
    }
}

/// One capture; whether it survived. It is open until a span landed, for a
/// bounded time.
fn capture(
    gpu: &Gpu,
    recorder: &Recorder,
    (captured, ours): (Stream, Stream),
    mode: u32,
    who: Who,
) -> bool {
    let before = recorder.lane_ledger().landed;
    let mut fine = gpu.cuda.begin_capture(captured, mode).is_ok();
    let began = Instant::now();
    for _ in 0..4 {
        fine &= gpu.launch(gpu.empty, captured, 0).is_ok();
        if who == Who::Capturing {
            lane(gpu, recorder, ours);
            recorder.harvest();
        }
    }
    while recorder.lane_ledger().landed == before && began.elapsed() < PATIENCE {
        if who == Who::Capturing {
            recorder.harvest();
        }
        std::thread::yield_now();
    }
    gpu.end_capture(captured) && fine
}

/// A poll by a thread in its ordinary mode during a global capture; whether
/// that survived.
fn unguarded(gpu: &Gpu) -> Result<bool, Failure> {
    let (captured, apart) = (gpu.stream()?, gpu.stream()?);
    let event = gpu.event()?;
    gpu.cuda.record(event, apart)?;
    gpu.cuda.sync(apart)?;
    gpu.cuda.begin_capture(captured, 0)?;
    let polled = std::thread::scope(|scope| scope.spawn(|| gpu.query(event)).join());
    let survived = gpu.end_capture(captured);
    // What the poll itself is answered does not matter.
    let _ = polled.map_err(|_| Failure::Other("the polling thread panicked".to_owned()))?;
    Ok(survived)
}
