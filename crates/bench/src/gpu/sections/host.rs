// SPDX-License-Identifier: MIT OR Apache-2.0
//! What each driver call and each step of the recorder costs the host.

use super::{Body, Section};
use crate::gpu::Failure;
use crate::gpu::device::{Event, Stream};
use crate::gpu::item::{Cell, Table};
use crate::gpu::rig::{self, DEFAULT, EVERY};
use crate::gpu::run::Bench;
use crate::gpu::stats::summary;
use crate::gpu::timer::{COLUMNS, Cost, clock_ns, cost};
use metrale_gpu_runtime::timing::{Harvest, Recorder};
use metrale_gpu_sys::cuda::CAPTURE_MODE_RELAXED;
use metrale_telemetry::kernel::LANE_DECODE;
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
    bench.tell.note(format!("Reading the clock twice takes {:.0} ns.", clock_ns()));
    let columns: Vec<(&str, &str)> = [("call", "")].into_iter().chain(COLUMNS).collect();
    let mut table = Table::new("calls", "Driver calls.", &columns);
    let rig = Rig::new(bench)?;
    let mut row = |name: &str, cost| rig.row(&mut table, name, cost);
    row("event record", rig.record().map(Some));
    row("capture query, idle stream", rig.capture_query(false).map(Some));
    row("capture query, busy stream", rig.capture_query(true).map(Some));
    row("capture mode exchange", rig.exchange().map(Some));
    row("event query, not ready", rig.query(true).map(Some));
    row("event query, ready", rig.query(false).map(Some));
    row("elapsed, first form", rig.elapsed_v1().map(Some));
    row("elapsed, second form (12.8)", rig.elapsed_v2());
    row("launch of an empty kernel, to compare with", rig.launch().map(Some));
    recorder(bench, &rig, &columns)
}

/// What the recorder does with them.
fn recorder(bench: &Bench, rig: &Rig<'_>, columns: &[(&str, &str)]) -> Result<(), Failure> {
    let mut table = Table::new("recorder", "Through the recorder, harvested explicitly.", columns);
    let every = rig.recorder(EVERY)?;
    let sampled = rig.recorder(DEFAULT)?;
    let mut row = |name: &str, cost: Result<_, _>| rig.row(&mut table, name, cost.map(Some));
    row("lane, begin and end", rig.lane(&every));
    row("launch on an armed step, begin and end", rig.span(&every));
    row("launch on a step that is not armed", rig.unarmed(&sampled));
    row("harvest, for each span that lands", rig.landed(&every));
    row("harvest, nothing in flight", rig.idle_harvest(&every));
    row("harvest, 64 spans of one busy stream", rig.pending_harvest(&every));
    let health = every.health();
    if health.quarantined.is_some() || health.polls_refused > 0 {
        bench.tell.note(format!("The recorder met trouble: {health:?}"));
    }
    Ok(())
}

struct Rig<'b> {
    bench: &'b Bench,
    stream: Stream,
    events: Vec<Event>,
}

impl<'b> Rig<'b> {
    fn new(bench: &'b Bench) -> Result<Self, Failure> {
        Ok(Self { bench, stream: bench.gpu.stream()?, events: bench.gpu.events(CALLS + 1)? })
    }

    /// Tells a row more; where it cannot be measured, why.
    fn row(&self, table: &mut Table, name: &str, cost: Result<Option<Cost>, Failure>) {
        let none = |why: String| [Cell::None(why), Cell::None(String::new()), Cell::count(0)];
        let cells = match cost {
            Ok(Some(cost)) => cost.cells(),
            Ok(None) => none("the driver has none".to_owned()),
            Err(failure) => none(failure.to_string()),
        };
        table.row([name.into()].into_iter().chain(cells));
        self.bench.tell.table(table);
    }

    fn recorder(&self, watch: rig::Watch) -> Result<Recorder, Failure> {
        let telemetry = rig::telemetry(watch.config.unwrap_or_default())?;
        rig::recorder(&self.bench.gpu, telemetry, Harvest::Explicit)
    }

    fn cost(
        &self,
        prepare: impl FnMut() -> Result<(), Failure>,
        call: impl FnMut(usize) -> Result<(), Failure>,
    ) -> Result<Cost, Failure> {
        // A part of what is left: no row can take it all.
        cost(&self.bench.budget.part(ROWS), ROUNDS, CALLS, prepare, call)
    }

    /// The stream is done with all it was given.
    fn quiet(&self) -> Result<(), Failure> {
        self.bench.gpu.sync(self.stream)
    }

    /// Every event is recorded; behind work that takes its time, or long done.
    fn recorded(&self, busy: bool) -> Result<(), Failure> {
        let gpu = &self.bench.gpu;
        self.quiet()?;
        if busy {
            gpu.launch(gpu.spin, self.stream, BUSY_NS)?;
        }
        for event in &self.events {
            gpu.record(*event, self.stream)?;
        }
        if busy { Ok(()) } else { self.quiet() }
    }

    fn record(&self) -> Result<Cost, Failure> {
        self.cost(|| self.quiet(), |at| self.bench.gpu.record(self.events[at], self.stream))
    }

    fn capture_query(&self, busy: bool) -> Result<Cost, Failure> {
        let prepare = || self.recorded(busy);
        let cost = self.cost(prepare, |_| {
            black_box(self.bench.gpu.capturing(self.stream)?);
            Ok(())
        });
        self.quiet()?;
        cost
    }

    fn exchange(&self) -> Result<Cost, Failure> {
        let mut mode = CAPTURE_MODE_RELAXED;
        let cost = self.cost(
            || Ok(()),
            |_| {
                mode = self.bench.gpu.exchange_mode(mode)?;
                Ok(())
            },
        );
        self.bench.gpu.exchange_mode(0)?;
        cost
    }

    fn query(&self, busy: bool) -> Result<Cost, Failure> {
        let prepare = || self.recorded(busy);
        let cost = self.cost(prepare, |at| {
            if self.bench.gpu.query(self.events[at])? == busy {
                let found = if busy { "over too early" } else { "not over" };
                return Err(Failure::Other(format!("cuEventQuery: {found}")));
            }
            Ok(())
        });
        self.quiet()?;
        cost
    }

    fn elapsed_v1(&self) -> Result<Cost, Failure> {
        let gpu = &self.bench.gpu;
        self.cost(
            || self.recorded(false),
            |at| gpu.elapsed(self.events[at], self.events[at + 1]).map(|ns| _ = black_box(ns)),
        )
    }

    fn elapsed_v2(&self) -> Result<Option<Cost>, Failure> {
        let gpu = &self.bench.gpu;
        if gpu.driver.api().event_elapsed_time_v2.is_none() {
            return Ok(None);
        }
        let prepare = || self.recorded(false);
        let cost =
            self.cost(prepare, |at| match gpu.read_v2(self.events[at], self.events[at + 1]) {
                Some(read) => read.map(|ms| _ = black_box(ms)),
                None => Err(Failure::Missing(c"cuEventElapsedTime_v2")),
            });
        cost.map(Some)
    }

    fn launch(&self) -> Result<Cost, Failure> {
        let gpu = &self.bench.gpu;
        self.cost(|| self.quiet(), |_| gpu.launch(gpu.empty, self.stream, 0))
    }

    /// What was begun is over and landed.
    fn settle(&self, recorder: &Recorder) -> Result<(), Failure> {
        self.quiet()?;
        rig::settle(recorder)
    }

    fn lane(&self, recorder: &Recorder) -> Result<Cost, Failure> {
        let step = recorder.telemetry().step_begin();
        let stream = self.stream.of(&self.bench.gpu);
        let prepare = || self.settle(recorder);
        self.cost(prepare, |_| {
            let token = recorder.begin_lane(step, LANE_DECODE, stream);
            recorder.end_lane(token.ok_or_else(dropped)?, stream);
            Ok(())
        })
    }

    fn one_span(&self, recorder: &Recorder, step: metrale_telemetry::Step) -> Result<(), Failure> {
        let gpu = &self.bench.gpu;
        let stream = self.stream.of(gpu);
        let token = recorder.begin_launch(step, LANE_DECODE, gpu.empty.named(), stream);
        recorder.end_launch(token.ok_or_else(dropped)?, stream);
        Ok(())
    }

    fn span(&self, recorder: &Recorder) -> Result<Cost, Failure> {
        let step = recorder.telemetry().step_begin();
        self.cost(|| self.settle(recorder), |_| self.one_span(recorder, step))
    }

    fn unarmed(&self, recorder: &Recorder) -> Result<Cost, Failure> {
        let step = std::iter::repeat_with(|| recorder.step()).find(|step| !step.is_armed());
        let step = step.ok_or_else(dropped)?;
        let gpu = &self.bench.gpu;
        let lane = step.lane(LANE_DECODE, self.stream.of(gpu));
        self.cost(
            || Ok(()),
            |_| {
                drop(black_box(lane.launch_guard(gpu.empty.named())));
                Ok(())
            },
        )
    }

    /// A harvest that lands [`CALLS`] spans, for each of them.
    fn landed(&self, recorder: &Recorder) -> Result<Cost, Failure> {
        let step = recorder.telemetry().step_begin();
        let mut means = Vec::new();
        for round in self.bench.budget.part(ROWS).rounds(4, ROUNDS) {
            self.settle(recorder)?;
            (0..CALLS).try_for_each(|_| self.one_span(recorder, step))?;
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

    fn idle_harvest(&self, recorder: &Recorder) -> Result<Cost, Failure> {
        self.cost(
            || self.settle(recorder),
            |_| {
                black_box(recorder.harvest());
                Ok(())
            },
        )
    }

    fn pending_harvest(&self, recorder: &Recorder) -> Result<Cost, Failure> {
        let gpu = &self.bench.gpu;
        let step = recorder.telemetry().step_begin();
        let prepare = || {
            self.settle(recorder)?;
            gpu.launch(gpu.spin, self.stream, BUSY_NS)?;
            (0..CALLS).try_for_each(|_| self.one_span(recorder, step))
        };
        let cost = self.cost(prepare, |_| match recorder.harvest() {
            0 => Ok(()),
            landed => Err(Failure::Other(format!("{landed} spans landed too early"))),
        });
        self.settle(recorder)?;
        cost
    }
}

fn dropped() -> Failure {
    Failure::Other("the recorder gave no span".to_owned())
}
