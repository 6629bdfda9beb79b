// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a pair of events reads that has nothing between it: the least that a
//! span can say.

use super::{Body, Section};
use crate::gpu::Failure;
use crate::gpu::page::figure_or;
use crate::gpu::rig::{self, EVERY};
use crate::gpu::run::Bench;
use crate::gpu::stats::{summary, tick};
use serde_json::json;

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

/// Name, pairs in a row, whether they wait behind a kernel, and whether one follows each.
const CASES: [(&str, usize, bool, bool); 4] = [
    ("one pair on an idle stream", 1, false, false),
    ("32 pairs in a row on an idle stream", PAIRS, false, false),
    ("32 pairs in a row behind a kernel", PAIRS, true, false),
    ("pairs between kernels of 2 µs", PAIRS, true, true),
];

fn measure(bench: &Bench) -> Result<(), Failure> {
    let gpu = &bench.gpu;
    let columns = ["pairs", "read", "least, ns", "median, ns", "p99, ns", "most, ns", "tick, ns"];
    let table = bench.page.table("pairs", "Empty pairs.", &columns);
    let stream = gpu.stream()?;
    let events = gpu.events(2 * PAIRS)?;
    for (name, pairs, behind, between) in CASES {
        let mut readings = Vec::new();
        for round in bench.budget.part(CASES.len() as u32).rounds(3, ROUNDS) {
            if behind {
                gpu.launch(gpu.spin, stream, BEFORE_NS)?;
            }
            let pairs = || events.chunks_exact(2).take(pairs);
            for pair in pairs() {
                gpu.cuda.record(pair[0], stream)?;
                gpu.cuda.record(pair[1], stream)?;
                if between {
                    gpu.launch(gpu.spin, stream, 2_000)?;
                }
            }
            gpu.cuda.sync(stream)?;
            for pair in pairs() {
                let ns = gpu.elapsed(pair[0], pair[1])?;
                // The first of anything is slow.
                if round > 0 {
                    readings.push(ns);
                }
            }
        }
        let tick = figure_or(tick(&readings), 0, "all read the same");
        if let Some(read) = summary(readings) {
            let [least, median, p99, most] = read.spread();
            table.row(json!([name, read.count, least, median, p99, most, tick]));
        }
    }
    at_install(bench)
}

/// What a recorder found when it was made.
fn at_install(bench: &Bench) -> Result<(), Failure> {
    let floor = rig::explicit(&bench.gpu, EVERY)?.telemetry().floor();
    let title = "What the recorder found when it was made.";
    let table = bench.page.table("install", title, &["figure", "value, ns"]);
    for (name, ns) in [
        ("an empty pair", floor.pair_ns),
        ("begin of a span", floor.begin_ns),
        ("end of a span", floor.end_ns),
        ("harvest of a span", floor.harvest_ns),
        ("poll without an answer", floor.poll_ns),
    ] {
        table.row(json!([name, figure_or(ns.map(|ns| ns as f64), 0, "unknown")]));
    }
    Ok(())
}
