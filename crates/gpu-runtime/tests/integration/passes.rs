// SPDX-License-Identifier: MIT OR Apache-2.0
//! What one pass may cost and what it needs: every call of it is timed, one on
//! a thread of the application has a budget, and a thread without a context is
//! given one for it. Time is the simulator's.

use super::rig::{
    App, GLOBAL, all_calls, calls, config, cu, fail_some, own_thread, stream, wait_for,
};
use metrale_gpu_runtime::timing::{Recorder, RecorderConfig, Status};
use metrale_gpu_sim::control;
use metrale_telemetry::kernel::LANE_DECODE;
use std::time::Duration;

const MS: u64 = 1_000_000;
const READ: &str = "cuEventElapsedTime_v2";
const QUERY: &str = "cuEventQuery";
const MODE: &str = "cuThreadExchangeStreamCaptureMode";
const PUSH: &str = "cuCtxPushCurrent_v2";
const POP: &str = "cuCtxPopCurrent_v2";

fn lane(recorder: &Recorder, on: u64) {
    drop(recorder.step().lane(LANE_DECODE, stream(on)));
}

fn with(app: &App, change: impl FnOnce(&mut RecorderConfig)) -> Recorder {
    let mut config = RecorderConfig { lane_slots: 1_024, ..config() };
    change(&mut config);
    app.try_recorder(config).unwrap()
}

/// How long a harvest took, and what it landed.
fn harvest(recorder: &Recorder) -> (u64, usize) {
    let before = control::now_ns();
    let landed = recorder.harvest();
    (control::now_ns() - before, landed)
}

/// The last call of a pass that asks something is the read of a gap, and the
/// last of all gives the thread its mode back.
#[test]
fn the_last_calls_of_a_pass_are_timed_too() {
    for (call, before_it) in [(READ, 1), (MODE, 1)] {
        let app = App::new();
        let recorder = app.recorder();
        lane(&recorder, app.stream);
        assert_eq!(recorder.harvest(), 1);
        lane(&recorder, app.stream);
        control::slow(call, 0, before_it).unwrap();
        control::slow(call, 40_000 * MS, 1).unwrap();
        let (took, landed) = harvest(&recorder);
        assert_eq!((took, landed), (40_000 * MS, 1), "{call}");
        let health = recorder.health();
        assert_eq!(health.slow_polls, 1, "{call}");
        assert_eq!(health.harvest_interval, Duration::from_millis(20), "{call}");
        assert_eq!(app.thread_mode(), GLOBAL);
    }
}

/// A slow call is counted once.
#[test]
fn a_read_is_not_timed_with_the_one_after_it() {
    let app = App::new();
    let recorder = app.recorder();
    lane(&recorder, app.stream);
    assert_eq!(recorder.harvest(), 1);
    for _ in 0..2 {
        lane(&recorder, app.stream);
    }
    // Two spans and a gap before each, none of them slow by itself.
    control::slow(READ, MS, 4).unwrap();
    assert_eq!(harvest(&recorder), (4 * MS, 2));
    assert_eq!(recorder.health().slow_polls, 0);
}

#[test]
fn an_explicit_harvest_polls_for_its_budget_and_one_call() {
    let app = App::new();
    let recorder = with(&app, |_| ());
    for _ in 0..1_000 {
        lane(&recorder, app.stream);
    }
    control::slow(READ, 50 * MS, u64::MAX).unwrap();
    // One span, with its place in the first pass and its gap in the next ones,
    // whose steps were given up: 64 later ones waited.
    let (mut landed, mut rounds) = (0, 0);
    while landed < 100 {
        let (took, now_landed) = harvest(&recorder);
        assert!(took <= 100 * MS && now_landed <= 1, "{took} {now_landed}");
        landed += now_landed;
        rounds += 1;
        // The pace is another matter.
        control::advance_ns(1_000 * MS);
    }
    assert_eq!(rounds, 100, "each made some progress");
    assert_eq!(recorder.health().polling_stops, 0);

    // Calls that take less: as many as the budget has room for.
    control::clear_faults();
    control::slow(READ, MS, u64::MAX).unwrap();
    let (took, landed) = harvest(&recorder);
    assert!((5 * MS..=7 * MS).contains(&took), "{took}");
    assert!((2..=4).contains(&landed), "{landed}");
    control::clear_faults();
    control::advance_ns(1_000 * MS);
    assert_eq!(recorder.harvest(), 900 - landed, "nothing was lost");
    let gaps = &recorder.telemetry().instruments().lane_gap[LANE_DECODE];
    assert_eq!(gaps.snapshot().count(), 999, "and no gap");
}

#[test]
fn the_budget_is_the_applications_choice() {
    // A span has two reads, its time and its place, and each but the first a third,
    // its gap: the budget of 20 ms is over with the 7th span.
    for (budget_ms, landed) in [(0, 1), (20, 7), (u64::MAX / MS, 50)] {
        let app = App::new();
        let recorder = with(&app, |config| {
            config.harvest_budget = Duration::from_millis(budget_ms);
        });
        for _ in 0..50 {
            lane(&recorder, app.stream);
        }
        control::slow(READ, MS, u64::MAX).unwrap();
        assert_eq!(recorder.harvest(), landed, "{budget_ms} ms");
    }
}

/// A stream that is asked first, slowly and in vain, keeps no other from its
/// turn.
#[test]
fn whoever_the_budget_left_out_comes_first_next_time() {
    let app = App::new();
    let recorder = with(&app, |_| ());
    let streams: Vec<u64> = (0..64).map(|_| app.new_stream()).collect();
    // Those of even number never get done.
    for (number, on) in streams.iter().enumerate() {
        let ns = if number % 2 == 0 { u64::MAX / 4 } else { 0 };
        let step = recorder.step();
        let lane = step.lane(LANE_DECODE, stream(*on));
        assert!(app.launch(app.spin, *on, ns).is_success());
        drop(lane);
    }
    control::advance_ns(MS);
    control::slow(QUERY, 99 * MS, u64::MAX).unwrap();
    let mut landed = 0;
    for _ in 0..64 {
        let (took, now_landed) = harvest(&recorder);
        // A span that lands asks for its anchor too.
        assert_eq!(took, (1 + now_landed as u64) * 99 * MS);
        landed += now_landed;
        control::advance_ns(1_000 * MS);
    }
    assert_eq!((landed, recorder.lane_ledger().in_flight), (32, 32));
    // And those that wait are asked again, in turn.
    let asked = calls(QUERY);
    for _ in 0..32 {
        assert_eq!(recorder.harvest(), 0);
        control::advance_ns(1_000 * MS);
    }
    assert_eq!(calls(QUERY) - asked, 32);
    assert_eq!(recorder.health().polling_stops, 0);
}

/// A span that is done and whose step's anchor is not waits like any other.
#[test]
fn a_span_that_waits_for_its_anchor_keeps_no_other_from_its_turn() {
    let app = App::new();
    let recorder = with(&app, |config| config.harvest_budget = Duration::ZERO);
    // The anchors are behind this.
    assert!(app.launch(app.spin, app.stream, 1_000 * MS).is_success());
    for _ in 0..8 {
        let step = recorder.step();
        let before = step.lane(LANE_DECODE, stream(app.stream));
        drop(step.lane(LANE_DECODE, stream(app.new_stream())));
        drop(before);
        lane(&recorder, app.new_stream());
    }
    control::slow(QUERY, MS, u64::MAX).unwrap();
    let landed = [(); 25].map(|()| recorder.harvest());
    assert_eq!(landed.iter().sum::<usize>(), 8, "{landed:?}");
    control::advance_ns(1_000 * MS);
    let landed = [(); 16].map(|()| recorder.harvest());
    assert_eq!(landed, [1; 16]);
    assert_eq!(recorder.lane_ledger().in_flight, 0);
}

/// It holds up nobody, and what bounds it is the pace.
#[test]
fn the_recorders_own_thread_has_no_budget() {
    let app = App::new();
    let recorder = app.try_recorder(RecorderConfig { lane_slots: 1_024, ..own_thread() }).unwrap();
    control::hang(QUERY).unwrap();
    lane(&recorder, app.stream);
    super::rig::wait_until_hung(QUERY, 1);
    for _ in 0..50 {
        lane(&recorder, app.stream);
    }
    control::log_start();
    control::slow(READ, 6 * MS, u64::MAX).unwrap();
    control::release(QUERY).unwrap();
    wait_for(|| recorder.lane_ledger().landed == 1);
    // The slow read halved the rate: rounds are left out until the clock moves.
    let skipped = recorder.health().harvests_skipped;
    wait_for(|| recorder.health().harvests_skipped > skipped);
    control::advance_ns(1_000 * MS);
    wait_for(|| recorder.lane_ledger().landed == 51);
    recorder.close();
    let log = control::log();
    let passes = log.split(|call| call.name == MODE);
    let reads = |calls: &[control::Call]| calls.iter().filter(|call| call.name == READ).count();
    assert_eq!(passes.map(reads).max(), Some(150), "50 spans, their places and their gaps");
}

/// On a driver whose elapsed reads want a current context.
#[test]
fn a_thread_without_a_context_lands_its_spans() {
    let app = App::new();
    let recorder = app.recorder();
    control::set_elapsed_needs_context(true);
    for _ in 0..3 {
        lane(&recorder, app.stream);
    }
    let entered = [calls(PUSH), calls(POP)];
    std::thread::scope(|scope| {
        let harvesting = scope.spawn(|| {
            // Refused; left out; made with the context.
            let landed = [(); 3].map(|()| recorder.harvest());
            assert_eq!(landed, [0, 0, 3]);
            let mut context = 7u64;
            let asked = cu!("cuCtxGetCurrent", &raw mut context => *mut u64);
            assert_eq!((asked, context), (Status::SUCCESS, 0), "as it was");
            assert_eq!(app.thread_mode(), GLOBAL);
        });
        harvesting.join().unwrap();
    });
    assert_eq!(recorder.health().polls_refused, 1);
    assert_eq!([calls(PUSH), calls(POP)], entered.map(|calls| calls + 1));
    // A thread that has one lands as before.
    lane(&recorder, app.stream);
    assert_eq!(recorder.harvest(), 1);
    assert_eq!(calls(PUSH), calls(POP));
    assert_eq!(app.launch(app.spin, app.stream, 1), Status::SUCCESS);
}

/// The thread enters its context when it starts; where that fails, at each of
/// its passes.
#[test]
fn an_own_thread_that_could_not_enter_its_context_lands_all_the_same() {
    for status in [Status::ERROR_OUT_OF_MEMORY, Status::ERROR_INVALID_CONTEXT] {
        let app = App::new();
        control::set_elapsed_needs_context(true);
        fail_some(PUSH, status, 1, 1);
        let recorder =
            app.try_recorder(RecorderConfig { lane_slots: 1_024, ..own_thread() }).unwrap();
        wait_for(|| calls(PUSH) >= 2);
        for landed in 1..4 {
            lane(&recorder, app.stream);
            wait_for(|| recorder.lane_ledger().landed == landed);
        }
        assert_eq!(recorder.health().polls_refused, 1, "{status}");
        recorder.close();
    }
}

/// Whatever the driver says to the push or the pop of a pass.
#[test]
fn a_pass_that_cannot_enter_its_context_is_refused() {
    for (status, is_quarantined) in [
        (Status::ERROR_INVALID_CONTEXT, false),
        (Status::ERROR_OUT_OF_MEMORY, false),
        (Status::ERROR_INVALID_VALUE, false),
        (Status::ERROR_LAUNCH_FAILED, true),
        (Status(54_321), true),
    ] {
        let app = App::new();
        let recorder = app.recorder();
        lane(&recorder, app.stream);
        fail_some(READ, Status::ERROR_INVALID_CONTEXT, 0, 1);
        assert_eq!([recorder.harvest(), recorder.harvest()], [0, 0]);
        fail_some(PUSH, status, 0, 1);
        let before = all_calls();
        assert_eq!(recorder.harvest(), 0);
        assert_eq!(all_calls() - before, 2, "the push and nothing else");
        assert_eq!(app.thread_mode(), GLOBAL);
        let quarantined = is_quarantined.then_some(status);
        assert_eq!(recorder.health().quarantined, quarantined, "{status}");
        if is_quarantined {
            continue;
        }
        assert_eq!(recorder.health().polls_refused, 2);
        // Left out, left out, and well again.
        let landed = [(); 3].map(|()| recorder.harvest());
        assert_eq!(landed, [0, 0, 1], "{status}");
        // Into the relaxed mode it cannot go: the context is left again.
        lane(&recorder, app.stream);
        fail_some(MODE, status, 0, 1);
        assert_eq!(recorder.harvest(), 0);
        assert_eq!(calls(PUSH) - 1, calls(POP));
        assert_eq!(app.launch(app.spin, app.stream, 1), Status::SUCCESS);
    }
}
