// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a recorder measures of itself as it is made.

use super::rig::{App, GLOBAL, RELAXED, THREAD_LOCAL, calls, config, stream};
use metrale_gpu_runtime::timing::{Recorder, RecorderConfig, Status};
use metrale_gpu_sim::control::{self, Call};
use metrale_telemetry::Floor;
use metrale_telemetry::kernel::{LANE_DECODE, Ledger};
use std::collections::BTreeMap;

fn measuring() -> RecorderConfig {
    RecorderConfig { measure_floor: true, ..config() }
}

fn made(app: &App) -> Recorder {
    app.try_recorder(measuring()).unwrap()
}

/// The calls of making a recorder.
fn install(app: &App, config: RecorderConfig) -> (Recorder, Vec<Call>) {
    control::log_clear();
    control::log_start();
    let recorder = app.try_recorder(config).unwrap();
    control::log_stop();
    (recorder, control::log())
}

fn counts(calls: &[Call]) -> BTreeMap<&'static str, u64> {
    let mut counts = BTreeMap::new();
    for call in calls {
        *counts.entry(call.name).or_default() += 1;
    }
    counts
}

/// The recorder's own spans find every slot free and every event good.
fn serves(app: &App, recorder: &Recorder) {
    for _ in 0..64 {
        let step = recorder.step();
        let lane = step.lane(LANE_DECODE, stream(app.stream));
        let launch = lane.launch_guard(super::rig::loaded(app.spin));
        assert!(launch.is_timed());
        assert!(app.launch(app.spin, app.stream, 3_000).is_success());
        drop(launch);
    }
    control::advance_ns(64 * 3_000);
    assert_eq!(recorder.harvest(), 2 * 64);
    let lane = recorder.telemetry().instruments().lane[LANE_DECODE].snapshot();
    assert_eq!((lane.count(), lane.sum_ns()), (64, 64 * 3_000));
}

/// Worked out by hand: a pair takes the host 3.9 µs and the device 4 µs, so
/// that the end is pending when it is asked for; one pass then lands all.
#[test]
fn the_floor_is_what_the_driver_takes() {
    let app = App::new();
    for (call, ns) in [
        ("cuEventRecord", 1_500),
        ("cuStreamIsCapturing", 150),
        ("cuThreadExchangeStreamCaptureMode", 50),
        ("cuEventQuery", 500),
        ("cuEventElapsedTime_v2", 400),
    ] {
        control::set_call_cost(call, ns).unwrap();
    }
    control::set_event_duration(2_000);
    let recorder = made(&app);
    let floor = Floor {
        pair_ns: Some(2_000),
        begin_ns: Some(150 + 1_500),
        end_ns: Some(150 + 1_500),
        harvest_ns: Some((50 + 500 + 32 * 400 + 50) / 32),
        poll_ns: Some(50 + 500 + 50),
    };
    assert_eq!(recorder.telemetry().floor(), floor);
    assert_eq!(calls("cuEventQuery"), 32 + 1);
}

/// Every call of it, and nothing in the recorder's books.
#[test]
fn measuring_makes_these_calls_and_leaves_no_trace() {
    let app = App::new();
    let (plain, without) = install(&app, config());
    assert_eq!(plain.telemetry().floor(), Floor::default());
    let without = counts(&without);
    for unasked in ["cuStreamCreate", "cuEventRecord", "cuEventQuery"] {
        assert_eq!(without.get(unasked), None);
    }

    let (recorder, log) = install(&app, measuring());
    let mut more = counts(&log);
    for (name, count) in without {
        *more.get_mut(name).unwrap() -= count;
    }
    more.retain(|_, count| *count > 0);
    let expected = [
        ("cuStreamCreate", 1),
        ("cuStreamIsCapturing", 2 * 32),
        ("cuEventRecord", 2 * 32),
        // Each pair once, and the pass that lands all.
        ("cuEventQuery", 32 + 1),
        ("cuEventElapsedTime_v2", 32 + 32),
        ("cuThreadExchangeStreamCaptureMode", 2 + 2 * (32 + 1)),
        ("cuStreamDestroy_v2", 1),
    ];
    assert_eq!(more, BTreeMap::from(expected));
    // From the first exchange to the last all is in the relaxed mode.
    let modes: Vec<u32> = log.iter().map(|call| call.mode).collect();
    let first = modes.iter().position(|mode| *mode == RELAXED).unwrap();
    let last = modes.iter().rposition(|mode| *mode == RELAXED).unwrap();
    assert!(modes[first..=last].iter().all(|mode| *mode == RELAXED));
    assert_eq!(log[first].name, "cuThreadExchangeStreamCaptureMode");
    assert_eq!(log[last].name, "cuStreamDestroy_v2");
    // The context was current, and goes after that.
    assert_eq!(log.last().unwrap().name, "cuCtxPopCurrent_v2");

    // The clock stood still; no poll was without an answer.
    let floor = Floor {
        pair_ns: Some(0),
        begin_ns: Some(0),
        end_ns: Some(0),
        harvest_ns: Some(0),
        poll_ns: None,
    };
    assert_eq!(recorder.telemetry().floor(), floor);
    for ledger in [recorder.lane_ledger(), recorder.kernel_ledger()] {
        assert_eq!(ledger, Ledger::default());
    }
    let instruments = recorder.telemetry().instruments();
    let spans: u64 = instruments.lane.iter().map(|lane| lane.count()).sum();
    assert_eq!(spans + instruments.span_failures.get(), 0);
    assert_eq!(recorder.kernels(), []);
    assert_eq!(recorder.health(), plain.health());
    serves(&app, &recorder);
}

/// A device that is busy for ever: bounded by count where the clock stands
/// still. What the host did is known all the same.
#[test]
fn a_device_that_does_not_answer_is_asked_so_often_and_no_more() {
    let app = App::new();
    control::set_event_duration(1 << 50);
    let recorder = made(&app);
    let floor = Floor {
        pair_ns: None,
        begin_ns: Some(0),
        end_ns: Some(0),
        harvest_ns: None,
        poll_ns: Some(0),
    };
    assert_eq!(recorder.telemetry().floor(), floor);
    assert_eq!(calls("cuEventQuery"), 10_000);
    assert_eq!(calls("cuEventElapsedTime_v2"), 0);
    for wait in ["cuStreamSynchronize", "cuEventSynchronize", "cuCtxSynchronize"] {
        assert_eq!(calls(wait), 0);
    }
    assert_eq!(calls("cuStreamDestroy_v2"), 1, "it does not wait either");
    // The events are still pending, and are recorded anew.
    control::set_event_duration(0);
    serves(&app, &recorder);
}

#[test]
fn a_driver_that_takes_long_is_asked_for_fifty_milliseconds() {
    // Polls that take so long, and how many pairs and polls are made then.
    for (poll_ns, pairs, polls) in [
        (1_000_000, 32, 50),
        (10_000_000, 5, 5),
        (49_999_999, 2, 2),
        (60_000_000, 1, 1),
        (10_000_000_000, 1, 1),
    ] {
        let app = App::new();
        control::set_event_duration(1 << 50);
        control::set_call_cost("cuEventQuery", poll_ns).unwrap();
        let recorder = made(&app);
        assert_eq!(recorder.telemetry().floor().poll_ns, Some(poll_ns));
        assert_eq!(recorder.telemetry().floor().pair_ns, None);
        assert_eq!(calls("cuEventRecord"), 2 * pairs, "{poll_ns}");
        assert_eq!(calls("cuEventQuery"), polls, "{poll_ns}");
        // The recorder begins at the full rate.
        let health = recorder.health();
        assert_eq!((health.slow_polls, health.polling_stops), (0, 0));
        assert!(health.harvest_interval.is_zero());
    }
}

#[test]
fn a_small_pool_is_measured_with_the_pairs_it_has() {
    for slots in [1, 4, 33] {
        let app = App::new();
        let config = RecorderConfig { kernel_slots: slots, ..measuring() };
        let recorder = app.try_recorder(config).unwrap();
        assert_eq!(calls("cuEventRecord"), 2 * slots.min(32) as u64);
        assert_eq!(recorder.telemetry().floor().pair_ns, Some(0));
        assert_eq!(recorder.kernel_ledger(), Ledger::default());
    }
}

#[test]
fn a_capture_survives_that_a_recorder_is_made_beside_it() {
    for mode in [GLOBAL, THREAD_LOCAL, RELAXED] {
        for own_mode in [GLOBAL, THREAD_LOCAL, RELAXED] {
            for same_thread in [true, false] {
                let app = App::new();
                let blocking = app.new_blocking_stream();
                for on in [app.stream, blocking] {
                    app.begin_capture(on, mode);
                }
                let make = || {
                    app.set_thread_mode(own_mode);
                    let recorder = made(&app);
                    assert_eq!(recorder.telemetry().floor().pair_ns, Some(0));
                    assert_eq!(app.set_thread_mode(GLOBAL), own_mode);
                    recorder.close();
                };
                if same_thread {
                    make();
                } else {
                    std::thread::scope(|scope| scope.spawn(make).join().unwrap());
                }
                for on in [app.stream, blocking] {
                    assert_eq!(app.capture_status(on), 1, "mode {mode} {own_mode}");
                    assert_eq!(app.end_capture(on), Status::SUCCESS);
                }
            }
        }
    }
}

/// The application's work, on the stream that others wait for too, is still
/// going on when the floor is known.
#[test]
fn measuring_is_apart_from_the_applications_work() {
    let app = App::new();
    let blocking = app.new_blocking_stream();
    assert!(app.launch(app.spin, 0, 1 << 50).is_success());
    assert!(app.launch(app.spin, blocking, 1 << 50).is_success());
    control::set_event_duration(700);
    control::set_call_cost("cuEventQuery", 100_000).unwrap();
    let recorder = made(&app);
    assert_eq!(recorder.telemetry().floor().pair_ns, Some(700));
}

/// NULL names the legacy default stream, which waits for others.
#[test]
fn nothing_is_recorded_on_a_stream_that_is_null() {
    let app = App::new();
    super::rig::fail_some("cuStreamCreate", Status::SUCCESS, 0, 1);
    let recorder = made(&app);
    assert_eq!(recorder.telemetry().floor(), Floor::default());
    assert_eq!((calls("cuEventRecord"), calls("cuStreamDestroy_v2")), (0, 0));
    assert_eq!(recorder.health().quarantined, None);
}

#[test]
fn each_recorder_measures_on_a_stream_of_its_own() {
    let app = App::new();
    let first = made(&app);
    control::set_event_duration(500);
    control::set_call_cost("cuEventQuery", 2_000).unwrap();
    let second = made(&app);
    assert_eq!(first.telemetry().floor().pair_ns, Some(0));
    assert_eq!(second.telemetry().floor().pair_ns, Some(500));
    // The application's stream, and one for each.
    assert_eq!(calls("cuStreamCreate"), 1 + 2);
    assert_eq!(calls("cuStreamDestroy_v2"), 2);
    for recorder in [first, second] {
        recorder.close();
    }
    assert_eq!(calls("cuEventCreate"), calls("cuEventDestroy_v2"));
    assert_eq!(control::stale_handle_uses(), 0);
}
