// SPDX-License-Identifier: MIT OR Apache-2.0
//! Captures that begin or end while a span is open, or in the very moment of a
//! record, and the default streams.

use super::rig::{
    App, GLOBAL, RELAXED, THREAD_LOCAL, calls, config, cu, fail_some, stream, wait_until_hung,
};
use metrale_gpu_runtime::timing::{Recorder, RecorderConfig, Status};
use metrale_gpu_sim::control;
use metrale_telemetry::Step;
use metrale_telemetry::kernel::LANE_DECODE;

const STEP: Step = Step::numbered(0);

fn lane(recorder: &Recorder, on: u64) {
    if let Some(token) = recorder.begin_lane(STEP, LANE_DECODE, stream(on)) {
        recorder.end_lane(token, stream(on));
    }
}

#[test]
fn a_capture_inside_a_span_is_timed_by_it_and_one_across_its_end_costs_it() {
    for mode in [GLOBAL, THREAD_LOCAL, RELAXED] {
        let app = App::new();
        let recorder = app.recorder();
        let span = || recorder.begin_lane(STEP, LANE_DECODE, stream(app.stream));

        // Begins and ends between begin and end.
        let token = span().expect("nothing captures");
        app.begin_capture(app.stream, mode);
        assert!(app.launch(app.spin, app.stream, 7_000).is_success());
        assert_eq!(app.end_capture(app.stream), Status::SUCCESS);
        assert!(app.launch(app.spin, app.stream, 3_000).is_success());
        recorder.end_lane(token, stream(app.stream));
        control::advance_ns(10_000);
        assert_eq!(recorder.harvest(), 1);
        let lanes = &recorder.telemetry().instruments().lane[LANE_DECODE];
        assert_eq!(lanes.snapshot().sum_ns(), 3_000, "what was captured did not run");

        // Ends between begin and end: refused at its begin.
        app.begin_capture(app.stream, mode);
        assert_eq!(span(), None);
        assert_eq!(app.end_capture(app.stream), Status::SUCCESS);
        assert_eq!(recorder.lane_ledger().refused, 1);

        // Begins between begin and end, and is broken by the application.
        let token = span().expect("nothing captures");
        app.begin_capture(app.stream, mode);
        let broken = cu!("cuStreamSynchronize", app.stream => u64);
        assert_eq!(broken, Status::ERROR_STREAM_CAPTURE_UNSUPPORTED);
        recorder.end_lane(token, stream(app.stream));
        assert_eq!(recorder.harvest(), 0);
        assert_eq!(app.end_capture(app.stream), Status::ERROR_STREAM_CAPTURE_INVALIDATED);

        // The same slots time again: nothing was poisoned.
        for _ in 0..2 * 64 {
            lane(&recorder, app.stream);
            assert_eq!(recorder.harvest(), 1);
        }
        let ledger = recorder.lane_ledger();
        assert!(ledger.closes(), "{ledger:?}");
        assert_eq!((ledger.failed, ledger.landed), (1, 1 + 2 * 64));
    }
}

/// Holds the recorder between its question and its record, and begins a
/// capture there.
fn race(app: &App, recorder: &Recorder, on: u64, capturing: u64) -> Status {
    control::hang("cuEventRecord").unwrap();
    let ended = std::thread::scope(|scope| {
        let recording = scope.spawn(move || {
            assert!(cu!("cuCtxSetCurrent", app.context => u64).is_success());
            recorder.begin_lane(STEP, LANE_DECODE, stream(on)).map(|token| {
                recorder.end_lane(token, stream(on));
            })
        });
        wait_until_hung("cuEventRecord", 1);
        app.begin_capture(capturing, THREAD_LOCAL);
        control::release("cuEventRecord").unwrap();
        recording.join().unwrap();
        app.end_capture(capturing)
    });
    recorder.harvest();
    ended
}

#[test]
fn the_one_race_is_on_the_legacy_stream_and_can_be_avoided() {
    for legacy in [0, 1] {
        let app = App::new();
        let recorder = app.recorder();
        let capturing = app.new_blocking_stream();
        // The documented race: a record on the legacy stream breaks a capture
        // that began after the recorder asked.
        let ended = race(&app, &recorder, legacy, capturing);
        assert_eq!(ended, Status::ERROR_STREAM_CAPTURE_INVALIDATED);
        let ledger = recorder.lane_ledger();
        assert_eq!((ledger.begun, ledger.failed, ledger.in_flight), (1, 1, 0));
        assert_eq!(recorder.health().quarantined, None);
        assert_eq!(calls("cuEventQuery"), 0);
        lane(&recorder, legacy);
        assert_eq!(recorder.harvest(), 1, "later spans are well");

        // The option that avoids it: there is no record to race with.
        let strict = RecorderConfig { refuse_legacy_streams: true, ..config() };
        let strict = app.try_recorder(strict).unwrap();
        app.begin_capture(capturing, THREAD_LOCAL);
        lane(&strict, legacy);
        assert_eq!(app.end_capture(capturing), Status::SUCCESS);
        assert_eq!(strict.lane_ledger().refused, 1);

        // No other stream races: a non-blocking capture, and a blocking stream
        // beside a blocking capture.
        for (on, capturing) in [
            (legacy, app.new_stream()),
            (app.new_blocking_stream(), capturing),
            (app.new_stream(), capturing),
        ] {
            let landed = recorder.lane_ledger().landed;
            assert_eq!(race(&app, &recorder, on, capturing), Status::SUCCESS);
            assert_eq!(recorder.lane_ledger().landed, landed + 1);
        }
    }
}

/// The application lets one thread capture the stream that another one launches
/// on. Its own launches would be torn apart; the span is lost, the graph is not.
#[test]
fn a_start_caught_by_a_capture_of_its_own_stream_is_never_polled() {
    let app = App::new();
    let recorder = app.recorder();
    assert_eq!(race(&app, &recorder, app.stream, app.stream), Status::SUCCESS);
    let ledger = recorder.lane_ledger();
    assert_eq!((ledger.begun, ledger.failed, ledger.in_flight), (1, 1, 0));
    assert_eq!(calls("cuEventQuery") + calls("cuEventElapsedTime_v2"), 0);
    lane(&recorder, app.stream);
    assert_eq!(recorder.harvest(), 1, "recorded anew, the event is well again");
}

/// Where that capture is over before the span is, the end is recorded on the
/// device, and asking for the span's time finds the start: once, and nothing is
/// left that this could break.
#[test]
fn a_start_caught_by_a_capture_that_is_over_is_read_once() {
    let app = App::new();
    let recorder = app.recorder();
    control::hang("cuEventRecord").unwrap();
    let token = std::thread::scope(|scope| {
        let beginning = scope.spawn(|| recorder.begin_lane(STEP, LANE_DECODE, stream(app.stream)));
        wait_until_hung("cuEventRecord", 1);
        app.begin_capture(app.stream, THREAD_LOCAL);
        control::release("cuEventRecord").unwrap();
        beginning.join().unwrap()
    });
    assert_eq!(app.end_capture(app.stream), Status::SUCCESS);
    recorder.end_lane(token.unwrap(), stream(app.stream));
    let other = app.new_stream();
    app.begin_capture(other, GLOBAL);
    for _ in 0..3 {
        assert_eq!(recorder.harvest(), 0);
    }
    assert_eq!(app.end_capture(other), Status::SUCCESS);
    assert_eq!(calls("cuEventElapsedTime_v2"), 1);
    let ledger = recorder.lane_ledger();
    assert_eq!((ledger.begun, ledger.failed, ledger.in_flight), (1, 1, 0));
    assert_eq!(recorder.health().quarantined, None);
    lane(&recorder, app.stream);
    assert_eq!(recorder.harvest(), 1);
}

/// The other half of it, which no order of calls closes either: documented, and
/// never more than one poll.
#[test]
fn an_end_caught_by_a_capture_of_its_own_stream_is_polled_once() {
    let app = App::new();
    let recorder = app.recorder();
    let token = recorder.begin_lane(STEP, LANE_DECODE, stream(app.stream));
    control::hang("cuEventRecord").unwrap();
    std::thread::scope(|scope| {
        let ending = scope.spawn(|| recorder.end_lane(token.unwrap(), stream(app.stream)));
        wait_until_hung("cuEventRecord", 1);
        app.begin_capture(app.stream, THREAD_LOCAL);
        control::release("cuEventRecord").unwrap();
        ending.join().unwrap();
    });
    for _ in 0..3 {
        assert_eq!(recorder.harvest(), 0);
    }
    assert_eq!(calls("cuEventQuery"), 1);
    assert_eq!(app.thread_mode(), GLOBAL);
    assert_eq!(app.end_capture(app.stream), Status::ERROR_STREAM_CAPTURE_INVALIDATED);
    let ledger = recorder.lane_ledger();
    assert_eq!((ledger.begun, ledger.failed, ledger.in_flight), (1, 1, 0));
    assert_eq!(recorder.health().quarantined, None);
    lane(&recorder, app.stream);
    assert_eq!(recorder.harvest(), 1);
}

#[test]
fn default_streams_are_those_of_the_recorders_context_and_thread() {
    let app = App::new();
    let recorder = app.recorder();
    // The per-thread stream: one for each thread, refused where it captures.
    let ours = 2;
    app.begin_capture(ours, GLOBAL);
    lane(&recorder, ours);
    assert_eq!(recorder.lane_ledger().refused, 1);
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            assert!(cu!("cuCtxSetCurrent", app.context => u64).is_success());
            lane(&recorder, ours);
        });
        other.join().unwrap();
    });
    assert_eq!(recorder.lane_ledger().begun, 1, "another thread's stream");
    assert_eq!(app.end_capture(ours), Status::SUCCESS);

    // Without a current context, or under another one, it is not ours.
    let mut second = 0u64;
    let made = cu!("cuCtxCreate_v2", &raw mut second => *mut u64, 0 => u32, 0 => i32);
    assert!(made.is_success());
    for current in [second, 0] {
        assert!(cu!("cuCtxSetCurrent", current => u64).is_success());
        if current == 0 {
            assert!(cu!("cuCtxSetCurrent", 0 => u64).is_success());
        }
        let refused = recorder.lane_ledger().refused;
        for default in [0, 1, 2] {
            lane(&recorder, default);
        }
        assert_eq!(recorder.lane_ledger().refused, refused + 3);
    }
    assert_eq!(recorder.health().quarantined, None);
    // An ordinary stream needs no current context.
    lane(&recorder, app.stream);
    recorder.harvest();
    assert_eq!(recorder.lane_ledger().landed, 2);
}

/// The driver answers 906 where the simulator's rules would not have it.
#[test]
fn an_answer_that_is_no_answer_refuses() {
    let app = App::new();
    let recorder = app.recorder();
    for status in [Status::ERROR_STREAM_CAPTURE_IMPLICIT, Status::ERROR_STREAM_CAPTURE_INVALIDATED]
    {
        fail_some("cuStreamIsCapturing", status, 0, 1);
        lane(&recorder, app.stream);
    }
    assert_eq!(recorder.lane_ledger().refused, 2);
    lane(&recorder, app.stream);
    assert_eq!(recorder.harvest(), 1);
}
