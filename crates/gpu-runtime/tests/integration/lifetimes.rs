// SPDX-License-Identifier: MIT OR Apache-2.0
//! Things that go before others: streams under spans, contexts under
//! recorders, recorders in any order and on threads that end.

use super::rig::{App, all_calls, calls, config, cu, func, own_thread, stream};
use metrale_gpu_runtime::timing::{Recorder, RecorderConfig, Status};
use metrale_gpu_sim::control;
use metrale_telemetry::kernel::{LANE_DECODE, LANE_PREFILL};
use std::cell::RefCell;
use std::time::Duration;

fn current() -> u64 {
    let mut context = 0u64;
    let asked = cu!("cuCtxGetCurrent", &raw mut context => *mut u64);
    assert_eq!(asked, Status::SUCCESS);
    context
}

#[test]
fn spans_outlive_their_streams_and_recycled_handles_mix_nothing_up() {
    let app = App::new();
    let recorder = app.recorder();
    let doomed = app.new_stream();
    let span = |lane, on, ns| {
        let step = recorder.step();
        let lane = step.lane(lane, stream(on));
        let launch = lane.launch_guard(func(app.spin));
        assert!(app.launch(app.spin, on, ns).is_success());
        drop(launch);
    };
    span(LANE_PREFILL, doomed, 10_000);
    app.destroy_stream(doomed);
    let recycled = app.new_stream();
    assert_eq!(recycled, doomed, "the driver gives the handle out again at once");
    span(LANE_DECODE, recycled, 3_000);
    // The new stream is done first; under one handle it can only wait.
    control::advance_ns(3_000);
    assert_eq!(recorder.harvest(), 0);
    control::advance_ns(7_000);
    assert_eq!(recorder.harvest(), 4);
    let instruments = recorder.telemetry().instruments();
    let sum = |lane: usize| instruments.lane[lane].snapshot().sum_ns();
    assert_eq!((sum(LANE_PREFILL), sum(LANE_DECODE)), (10_000, 3_000));
    // Between streams there is no gap: this one would be negative.
    assert_eq!(instruments.lane_gap[LANE_DECODE].snapshot().count(), 0);
    assert_eq!(control::stale_handle_uses(), 0, "no handle is kept");
}

#[test]
fn a_span_whose_stream_went_before_its_end_is_taken_back() {
    let app = App::new();
    let recorder = app.recorder();
    let doomed = app.new_stream();
    let step = recorder.step();
    // The token is dropped, as by a request that was aborted.
    let step = step.step();
    let lane = recorder.begin_lane(step, LANE_DECODE, stream(doomed));
    assert!(lane.is_some());
    app.destroy_stream(doomed);
    recorder.harvest();
    control::advance_ns(59_999_999_999);
    recorder.harvest();
    assert_eq!(recorder.lane_ledger().in_flight, 1);
    control::advance_ns(1);
    recorder.harvest();
    let ledger = recorder.lane_ledger();
    assert_eq!((ledger.reclaimed, ledger.in_flight), (1, 0));
    assert_eq!(control::stale_handle_uses(), 0);
}

#[test]
fn no_event_comes_or_goes_in_steady_state_and_no_context_is_touched() {
    let app = App::new();
    let recorder = app.recorder();
    let once = [
        "cuInit",
        "cuCtxCreate_v2",
        "cuCtxCreate_v4",
        "cuDevicePrimaryCtxRetain",
        "cuCtxSetCurrent",
        "cuCtxPushCurrent_v2",
        "cuCtxSynchronize",
        "cuStreamSynchronize",
        "cuEventSynchronize",
        "cuEventCreate",
        "cuEventDestroy_v2",
        "cuEventRecordWithFlags",
        "cuStreamCreate",
        "cuStreamDestroy_v2",
    ];
    let exec = app.graph_exec(1_000);
    let before = once.map(calls);
    let graph = recorder.graph("decode");
    for _ in 0..1_000 {
        let step = recorder.step();
        let lane = step.lane(LANE_DECODE, stream(app.stream));
        let launch = lane.launch_guard(super::rig::loaded(app.spin));
        assert!(app.launch(app.spin, app.stream, 500).is_success());
        drop(launch);
        let launch = lane.launch_guard(graph);
        assert!(app.launch_graph(exec, app.stream).is_success());
        drop(launch);
        drop(lane);
        control::advance_ns(1_500);
        recorder.harvest();
    }
    assert_eq!(once.map(calls), before);
    assert_eq!(calls("cuFuncGetName"), 1);
    let ledger = recorder.kernel_ledger().plus(recorder.lane_ledger());
    assert_eq!((ledger.attempts, ledger.landed), (3_000, 3_000));
}

#[test]
fn making_and_closing_leave_the_threads_context_as_it_was() {
    let app = App::new();
    let mut second = 0u64;
    let made = cu!("cuCtxCreate_v2", &raw mut second => *mut u64, 0 => u32, 0 => i32);
    assert!(made.is_success());
    for own in [second, app.context, 0] {
        assert!(cu!("cuCtxSetCurrent", own => u64).is_success());
        let before = current();
        let measuring = RecorderConfig { measure_floor: true, ..config() };
        let recorder = app.try_recorder(measuring).unwrap();
        assert_eq!(current(), before);
        recorder.close();
        assert_eq!(current(), before);
    }
    assert_eq!(calls("cuEventCreate"), calls("cuEventDestroy_v2"));
}

/// A pop that did nothing is tried again; one that cannot be done is left.
#[test]
fn the_threads_context_comes_back_where_a_pop_fails() {
    let app = App::new();
    let mut second = 0u64;
    let made = cu!("cuCtxCreate_v2", &raw mut second => *mut u64, 0 => u32, 0 => i32);
    assert!(made.is_success());
    super::rig::fail_some("cuCtxPopCurrent_v2", Status::ERROR_UNKNOWN, 0, 1);
    let recorder = app.recorder();
    assert_eq!(current(), second);
    super::rig::fail_some("cuCtxPopCurrent_v2", Status::ERROR_UNKNOWN, 0, 1);
    recorder.close();
    assert_eq!(current(), second);
    let before = calls("cuCtxPopCurrent_v2");
    super::rig::fail_some("cuCtxPopCurrent_v2", Status::ERROR_UNKNOWN, 0, 9);
    drop(app.recorder());
    assert_eq!(calls("cuCtxPopCurrent_v2") - before, 2);
}

/// A reset gives the context's handle to another one; its events are gone.
#[test]
fn close_after_a_reset_touches_no_event() {
    let app = App::new();
    let recorder = app.recorder();
    let reset = cu!("cuDevicePrimaryCtxReset_v2", 0 => i32);
    assert!(reset.is_success());
    recorder.close();
    assert_eq!(calls("cuEventDestroy_v2"), 0);
    assert_eq!(control::stale_handle_uses(), 0);

    // A context that is gone altogether.
    let mut second = 0u64;
    let made = cu!("cuCtxCreate_v2", &raw mut second => *mut u64, 0 => u32, 0 => i32);
    assert!(made.is_success());
    // SAFETY: the context is live.
    let recorder = unsafe {
        Recorder::from_raw(
            super::rig::driver(),
            super::rig::context(second),
            super::rig::telemetry(),
            config(),
        )
    };
    let recorder = recorder.unwrap();
    recorder.close();
    let destroyed = calls("cuEventDestroy_v2");
    assert!(cu!("cuCtxDestroy_v2", second => u64).is_success());
    assert_eq!(destroyed, 64 + 2 * (64 + 64), "closed in time");
    assert_eq!(control::stale_handle_uses(), 0);
}

/// Nor on a driver that has no numbers for contexts, where a context that was
/// reset is like the one before.
#[test]
fn close_without_numbers_of_contexts_touches_no_event() {
    let app = App::new();
    control::hide_newer_than(11_080);
    let recorder = app.recorder();
    assert!(cu!("cuDevicePrimaryCtxReset_v2", 0 => i32).is_success());
    recorder.close();
    assert_eq!(calls("cuEventDestroy_v2"), 0);
    assert_eq!(control::stale_handle_uses(), 0);
}

/// The first dead event that is recorded is the last one.
#[test]
fn a_recorder_whose_context_was_reset_stops() {
    let app = App::new();
    let recorder = app.recorder();
    assert!(cu!("cuDevicePrimaryCtxReset_v2", 0 => i32).is_success());
    let on = app.new_stream();
    for _ in 0..1_000 {
        drop(recorder.step().lane(LANE_DECODE, stream(on)));
        assert_eq!(recorder.harvest(), 0);
    }
    let gone = Some(Status::ERROR_CONTEXT_IS_DESTROYED);
    assert_eq!(recorder.health().quarantined, gone);
    assert_eq!(control::stale_handle_uses(), 1);
    let ledger = recorder.lane_ledger();
    assert_eq!((ledger.failed, ledger.refused), (1, 999));

    // An end finds it too, and a context that is none any more.
    let mut second = 0u64;
    let made = cu!("cuCtxCreate_v2", &raw mut second => *mut u64, 0 => u32, 0 => i32);
    assert!(made.is_success());
    let (driver, telemetry) = (super::rig::driver(), super::rig::telemetry());
    // SAFETY: the context is live; that it goes first is what is tried.
    let recorder =
        unsafe { Recorder::from_raw(driver, super::rig::context(second), telemetry, config()) }
            .unwrap();
    let on = app.new_stream();
    let step = recorder.step();
    let lane = step.lane(LANE_DECODE, stream(on));
    assert!(cu!("cuCtxDestroy_v2", second => u64).is_success());
    let on = app.new_stream();
    drop(lane.launch_guard_on(func(app.spin), stream(on)));
    assert_eq!(recorder.health().quarantined, gone);
    // The end's stream is not asked about any more.
    let before = all_calls();
    drop(lane);
    assert_eq!(all_calls() - before, 1);
}

/// A 400 that the stream is to blame for stops nobody, and nor does one where
/// the context cannot be told.
#[test]
fn a_record_that_is_refused_in_a_living_context_costs_its_span() {
    // What is refused: the anchor's record, which costs no span, or the start's.
    for (skip, landed) in [(0, 2), (1, 1)] {
        for id in [None, Some(Status::ERROR_NOT_PERMITTED), Some(Status::ERROR_OUT_OF_MEMORY)] {
            let app = App::new();
            let recorder = app.recorder();
            let asked = calls("cuCtxGetId");
            super::rig::fail_some("cuEventRecord", Status::ERROR_INVALID_HANDLE, skip, 1);
            if let Some(status) = id {
                super::rig::fail_some("cuCtxGetId", status, 0, 1);
            }
            drop(recorder.step().lane(LANE_DECODE, stream(app.stream)));
            assert_eq!(calls("cuCtxGetId") - asked, 1);
            drop(recorder.step().lane(LANE_DECODE, stream(app.stream)));
            assert_eq!(recorder.harvest(), landed);
            assert_eq!(calls("cuCtxGetId") - asked, 1, "after a 400 only");
            assert_eq!(recorder.health().quarantined, None);
        }
    }
}

#[test]
fn recorders_go_in_any_order_with_spans_in_flight() {
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
        let app = App::new();
        let mut recorders: Vec<_> = (0..3).map(|_| Some(app.recorder())).collect();
        for recorder in recorders.iter().flatten() {
            drop(recorder.step().lane(LANE_DECODE, stream(app.stream)));
        }
        for (turn, which) in order.into_iter().enumerate() {
            let gone = recorders[which].take().unwrap();
            if turn == 1 {
                gone.close();
            } else {
                drop(gone);
            }
            for recorder in recorders.iter().flatten() {
                drop(recorder.step().lane(LANE_DECODE, stream(app.stream)));
                assert!(recorder.harvest() > 0);
            }
        }
        assert_eq!(calls("cuEventDestroy_v2"), 64 + 2 * (64 + 64));
        assert_eq!(control::stale_handle_uses(), 0);
    }
}

/// Used, and dropped, by destructors of thread-local values.
#[test]
fn a_recorder_may_be_used_and_go_while_its_thread_ends() {
    struct Last(Recorder, u64);
    impl Drop for Last {
        fn drop(&mut self) {
            drop(self.0.step().lane(LANE_DECODE, stream(self.1)));
            assert_eq!(self.0.harvest(), 1);
            assert_eq!(self.0.kernels(), []);
        }
    }
    thread_local! {
        static LAST: RefCell<Option<Last>> = const { RefCell::new(None) };
        static OWN: RefCell<Option<Recorder>> = const { RefCell::new(None) };
    }
    let app = App::new();
    let (explicit, own) = (app.recorder(), app.try_recorder(own_thread()).unwrap());
    let on = app.stream;
    let thread = std::thread::spawn(move || {
        LAST.set(Some(Last(explicit, on)));
        OWN.set(Some(own));
    });
    thread.join().expect("no destructor panics");
    assert_eq!(calls("cuEventDestroy_v2"), 0, "dropped recorders leak");
    let before = all_calls();
    std::thread::sleep(Duration::from_millis(5));
    assert_eq!(all_calls() - before, 1, "nobody harvests any more");
}
