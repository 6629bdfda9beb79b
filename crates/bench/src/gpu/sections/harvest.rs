// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a harvest takes from the serving thread: by the recorder's own thread,
//! and by the serving thread at the begin of a step.

use super::{Body, Section};
use crate::gpu::Failure;
use crate::gpu::device::Stream;
use crate::gpu::item::{Cell, Table};
use crate::gpu::rig::{self, BARE, DEFAULT, EVERY, Watch, Work};
use crate::gpu::run::Bench;
use crate::gpu::stats::summary;
use metrale_gpu_runtime::timing::Harvest;
use metrale_telemetry::Telemetry;
use std::time::Instant;

pub(super) const SECTION: Section = Section {
    id: "harvest",
    title: "Explicit harvest against the recorder's own thread",
    about: "Steps of 200 launches of 2 µs, waited for after each, in blocks of 64, every case in turn. Step: \
            all that the serving thread does for it, its harvest included. The own thread takes nothing \
            directly, but shares the driver's locks. Share: of the mean step, what the recorder adds.",
    seconds: 30,
    body: Body::OnDevice(measure),
};

const LAUNCHES: usize = 200;
const KERNEL_NS: u64 = 2_000;
const BLOCK: usize = 64;
const ROUNDS: u32 = 25;

/// Who watches and who harvests.
const CASES: [(&str, Watch, Harvest); 5] = [
    ("none", BARE, Harvest::Explicit),
    ("explicit", DEFAULT, Harvest::Explicit),
    ("own thread", DEFAULT, OWN_THREAD),
    ("explicit", EVERY, Harvest::Explicit),
    ("own thread", EVERY, OWN_THREAD),
];

/// The default.
const OWN_THREAD: Harvest = Harvest::OwnThread(std::time::Duration::from_millis(10));

fn measure(bench: &Bench) -> Result<(), Failure> {
    let columns = [
        ("recorder", ""),
        ("harvest", ""),
        ("steps", "count"),
        ("step, median", "µs"),
        ("step, p99", "µs"),
        ("step, mean", "µs"),
        ("mean, to no recorder", "ratio"),
        ("recorder's share", "%"),
        ("harvest, median", "µs"),
        ("harvest, p99", "µs"),
        ("harvests left out", "count"),
        ("spans dropped", "count"),
    ];
    let mut table = Table::new("serving", "On the serving thread.", &columns);
    let stream = bench.gpu.stream()?;
    let telemetries: Vec<_> = CASES
        .iter()
        .map(|(_, watch, _)| watch.config.map(rig::telemetry).transpose())
        .collect::<Result<_, _>>()?;
    let mut told = vec![Told::default(); CASES.len()];
    for round in bench.budget.rounds(2, ROUNDS) {
        for turn in 0..CASES.len() {
            let at = (turn + round as usize) % CASES.len();
            let mut here = Told::default();
            block(bench, stream, telemetries[at], CASES[at].2, &mut here)?;
            // The first round warms up.
            if round > 0 {
                told[at].steps.append(&mut here.steps);
                told[at].harvests.append(&mut here.harvests);
                told[at].dropped += here.dropped;
                told[at].left_out += here.left_out;
            }
        }
    }
    let bare = summary(told[0].steps.clone()).map_or(f64::NAN, |it| it.mean);
    for ((harvest, watch, _), told) in CASES.iter().zip(told) {
        let Some(step) = summary(told.steps) else {
            continue;
        };
        let harvests = summary(told.harvests);
        let figure = |ns: Option<f64>| Cell::or_none(ns.map(|ns| ns / 1e3), 1, "no harvest here");
        table.row([
            watch.name.into(),
            (*harvest).into(),
            Cell::count(step.count as u64),
            Cell::number(step.median / 1e3, 1),
            Cell::number(step.p99 / 1e3, 1),
            Cell::number(step.mean / 1e3, 1),
            Cell::number(step.mean / bare, 3),
            Cell::number(100.0 * (step.mean - bare) / step.mean, 1),
            figure(harvests.map(|it| it.median)),
            figure(harvests.map(|it| it.p99)),
            Cell::count(told.left_out),
            Cell::count(told.dropped),
        ]);
    }
    bench.tell.table(&table);
    Ok(())
}

/// Nanoseconds of each step and of each harvest in it.
#[derive(Clone, Debug, Default)]
struct Told {
    steps: Vec<f64>,
    harvests: Vec<f64>,
    /// Because polls were slow.
    left_out: u64,
    dropped: u64,
}

fn block(
    bench: &Bench,
    stream: Stream,
    telemetry: Option<&'static Telemetry>,
    harvest: Harvest,
    told: &mut Told,
) -> Result<(), Failure> {
    let gpu = &bench.gpu;
    let made = telemetry.map(|telemetry| rig::recorder(gpu, telemetry, harvest));
    let recorder = made.transpose()?;
    let named = recorder.as_ref().map(|it| (it, it.graph("graph")));
    let work = Work::Eager {
        launches: LAUNCHES,
        ns: KERNEL_NS,
    };
    for _ in 0..BLOCK {
        let began = Instant::now();
        if let (Some(recorder), Harvest::Explicit) = (&recorder, harvest) {
            recorder.harvest();
            told.harvests.push(began.elapsed().as_nanos() as f64);
        }
        rig::step(gpu, stream, work, named)?;
        told.steps.push(began.elapsed().as_nanos() as f64);
        gpu.sync(stream)?;
    }
    if let Some(recorder) = recorder {
        told.dropped += recorder.kernel_ledger().dropped + recorder.lane_ledger().dropped;
        told.left_out += recorder.health().harvests_skipped;
        recorder.close();
    }
    Ok(())
}
