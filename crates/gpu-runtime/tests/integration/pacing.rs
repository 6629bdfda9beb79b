// SPDX-License-Identifier: MIT OR Apache-2.0
//! Polls that are refused, slow, long or hung: the recorder asks less, serving
//! threads go on, and all of it heals. Time is the simulator's.

use super::rig::{
    App, GLOBAL, all_calls, calls, config, fail, func, own_thread, stream, wait_for,
    wait_until_hung,
};
use metrale_gpu_runtime::timing::{Recorder, RecorderConfig, Status};
use metrale_gpu_sim::control;
use metrale_telemetry::kernel::LANE_DECODE;
use std::time::Duration;

const MS: u64 = 1_000_000;

fn lane(app: &App, recorder: &Recorder) {
    drop(recorder.step().lane(LANE_DECODE, stream(app.stream)));
}

/// In which of the first `rounds` harvests a driver that refuses every poll is
/// asked: 1, 2, 4 … 64 are left out between two of them.
fn asked_rounds(rounds: usize) -> Vec<usize> {
    let (mut next, mut left_out, mut asked) = (0, 1, Vec::new());
    while next < rounds {
        asked.push(next);
        next += left_out + 1;
        left_out = (2 * left_out).min(64);
    }
    asked
}

#[test]
fn refused_polls_back_off_and_heal() {
    for (call, status) in [
        ("cuEventQuery", Status::ERROR_STREAM_CAPTURE_UNSUPPORTED),
        ("cuEventQuery", Status::ERROR_INVALID_CONTEXT),
        ("cuEventElapsedTime_v2", Status::ERROR_NOT_PERMITTED),
        ("cuThreadExchangeStreamCaptureMode", Status::ERROR_OUT_OF_MEMORY),
    ] {
        let app = App::new();
        let recorder = app.recorder();
        // Several streams and both rings: one refusal ends the whole round.
        for on in [app.stream, app.new_stream(), app.new_stream()] {
            let step = recorder.step();
            let lane = step.lane(LANE_DECODE, stream(on));
            drop(lane.launch_guard(func(app.spin)));
        }
        fail(call, status, 0);
        let mut asked = Vec::new();
        for round in 0..400 {
            let before = calls(call);
            assert_eq!(recorder.harvest(), 0);
            match calls(call) - before {
                0 => {}
                1 => asked.push(round),
                more => panic!("{call}: {more} refused calls in one round"),
            }
        }
        assert_eq!(asked, asked_rounds(400), "{call}");
        assert_eq!(recorder.health().polls_refused, asked.len() as u64);
        assert_eq!(recorder.health().harvests_skipped, 400 - asked.len() as u64);
        assert_eq!(recorder.health().quarantined, None);

        control::clear_faults();
        assert_eq!(app.thread_mode(), GLOBAL);
        let landed: usize = (0..=64).map(|_| recorder.harvest()).sum();
        assert_eq!(landed, 6, "{call}: allowed again");
        for _ in 0..3 {
            lane(&app, &recorder);
            assert_eq!(recorder.harvest(), 1, "{call}: the full rate");
        }
        // The next refusal begins anew.
        lane(&app, &recorder);
        fail(call, status, 0);
        recorder.harvest();
        control::clear_faults();
        assert_eq!((recorder.harvest(), recorder.harvest()), (0, 1));
    }
}

#[test]
fn a_slow_poll_halves_the_rate_down_to_one_a_second_and_it_recovers() {
    let app = App::new();
    let recorder = app.recorder();
    let interval = || recorder.health().harvest_interval;
    let mut slow = 0;
    for expected_ms in [20, 40, 80, 160, 320, 640, 1000, 1000] {
        lane(&app, &recorder);
        control::slow("cuEventQuery", MS + 1, 1).unwrap();
        assert_eq!(recorder.harvest(), 1);
        slow += 1;
        assert_eq!(interval(), Duration::from_millis(expected_ms));
        assert_eq!(recorder.health().slow_polls, slow);
        let before = all_calls();
        control::advance_ns(expected_ms * MS - 1);
        assert_eq!(recorder.harvest(), 0);
        assert_eq!(all_calls() - before, 1, "no call before the time is over");
        control::advance_ns(1);
    }
    // Good rounds double it again; rounds that had nothing to poll say nothing.
    for expected_ms in [500, 250, 125, 62, 31, 15, 0] {
        assert_eq!(recorder.harvest(), 0);
        control::advance_ns(1000 * MS);
        lane(&app, &recorder);
        assert_eq!(recorder.harvest(), 1);
        assert_eq!(interval().as_millis(), expected_ms);
    }
    for _ in 0..3 {
        lane(&app, &recorder);
        assert_eq!(recorder.harvest(), 1, "the full rate, whatever the clock");
    }
    assert_eq!(recorder.health().slow_polls, slow);

    // A millisecond is not slow.
    lane(&app, &recorder);
    control::slow("cuEventElapsedTime_v2", MS, 1).unwrap();
    recorder.harvest();
    assert_eq!(recorder.health().slow_polls, slow);
}

#[test]
fn three_long_polls_stop_polling_for_ten_seconds() {
    let app = App::new();
    let patient = RecorderConfig { harvest_budget: Duration::MAX, ..config() };
    let recorder = app.try_recorder(patient).unwrap();
    // Five streams are to be asked; the third long answer is the last.
    for on in [app.stream].into_iter().chain((0..4).map(|_| app.new_stream())) {
        let step = recorder.step();
        let lane = step.lane(LANE_DECODE, stream(on));
        drop(lane.launch_guard(func(app.spin)));
    }
    control::slow("cuEventQuery", 150 * MS, 3).unwrap();
    // The second one is of an anchor; the span of the third has no place yet.
    assert_eq!(recorder.harvest(), 1);
    assert_eq!(calls("cuEventQuery"), 3);
    let health = recorder.health();
    assert_eq!((health.slow_polls, health.polling_stops), (3, 1));
    assert_eq!(app.thread_mode(), GLOBAL);

    let before = all_calls();
    for _ in 0..10 {
        control::advance_ns(1000 * MS - 1);
        assert_eq!(recorder.harvest(), 0);
        // Serving goes on.
        lane(&app, &recorder);
    }
    assert_eq!(all_calls() - before, 1 + 10 * 8, "records and their questions only");
    control::advance_ns(10);
    assert_eq!(recorder.harvest(), 4 + 5 + 10);
    assert_eq!(recorder.health().polling_stops, 1);
    assert_eq!(recorder.lane_ledger().in_flight, 0);
}

/// A recorder that is quarantined while polls are left out gives up at once.
#[test]
fn a_quarantine_does_not_wait_for_the_pace() {
    let app = App::new();
    let recorder = app.recorder();
    lane(&app, &recorder);
    fail("cuEventQuery", Status::ERROR_STREAM_CAPTURE_UNSUPPORTED, 0);
    for _ in 0..40 {
        recorder.harvest();
    }
    fail("cuEventRecord", Status::ERROR_LAUNCH_FAILED, 0);
    lane(&app, &recorder);
    let before = all_calls();
    assert_eq!(recorder.harvest(), 0);
    assert_eq!(all_calls() - before, 1);
    let ledger = recorder.lane_ledger();
    assert_eq!((ledger.failed, ledger.in_flight), (2, 0), "{ledger:?}");
}

#[test]
fn long_polls_with_good_rounds_between_them_only_slow_down() {
    let app = App::new();
    let recorder = app.recorder();
    for _ in 0..4 {
        for long in [true, true, false] {
            lane(&app, &recorder);
            if long {
                control::slow("cuEventQuery", 150 * MS, 1).unwrap();
            }
            assert_eq!(recorder.harvest(), 1);
            control::advance_ns(1000 * MS);
        }
    }
    let health = recorder.health();
    assert_eq!((health.slow_polls, health.polling_stops), (8, 0));
}

/// A serving thread that only begins and ends spans never waits for a poll: it
/// would not come to the end of this test.
#[test]
fn nobody_waits_for_a_poll_that_hangs() {
    for hung in ["cuEventQuery", "cuEventElapsedTime_v2"] {
        let app = App::new();
        let recorder = app.try_recorder(own_thread()).unwrap();
        control::hang(hung).unwrap();
        lane(&app, &recorder);
        wait_until_hung(hung, 1);

        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..100 {
                        let step = recorder.step();
                        let lane = step.lane(LANE_DECODE, stream(app.stream));
                        drop(lane.launch_guard(func(app.spin)));
                        drop(lane.launch_guard(recorder.graph("decode")));
                    }
                });
            }
        });
        // Nor does a second harvest, the ledgers, or the list of kernels. (The
        // other ring's spans hang a second thread, so they are not asked.)
        assert!(recorder.lane_ledger().dropped > 0, "the ring is full, not blocked");
        assert!(recorder.lane_ledger().closes() && recorder.kernel_ledger().closes());
        assert_eq!(recorder.kernels(), []);
        assert_eq!(recorder.health().slow_polls, 0);
        assert_eq!(control::hung_calls(hung), Ok(1), "one thread, and it is ours");

        control::release(hung).unwrap();
        let all_landed =
            || recorder.lane_ledger().in_flight + recorder.kernel_ledger().in_flight == 0;
        wait_for(all_landed);
        recorder.close();
    }
}

/// The recorder goes while its thread hangs: the events stay, and the thread
/// uses nothing that is gone.
#[test]
fn a_recorder_that_goes_while_a_poll_hangs_leaks() {
    for close in [true, false] {
        let app = App::new();
        let recorder = app.try_recorder(own_thread()).unwrap();
        control::hang("cuEventQuery").unwrap();
        lane(&app, &recorder);
        wait_until_hung("cuEventQuery", 1);
        if close {
            recorder.close();
        } else {
            drop(recorder);
        }
        assert_eq!(calls("cuEventDestroy_v2"), 0);
        control::release("cuEventQuery").unwrap();
        wait_for(|| control::hung_calls("cuEventQuery") == Ok(0));
        assert_eq!(control::stale_handle_uses(), 0);
    }
}

#[test]
fn the_recorders_own_thread_keeps_the_same_pace() {
    let app = App::new();
    let recorder = app.try_recorder(own_thread()).unwrap();
    control::slow("cuEventQuery", 2 * MS, 1).unwrap();
    lane(&app, &recorder);
    wait_for(|| recorder.lane_ledger().landed == 1);
    assert_eq!(recorder.health().slow_polls, 1);
    assert_eq!(recorder.health().harvest_interval, Duration::from_millis(2));
    lane(&app, &recorder);
    // The clock stands: the thread wakes and does not poll.
    let skipped = recorder.health().harvests_skipped;
    wait_for(|| recorder.health().harvests_skipped > skipped + 3);
    assert_eq!(recorder.lane_ledger().landed, 1);
    control::advance_ns(2 * MS);
    wait_for(|| recorder.lane_ledger().landed == 2);
    wait_for(|| recorder.health().harvest_interval == Duration::ZERO);
    recorder.close();
}
