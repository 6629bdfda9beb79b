// SPDX-License-Identifier: MIT OR Apache-2.0
//! The record that each step leaves, and lanes that the application names.

use super::rig::{App, config, context, driver, fail_some, stream};
use metrale_gpu_runtime::timing::Recorder;
use metrale_gpu_sim::control;
use metrale_gpu_sys::cuda::Status;
use metrale_telemetry::kernel::{LANE_DECODE, StepShape};
use metrale_telemetry::{Telemetry, TelemetryConfig};

/// A recorder of a telemetry of its own, with lane 3 named.
fn recorder(app: &App, every: u64) -> Recorder {
    let telemetry = Telemetry::new().leak();
    telemetry.name_lanes(&["draft"]).unwrap();
    let rare = TelemetryConfig {
        every,
        ..TelemetryConfig::default()
    };
    telemetry.configure(rare).unwrap();
    // SAFETY: the context lives as long as the app, which outlives the recorder.
    unsafe { Recorder::from_raw(driver(), context(app.context), telemetry, config()) }.unwrap()
}

fn serve(app: &App, recorder: &Recorder, lanes: &[(usize, u64)]) {
    let step = recorder.step();
    let shape = StepShape::new().decode_tokens(8).requests(2);
    recorder.telemetry().shape(step.step(), shape);
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
    fail_some(
        "cuEventRecord",
        Status::ERROR_STREAM_CAPTURE_UNSUPPORTED,
        0,
        1,
    );
    assert_eq!(recorder.begin_lane(step.step(), LANE_DECODE, here), None);
    drop(step);
    recorder.harvest();
    let steps = recorder.telemetry().recent_steps().steps;
    let marks: Vec<bool> = steps.iter().map(|step| step.incomplete).collect();
    assert_eq!(marks, [false, true]);
}
