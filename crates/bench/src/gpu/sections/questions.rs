// SPDX-License-Identifier: MIT OR Apache-2.0
//! What nobody could say without a GPU, one line for each, in the order in
//! which the questions were written down.

use super::{Body, Section, reset};
use crate::gpu::Failure;
use crate::gpu::device::{Event, Gpu, Stream};
use crate::gpu::item::{Item, Table};
use crate::gpu::parent;
use crate::gpu::run::{Bench, device_name};
use crate::gpu::stats::{summary, tick};
use crate::gpu::timer::cost;
use metrale_gpu_sys::cuda::Status;
use std::hint::black_box;
use std::time::{Duration, Instant};

pub(super) const SECTION: Section = Section {
    id: "questions",
    title: "Open questions",
    about: "What documentation and reports leave open, tried here.",
    seconds: 30,
    body: Body::OnDevice(measure),
};

/// Tries, and gives the answer in one line.
type Try = fn(&Bench) -> Result<String, Failure>;

/// What is asked, and who tries.
const QUESTIONS: [(&str, Try); 6] = [
    ("What does cuStreamIsCapturing cost?", capture_query),
    (
        "Is reading a time an unsafe call during a capture?",
        elapsed,
    ),
    (
        "What does a query answer after a reset of the primary context?",
        after_reset,
    ),
    ("Is cuStreamGetId refused during a capture?", stream_id),
    (
        "Does work begin before anything is asked (the WDDM question)?",
        flush,
    ),
    ("What is the tick of events?", event_tick),
];

fn measure(bench: &Bench) -> Result<(), Failure> {
    let columns = [("question", ""), ("answer", "")];
    let mut table = Table::new("questions", "Question and answer.", &columns);
    for (question, answer) in QUESTIONS {
        bench.tell.trying(question);
        let answer = answer(bench).unwrap_or_else(|failure| format!("not answered: {failure}"));
        table.row([question.into(), answer.into()]);
        bench.tell.table(&table);
    }
    Ok(())
}

/// Handle of the legacy stream.
const LEGACY: u64 = 1;

fn capture_query(bench: &Bench) -> Result<String, Failure> {
    let gpu = &bench.gpu;
    let (stream, captured) = (gpu.stream()?, gpu.stream()?);
    let budget = bench.budget.part(8);
    let ask = |stream: u64| {
        let told = cost(
            &budget,
            200,
            64,
            || Ok(()),
            |_| {
                black_box(gpu.capturing(stream));
                Ok(())
            },
        )?;
        Ok::<_, Failure>(format!("{:.0} ns (p99 {:.0})", told.median_ns, told.p99_ns))
    };
    let (plain, legacy) = (ask(stream.0)?, ask(LEGACY)?);
    gpu.begin_capture(captured, 2)?;
    let capturing = ask(captured.0);
    let (ended, _) = gpu.end_capture(captured);
    Ok(format!(
        "{plain}; the legacy stream {legacy}; a stream that captures {}, whose capture ended with {}",
        capturing?, ended.0
    ))
}

/// A call while this thread captures in the global mode, by this thread or by
/// another one in its ordinary mode: its status, and whether the capture
/// survived.
fn during_capture(
    gpu: &Gpu,
    captured: Stream,
    elsewhere: bool,
    call: impl Fn() -> Status + Sync,
) -> Result<String, Failure> {
    gpu.begin_capture(captured, 0)?;
    let status = if elsewhere {
        let there = || {
            gpu.enter()?;
            Ok::<_, Failure>(call())
        };
        let told = std::thread::scope(|scope| scope.spawn(there).join());
        told.map_err(|_| Failure::Other("the calling thread panicked".to_owned()))?
    } else {
        Ok(call())
    };
    let (ended, is_graph) = gpu.end_capture(captured);
    let survived = if ended.is_success() && is_graph {
        "survived"
    } else {
        "was broken"
    };
    let who = if elsewhere {
        "another thread"
    } else {
        "the capturing thread"
    };
    Ok(format!("{who}: {}, the capture {survived}", status?.0))
}

fn both(gpu: &Gpu, captured: Stream, call: impl Fn() -> Status + Sync) -> Result<String, Failure> {
    let here = during_capture(gpu, captured, false, &call)?;
    let there = during_capture(gpu, captured, true, &call)?;
    Ok(format!("{here}; {there}"))
}

fn elapsed(bench: &Bench) -> Result<String, Failure> {
    let gpu = &bench.gpu;
    let (captured, apart) = (gpu.stream()?, gpu.stream()?);
    let (from, to) = (gpu.event()?, gpu.event()?);
    gpu.record(from, apart)?;
    gpu.record(to, apart)?;
    gpu.sync(apart)?;
    let first = both(gpu, captured, || gpu.read_v1(from, to).0)?;
    let second = match gpu.read_v2(from, to) {
        None => "the driver has none".to_owned(),
        Some(_) => both(gpu, captured, || {
            gpu.read_v2(from, to)
                .map_or(Status::ERROR_NOT_FOUND, |told| told.0)
        })?,
    };
    Ok(format!("first form: {first}. Second form: {second}"))
}

fn after_reset(bench: &Bench) -> Result<String, Failure> {
    let mut told = Vec::new();
    let time = Duration::from_secs(5);
    let end = parent::run(
        &bench.tell.options,
        reset::ID,
        0,
        (time, time),
        &mut |item| {
            if let Item::Note(note) = item {
                told.push(note);
            }
        },
    );
    told.extend(end.failure());
    Ok(told.join("; "))
}

fn stream_id(bench: &Bench) -> Result<String, Failure> {
    let gpu = &bench.gpu;
    let Some(call) = gpu.more.stream_id else {
        return Err(Failure::Missing(c"cuStreamGetId"));
    };
    let (captured, apart) = (gpu.stream()?, gpu.stream()?);
    let ask = |stream: Stream| {
        let mut id = 0;
        // SAFETY: a live stream, and a pointer to a live integer.
        unsafe { call(stream.0, &raw mut id) }
    };
    let own = both(gpu, captured, || ask(captured))?;
    let other = both(gpu, captured, || ask(apart))?;
    let version = gpu.driver.version();
    let version = format!("{}.{}", version / 1000, version % 1000 / 10);
    Ok(format!(
        "CUDA {version}, of the stream that captures: {own}. Of another stream: {other}"
    ))
}

/// How long the device may take to begin by itself.
const PATIENCE: Duration = Duration::from_millis(200);

fn flush(bench: &Bench) -> Result<String, Failure> {
    let gpu = &bench.gpu;
    if gpu.is_simulated() {
        return Ok("not measurable on the simulator: its kernels write nothing".to_owned());
    }
    let stream = gpu.stream()?;
    let (first, second) = (gpu.flag()?, gpu.flag()?);
    // A driver may load a kernel only when it is first run.
    gpu.mark(stream, first)?;
    gpu.sync(stream)?;
    let event: Event = gpu.event()?;
    gpu.mark(stream, second)?;
    gpu.record(event, stream)?;
    let began = Instant::now();
    // SAFETY: four bytes of the host that live as long as the process.
    let is_set = || unsafe { second.read_volatile() } != 0;
    while began.elapsed() < PATIENCE && !is_set() {
        std::hint::spin_loop();
    }
    let took = began.elapsed();
    let by_itself = is_set();
    gpu.sync(stream)?;
    let system = std::env::consts::OS;
    Ok(if by_itself {
        format!(
            "on {system} a kernel's write was seen {} µs after its launch, with no call in between",
            took.as_micros()
        )
    } else {
        format!(
            "on {system} nothing had begun {} ms after the launch",
            took.as_millis()
        )
    })
}

/// Pairs around kernels of many lengths: enough readings to show the tick.
fn event_tick(bench: &Bench) -> Result<String, Failure> {
    let gpu = &bench.gpu;
    let stream = gpu.stream()?;
    let (from, to) = (gpu.event()?, gpu.event()?);
    let mut readings = Vec::new();
    for round in bench.budget.part(4).rounds(64, 1_000) {
        gpu.record(from, stream)?;
        gpu.launch(gpu.spin, stream, 2_000 + 37 * u64::from(round))?;
        gpu.record(to, stream)?;
        gpu.sync(stream)?;
        readings.push(gpu.elapsed(from, to)?);
    }
    let step = tick(&readings).map_or("no step".to_owned(), |ns| format!("{ns:.0} ns"));
    let count = summary(readings).map_or(0, |it| it.count);
    let virtual_time = if gpu.is_simulated() {
        " (virtual time)"
    } else {
        ""
    };
    let device = device_name(&gpu.driver, gpu.ordinal);
    Ok(format!(
        "{device}: least step between {count} readings {step}{virtual_time}"
    ))
}
