// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether pairs on one stream delay the work of another.

use super::device::{KERNELS, queue};
use super::{Body, Section};
use crate::gpu::Failure;
use crate::gpu::device::{Event, Stream};
use crate::gpu::item::{Cell, Table};
use crate::gpu::rig::Around;
use crate::gpu::run::Bench;
use crate::gpu::stats::summary;
use std::time::Instant;

pub(super) const SECTION: Section = Section {
    id: "streams",
    title: "Two streams",
    about: "128 kernels of 5 µs in a row on one stream, timed by two events around them, while another \
            stream does something else. Both wait behind long kernels until everything is queued; cases in \
            turn; rounds in which the host was too slow are left out and counted.",
    seconds: 20,
    body: Body::OnDevice(measure),
};

const KERNEL_NS: u64 = 5_000;
/// GPU time that the host has to queue everything.
const BEFORE_NS: u64 = 10_000_000;
const ROUNDS: u32 = 100;

const CASES: [(&str, Beside); 4] = [
    ("nothing", Beside::Nothing),
    ("kernels of 5 µs", Beside::Kernels),
    ("kernels of 5 µs, each in a pair", Beside::Pairs),
    ("empty pairs alone", Beside::EmptyPairs),
];

#[derive(Clone, Copy)]
enum Beside {
    Nothing,
    Kernels,
    Pairs,
    EmptyPairs,
}

fn measure(bench: &Bench) -> Result<(), Failure> {
    let columns = [
        ("on the other stream", ""),
        ("rounds", "count"),
        ("too slow", "count"),
        ("this stream", "ns/kernel"),
        ("to nothing", "ratio"),
        ("least", "ratio"),
        ("most", "ratio"),
    ];
    let mut table = Table::new(
        "streams",
        "GPU time of a kernel of the first stream.",
        &columns,
    );
    let gpu = &bench.gpu;
    let streams = [gpu.stream()?, gpu.stream()?];
    let events = gpu.events(2 * KERNELS)?;
    let around = Around::new(gpu)?;
    let mut told = [const { Vec::new() }; CASES.len()];
    let mut slow = 0;
    for round in bench.budget.rounds(3, ROUNDS) {
        let mut here = [0.0; CASES.len()];
        let mut fine = true;
        for turn in 0..CASES.len() {
            let at = (turn + round as usize) % CASES.len();
            match case(bench, streams, &around, &events, CASES[at].1)? {
                Some(ns) => here[at] = ns,
                None => fine = false,
            }
        }
        match fine {
            // The first round warms up.
            _ if round == 0 => {}
            true => told
                .iter_mut()
                .zip(here)
                .for_each(|(told, ns)| told.push(ns)),
            false => slow += 1,
        }
    }
    let nothing = told[0].clone();
    for ((name, _), ns) in CASES.iter().zip(told) {
        let ratios = ns.iter().zip(&nothing).map(|(ns, nothing)| ns / nothing);
        let (ratio, ns) = (summary(ratios.collect()), summary(ns));
        let (Some(ratio), Some(ns)) = (ratio, ns) else {
            return Err(Failure::Other(
                "the host was too slow in every round".to_owned(),
            ));
        };
        table.row([
            (*name).into(),
            Cell::count(ns.count as u64),
            Cell::count(slow),
            Cell::number(ns.median, 0),
            Cell::number(ratio.median, 3),
            Cell::number(ratio.least, 3),
            Cell::number(ratio.most, 3),
        ]);
    }
    bench.tell.table(&table);
    Ok(())
}

/// GPU time of a kernel on the first stream; `None` where the host was too slow.
fn case(
    bench: &Bench,
    [first, second]: [Stream; 2],
    around: &Around,
    events: &[Event],
    beside: Beside,
) -> Result<Option<f64>, Failure> {
    let gpu = &bench.gpu;
    gpu.sync(first)?;
    gpu.sync(second)?;
    let began = Instant::now();
    gpu.launch(gpu.spin, first, BEFORE_NS)?;
    gpu.launch(gpu.spin, second, BEFORE_NS)?;
    // Twice as much as on the first stream, so that it is never alone.
    for _ in 0..2 {
        match beside {
            Beside::Nothing => {}
            Beside::Kernels => queue(bench, second, KERNEL_NS, &[])?,
            Beside::Pairs => queue(bench, second, KERNEL_NS, events)?,
            Beside::EmptyPairs => events.iter().try_for_each(|it| gpu.record(*it, second))?,
        }
    }
    around.run(gpu, first, || queue(bench, first, KERNEL_NS, &[]))?;
    let took = began.elapsed().as_nanos();
    gpu.sync(first)?;
    gpu.sync(second)?;
    let kernel = around.ns(gpu)? / KERNELS as f64;
    Ok((took < u128::from(BEFORE_NS)).then_some(kernel))
}
