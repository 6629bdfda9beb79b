// SPDX-License-Identifier: MIT OR Apache-2.0
//! The recorder of the process. One test, because it is installed for good.

use super::rig::{App, config, context, driver, func, stream, telemetry};
use metrale_gpu_runtime::timing::{self, Recorder};
use metrale_gpu_sim::control;
use metrale_telemetry::kernel::{LANE_DECODE, LANE_PREFILL, StepShape};
use metrale_telemetry::{Level, Sampling, TelemetryConfig};

/// A framework that knows neither steps nor lanes: `Spread` times one launch in N.
fn launches_without_lanes(app: &App) {
    let (here, telemetry) = (stream(app.stream), timing::installed().unwrap().telemetry());
    let config = telemetry.config();
    let launch = || {
        let token = timing::launch_begin(func(app.spin), here);
        assert!(app.launch(app.spin, app.stream, 1_000).is_success());
        if let Some(token) = token {
            timing::launch_end(token, here);
        }
        token.is_some()
    };
    assert!(!launch(), "no step can be armed");
    let spread = TelemetryConfig { sampling: Sampling::Spread, every: 10, ..config };
    telemetry.configure(spread).unwrap();
    assert_eq!((0..100).filter(|_| launch()).count(), 10);
    let region = timing::installed().unwrap().region("sampling");
    let tokens = (0..20).filter_map(|_| timing::region_begin(region, here));
    assert_eq!(tokens.map(|token| timing::region_end(token, here)).count(), 2);
    control::advance_ns(1_000_000);
    assert_eq!(timing::harvest(), 12);
    let rows = telemetry.snapshot().kernels;
    let timed: Vec<_> = rows.iter().map(|row| (row.samples, row.total_ns)).collect();
    assert_eq!(timed, [(10, 10_000), (2, 0)]);
    assert!(rows.iter().all(|row| row.lanes.is_empty()), "in no lane");
    assert_eq!((telemetry.host().launches.get(), telemetry.steps()), (101, 0));
    telemetry.configure(config).unwrap();
}

#[test]
fn one_recorder_serves_a_stack_without_handles() {
    let app = App::new();
    let here = stream(app.stream);
    timing::lane_begin(LANE_DECODE, here);
    assert_eq!(timing::launch_begin(func(app.spin), here), None);
    assert_eq!(timing::harvest(), 0);
    assert!(timing::installed().is_none());

    let telemetry = telemetry();
    telemetry.name_lanes(&["draft"]).unwrap();
    // SAFETY: the context lives as long as the application, which outlives it.
    let recorder =
        unsafe { Recorder::from_raw(driver(), context(app.context), telemetry, config()) };
    timing::install(recorder.unwrap()).unwrap();
    let rejected = timing::install(app.recorder()).unwrap_err();
    rejected.rejected.close();

    launches_without_lanes(&app);

    for _ in 0..2 {
        for lane in [LANE_PREFILL, LANE_DECODE] {
            timing::lane_begin(lane, here);
            let token = timing::launch_begin(func(app.spin), here).unwrap();
            assert!(app.launch(app.spin, app.stream, 1_000).is_success());
            timing::launch_end(token, here);
            timing::lane_end(lane, here);
            timing::lane_end(lane, here);
        }
        control::advance_ns(1_000_000);
    }
    assert_eq!(timing::harvest(), 8);
    let recorder = timing::installed().unwrap();
    assert_eq!(recorder.telemetry().steps(), 2, "prefill and decode are one step");
    let host = recorder.telemetry().host();
    let lanes = host.lane_wall.each_ref().map(|lane| lane.count());
    assert_eq!((lanes, host.launches.get()), ([0, 2, 2], 101 + 4));
    assert_eq!(host.step_wall.count(), 1, "the second one is not over");

    // A lane begun again gives the first one up; a lane that nobody named is refused.
    timing::lane_begin(LANE_DECODE, here);
    timing::lane_begin(LANE_DECODE, here);
    timing::lane_begin(77, here);
    timing::lane_end(LANE_DECODE, here);
    timing::lane_end(77, here);
    timing::harvest();
    let ledger = recorder.lane_ledger();
    assert_eq!((ledger.cancelled, ledger.landed, ledger.in_flight), (1, 5, 0));
    assert!(ledger.closes());

    // Nor is there a launch in one: not even in the lane that was begun before.
    timing::lane_begin(LANE_DECODE, here);
    let steps = recorder.telemetry().steps();
    let refused =
        || [recorder.lane_ledger(), recorder.kernel_ledger()].map(|ledger| ledger.refused);
    assert_eq!(refused(), [1, 0]);
    timing::lane_begin(77, here);
    assert_eq!(timing::launch_begin(func(app.spin), here), None);
    assert_eq!(refused(), [2, 1]);
    assert_eq!(recorder.telemetry().steps(), steps, "it is no step either");
    timing::lane_end(77, here);
    timing::lane_end(LANE_DECODE, here);
    assert_eq!(refused(), [2, 1]);
    timing::lane_begin(LANE_PREFILL, here);
    let token = timing::launch_begin(func(app.spin), here).unwrap();
    timing::launch_end(token, here);
    timing::lane_end(LANE_PREFILL, here);
    timing::lane_begin(LANE_DECODE, here);
    timing::lane_end(LANE_DECODE, here);
    assert_eq!(recorder.telemetry().steps(), steps + 1);
    assert_eq!(timing::harvest(), 4);

    // A lane that ends at level off is not measured, and its step is over.
    let before = (host.step_wall.count(), host.lane_wall[LANE_PREFILL].count());
    timing::lane_begin(LANE_PREFILL, here);
    recorder.telemetry().set_level(Level::Off);
    timing::lane_end(LANE_PREFILL, here);
    recorder.telemetry().set_level(Level::Basic);
    let steps = recorder.telemetry().steps();
    timing::lane_end(LANE_PREFILL, here);
    timing::lane_begin(LANE_DECODE, here);
    assert_eq!(recorder.telemetry().steps(), steps + 1);
    let after = (host.step_wall.count(), host.lane_wall[LANE_PREFILL].count());
    assert_eq!(after, (before.0 + 1, before.1), "the step before that one");

    // A lane that the application named is one as the three are; the next index
    // is none. The shape is of the step that began last.
    const DRAFT: usize = 3;
    recorder.telemetry().set_level(Level::Kernel);
    timing::lane_end(LANE_DECODE, here);
    let (steps, refused_before) = (recorder.telemetry().steps(), refused());
    for tokens in [5, 6] {
        timing::lane_begin(LANE_DECODE, here);
        timing::step_shape(StepShape::new().decode_tokens(tokens));
        timing::lane_end(LANE_DECODE, here);
        timing::lane_begin(DRAFT, here);
        let token = timing::launch_begin(func(app.spin), here).unwrap();
        assert!(app.launch(app.spin, app.stream, 1_000).is_success());
        timing::launch_end(token, here);
        timing::lane_end(DRAFT, here);
    }
    timing::lane_begin(LANE_DECODE, here);
    timing::lane_end(LANE_DECODE, here);
    timing::lane_begin(DRAFT + 1, here);
    timing::lane_end(DRAFT + 1, here);
    control::advance_ns(1_000_000);
    timing::harvest();
    assert_eq!(recorder.telemetry().steps(), steps + 3);
    assert_eq!(refused()[0], refused_before[0] + 1);
    let draft = &recorder.telemetry().snapshot().lanes[DRAFT];
    assert_eq!((&*draft.lane, draft.gpu.sum_ns()), ("draft", 2_000));
    assert_eq!((draft.wall.count(), draft.gap.count()), (2, 2));
    assert_eq!(draft.estimate.covered.map(|covered| covered.total_ns), Some(2_000.0));
    let records = recorder.telemetry().recent_steps().steps;
    let shapes: Vec<_> = records.iter().filter_map(|step| step.shape).collect();
    let stated: Vec<_> = shapes.iter().map(|shape| shape.decode_tokens).collect();
    assert_eq!(stated, [5, 6]);
}
