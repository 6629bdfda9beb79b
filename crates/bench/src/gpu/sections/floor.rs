// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a pair of events reads that has nothing between it: the least that a
//! span can say.

use super::{Body, Section};
use crate::gpu::Failure;
use crate::gpu::device::{Event, Stream};
use crate::gpu::item::{Cell, Table};
use crate::gpu::rig::{self, EVERY};
use crate::gpu::run::Bench;
use crate::gpu::stats::{summary, tick};
use metrale_gpu_runtime::timing::Harvest;

pub(super) const SECTION: Section = Section {
    id: "floor",
    title: "The floor",
    about: "Pairs of events with nothing between them. A span that reads little more than this says \
            little. The tick is the least step between two different readings: the clock behind events.",
    seconds: 15,
    body: Body::OnDevice(measure),
};

/// Pairs that are recorded together.
const PAIRS: usize = 32;
/// GPU time of the work that pairs wait behind.
const BEFORE_NS: u64 = 500_000;
const ROUNDS: u32 = 300;
const CASES: u32 = 4;

fn measure(bench: &Bench) -> Result<(), Failure> {
    let gpu = &bench.gpu;
    let columns = [
        ("pairs", ""),
        ("read", "count"),
        ("least", "ns"),
        ("median", "ns"),
        ("p99", "ns"),
        ("most", "ns"),
        ("tick", "ns"),
    ];
    let mut table = Table::new("pairs", "Empty pairs.", &columns);
    let stream = gpu.stream()?;
    let events = gpu.events(2 * PAIRS)?;
    let cases: [(&str, Case); CASES as usize] = [
        ("one pair on an idle stream", Case::Idle),
        ("32 pairs in a row on an idle stream", Case::Row),
        ("32 pairs in a row behind a kernel", Case::Behind),
        ("pairs between kernels of 2 µs", Case::Between),
    ];
    for (name, case) in cases {
        let mut readings = Vec::new();
        for round in bench.budget.part(CASES).rounds(3, ROUNDS) {
            let pairs = pairs(bench, stream, &events, case)?;
            gpu.sync(stream)?;
            for pair in pairs.chunks_exact(2) {
                let ns = gpu.elapsed(pair[0], pair[1])?;
                // The first of anything is slow.
                if round > 0 {
                    readings.push(ns);
                }
            }
        }
        let tick = tick(&readings);
        let Some(found) = summary(readings) else {
            continue;
        };
        let figures =
            [found.least, found.median, found.p99, found.most].map(|ns| Cell::number(ns, 0));
        let tick = Cell::or_none(tick, 0, "all read the same");
        let count = Cell::count(found.count as u64);
        table.row([name.into(), count].into_iter().chain(figures).chain([tick]));
        bench.tell.table(&table);
    }
    at_install(bench)
}

#[derive(Clone, Copy)]
enum Case {
    Idle,
    Row,
    Behind,
    Between,
}

/// Records the pairs of a case; those that were recorded.
fn pairs<'e>(
    bench: &Bench,
    stream: Stream,
    events: &'e [Event],
    case: Case,
) -> Result<&'e [Event], Failure> {
    let gpu = &bench.gpu;
    let pairs = match case {
        Case::Idle => &events[..2],
        _ => events,
    };
    if matches!(case, Case::Behind | Case::Between) {
        gpu.launch(gpu.spin, stream, BEFORE_NS)?;
    }
    for pair in pairs.chunks_exact(2) {
        gpu.record(pair[0], stream)?;
        gpu.record(pair[1], stream)?;
        if matches!(case, Case::Between) {
            gpu.launch(gpu.spin, stream, 2_000)?;
        }
    }
    Ok(pairs)
}

/// What a recorder found when it was made.
fn at_install(bench: &Bench) -> Result<(), Failure> {
    let telemetry = rig::telemetry(EVERY.config.unwrap_or_default())?;
    let recorder = rig::recorder(&bench.gpu, telemetry, Harvest::Explicit)?;
    let floor = telemetry.floor();
    let columns = [("figure", ""), ("value", "ns")];
    let mut table = Table::new("install", "What the recorder found when it was made.", &columns);
    for (name, ns) in [
        ("an empty pair", floor.pair_ns),
        ("begin of a span", floor.begin_ns),
        ("end of a span", floor.end_ns),
        ("harvest of a span", floor.harvest_ns),
        ("poll without an answer", floor.poll_ns),
    ] {
        let ns = ns.map(|ns| ns as f64);
        table.row([name.into(), Cell::or_none(ns, 0, "unknown")]);
    }
    bench.tell.table(&table);
    drop(recorder);
    Ok(())
}
