// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether pairs of events slow kernels down that follow each other.

use super::{Body, Section};
use crate::gpu::Failure;
use crate::gpu::device::{Event, Stream};
use crate::gpu::item::{Cell, Table};
use crate::gpu::rig::Around;
use crate::gpu::run::Bench;
use crate::gpu::stats::summary;
use std::time::Instant;

pub(super) const SECTION: Section = Section {
    id: "device",
    title: "Cost on the device",
    about: "128 kernels in a row, queued behind a long one so that the host cannot hold them up, without \
            pairs and with a pair around each, in turn. Time: between two events around them all. Rounds \
            in which the host was too slow are left out and counted.",
    seconds: 30,
    body: Body::OnDevice(measure),
};

pub(super) const KERNELS: usize = 128;
/// GPU time that the host has to queue everything.
const BEFORE_NS: u64 = 8_000_000;
const DURATIONS_NS: [u64; 4] = [0, 2_000, 5_000, 20_000];
const ROUNDS: u32 = 60;

fn measure(bench: &Bench) -> Result<(), Failure> {
    let gpu = &bench.gpu;
    let columns = [
        ("kernel", "µs"),
        ("rounds", "count"),
        ("too slow", "count"),
        ("without", "ns/kernel"),
        ("with pairs", "ns/kernel"),
        ("a pair adds", "ns"),
        ("with to without", "ratio"),
        ("least", "ratio"),
        ("most", "ratio"),
    ];
    let mut table = Table::new("pairs", "GPU time of a kernel in the row.", &columns);
    let stream = gpu.stream()?;
    let events = gpu.events(2 * KERNELS)?;
    let around = Around::new(gpu)?;
    for (at, ns) in DURATIONS_NS.into_iter().enumerate() {
        let budget = bench.budget.part((DURATIONS_NS.len() - at) as u32);
        let (mut without, mut with, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        let mut slow = 0;
        for round in budget.rounds(3, ROUNDS) {
            let plain = row(bench, stream, &around, ns, &[])?;
            let paired = row(bench, stream, &around, ns, &events)?;
            match (plain, paired) {
                _ if round == 0 => {}
                (Some(plain), Some(paired)) => {
                    without.push(plain);
                    with.push(paired);
                    ratios.push(paired / plain);
                }
                _ => slow += 1,
            }
        }
        let all = (summary(without), summary(with), summary(ratios));
        let (Some(without), Some(with), Some(ratio)) = all else {
            bench.tell.note(format!(
                "Kernels of {ns} ns: the host was too slow in all {slow} rounds."
            ));
            continue;
        };
        table.row([
            Cell::number(ns as f64 / 1e3, 0),
            Cell::count(ratio.count as u64),
            Cell::count(slow),
            Cell::number(without.median, 0),
            Cell::number(with.median, 0),
            Cell::number(with.median - without.median, 0),
            Cell::number(ratio.median, 3),
            Cell::number(ratio.least, 3),
            Cell::number(ratio.most, 3),
        ]);
        bench.tell.table(&table);
    }
    Ok(())
}

/// GPU time of a kernel in a row, with a pair around each where there are
/// events; `None` where the host was too slow to queue them all.
fn row(
    bench: &Bench,
    stream: Stream,
    around: &Around,
    ns: u64,
    events: &[Event],
) -> Result<Option<f64>, Failure> {
    let gpu = &bench.gpu;
    gpu.sync(stream)?;
    let began = Instant::now();
    gpu.launch(gpu.spin, stream, BEFORE_NS)?;
    around.run(gpu, stream, || queue(bench, stream, ns, events))?;
    let took = began.elapsed().as_nanos();
    gpu.sync(stream)?;
    let kernel = around.ns(gpu)? / KERNELS as f64;
    Ok((took < u128::from(BEFORE_NS)).then_some(kernel))
}

/// Queues the kernels, with a pair around each where there are events.
pub(super) fn queue(
    bench: &Bench,
    stream: Stream,
    ns: u64,
    events: &[Event],
) -> Result<(), Failure> {
    let gpu = &bench.gpu;
    let kernel = if ns == 0 { gpu.empty } else { gpu.spin };
    for at in 0..KERNELS {
        if let Some(event) = events.get(2 * at) {
            gpu.record(*event, stream)?;
        }
        gpu.launch(kernel, stream, ns)?;
        if let Some(event) = events.get(2 * at + 1) {
            gpu.record(*event, stream)?;
        }
    }
    Ok(())
}
