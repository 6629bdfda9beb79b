// SPDX-License-Identifier: MIT OR Apache-2.0
//! The record that each step leaves, and lanes that the application names.

use super::rig::{App, all_calls, config, context, driver, fail_some, func, stream};
use metrale_gpu_runtime::timing::{OnStep, Recorder, RecorderConfig};
use metrale_gpu_sim::control;
use metrale_gpu_sys::cuda::Status;
use metrale_telemetry::kernel::{LANE_DECODE, StepRecord, StepShape};
use metrale_telemetry::{Telemetry, TelemetryConfig};
use std::sync::{Arc, Mutex};

/// A recorder of a telemetry of its own, with lane 3 named.
fn recorder(app: &App, every: u64) -> Recorder {
    recorder_with(app, every, config())
}

fn recorder_with(app: &App, every: u64, config: RecorderConfig) -> Recorder {
    let telemetry = Telemetry::new().leak();
    telemetry.name_lanes(&["draft"]).unwrap();
    let rare = TelemetryConfig { every, ..TelemetryConfig::default() };
    telemetry.configure(rare).unwrap();
    // SAFETY: the context lives as long as the app, which outlives the recorder.
    unsafe { Recorder::from_raw(driver(), context(app.context), telemetry, config) }.unwrap()
}

fn serve(app: &App, recorder: &Recorder, lanes: &[(usize, u64)]) {
    let step = recorder.step();
    step.shape(StepShape::new().decode_tokens(8).requests(2));
    for &(lane, ns) in lanes {
        let lane = step.lane(lane, stream(app.stream));
        assert!(app.launch(app.spin, app.stream, ns).is_success());
        drop(lane);
    }
}

#[test]
fn every_step_leaves_a_record_with_what_its_lanes_took() {
    let app = App::new();
    for every in [1, 1_000_000] {
        let recorder = recorder(&app, every);
        for ns in [5_000, 7_000] {
            serve(&app, &recorder, &[(3, 1_000), (LANE_DECODE, ns)]);
        }
        control::advance_ns(100_000);
        recorder.harvest();
        let recent = recorder.telemetry().recent_steps();
        assert_eq!((recent.steps.len(), recent.overwritten), (2, 0));
        for (at, step) in recent.steps.iter().enumerate() {
            assert_eq!((step.number, step.incomplete), (at as u64, false));
            assert_eq!(step.armed, every == 1);
            assert_eq!(step.shape.map(|shape| shape.decode_tokens), Some(8));
            assert!(step.wall_ns.is_some());
            let took = [3, LANE_DECODE].map(|lane| step.lanes[lane].gpu_ns);
            assert_eq!(took, [1_000, [5_000, 7_000][at]]);
        }
        assert_eq!(recorder.telemetry().step_losses().unrecorded_steps, 0);
        recorder.close();
    }
}

#[test]
fn a_cancelled_lane_is_none_of_its_steps_record_and_a_lost_one_marks_it() {
    let app = App::new();
    let recorder = recorder(&app, 1_000_000);
    let here = stream(app.stream);
    let step = recorder.step();
    let token = recorder.begin_lane(step.step(), LANE_DECODE, here).unwrap();
    recorder.cancel_lane(token);
    drop(step);
    let step = recorder.step();
    fail_some("cuEventRecord", Status::ERROR_STREAM_CAPTURE_UNSUPPORTED, 0, 1);
    assert_eq!(recorder.begin_lane(step.step(), LANE_DECODE, here), None);
    drop(step);
    recorder.harvest();
    let steps = recorder.telemetry().recent_steps().steps;
    let marks: Vec<bool> = steps.iter().map(|step| step.incomplete).collect();
    assert_eq!(marks, [false, true]);
}

#[test]
fn the_last_shape_before_the_close_counts_for_guards_and_owned_steps() {
    let app = App::new();
    let recorder = Arc::new(recorder(&app, 1_000_000));
    let shape = |tokens| StepShape::new().prompt_tokens(tokens);
    let step = recorder.step();
    step.shape(shape(1));
    step.shape(shape(2));
    let closed = step.step();
    drop(step);
    recorder.telemetry().shape(closed, shape(3));
    let owned = recorder.step_owned();
    owned.shape(shape(4));
    drop(owned);
    drop(recorder.step());
    recorder.harvest();
    let steps = recorder.telemetry().recent_steps().steps;
    let stated: Vec<_> = steps.iter().map(|step| step.shape).collect();
    assert_eq!(stated, [Some(shape(2)), Some(shape(4)), None]);
}

#[test]
fn what_a_step_states_costs_no_driver_call() {
    let app = App::new();
    let on_step = Some(OnStep::new(|_| {}));
    let with = RecorderConfig { on_step, ..config() };
    let (plain, with) = (recorder(&app, 1_000_000), recorder_with(&app, 1_000_000, with));
    let cost = |recorder: &Recorder, says: bool| {
        let before = all_calls();
        for _ in 0..10 {
            let step = recorder.step();
            assert!(!step.is_armed());
            if says {
                step.shape(StepShape::new().decode_tokens(8));
            }
            let lane = step.lane(LANE_DECODE, stream(app.stream));
            drop(lane.launch_guard(func(app.spin)));
        }
        recorder.harvest();
        all_calls() - before
    };
    let bare = cost(&plain, false);
    assert!(bare > 40, "{bare}");
    assert_eq!(cost(&with, true), bare);
    let recent = with.telemetry().recent_steps();
    assert!(recent.steps.iter().all(|step| step.shape.is_some()));
}

/// What a callback was given.
type Given = Arc<Mutex<Vec<StepRecord>>>;

fn collecting(also: impl Fn(&StepRecord) + Send + Sync + 'static) -> (Given, RecorderConfig) {
    let given = Given::default();
    let into = Arc::clone(&given);
    let on_step = OnStep::new(move |step| {
        into.lock().unwrap().push(*step);
        also(step);
    });
    let on_step = Some(on_step);
    (given, RecorderConfig { on_step, ..config() })
}

#[test]
fn each_record_is_handed_on_once_and_the_rest_at_the_close() {
    let app = App::new();
    let (given, config) = collecting(|_| {});
    let recorder = recorder_with(&app, 4, config);
    for _ in 0..3 {
        serve(&app, &recorder, &[(3, 1_000), (LANE_DECODE, 2_000)]);
        control::advance_ns(100_000);
        recorder.harvest();
        recorder.harvest();
    }
    let handed = given.lock().unwrap().clone();
    assert_eq!(handed, recorder.telemetry().recent_steps().steps);
    let numbers: Vec<u64> = handed.iter().map(|step| step.number).collect();
    assert_eq!(numbers, [0, 1, 2]);
    // One that did not land is given up with the recorder.
    drop(recorder.step().lane(LANE_DECODE, stream(app.stream)));
    let telemetry = recorder.telemetry();
    recorder.close();
    assert_eq!(given.lock().unwrap().len(), 4);
    // A later recorder of the same telemetry begins with what comes then.
    let (given, config) = collecting(|_| {});
    // SAFETY: as in `recorder_with`.
    let later = unsafe { Recorder::from_raw(driver(), context(app.context), telemetry, config) };
    later.unwrap().harvest();
    assert_eq!(given.lock().unwrap().len(), 0);
}

#[test]
fn a_callback_that_panics_or_is_slow_is_counted_and_harvests_go_on() {
    let app = App::new();
    let (given, config) = collecting(|step| match step.number % 3 {
        0 => std::panic::resume_unwind(Box::new("no")),
        1 => control::advance_ns(1_000_001),
        _ => {}
    });
    let recorder = recorder_with(&app, 4, config);
    for _ in 0..6 {
        serve(&app, &recorder, &[(LANE_DECODE, 2_000)]);
        control::advance_ns(100_000);
        assert!(recorder.harvest() > 0);
    }
    assert_eq!(given.lock().unwrap().len(), 6);
    let health = recorder.health();
    let counted = (health.callback_panics, health.slow_callbacks, health.records_missed);
    assert_eq!(counted, (2, 2, 0));
    let told = &recorder.telemetry().snapshot().recorders[0].health;
    assert_eq!((told.callback_panics, told.slow_callbacks), (2, 2));
}

#[test]
fn records_that_come_faster_than_harvests_are_counted_as_missed() {
    let app = App::new();
    let (given, config) = collecting(|_| {});
    let recorder = recorder_with(&app, 1_000_000, config);
    let telemetry = recorder.telemetry();
    // Harvested by another recorder of the telemetry, which has no callback.
    // SAFETY: as in `recorder_with`.
    let other = unsafe {
        Recorder::from_raw(driver(), context(app.context), telemetry, super::rig::config())
    };
    let other = other.unwrap();
    for _ in 0..1_030 {
        drop(recorder.step());
        other.harvest();
    }
    recorder.harvest();
    assert_eq!(given.lock().unwrap().len(), 1_024);
    assert_eq!(recorder.health().records_missed, 6);
}

#[test]
fn a_callback_may_harvest_and_read() {
    let app = App::new();
    static RECORDER: Mutex<Option<&Recorder>> = Mutex::new(None);
    let (given, config) = collecting(|_| {
        let recorder = RECORDER.lock().unwrap().unwrap();
        recorder.harvest();
        assert!(!recorder.telemetry().recent_steps().steps.is_empty());
    });
    let recorder: &Recorder = Box::leak(Box::new(recorder_with(&app, 4, config)));
    *RECORDER.lock().unwrap() = Some(recorder);
    for _ in 0..3 {
        serve(&app, recorder, &[(LANE_DECODE, 2_000)]);
    }
    control::advance_ns(100_000);
    recorder.harvest();
    assert_eq!(given.lock().unwrap().len(), 3);
    assert_eq!(recorder.health().callback_panics, 0);
}

#[test]
fn the_recorders_own_thread_hands_records_on() {
    let app = App::new();
    let (sender, receiver) = std::sync::mpsc::channel();
    let (_, mut config) = collecting(move |step| {
        let thread = std::thread::current().name().map(str::to_owned);
        sender.send((step.number, thread)).unwrap();
    });
    let millisecond = std::time::Duration::from_millis(1);
    config.harvest = metrale_gpu_runtime::timing::Harvest::OwnThread(millisecond);
    let recorder = recorder_with(&app, 4, config);
    drop(recorder.step());
    let (number, thread) = receiver.recv_timeout(std::time::Duration::from_secs(30)).unwrap();
    assert_eq!((number, thread.as_deref()), (0, Some("metrale-harvest")));
    recorder.close();
}
