// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gaps lie between lanes of one stream, and nowhere else.

use super::rig::{App, THREAD_LOCAL, calls, config, fail_some, stream};
use metrale_gpu_runtime::timing::{Recorder, Status};
use metrale_gpu_sim::control;
use metrale_telemetry::Step;
use metrale_telemetry::kernel::{LANE_DECODE, LANE_PREFILL, SpanToken};

const STEP: Step = Step::armed(0, 0);

/// Known gaps, their sum, and unknown ones; nothing is invalid.
fn gaps(recorder: &Recorder) -> (u64, u64, u64) {
    assert_eq!(recorder.health().invalid_times, 0);
    let instruments = recorder.telemetry().instruments();
    let known = instruments.lane_gap[LANE_DECODE].snapshot();
    let unknown = instruments.lane_gap_unknown.get();
    (known.count(), known.sum_ns(), unknown)
}

/// A lane of 1 µs of work.
fn lane(app: &App, recorder: &Recorder, on: u64) {
    let step = recorder.step();
    let lane = step.lane(LANE_DECODE, stream(on));
    assert!(app.launch(app.spin, on, 1_000).is_success());
    drop(lane);
    control::advance_ns(1_000);
}

fn begin(recorder: &Recorder, on: u64) -> SpanToken {
    let token = recorder.begin_lane(STEP, LANE_DECODE, stream(on));
    token.expect("a slot is free")
}

/// The driver gives a handle out again at once: between a stream and the next one
/// under its handle there is no gap.
#[test]
fn a_recycled_handle_has_no_gap() {
    let app = App::new();
    let recorder = app.recorder();
    let first = app.new_stream();
    lane(&app, &recorder, first);
    control::advance_ns(300);
    lane(&app, &recorder, first);
    app.destroy_stream(first);
    control::advance_ns(5_000_000_000);
    let second = app.new_stream();
    assert_eq!(second, first, "the handle of the one that went");
    lane(&app, &recorder, second);
    control::advance_ns(700);
    lane(&app, &recorder, second);
    assert_eq!(recorder.harvest(), 4);
    assert_eq!(gaps(&recorder), (2, 1_000, 2));
    assert_eq!(calls("cuStreamGetId"), 4, "once a lane");
}

/// Before 12.0 the driver does not number streams: nobody knows.
#[test]
fn where_streams_have_no_numbers_only_default_ones_have_gaps() {
    let app = App::new();
    control::hide_newer_than(11_080);
    let recorder = app.try_recorder(config()).unwrap();
    for _ in 0..3 {
        lane(&app, &recorder, app.stream);
        // Default streams are never destroyed.
        lane(&app, &recorder, 0);
        lane(&app, &recorder, 2);
    }
    assert_eq!(recorder.harvest(), 9);
    assert_eq!(gaps(&recorder), (4, 4 * 2_000, 5));
}

#[test]
fn a_stream_whose_number_is_not_told_has_no_gap() {
    let app = App::new();
    let recorder = app.recorder();
    fail_some("cuStreamGetId", Status::ERROR_STREAM_CAPTURE_UNSUPPORTED, 2, 1);
    (0..6).for_each(|_| lane(&app, &recorder, app.stream));
    assert_eq!(recorder.harvest(), 6);
    assert_eq!(gaps(&recorder), (1, 0, 5));
    assert_eq!(calls("cuStreamGetId"), 3, "refused once, it is not asked again");
}

/// Another thread captures the stream between the question whether it captures and
/// the one for its number: the one moment that an application which shares a stream
/// so must not hit. It costs the capture once.
#[test]
fn a_lane_caught_by_a_capture_of_its_own_stream_asks_for_no_number_again() {
    let app = App::new();
    let recorder = app.recorder();
    for (round, ended) in [(1, Status::ERROR_STREAM_CAPTURE_INVALIDATED), (2, Status::SUCCESS)] {
        control::hang("cuThreadExchangeStreamCaptureMode").unwrap();
        let lane = || {
            let entered = super::rig::cu!("cuCtxSetCurrent", app.context => u64);
            assert!(entered.is_success());
            drop(recorder.step().lane(LANE_DECODE, stream(app.stream)));
        };
        std::thread::scope(|scope| {
            let lane = scope.spawn(lane);
            if round == 1 {
                super::rig::wait_until_hung("cuThreadExchangeStreamCaptureMode", 1);
            } else {
                // It does not get there.
                lane.join().unwrap();
            }
            app.begin_capture(app.stream, THREAD_LOCAL);
            control::release("cuThreadExchangeStreamCaptureMode").unwrap();
        });
        assert_eq!(app.end_capture(app.stream), ended);
        assert_eq!(calls("cuStreamGetId"), 1);
    }
}

/// Handle 2 is another stream on each thread.
#[test]
fn per_thread_streams_are_told_apart_by_thread() {
    let app = App::new();
    let recorder = app.recorder();
    let on_another_thread = || {
        std::thread::scope(|scope| {
            let run = || {
                let entered = super::rig::cu!("cuCtxSetCurrent", app.context => u64);
                assert!(entered.is_success());
                lane(&app, &recorder, 2);
                control::advance_ns(10);
                lane(&app, &recorder, 2);
            };
            scope.spawn(run).join().unwrap();
        });
    };
    lane(&app, &recorder, 2);
    on_another_thread();
    control::advance_ns(1_000_000);
    lane(&app, &recorder, 2);
    on_another_thread();
    assert_eq!(recorder.harvest(), 6);
    // 10 ns on each of the others, and on this one all that they took.
    assert_eq!(gaps(&recorder), (3, 1_002_010 + 20, 3));
}

/// An end on the per-thread stream of another thread would time nothing: a
/// millisecond of work read as 0 ns.
#[test]
fn a_span_of_a_per_thread_stream_does_not_end_on_another_thread() {
    let app = App::new();
    let recorder = app.recorder();
    let (token, step) = (begin(&recorder, 2), Step::armed(1, 1));
    let kernel = super::rig::func(app.spin);
    let launch = recorder.begin_launch(step, LANE_DECODE, kernel, stream(2));
    let launch = launch.expect("a slot is free");
    assert!(app.launch(app.spin, 2, 1_000_000).is_success());
    std::thread::scope(|scope| {
        let end = || {
            let entered = super::rig::cu!("cuCtxSetCurrent", app.context => u64);
            assert!(entered.is_success());
            recorder.end_lane(token, stream(2));
            recorder.end_launch(launch, stream(2));
        };
        scope.spawn(end).join().unwrap();
    });
    control::advance_ns(1_000_000);
    assert_eq!(recorder.harvest(), 0);
    for ledger in [recorder.lane_ledger(), recorder.kernel_ledger()] {
        assert!(ledger.closes());
        assert_eq!((ledger.failed, ledger.in_flight), (1, 0));
    }
    let instruments = recorder.telemetry().instruments();
    assert_eq!(instruments.span_failures.get(), 2);
    // On the thread that it began on, and on a stream of its own, it ends.
    for on in [2, app.stream] {
        let token = begin(&recorder, 2);
        recorder.end_lane(token, stream(on));
    }
    assert_eq!(recorder.harvest(), 2);
}

/// A lane that began on one stream and ended on another has no gap before it, nor
/// has the one after it.
#[test]
fn a_lane_that_changes_streams_has_no_gap() {
    let app = App::new();
    let recorder = app.recorder();
    let other = app.new_stream();
    lane(&app, &recorder, app.stream);
    let token = begin(&recorder, other);
    recorder.end_lane(token, stream(app.stream));
    lane(&app, &recorder, app.stream);
    control::advance_ns(50);
    lane(&app, &recorder, app.stream);
    assert_eq!(recorder.harvest(), 4);
    assert_eq!(gaps(&recorder), (1, 50, 3));
}

/// Requests of an async server overlap on one stream.
#[test]
fn lanes_that_overlap_have_no_gap_and_nothing_is_lost() {
    let app = App::new();
    let recorder = app.recorder();
    let long = recorder.begin_lane(STEP, LANE_PREFILL, stream(app.stream));
    for _ in 0..10 {
        lane(&app, &recorder, app.stream);
        control::advance_ns(20);
    }
    recorder.end_lane(long.unwrap(), stream(app.stream));
    control::advance_ns(400);
    lane(&app, &recorder, app.stream);
    assert_eq!(recorder.harvest(), 12);
    assert_eq!(gaps(&recorder), (1, 400, 11));
    assert_eq!(recorder.telemetry().instruments().span_failures.get(), 0);
    assert_eq!(recorder.lane_ledger().failed, 0);
}
