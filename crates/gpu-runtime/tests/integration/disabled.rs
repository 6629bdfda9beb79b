// SPDX-License-Identifier: MIT OR Apache-2.0
//! A recorder that measures nothing: all of it can be called, nothing happens.

use super::rig::{App, func, loaded, stream};
use metrale_gpu_runtime::timing::{Health, Recorder};
use metrale_gpu_sim::control;
use metrale_telemetry::kernel::{LANE_DECODE, LANE_PREFILL, Ledger, SpanToken};
use metrale_telemetry::{Level, Step};
use std::sync::Arc;
use std::time::Duration;

#[test]
fn all_of_a_disabled_recorder_works_and_calls_nothing() {
    let app = App::new();
    let armed = app.recorder().step().step();
    assert!(armed.is_armed());
    control::log_start();
    let recorder = Arc::new(Recorder::disabled());
    assert!(recorder.is_disabled() && Recorder::default().is_disabled());
    let here = stream(app.stream);
    let (graph, kernel) = (recorder.graph("decode"), loaded(app.spin));
    recorder.name(func(app.spin), "spin");

    let step = recorder.step();
    assert_eq!((step.step(), step.number()), (Step::UNMEASURED, None));
    assert!(!step.is_armed());
    let lane = step.lane(LANE_DECODE, here);
    assert!(!lane.is_armed());
    assert_eq!(lane.launch(kernel, || Ok::<_, ()>(7)), Ok(7));
    assert_eq!(lane.launch_on(graph, here, || Err::<(), _>(8)), Err(8));
    assert!(!lane.launch_guard(graph).is_timed());
    lane.launch_guard_on(kernel, here).cancel();
    drop(lane);
    drop(step);

    let step = recorder.step_owned();
    assert_eq!((step.step(), step.number()), (Step::UNMEASURED, None));
    let lane = step.lane(LANE_PREFILL, here);
    assert!(!step.is_armed() && !lane.is_armed());
    assert_eq!(lane.launch(kernel, || Ok::<_, ()>(7)), Ok(7));
    assert_eq!(lane.launch_on(graph, here, || Err::<(), _>(8)), Err(8));
    drop((lane, step));

    // Also beside a recorder that arms the step, and for its tokens.
    assert_eq!(recorder.begin_lane(armed, LANE_DECODE, here), None);
    assert_eq!(recorder.begin_launch(armed, LANE_DECODE, kernel, here), None);
    let token = SpanToken::from_slot(0);
    recorder.end_lane(token, here);
    recorder.cancel_lane(token);
    recorder.end_launch(token, here);
    recorder.cancel_launch(token);
    recorder.end_step(armed);

    assert_eq!(recorder.harvest(), 0);
    assert_eq!(recorder.drain(Duration::from_secs(3_600)), Default::default());
    assert!(recorder.driver().is_none());
    assert_eq!((recorder.label(), recorder.gpu()), ("", "unknown"));
    assert_eq!(recorder.gpu_name(), None);
    assert_eq!(recorder.health(), Health::default());
    assert_eq!((recorder.kernels(), recorder.oldest_spans()), (vec![], vec![]));
    for ledger in [recorder.lane_ledger(), recorder.kernel_ledger()] {
        assert_eq!(ledger, Ledger::default());
    }
    let telemetry = recorder.telemetry();
    assert_eq!((telemetry.level(), telemetry.steps()), (Level::Off, 0));
    assert_eq!(format!("{recorder:?}"), "Recorder(disabled)");
    recorder.forget(func(app.spin));
    Arc::into_inner(recorder).unwrap().close();
    assert_eq!(control::log(), []);
    assert!(app.launch(app.spin, app.stream, 0).is_success());
    assert_eq!(control::log().len(), 1, "calls were kept");
}
