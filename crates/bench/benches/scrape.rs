// SPDX-License-Identifier: MIT OR Apache-2.0
//! A scrape: the snapshot of a GPU's telemetry, and the page that shows it,
//! beside a page of as many series of prometheus-client's own metrics.

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use metrale_bench::paths::durations;
use metrale_telemetry::Telemetry;
use metrale_telemetry::export::{MetraleCollector, TOP_KERNELS};
use metrale_telemetry::instrument::CLASSIC_BOUNDS;
use metrale_telemetry::kernel::{KERNEL_TABLE_SLOTS, LANES, SpanKey};
use prometheus_client::encoding::{prometheus_protobuf, prometheus_text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use std::hint::black_box;

/// Telemetry with every lane and every row used, and series for as many kernels
/// as a collector asks for by itself.
fn used() -> &'static Telemetry {
    static TELEMETRY: Telemetry = Telemetry::new();
    for lane in 0..LANES.len() {
        for ns in durations() {
            TELEMETRY.instruments().record(SpanKey::Lane(lane), ns);
        }
    }
    for func in 1..=KERNEL_TABLE_SLOTS as u64 {
        let key = SpanKey::Kernel(func << 9);
        TELEMETRY.instruments().record(key, 1_000 + func);
    }
    &TELEMETRY
}

fn registry_of(telemetry: &'static Telemetry) -> Registry {
    let mut registry = Registry::default();
    let collector = MetraleCollector::new(telemetry).label("gpu", "GPU-1");
    let collector = collector.expect("a label");
    collector.register(&mut registry).expect("the first");
    let name = |func| Some(format!("kernel {func}").into());
    telemetry.promote_kernels(name, str::to_owned);
    assert_eq!(telemetry.snapshot().kernel_series.len(), TOP_KERNELS + 1);
    registry
}

fn page(registry: &Registry) -> String {
    let mut page = String::new();
    prometheus_text::encode(&mut page, registry).expect("a page");
    page
}

/// The samples of a page, a line each.
fn samples(page: &str) -> impl Iterator<Item = &str> {
    page.lines().filter(|line| !line.starts_with('#'))
}

/// As many histograms, of as many buckets, and as many counters as in `page`.
fn plain(page: &str) -> Registry {
    let infinite = samples(page).filter(|line| line.contains("le=\"+Inf\""));
    let of_histograms = samples(page).filter(|line| {
        let name = line.split(['{', ' ']).next().unwrap_or(line);
        ["_bucket", "_sum", "_count"].iter().any(|end| name.ends_with(end))
    });
    let (histograms, counters) = (infinite.count(), samples(page).count() - of_histograms.count());
    type Labels = Vec<(String, String)>;
    let label = |nth: usize| vec![("gpu".to_owned(), format!("GPU {nth}"))];
    // The last of our bounds is infinity, which that histogram adds by itself.
    let times = Family::<Labels, Histogram>::new_with_constructor(|| {
        Histogram::new((1..CLASSIC_BOUNDS as i32).map(|nth| 2f64.powi(nth - 23)))
    });
    for nth in 0..histograms {
        for ns in durations() {
            times.get_or_create(&label(nth)).observe(ns as f64 * 1e-9);
        }
    }
    let counts = Family::<Labels, Counter>::default();
    for nth in 0..counters {
        counts.get_or_create(&label(nth)).inc();
    }
    let mut registry = Registry::default();
    registry.register("time_seconds", "As many histograms", times);
    registry.register("count", "As many counters", counts);
    registry
}

fn scrape(criterion: &mut Criterion) {
    let telemetry = used();
    let ours = registry_of(telemetry);
    let other = plain(&page(&ours));
    let count = |registry| samples(&page(registry)).count();
    assert_eq!(count(&ours), count(&other));

    let id = BenchmarkId::new("metrale", "a GPU's telemetry");
    let mut group = criterion.benchmark_group("snapshot");
    group.bench_function(id, |bencher| bencher.iter(|| telemetry.snapshot()));
    group.finish();

    let mut group = criterion.benchmark_group("encode");
    for (name, registry) in [("metrale", &ours), ("prometheus-client", &other)] {
        let id = BenchmarkId::new(name, "text");
        group.bench_function(id, |bencher| bencher.iter(|| page(black_box(registry))));
    }
    let id = BenchmarkId::new("metrale", "protobuf, classic and native");
    let protobuf = |registry| prometheus_protobuf::encode_to_vec(registry).expect("a page");
    group.bench_function(id, |bencher| bencher.iter(|| protobuf(black_box(&ours))));
}

criterion_group!(benches, scrape);
criterion_main!(benches);
