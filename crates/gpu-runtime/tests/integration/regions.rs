// SPDX-License-Identifier: MIT OR Apache-2.0
//! Regions: rows of work without a function, counted once and as no launch.

use super::rig::{App, config, context, driver, func, loaded, stream};
use metrale_gpu_runtime::timing::{Recorder, RegionRef};
use metrale_gpu_sim::control;
use metrale_telemetry::kernel::{LANE_DECODE, LaneFigures};
use metrale_telemetry::snapshot::{KernelSnapshot, RowKind};
use metrale_telemetry::{Level, Sampling, Telemetry, TelemetryConfig};
use std::fmt::Error;

fn run(app: &App, ns: u64) -> Result<(), Error> {
    assert!(app.launch(app.spin, app.stream, ns).is_success());
    Ok(())
}

/// Work of 1 us, 2 us and 4 us in a region, of which the middle one is a launch;
/// then a launch of 8 us.
fn serve(app: &App, recorder: &Recorder, region: RegionRef) {
    let step = recorder.step();
    let lane = step.lane(LANE_DECODE, stream(app.stream));
    let done: Result<(), Error> = lane.region(region, || {
        run(app, 1_000)?;
        lane.launch(loaded(app.spin), || run(app, 2_000))?;
        run(app, 4_000)
    });
    done.unwrap();
    lane.launch(loaded(app.spin), || run(app, 8_000)).unwrap();
    drop(lane);
    drop(step);
    control::advance_ns(100_000);
    recorder.harvest();
}

/// A recorder of a telemetry of its own.
fn configured(app: &App, of: TelemetryConfig) -> Recorder {
    let telemetry = Telemetry::new().leak();
    telemetry.configure(of).unwrap();
    // SAFETY: the context lives as long as the app, which outlives the recorder.
    unsafe { Recorder::from_raw(driver(), context(app.context), telemetry, config()) }.unwrap()
}

fn rows(recorder: &Recorder) -> Vec<KernelSnapshot> {
    recorder.telemetry().snapshot().kernels
}

fn decode(recorder: &Recorder) -> LaneFigures {
    let lanes = recorder.telemetry().snapshot().lanes;
    lanes[LANE_DECODE].figures.unwrap()
}

#[test]
fn a_region_is_a_row_of_its_own_and_busy_once_with_what_is_in_it() {
    let app = App::new();
    let recorder = app.recorder();
    let region = recorder.region("sampling");
    assert_eq!(recorder.region("sampling"), region);
    assert_ne!(recorder.copy("sampling"), region, "its kind is part of it");
    for _ in 0..3 {
        serve(&app, &recorder, region);
    }
    let found = rows(&recorder);
    let row = |kind| found.iter().find(|row| row.kind == kind).unwrap();
    let (sampling, spin) = (row(RowKind::Region), row(RowKind::Kernel));
    assert_eq!(sampling.name.as_deref(), Some("sampling"));
    assert_eq!((sampling.total_ns, sampling.samples), (21_000, 3));
    assert_eq!((sampling.figures.own_ns, spin.figures.own_ns), (15_000, 0));
    assert_eq!((spin.total_ns, spin.samples), (30_000, 6));
    let figures = decode(&recorder);
    assert_eq!((figures.time_ns, figures.busy_ns), (45_000, 45_000));
    assert_eq!(figures.overlap_ns, 0);
    // Regions are in no count of launches.
    assert_eq!(recorder.telemetry().host().launches.get(), 6);
    assert_eq!(recorder.telemetry().sampled_launches(), 6);
    let timeline = &recorder.telemetry().timelines()[0];
    assert_eq!((timeline.launches.len(), timeline.regions.len()), (2, 1));
    assert_eq!(timeline.regions[0].func, Some(region.row()));
}

#[test]
fn a_region_whose_work_fails_leaves_no_sample() {
    let app = App::new();
    let recorder = app.recorder();
    let region = recorder.region("all-reduce");
    let step = recorder.step();
    let lane = step.lane(LANE_DECODE, stream(app.stream));
    let failed: Result<(), Error> = lane.region(region, || {
        lane.launch(func(app.spin), || run(&app, 1_000))?;
        Err(Error)
    });
    assert_eq!(failed, Err(Error));
    drop(lane.region_guard(region));
    drop(lane);
    drop(step);
    control::advance_ns(100_000);
    recorder.harvest();
    let ledger = recorder.kernel_ledger();
    assert_eq!((ledger.landed, ledger.cancelled), (2, 1));
    assert_eq!(recorder.telemetry().host().launches.get(), 1);
    assert_eq!(decode(&recorder).busy_ns, 1_000);
}

#[test]
fn a_region_that_is_refused_counts_as_no_launch() {
    let app = App::new();
    let recorder = app.recorder();
    let region = recorder.region("sampling");
    let step = recorder.step();
    let token = recorder.begin_region(step.step(), 77, region, stream(app.stream));
    assert_eq!(token, None);
    assert_eq!(recorder.kernel_ledger().refused, 1);
    assert_eq!(recorder.telemetry().sampled_launches(), 0);
}

#[test]
fn a_region_of_a_token_and_of_another_stream_is_the_same_row() {
    let app = App::new();
    let recorder = app.recorder();
    let region = recorder.copy("logits to host");
    let (here, side) = (stream(app.stream), app.new_stream());
    let step = recorder.step();
    let token = recorder.begin_region(step.step(), LANE_DECODE, region, here).unwrap();
    run(&app, 3_000).unwrap();
    recorder.end_region(token, here);
    let token = recorder.begin_region(step.step(), LANE_DECODE, region, here).unwrap();
    recorder.cancel_region(token);
    let lane = step.lane(LANE_DECODE, here);
    let copied: Result<(), Error> = lane.region_on(region, stream(side), || {
        assert!(app.launch(app.spin, side, 5_000).is_success());
        Ok(())
    });
    copied.unwrap();
    drop(lane);
    drop(step);
    control::advance_ns(100_000);
    recorder.harvest();
    let found = rows(&recorder);
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].kind, found[0].total_ns, found[0].samples), (RowKind::Copy, 8_000, 2));
}

#[test]
fn a_region_of_an_unarmed_step_asks_the_driver_nothing() {
    let app = App::new();
    let recorder =
        configured(&app, TelemetryConfig { every: 1_000_000, ..TelemetryConfig::default() });
    let region = recorder.region("sampling");
    let step = recorder.step();
    assert!(!step.is_armed());
    let lane = step.lane(LANE_DECODE, stream(app.stream));
    control::log_start();
    drop(lane.region_guard(region));
    recorder.telemetry().set_level(Level::Off);
    drop(lane.region_guard(region));
    control::log_stop();
    assert_eq!(control::log(), []);
}

#[test]
fn under_spread_a_region_is_sampled_like_a_launch() {
    let app = App::new();
    let recorder = configured(
        &app,
        TelemetryConfig { sampling: Sampling::Spread, every: 4, ..TelemetryConfig::default() },
    );
    let region = recorder.region("sampling");
    for _ in 0..20 {
        serve(&app, &recorder, region);
    }
    // Three spans a step, of which one in four is timed.
    let samples: u64 = rows(&recorder).iter().map(|row| row.samples).sum();
    assert_eq!(samples, 15);
    let regions: u64 = rows(&recorder)
        .iter()
        .filter(|row| row.kind == RowKind::Region)
        .map(|row| row.samples)
        .sum();
    let telemetry = recorder.telemetry();
    assert_eq!(telemetry.sampled_launches(), samples - regions);
    assert_eq!(telemetry.host().launches.get(), 40);
}
