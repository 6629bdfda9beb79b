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
use serde::Serialize;
use serde_json::json;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

pub(super) const SECTION: Section = Section {
    id: "captures",
    title: "Captures beside a harvest",
    about: "One thread captures four kernels again and again, in each of the three modes, while another \
            records lanes on a stream of its own and somebody harvests. A capture stays open until a span \
            landed. It survives if it ends with status 0 and a graph: all must. The last row shows that the check can fail: one poll as a \
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

/// Who harvests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
enum Who {
    #[serde(rename = "the recorder's thread")]
    Recorder,
    /// The one that records lanes.
    #[serde(rename = "another thread")]
    Other,
    #[serde(rename = "the capturing thread")]
    Capturing,
}

const HARVESTERS: [Who; 3] = [Who::Recorder, Who::Other, Who::Capturing];

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
    let cases = MODES.iter().flat_map(|mode| HARVESTERS.map(|who| (mode, who)));
    let (all, mut broken) = (MODES.len() * HARVESTERS.len(), 0);
    for (at, ((name, mode), who)) in cases.enumerate() {
        let Told { tried, harvested, survived, landed, refused } =
            case(bench, (all - at) as u32, *mode, who)?;
        broken += tried - survived;
        table.row(json!([name, who, tried, harvested, survived, landed, refused]));
    }
    let survived = u8::from(unguarded(&bench.gpu)?);
    let who = "nobody; an unguarded poll by another thread";
    table.row(json!(["global", who, 1, 0, survived, 0, 0]));
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
    let harvest =
        if who == Who::Recorder { Harvest::OwnThread(INTERVAL) } else { Harvest::Explicit };
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
    gpu.cuda.set_current(gpu.context)?;
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
