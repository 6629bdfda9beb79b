// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a server has of it all: its steps, at each level, on the simulated driver;
//! and a scrape, the snapshot of a GPU's telemetry and the page that shows it.

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use metrale_bench::app;
use metrale_bench::paths::durations;
use metrale_gpu_sim::app::App;
use metrale_gpu_sim::control;
use metrale_telemetry::export::{MetraleCollector, TOP_KERNELS};
use metrale_telemetry::kernel::{KERNEL_TABLE_SLOTS, LANES, SpanKey};
use metrale_telemetry::{Level, Telemetry};
use prometheus_client::encoding::{prometheus_protobuf, prometheus_text};
use prometheus_client::registry::Registry;

/// Three lanes of eight launches, and a harvest; `bare` is the application alone.
/// Most of the time is the simulator's: what counts is the difference to `bare`.
fn step(criterion: &mut Criterion) {
    for (name, level) in [
        ("bare", None),
        ("off", Some((Level::Off, 64))),
        ("basic", Some((Level::Basic, 64))),
        ("kernel, 1 step in 64", Some((Level::Kernel, 64))),
        ("kernel, every step", Some((Level::Kernel, 1))),
    ] {
        let app = App::default();
        let recorder = level.map(|(level, every)| app::recorder(&app, level, every, None));
        let id = BenchmarkId::new(name, "3 lanes of 8 launches");
        criterion.benchmark_group("step").bench_function(id, |bencher| {
            bencher.iter(|| {
                app::step(&app, recorder.as_ref(), 8);
                control::advance_ns(1_000_000);
                recorder.as_ref().map(|recorder| recorder.harvest())
            });
        });
        assert!(recorder.is_none_or(|recorder| recorder.lane_ledger().dropped == 0));
    }
}

/// Every lane and every row is used, and there are series for as many kernels as a
/// collector asks for by itself.
fn scrape(criterion: &mut Criterion) {
    let telemetry = Telemetry::new().leak();
    let instruments = telemetry.instruments();
    for lane in 0..LANES.len() {
        durations().into_iter().for_each(|ns| instruments.record(SpanKey::Lane(lane), ns));
    }
    for func in 1..=KERNEL_TABLE_SLOTS as u64 {
        instruments.record(SpanKey::Kernel(func << 9), 1_000 + func);
    }
    let mut registry = Registry::default();
    let collector = MetraleCollector::new(telemetry).label("gpu", "GPU-1").expect("a label");
    collector.register(&mut registry).expect("the first");
    let name = |func| Some(format!("kernel {func}").into());
    telemetry.promote_kernels(name, str::to_owned);
    assert_eq!(telemetry.snapshot().kernel_series.len(), TOP_KERNELS + 1);

    let mut group = criterion.benchmark_group("scrape");
    let id = |what| BenchmarkId::new("metrale", what);
    group.bench_function(id("snapshot"), |bencher| bencher.iter(|| telemetry.snapshot()));
    group.bench_function(id("page, text"), |bencher| {
        bencher.iter(|| {
            let mut page = String::new();
            prometheus_text::encode(&mut page, &registry).expect("a page");
            page
        });
    });
    group.bench_function(id("page, protobuf, classic and native"), |bencher| {
        bencher.iter(|| prometheus_protobuf::encode_to_vec(&registry).expect("a page"));
    });
}

criterion_group!(benches, step, scrape);
criterion_main!(benches);
