// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ring beside the plain design: begin and end, and harvest passes over
//! what is idle, landed and pending.

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use metrale_bench::armed::Armed;
use metrale_bench::events::{Done, Waiting};
use metrale_bench::naive::NaiveRing;
use metrale_bench::spans::Spans;
use metrale_bench::threads::busy;
use metrale_telemetry::kernel::{KernelInstruments, SpanRing};
use std::time::{Duration, Instant};

static INTO: KernelInstruments = KernelInstruments::new();

const SLOTS: [usize; 4] = [64, 512, 4096, 65_536];

/// A begun and ended span; a harvest frees the slots, untimed.
fn begin_end<S: Spans<Done>>(criterion: &mut Criterion, slots: usize, threads: usize) {
    let ring = S::make(Done, slots);
    let batch = slots / threads;
    let id = BenchmarkId::new(S::NAME, format!("{slots} slots, {threads} threads"));
    criterion.benchmark_group("begin_end").bench_function(id, |bencher| {
        bencher.iter_custom(|pairs| {
            let rounds = pairs.div_ceil((batch * threads) as u64);
            let work = |_| assert_eq!(ring.fill(batch, 1, &INTO), batch);
            let between = || assert_eq!(ring.harvest(&INTO), batch * threads);
            busy(threads, rounds, batch as u64, pairs, work, between)
        });
    });
}

/// A landed span, of `spans` to a pass; filling the ring is not timed.
fn landed<S: Spans<Done>>(criterion: &mut Criterion, slots: usize, spans: usize) {
    let ring = S::make(Done, slots);
    ring.fill(spans, 1, &INTO);
    let id = BenchmarkId::new(S::NAME, format!("{spans} of {slots} slots"));
    let fill = || assert_eq!(ring.fill(spans, 1, &INTO), spans);
    passes(criterion, "harvest_landed", id, spans, || ring.harvest(&INTO), fill);
}

/// A span of those that `harvest` lands, of `spans` to a pass; `fill` is not
/// timed.
fn passes(
    criterion: &mut Criterion,
    group: &str,
    id: BenchmarkId,
    spans: usize,
    harvest: impl Fn() -> usize + Sync,
    fill: impl Fn() + Sync,
) {
    criterion.benchmark_group(group).bench_function(id, |bencher| {
        bencher.iter_custom(|landed| {
            let rounds = landed.div_ceil(spans as u64);
            let work = |_| assert_eq!(harvest(), spans);
            busy(1, rounds, spans as u64, landed, work, &fill)
        });
    });
}

/// A landed launch of an armed step of 1,000, with its place and its part of
/// the fold.
fn armed(criterion: &mut Criterion) {
    const LAUNCHES: usize = 1_000;
    let steps = Armed::new(4, LAUNCHES);
    steps.fill(1);
    let id = BenchmarkId::new("metrale", format!("{LAUNCHES} of 4000 slots"));
    let harvest = || steps.harvest(&INTO, || ());
    passes(criterion, "harvest_armed", id, LAUNCHES, harvest, || steps.fill(1));
}

/// The fold of all that a pass landed, when it completes `steps` steps at once.
fn fold(criterion: &mut Criterion, steps: usize, launches: usize) {
    let armed = Armed::new(steps, launches);
    let id = BenchmarkId::new("metrale", format!("{steps} steps of {launches} launches"));
    let mut group = criterion.benchmark_group("fold");
    group.bench_function(id, |bencher| {
        bencher.iter_custom(|folds| {
            let mut spent = Duration::ZERO;
            for _ in 0..folds {
                armed.fill(steps);
                let mut began = Instant::now();
                let landed = armed.harvest(&INTO, || began = Instant::now());
                spent += began.elapsed();
                assert_eq!((landed, armed.is_idle()), (steps * launches, true));
            }
            spent
        });
    });
}

/// A pass over a ring without spans.
fn idle<S: Spans<Done>>(criterion: &mut Criterion, slots: usize) {
    let ring = S::make(Done, slots);
    ring.fill(slots, 1, &INTO);
    assert_eq!(ring.harvest(&INTO), slots);
    let id = BenchmarkId::new(S::NAME, format!("{slots} slots"));
    let mut group = criterion.benchmark_group("harvest_idle");
    group.bench_function(id, |bencher| bencher.iter(|| ring.harvest(&INTO)));
}

/// A pass over spans that are all pending.
fn pending<S: Spans<Waiting>>(c: &mut Criterion, slots: usize, spans: usize, streams: u64) {
    let ring = S::make(Waiting, slots);
    assert_eq!(ring.fill(spans, streams, &INTO), spans);
    let id = format!("{spans} of {slots} slots, {streams} streams");
    let id = BenchmarkId::new(S::NAME, id);
    let mut group = c.benchmark_group("harvest_pending");
    group.bench_function(id, |bencher| bencher.iter(|| ring.harvest(&INTO)));
}

/// A benchmark of the ring and the same of the plain design, over those events.
macro_rules! both {
    ($bench:ident, $events:ty, $($argument:expr),*) => {
        $bench::<SpanRing<$events>>($($argument),*);
        $bench::<NaiveRing<$events>>($($argument),*);
    };
}

fn all(criterion: &mut Criterion) {
    let many = [2, 3, 4].into_iter().flat_map(|threads| [(4096, threads), (65_536, threads)]);
    for (slots, threads) in SLOTS.map(|slots| (slots, 1)).into_iter().chain(many) {
        both!(begin_end, Done, criterion, slots, threads);
    }
    for slots in SLOTS {
        both!(idle, Done, criterion, slots);
    }
    let few = SLOTS.map(|slots| (slots, 64)).into_iter().skip(1);
    for (slots, spans) in SLOTS.map(|slots| (slots, slots)).into_iter().chain(few) {
        both!(landed, Done, criterion, slots, spans);
    }
    armed(criterion);
    fold(criterion, 1, 8192);
    fold(criterion, 64, 128);
    for (slots, spans) in [(1024, 1000), (4096, 1000), (65_536, 65_536)] {
        for streams in [1, 2, 4, 8] {
            both!(pending, Waiting, criterion, slots, spans, streams);
        }
    }
}

criterion_group!(benches, all);
criterion_main!(benches);
