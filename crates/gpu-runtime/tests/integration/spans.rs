// SPDX-License-Identifier: MIT OR Apache-2.0
//! What lands, with which times, at what cost in driver calls.

use super::rig::{App, all_calls, calls, func, loaded, own_thread, stream, wait_for};
use metrale_gpu_runtime::timing::Recorder;
use metrale_gpu_sim::control;
use metrale_gpu_sys::cuda::Status;
use metrale_telemetry::kernel::{KernelTime, LANE_DECODE, LANE_PREFILL, LANES};
use metrale_telemetry::{Level, Sampling, TelemetryConfig};

fn kernels(recorder: &Recorder) -> Vec<KernelTime> {
    let mut rows = recorder.telemetry().instruments().kernels();
    rows.sort_by_key(|row| std::cmp::Reverse(row.total_ns));
    rows
}

#[test]
fn lanes_kernels_and_gaps_read_what_the_gpu_did() {
    let app = App::new();
    let recorder = app.recorder();
    for step in 0..3 {
        let step_guard = recorder.step();
        assert!(step_guard.is_armed());
        assert_eq!(step_guard.number(), Some(step));
        let lane = step_guard.lane(LANE_DECODE, stream(app.stream));
        for (function, ns) in [(app.spin, 40_000), (app.other, 2_500)] {
            let launch = lane.launch_guard(func(function));
            assert!(launch.is_timed());
            assert!(app.launch(function, app.stream, ns).is_success());
        }
        drop(lane);
        // The GPU works for 42.5 us, then idles.
        control::advance_ns(42_500 + 1_000 * (step + 1));
    }
    assert_eq!(recorder.harvest(), 9);
    let instruments = recorder.telemetry().instruments();
    let lane = instruments.lane[LANE_DECODE].snapshot();
    assert_eq!((lane.count(), lane.sum_ns()), (3, 3 * 42_500));
    let gaps = instruments.lane_gap[LANE_DECODE].snapshot();
    assert_eq!((gaps.count(), gaps.sum_ns()), (2, 1_000 + 2_000));
    let figures = recorder.telemetry().snapshot().lanes[LANE_DECODE].figures;
    let figures = figures.unwrap();
    assert_eq!((figures.steps, figures.time_ns), (3, 3 * 42_500));
    assert_eq!((figures.busy_ns, figures.idle_ns()), (3 * 42_500, 0));
    assert_eq!(
        kernels(&recorder),
        [
            KernelTime { func: app.spin, total_ns: 120_000, samples: 3 },
            KernelTime { func: app.other, total_ns: 7_500, samples: 3 },
        ]
    );
    for ledger in [recorder.lane_ledger(), recorder.kernel_ledger()] {
        assert!(ledger.closes() && ledger.landed == ledger.attempts, "{ledger:?}");
    }
    assert_eq!(control::stale_handle_uses(), 0);
}

#[test]
fn a_span_never_waits_and_lands_when_the_gpu_is_done() {
    let app = App::new();
    let recorder = app.recorder();
    let step = recorder.step();
    let lane = step.lane(LANE_PREFILL, stream(app.stream));
    assert!(app.launch(app.spin, app.stream, 1_000_000).is_success());
    drop(lane);
    assert_eq!(recorder.harvest(), 0);
    control::advance_ns(999_999);
    assert_eq!(recorder.harvest(), 0);
    control::advance_ns(1);
    assert_eq!(recorder.harvest(), 1);
    assert_eq!(control::now_ns(), 1_000_000, "nothing of ours moved the clock");
}

#[test]
fn driver_calls_stay_within_the_budget() {
    let app = App::new();
    let recorder = app.recorder();
    let before = ["cuEventCreate", "cuEventDestroy_v2"].map(calls);
    let (launches, streams) = (30, [app.stream, app.new_stream()]);
    let step = recorder.step();
    for stream_handle in streams {
        let lane = step.lane(LANE_DECODE, stream(stream_handle));
        for _ in 0..launches {
            let _launch = lane.launch_guard(func(app.spin));
            assert!(app.launch(app.spin, stream_handle, 1_000).is_success());
        }
    }
    let spans = 2 * (launches + 1);
    assert_eq!(calls("cuEventRecord"), 2 * spans + 1, "and the step's anchor");
    assert_eq!(calls("cuStreamIsCapturing"), 2 * spans, "one to a span's record");
    assert_eq!(calls("cuStreamGetId"), 2, "one to a lane");
    assert_eq!(calls("cuThreadExchangeStreamCaptureMode"), 4, "around these");

    // Nothing is done: two rings of two waiting streams, one query each.
    recorder.harvest();
    assert_eq!(calls("cuEventQuery"), 4);
    assert_eq!(calls("cuEventElapsedTime_v2"), 0);
    assert_eq!(calls("cuThreadExchangeStreamCaptureMode"), 4 + 4, "a bracket for each ring");

    control::advance_ns(1_000_000);
    assert_eq!(recorder.harvest() as u64, spans);
    assert_eq!(calls("cuEventQuery"), 8 + 1, "and one of the anchor");
    assert_eq!(calls("cuEventElapsedTime_v2"), 2 * spans, "one to a span, and one to its place");

    let idle = all_calls();
    recorder.harvest();
    assert_eq!(all_calls() - idle, 1, "an idle recorder makes no call");
    assert_eq!(["cuEventCreate", "cuEventDestroy_v2"].map(calls), before);
    for forbidden in ["cuCtxSynchronize", "cuStreamSynchronize", "cuEventSynchronize"] {
        assert_eq!(calls(forbidden), 0, "{forbidden}");
    }
}

#[test]
fn an_unarmed_step_times_lanes_only() {
    let app = App::new();
    let recorder = app.recorder();
    let config =
        TelemetryConfig { every: 4, sampling: Sampling::EveryNth, ..TelemetryConfig::DEFAULT };
    recorder.telemetry().configure(config).unwrap();
    for _ in 0..8 {
        let step = recorder.step();
        let lane = step.lane(LANE_DECODE, stream(app.stream));
        let _launch = lane.launch_guard(func(app.spin));
        assert!(app.launch(app.spin, app.stream, 10_000).is_success());
    }
    control::advance_ns(1_000_000);
    recorder.harvest();
    assert_eq!(recorder.lane_ledger().landed, 8);
    assert_eq!(recorder.kernel_ledger().attempts, 2);
    let figures = recorder.telemetry().snapshot().lanes[LANE_DECODE].figures;
    assert_eq!(figures.unwrap().time_ns, 20_000);
}

#[test]
fn at_off_and_basic_no_call_reaches_the_driver_and_open_spans_still_land() {
    let app = App::new();
    let recorder = app.recorder();
    for level in [Level::Off, Level::Basic] {
        recorder.telemetry().set_level(Level::Kernel);
        let step = recorder.step();
        let open = step.lane(LANE_DECODE, stream(app.stream));
        recorder.telemetry().set_level(level);
        let before = all_calls();
        {
            let step = recorder.step();
            assert!(!step.is_armed());
            let lane = step.lane(LANE_DECODE, stream(app.stream));
            assert!(!lane.launch_guard(func(app.spin)).is_timed());
        }
        assert_eq!(all_calls() - before, 1, "{level}");
        drop(open);
        assert_eq!(recorder.harvest(), 1);
        assert!(recorder.lane_ledger().closes());
    }
}

#[test]
fn a_launch_that_failed_is_cancelled() {
    let app = App::new();
    let recorder = app.recorder();
    let step = recorder.step();
    let lane = step.lane(LANE_DECODE, stream(app.stream));
    lane.launch_guard(func(app.spin)).cancel();
    let launch = |ns| match app.launch(app.spin, app.stream, ns) {
        Status::SUCCESS => Ok(ns),
        status => Err(status),
    };
    assert_eq!(lane.launch(func(app.spin), || launch(1_000)), Ok(1_000));
    let refused = lane.launch(func(app.spin), || Err::<(), _>(Status::ERROR_INVALID_VALUE));
    assert_eq!(refused, Err(Status::ERROR_INVALID_VALUE), "it comes back");
    let panics = || lane.launch(func(app.spin), || -> Result<(), ()> { panic!("a launch") });
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).is_err());
    drop(lane);
    drop(step);
    control::advance_ns(10_000);
    recorder.harvest();
    let ledger = recorder.kernel_ledger();
    assert_eq!((ledger.cancelled, ledger.landed, ledger.in_flight), (3, 1, 0));
    assert_eq!(recorder.telemetry().host().launches.get(), 1);
    // No work was lost, so the step is complete.
    let taken = recorder.telemetry().snapshot();
    assert_eq!(taken.losses.incomplete_steps, 0);
    assert_eq!(taken.lanes[LANE_DECODE].figures.unwrap().busy_ns, 1_000);
}

#[test]
fn the_recorders_own_thread_harvests() {
    let app = App::new();
    let recorder = app.try_recorder(own_thread()).unwrap();
    let step = recorder.step();
    drop(step.lane(LANE_DECODE, stream(app.stream)));
    wait_for(|| recorder.lane_ledger().landed == 1);
    drop(step);
    recorder.close();
    assert_eq!(calls("cuEventCreate"), calls("cuEventDestroy_v2"));
}

#[test]
fn close_destroys_every_event_and_drop_leaks_them() {
    let app = App::new();
    app.recorder().close();
    assert_eq!(calls("cuEventCreate"), 64 + 2 * (64 + 64));
    assert_eq!(calls("cuEventDestroy_v2"), 64 + 2 * (64 + 64));
    drop(app.recorder());
    assert_eq!(calls("cuEventCreate"), 2 * (64 + 2 * (64 + 64)));
    assert_eq!(calls("cuEventDestroy_v2"), 64 + 2 * (64 + 64));
    assert_eq!(control::stale_handle_uses(), 0);
}

/// A lane that nobody named is refused and counted, by guards and by tokens, and
/// so is an armed launch in it; no call is made for it.
#[test]
fn a_lane_that_nobody_named_is_refused() {
    let app = App::new();
    let recorder = app.recorder();
    let here = stream(app.stream);
    let refused = || {
        let ledgers = [recorder.lane_ledger(), recorder.kernel_ledger()];
        assert!(ledgers.iter().all(|ledger| ledger.closes()));
        assert!(ledgers.iter().all(|ledger| ledger.begun == 0));
        ledgers.map(|ledger| ledger.refused)
    };
    let before = all_calls();
    let unnamed = [LANES.len(), 77, usize::MAX];
    for (number, lane) in (1..).zip(unnamed) {
        let step = recorder.step();
        let guard = step.lane(lane, here);
        assert!(!guard.launch_guard(func(app.spin)).is_timed());
        assert!(!guard.launch_guard_on(loaded(app.other), here).is_timed());
        assert!(!guard.launch_guard(recorder.graph("decode")).is_timed());
        drop(guard);
        assert_eq!(refused(), [2 * number - 1, 4 * number - 1]);
        assert_eq!(recorder.begin_lane(step.step(), lane, here), None);
        let launch = recorder.begin_launch(step.step(), lane, func(app.spin), here);
        assert_eq!(launch, None);
        assert_eq!(refused(), [2 * number, 4 * number]);
    }
    assert_eq!(recorder.harvest(), 0);
    assert_eq!(all_calls() - before, 1);
    // Of steps that have a span their work is missing.
    let step = recorder.step();
    drop(step.lane(LANE_DECODE, here));
    let launch = recorder.begin_launch(step.step(), unnamed[0], func(app.spin), here);
    assert_eq!(launch, None);
    drop(step);
    assert_eq!(recorder.harvest(), 1);
    let losses = recorder.telemetry().snapshot().losses;
    assert_eq!(losses.incomplete_steps, 1);

    // Launches that are not timed are counted, wherever they are.
    let never =
        TelemetryConfig { every: 1_000, sampling: Sampling::EveryNth, ..TelemetryConfig::DEFAULT };
    recorder.telemetry().configure(never).unwrap();
    let before = recorder.kernel_ledger().refused;
    let step = recorder.step();
    assert!(!step.is_armed());
    drop(step.lane(unnamed[0], here).launch_guard(func(app.spin)));
    assert_eq!(recorder.kernel_ledger().refused, before);
    assert_eq!(recorder.telemetry().host().launches.get(), 3 * 3 + 1 + 1);
}

/// As of every launch that was refused, of one that would have met its function.
#[test]
fn a_refused_first_launch_makes_its_step_incomplete() {
    let app = App::new();
    let recorder = app.recorder();
    let other = app.new_stream();
    let step = recorder.step();
    let lane = step.lane(LANE_DECODE, stream(app.stream));
    app.begin_capture(other, super::rig::THREAD_LOCAL);
    assert!(!lane.launch_guard_on(loaded(app.spin), stream(other)).is_timed());
    assert!(app.end_capture(other).is_success());
    drop(lane);
    drop(step);
    assert_eq!(recorder.harvest(), 1);
    let losses = recorder.telemetry().snapshot().losses;
    assert_eq!(losses.incomplete_steps, 1);
}

/// A step that ends after its last span landed is put together all the same.
#[test]
fn a_step_that_ended_is_folded_at_level_off_too() {
    let app = App::new();
    let recorder = app.recorder();
    let step = recorder.step();
    drop(step.lane(LANE_DECODE, stream(app.stream)));
    assert_eq!(recorder.harvest(), 1);
    recorder.telemetry().set_level(Level::Off);
    let passes = || recorder.lane_ledger().passes;
    let figures = || recorder.telemetry().snapshot().lanes[LANE_DECODE].figures;
    recorder.harvest();
    assert_eq!(figures(), None, "it goes on");
    drop(step);
    recorder.harvest();
    assert!(figures().is_some());
    let before = passes();
    recorder.harvest();
    assert_eq!(passes(), before, "nothing is left to do");
}
