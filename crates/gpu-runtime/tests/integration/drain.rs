// SPDX-License-Identifier: MIT OR Apache-2.0
//! `Recorder::drain` lands all that the GPU has finished, and comes back. Where
//! it has an hour, a test that ends says that it did not wait.

use super::rig::{App, calls, fail, func, own_thread, stream, wait_until_hung};
use metrale_gpu_runtime::timing::{Drained, Recorder};
use metrale_gpu_sim::control;
use metrale_gpu_sys::cuda::Status;
use metrale_telemetry::Step;
use metrale_telemetry::kernel::LANE_DECODE;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3_600);

fn step(app: &App, recorder: &Recorder, ns: u64) {
    let step = recorder.step();
    let lane = step.lane(LANE_DECODE, stream(app.stream));
    let launched = lane.launch(func(app.spin), || app.launch(app.spin, app.stream, ns).ok());
    assert_eq!(launched, Ok(()));
}

fn parts(drained: Drained) -> (u64, u64) {
    (drained.landed, drained.left)
}

#[test]
fn what_the_budget_leaves_is_landed_too() {
    let app = App::new();
    let recorder = app.recorder();
    for _ in 0..30 {
        step(&app, &recorder, 1_000);
    }
    control::advance_ns(30_000);
    // Not slow, but the budget of 5 ms has room for a few.
    control::slow("cuEventElapsedTime_v2", 1_000_000, u64::MAX).unwrap();
    let first = recorder.harvest();
    assert!((1..10).contains(&first), "{first}");
    assert_eq!(parts(recorder.drain(HOUR)), (60 - first as u64, 0));
    let folded = recorder.telemetry().step_losses();
    let figures = recorder.telemetry().snapshot().lanes[LANE_DECODE].figures;
    assert_eq!(figures.unwrap().steps, 30, "laid out: {folded:?}");
    assert_eq!(parts(recorder.drain(HOUR)), (0, 0));
}

#[test]
fn a_pass_of_the_recorders_own_thread_is_waited_for() {
    let app = App::new();
    let recorder = app.try_recorder(own_thread()).unwrap();
    control::hang("cuEventQuery").unwrap();
    step(&app, &recorder, 0);
    wait_until_hung("cuEventQuery", 1);
    step(&app, &recorder, 0);
    assert_eq!(recorder.harvest(), 0, "somebody else's turn");
    assert_eq!(parts(recorder.drain(Duration::from_millis(20))), (0, 4));
    let drained = std::thread::scope(|scope| {
        let draining = scope.spawn(|| recorder.drain(HOUR));
        std::thread::sleep(Duration::from_millis(20));
        control::release("cuEventQuery").unwrap();
        draining.join().unwrap()
    });
    assert_eq!(parts(drained), (4, 0));
}

#[test]
fn it_waits_for_no_gpu_and_for_no_open_span() {
    let app = App::new();
    let recorder = app.recorder();
    step(&app, &recorder, 1_000_000);
    let drained = recorder.drain(Duration::from_millis(3));
    assert_eq!(parts(drained), (0, 2));
    assert_eq!(parts(recorder.drain(Duration::ZERO)), (0, 2));
    assert_eq!(control::now_ns(), 0, "nothing of ours moved the clock");
    let open = recorder.begin_lane(Step::numbered(0), LANE_DECODE, stream(app.stream));
    control::advance_ns(1_000_000);
    assert_eq!(parts(recorder.drain(HOUR)), (2, 1));
    recorder.end_lane(open.unwrap(), stream(app.stream));
    assert_eq!(parts(recorder.drain(HOUR)), (1, 0));
    for call in ["cuStreamSynchronize", "cuEventSynchronize"] {
        assert_eq!(calls(call), 0);
    }
}

#[test]
fn a_quarantined_recorder_has_nothing_left() {
    let app = App::new();
    let recorder = app.recorder();
    step(&app, &recorder, 1_000);
    fail("cuEventQuery", Status::ERROR_LAUNCH_FAILED, 0);
    assert_eq!(parts(recorder.drain(HOUR)), (0, 0));
    assert_eq!(recorder.kernel_ledger().failed, 1);
}
