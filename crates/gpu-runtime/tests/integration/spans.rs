// SPDX-License-Identifier: MIT OR Apache-2.0
//! What lands, with which times, at what cost in driver calls.

use super::rig::{App, all_calls, calls, config, func, stream};
use metrale_gpu_runtime::timing::{Harvest, Recorder};
use metrale_gpu_sim::control;
use metrale_telemetry::Level;
use metrale_telemetry::kernel::{KernelTime, LANE_DECODE, LANE_PREFILL};
use std::time::Duration;

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
            let launch = lane.launch(func(function));
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
            KernelTime {
                func: app.spin,
                total_ns: 120_000,
                samples: 3
            },
            KernelTime {
                func: app.other,
                total_ns: 7_500,
                samples: 3
            },
        ]
    );
    for ledger in [recorder.lane_ledger(), recorder.kernel_ledger()] {
        assert!(
            ledger.closes() && ledger.landed == ledger.attempts,
            "{ledger:?}"
        );
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
    assert_eq!(
        control::now_ns(),
        1_000_000,
        "nothing of ours moved the clock"
    );
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
            let _launch = lane.launch(func(app.spin));
            assert!(app.launch(app.spin, stream_handle, 1_000).is_success());
        }
    }
    let spans = 2 * (launches + 1);
    assert_eq!(
        calls("cuEventRecord"),
        2 * spans + 1,
        "and the step's anchor"
    );
    assert_eq!(
        calls("cuStreamIsCapturing"),
        2 * spans,
        "one to a span's record"
    );

    // Nothing is done: two rings of two waiting streams, one query each.
    recorder.harvest();
    assert_eq!(calls("cuEventQuery"), 4);
    assert_eq!(calls("cuEventElapsedTime_v2"), 0);
    assert_eq!(
        calls("cuThreadExchangeStreamCaptureMode"),
        4,
        "a bracket for each ring"
    );

    control::advance_ns(1_000_000);
    assert_eq!(recorder.harvest() as u64, spans);
    assert_eq!(calls("cuEventQuery"), 8 + 1, "and one of the anchor");
    assert_eq!(
        calls("cuEventElapsedTime_v2"),
        2 * spans,
        "one to a span, and one to its place"
    );

    let idle = all_calls();
    recorder.harvest();
    assert_eq!(all_calls() - idle, 1, "an idle recorder makes no call");
    assert_eq!(["cuEventCreate", "cuEventDestroy_v2"].map(calls), before);
    for forbidden in [
        "cuCtxSynchronize",
        "cuStreamSynchronize",
        "cuEventSynchronize",
    ] {
        assert_eq!(calls(forbidden), 0, "{forbidden}");
    }
}

#[test]
fn every_poll_is_inside_the_relaxed_mode() {
    let app = App::new();
    let recorder = app.recorder();
    control::log_start();
    for _ in 0..20 {
        let step = recorder.step();
        let lane = step.lane(LANE_DECODE, stream(app.stream));
        let launch = lane.launch(func(app.spin));
        assert!(app.launch(app.spin, app.stream, 3_000).is_success());
        drop(launch);
        drop(lane);
        recorder.harvest();
        control::advance_ns(2_000);
    }
    let polls = [
        "cuEventQuery",
        "cuEventElapsedTime",
        "cuEventElapsedTime_v2",
    ];
    let log = control::log();
    let made: Vec<_> = log
        .iter()
        .filter(|call| polls.contains(&call.name))
        .collect();
    assert!(made.len() > 20);
    assert!(
        made.iter().all(|call| call.mode == super::rig::RELAXED),
        "{made:?}"
    );
    assert_eq!(app.thread_mode(), super::rig::GLOBAL);
}

#[test]
fn an_unarmed_step_times_lanes_only() {
    let app = App::new();
    let recorder = app.recorder();
    let config = metrale_telemetry::TelemetryConfig {
        every: 4,
        sampling: metrale_telemetry::Sampling::EveryNth,
        ..metrale_telemetry::TelemetryConfig::DEFAULT
    };
    recorder.telemetry().configure(config).unwrap();
    for _ in 0..8 {
        let step = recorder.step();
        let lane = step.lane(LANE_DECODE, stream(app.stream));
        let _launch = lane.launch(func(app.spin));
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
            assert!(!lane.launch(func(app.spin)).is_timed());
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
    lane.launch(func(app.spin)).cancel();
    drop(lane);
    recorder.harvest();
    let ledger = recorder.kernel_ledger();
    assert_eq!(
        (ledger.cancelled, ledger.landed, ledger.in_flight),
        (1, 0, 0)
    );
}

#[test]
fn the_recorders_own_thread_harvests() {
    let app = App::new();
    let own = Harvest::OwnThread(Duration::from_millis(1));
    let recorder = app
        .try_recorder(metrale_gpu_runtime::timing::RecorderConfig {
            harvest: own,
            ..config()
        })
        .unwrap();
    let step = recorder.step();
    drop(step.lane(LANE_DECODE, stream(app.stream)));
    let landed = (0..10_000).any(|_| {
        std::thread::sleep(Duration::from_millis(1));
        recorder.lane_ledger().landed == 1
    });
    assert!(landed);
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
