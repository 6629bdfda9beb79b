// SPDX-License-Identifier: MIT OR Apache-2.0
//! What each driver call and each step of the recorder costs the host.

use super::{Body, Section};
use crate::gpu::Failure;
use crate::gpu::cuda::{Event, Stream};
use crate::gpu::rig::{self, DEFAULT, EVERY, dropped};
use crate::gpu::run::Bench;
use crate::gpu::stats::summary;
use crate::gpu::timer::{COLUMNS, Cost, clock_ns, cost};
use metrale_gpu_runtime::timing::Recorder;
use metrale_gpu_sys::cuda::CAPTURE_MODE_RELAXED;
use metrale_telemetry::kernel::LANE_DECODE;
use serde_json::json;
use std::hint::black_box;
use std::time::Instant;

pub(super) const SECTION: Section = Section {
    id: "host",
    title: "Host cost",
    about: "What one call takes on the calling thread. Median: over rounds, of a round's mean; p99: of \
            calls timed one by one, less what reading the clock takes.",
    seconds: 35,
    body: Body::OnDevice(measure),
};

/// Calls in a round: far fewer than a driver queues.
const CALLS: usize = 64;
/// Rounds of a row, where the time allows.
const ROUNDS: u32 = 500;
/// GPU time of work that is still running when it is asked about.
const BUSY_NS: u64 = 4_000_000;
/// Rows of the two tables together.
const ROWS: u32 = 16;

fn measure(bench: &Bench) -> Result<(), Failure> {
    bench.page.note(format!("Reading the clock twice takes {:.0} ns.", clock_ns()));
    let (stream, events) = (bench.gpu.stream()?, bench.gpu.events(CALLS + 1)?);
    let rig = Rig { bench, stream, events };
    calls(&rig)?;
    recorder(&rig)
}

/// A table of what calls cost; where one cannot be measured, why.
fn table<'b>(
    bench: &'b Bench,
    key: &str,
    title: &str,
) -> impl Fn(&str, Result<Cost, Failure>) + use<'b> {
    let columns = ["call"].into_iter().chain(COLUMNS).collect::<Vec<_>>();
    let table = bench.page.table(key, title, &columns);
    move |call, cost| match cost {
        Ok(cost) => table.row(cost.row(call)),
        Err(failure) => table.row(json!([call, failure.to_string(), "-", 0])),
    }
}

fn calls(rig: &Rig) -> Result<(), Failure> {
    let (gpu, stream, events) = (&rig.bench.gpu, rig.stream, &rig.events);
    let row = table(rig.bench, "calls", "Driver calls.");
    let (mut told, mut mode) = (0, CAPTURE_MODE_RELAXED);
    let record = |at: usize| gpu.cuda.record(events[at], stream);
    row("event record", rig.cost(|| rig.quiet(), record));
    for (name, busy) in
        [("capture query, idle stream", false), ("capture query, busy stream", true)]
    {
        row(name, rig.cost(|| rig.recorded(busy), |_| gpu.cuda.capturing(stream, &mut told)));
    }
    row("capture mode exchange", rig.cost(|| Ok(()), |_| gpu.cuda.exchange_mode(&mut mode)));
    gpu.cuda.exchange_mode(&mut 0)?;
    for (name, busy) in [("event query, not ready", true), ("event query, ready", false)] {
        let query = |at: usize| match gpu.query(events[at])? {
            ready if ready != busy => Ok(()),
            true => Err(Failure::Other("cuEventQuery: over too early".to_owned())),
            false => Err(Failure::Other("cuEventQuery: not over".to_owned())),
        };
        row(name, rig.cost(|| rig.recorded(busy), query));
    }
    let elapsed = |at: usize| gpu.elapsed(events[at], events[at + 1]);
    row("elapsed, first form", rig.cost(|| rig.recorded(false), elapsed));
    let elapsed = |at: usize| gpu.elapsed_v2(events[at], events[at + 1]);
    row("elapsed, second form (12.8)", rig.cost(|| rig.recorded(false), elapsed));
    let launch = |_| gpu.launch(gpu.empty, stream, 0);
    row("launch of an empty kernel, to compare with", rig.cost(|| rig.quiet(), launch));
    Ok(())
}

/// What the recorder does with them.
fn recorder(rig: &Rig) -> Result<(), Failure> {
    let (gpu, stream) = (&rig.bench.gpu, rig.stream);
    let row = table(rig.bench, "recorder", "Through the recorder, harvested explicitly.");
    let every = rig::explicit(gpu, EVERY)?;
    let begin = || every.telemetry().step_begin();
    let settle = || rig.quiet().and_then(|()| rig::settle(&every));
    let span = |step| rig::span(gpu, stream, &every, step, || Ok(()));

    let step = begin();
    let lane = |_| {
        let token = every.begin_lane(step, LANE_DECODE, stream.of(gpu));
        every.end_lane(token.ok_or_else(dropped)?, stream.of(gpu));
        Ok(())
    };
    row("lane, begin and end", rig.cost(settle, lane));
    let step = begin();
    row("launch on an armed step, begin and end", rig.cost(settle, |_| span(step)));
    let sampled = rig::explicit(gpu, DEFAULT)?;
    let unarmed = std::iter::repeat_with(|| sampled.step()).find(|step| !step.is_armed());
    let unarmed = unarmed.ok_or_else(dropped)?;
    let lane = unarmed.lane(LANE_DECODE, stream.of(gpu));
    let launch = |_| {
        drop(black_box(lane.launch_guard(gpu.spin.named())));
        Ok(())
    };
    row("launch on a step that is not armed", rig.cost(|| Ok(()), launch));
    let step = begin();
    row("harvest, for each span that lands", rig.landed(&every, settle, || span(step)));
    row("harvest, nothing in flight", rig.cost(settle, |_| Ok(every.harvest())));
    let step = begin();
    let pending = || {
        settle()?;
        gpu.launch(gpu.spin, stream, BUSY_NS)?;
        (0..CALLS).try_for_each(|_| span(step))
    };
    let harvest = |_| match every.harvest() {
        0 => Ok(()),
        landed => Err(Failure::Other(format!("{landed} spans landed too early"))),
    };
    row("harvest, 64 spans of one busy stream", rig.cost(pending, harvest));
    let health = every.health();
    if health.quarantined.is_some() || health.polls_refused > 0 {
        rig.bench.page.note(format!("The recorder met trouble: {health:?}"));
    }
    Ok(())
}

struct Rig<'b> {
    bench: &'b Bench<'b>,
    stream: Stream,
    events: Vec<Event>,
}

impl Rig<'_> {
    fn cost<T>(
        &self,
        prepare: impl FnMut() -> Result<(), Failure>,
        call: impl FnMut(usize) -> Result<T, Failure>,
    ) -> Result<Cost, Failure> {
        // A part of what is left: no row can take it all.
        let cost = cost(&self.bench.budget.part(ROWS), ROUNDS, CALLS, prepare, call);
        self.quiet()?;
        cost
    }

    /// The stream is done with all it was given.
    fn quiet(&self) -> Result<(), Failure> {
        self.bench.gpu.cuda.sync(self.stream)
    }

    /// Every event is recorded; behind work that takes its time, or long done.
    fn recorded(&self, busy: bool) -> Result<(), Failure> {
        let gpu = &self.bench.gpu;
        self.quiet()?;
        if busy {
            gpu.launch(gpu.spin, self.stream, BUSY_NS)?;
        }
        for event in &self.events {
            gpu.cuda.record(*event, self.stream)?;
        }
        if busy { Ok(()) } else { self.quiet() }
    }

    /// A harvest that lands [`CALLS`] spans, for each of them.
    fn landed(
        &self,
        recorder: &Recorder,
        settle: impl Fn() -> Result<(), Failure>,
        span: impl Fn() -> Result<(), Failure>,
    ) -> Result<Cost, Failure> {
        let mut means = Vec::new();
        for round in self.bench.budget.part(ROWS).rounds(4, ROUNDS) {
            settle()?;
            (0..CALLS).try_for_each(|_| span())?;
            self.quiet()?;
            let began = Instant::now();
            let landed = recorder.harvest();
            let took = began.elapsed().as_nanos() as f64;
            // A recorder whose polls were slow leaves some harvests out.
            if round > 1 && landed == CALLS {
                means.push(took / CALLS as f64);
            }
        }
        let means = summary(means).ok_or_else(dropped)?;
        Ok(Cost { median_ns: means.median, p99_ns: means.p99, calls: means.count * CALLS })
    }
}
