// SPDX-License-Identifier: MIT OR Apache-2.0
//! Histogram and kernel table, beside a plain histogram and beside libraries that
//! one might take instead.

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use metrale_bench::paths::{durations, handles};
use metrale_bench::threads::busy;
use metrale_telemetry::instrument::NanosHistogram;
use metrale_telemetry::kernel::{KERNEL_TABLE_SLOTS, KernelInstruments, SpanKey};
use prometheus_client::metrics::histogram::{Histogram, NativeHistogramConfig};
use rustc_hash::FxBuildHasher;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Operations between two looks at the clock.
const BATCH: u64 = 10_000;

/// One operation of `op` on each of so many threads at once.
fn on_threads(
    c: &mut Criterion,
    group: &str,
    name: &str,
    threads: usize,
    op: impl Fn(usize) + Sync,
) {
    let id = BenchmarkId::new(name, format!("{threads} threads"));
    c.benchmark_group(group).bench_function(id, |bencher| {
        bencher.iter_custom(|ops| {
            let rounds = ops.div_ceil(threads as u64 * BATCH);
            let work = |thread: usize| {
                for at in 0..BATCH as usize {
                    // Threads walk the values out of step.
                    op(at + 37 * thread);
                }
            };
            busy(threads, rounds, BATCH, ops, work, || ())
        });
    });
}

/// The histogram that a programmer would write first: a bucket for each power of
/// two, a count and a sum, three read-modify-writes. A snapshot of it may be torn.
struct Plain {
    buckets: [AtomicU64; 65],
    count: AtomicU64,
    sum: AtomicU64,
}

impl Plain {
    fn observe(&self, ns: u64) {
        let bucket = (u64::BITS - ns.leading_zeros()) as usize;
        self.buckets[bucket].fetch_add(1, Relaxed);
        self.count.fetch_add(1, Relaxed);
        self.sum.fetch_add(ns, Relaxed);
    }
}

fn observe(criterion: &mut Criterion) {
    let (ours, none) = (NanosHistogram::new(), AtomicU64::default);
    let plain = Plain { buckets: std::array::from_fn(|_| none()), count: none(), sum: none() };
    let durations = durations();
    // The 27 powers of two from 1 us to 67 s.
    let bounds = || (0..27).map(|power| 1e-6 * f64::from(1 << power));
    let classic = Histogram::new(bounds());
    let native = Histogram::new_native(NativeHistogramConfig::with_schema(5));
    for threads in [1, 2, 3, 4] {
        let ns = |at: usize| durations[at & 255];
        on_threads(criterion, "observe", "metrale", threads, |at| ours.observe(ns(at)));
        on_threads(criterion, "observe", "naive", threads, |at| plain.observe(ns(at)));
        on_threads(criterion, "observe", "prometheus-client classic", threads, |at| {
            classic.observe(ns(at) as f64 * 1e-9);
        });
        on_threads(criterion, "observe", "prometheus-client native", threads, |at| {
            native.observe(ns(at) as f64 * 1e-9);
        });
    }
}

#[derive(Default)]
struct Row {
    samples: AtomicU64,
    total_ns: AtomicU64,
}

fn table(criterion: &mut Criterion) {
    let (handles, durations) = (handles(), durations());
    let ours = KernelInstruments::new();
    // A hash that costs what ours does, so that the comparison is of tables.
    let papaya = papaya::HashMap::<u64, Row, FxBuildHasher>::default();
    // Full: the 64 that are recorded and 448 others.
    let full = || handles.into_iter().chain(handles[63] + 0x1c0..).take(KERNEL_TABLE_SLOTS);
    for func in full() {
        ours.record(SpanKey::Kernel(func), 1);
        papaya.pin().insert(func, Row::default());
    }
    assert_eq!(ours.table_full.get(), 0);
    for (group, beyond) in [("table_hit", 0), ("table_miss", 1 << 40)] {
        let func = |at: usize| handles[at & 63] + beyond;
        for threads in [1, 2, 3, 4] {
            on_threads(criterion, group, "metrale", threads, |at| {
                ours.record(SpanKey::Kernel(func(at)), durations[at & 255]);
            });
            on_threads(criterion, group, "papaya", threads, |at| {
                if let Some(row) = papaya.pin().get(&func(at)) {
                    row.samples.fetch_add(1, Relaxed);
                    row.total_ns.fetch_add(durations[at & 255], Relaxed);
                }
            });
        }
    }
}

criterion_group!(benches, observe, table);
criterion_main!(benches);
