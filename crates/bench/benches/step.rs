// SPDX-License-Identifier: MIT OR Apache-2.0
//! A whole serving step on the simulated driver, at each level: three lanes of
//! eight launches, and a harvest. `bare` is the application alone. Most of the
//! time is the simulator's; what counts is the difference to `bare`.

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use metrale_bench::app::App;
use metrale_gpu_sim::control;
use metrale_telemetry::Level;

fn step(criterion: &mut Criterion, name: &str, level: Option<(Level, u64)>) {
    let app = App::new(1);
    let recorder = level.map(|(level, every)| app.recorder(level, every));
    let id = BenchmarkId::new(name, "3 lanes of 8 launches");
    criterion.benchmark_group("step").bench_function(id, |bencher| {
        bencher.iter(|| {
            app.step(recorder.as_ref(), 8);
            control::advance_ns(1_000_000);
            recorder.as_ref().map(|recorder| recorder.harvest())
        });
    });
    if let Some(recorder) = recorder {
        assert_eq!(recorder.lane_ledger().dropped, 0);
    }
}

fn all(criterion: &mut Criterion) {
    step(criterion, "bare", None);
    step(criterion, "off", Some((Level::Off, 64)));
    step(criterion, "basic", Some((Level::Basic, 64)));
    step(criterion, "kernel, 1 step in 64", Some((Level::Kernel, 64)));
    step(criterion, "kernel, every step", Some((Level::Kernel, 1)));
}

criterion_group!(benches, all);
criterion_main!(benches);
