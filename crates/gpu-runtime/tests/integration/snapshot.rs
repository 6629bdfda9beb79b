// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a snapshot says of work on a GPU: how a lane's time was
//! spent, and what the recorder knows, also after it was closed.

use super::rig::{App, config, func, loaded, stream};
use metrale_gpu_runtime::timing::{Recorder, RecorderConfig};
use metrale_gpu_sim::control;
use metrale_gpu_sys::cuda::Status;
use metrale_telemetry::Snapshot;
use metrale_telemetry::kernel::{LANE_DECODE, LANE_PREFILL, LaneFigures};
use metrale_telemetry::snapshot::RowKind;

/// A step whose decode lane has three launches: the GPU idles for 3 µs before
/// the second one, and a graph of 20 µs runs between it and the third.
fn step(app: &App, recorder: &Recorder, exec: u64, guard_the_graph: bool) {
    let step = recorder.step();
    let lane = step.lane(LANE_DECODE, stream(app.stream));
    let launch = |ns| {
        let _launch = lane.launch_guard(loaded(app.spin));
        assert!(app.launch(app.spin, app.stream, ns).is_success());
    };
    launch(10_000);
    control::advance_ns(13_000);
    launch(5_000);
    let guard = guard_the_graph.then(|| lane.launch_guard(recorder.graph("twenty")));
    assert!(app.launch_graph(exec, app.stream).is_success());
    drop(guard);
    launch(7_000);
    drop(lane);
    drop(step);
    control::advance_ns(100_000);
    recorder.harvest();
}

fn decode(recorder: &Recorder) -> LaneFigures {
    recorder.telemetry().snapshot().lanes[LANE_DECODE].figures.unwrap()
}

#[test]
fn a_launch_without_a_guard_is_waited_for_and_one_with_it_is_busy() {
    let app = App::new();
    let exec = app.graph_exec(20_000);
    let recorder = app.recorder();
    step(&app, &recorder, exec, false);
    let found = decode(&recorder);
    assert_eq!((found.time_ns, found.busy_ns), (45_000, 22_000));
    assert_eq!((found.waited_ns, found.waits), (3_000 + 20_000, 2));
    assert_eq!((found.lead_ns, found.tail_ns), (0, 0));

    step(&app, &recorder, exec, true);
    let found = decode(&recorder);
    assert_eq!((found.time_ns, found.busy_ns), (90_000, 22_000 + 42_000));
    assert_eq!((found.waited_ns, found.waits), (23_000 + 3_000, 3));
    let taken = recorder.telemetry().snapshot();
    assert_eq!(taken.device, Some(found), "one lane has all of it");
    assert_eq!(taken.lanes[LANE_PREFILL].figures, None);
}

/// A stream that idles while another works is no waiting; a launch that was
/// given up did no work, and one whose span was lost makes its step incomplete.
#[test]
fn idle_time_is_of_all_streams_and_unknown_where_a_span_was_lost() {
    let app = App::new();
    let recorder = app.recorder();
    let other = app.new_stream();
    let serve = |lose: bool| {
        let step = recorder.step();
        let lane = step.lane(LANE_DECODE, stream(app.stream));
        drop(lane.launch_guard_on(func(app.spin), stream(app.stream)));
        lane.launch_guard_on(func(app.spin), stream(other)).cancel();
        let side = lane.launch_guard_on(func(app.spin), stream(other));
        assert!(app.launch(app.spin, other, 49_000).is_success());
        if lose {
            app.begin_capture(other, super::rig::THREAD_LOCAL);
        }
        drop(side);
        if lose {
            assert_eq!(app.end_capture(other), Status::SUCCESS);
        }
        control::advance_ns(50_000);
        let last = lane.launch_guard_on(func(app.spin), stream(app.stream));
        assert!(app.launch(app.spin, app.stream, 5_000).is_success());
        drop(last);
        drop(lane);
        drop(step);
        control::advance_ns(100_000);
        recorder.harvest();
    };
    serve(false);
    let found = decode(&recorder);
    assert_eq!((found.time_ns, found.busy_ns), (55_000, 54_000));
    assert_eq!((found.waited_ns, found.overlap_ns), (1_000, 0));

    serve(true);
    let taken = recorder.telemetry().snapshot();
    let lane = &taken.lanes[LANE_DECODE];
    assert_eq!(lane.figures, Some(found), "nothing is added");
    assert_eq!((lane.incomplete.steps, lane.incomplete.ns), (1, 55_000));
    assert_eq!(taken.losses.incomplete_steps, 1);
    assert_eq!(lane.gpu.sum_ns(), 110_000, "the raw sum has all");
}

#[test]
fn it_knows_the_recorder_also_when_that_is_closed() {
    let app = App::new();
    let exec = app.graph_exec(20_000);
    let named = RecorderConfig {
        gpu: Some("GPU-7".to_owned()),
        label: "seven".to_owned(),
        measure_floor: true,
        ..config()
    };
    let recorder = app.try_recorder(named).unwrap();
    let telemetry = recorder.telemetry();
    step(&app, &recorder, exec, true);

    let taken = telemetry.snapshot();
    assert_eq!(taken.labels["gpu"], "GPU-7");
    assert_eq!(taken.floor, telemetry.floor());
    assert!(taken.floor.pair_ns.is_some());
    let (lanes, kernels) = taken.ledgers();
    assert_eq!(lanes, recorder.lane_ledger());
    assert_eq!(kernels, recorder.kernel_ledger());
    assert_eq!((lanes.landed, kernels.landed), (1, 4));
    assert_eq!(taken.recorders[0].label, "seven");
    assert_eq!(taken.recorders[0].health, recorder.health().into());
    let names: Vec<_> =
        (taken.kernels.iter()).map(|row| (row.name.as_deref(), row.kind, row.total_ns)).collect();
    assert_eq!(
        names,
        [(Some("spin"), RowKind::Kernel, 22_000), (Some("twenty"), RowKind::Graph, 20_000)]
    );
    let spin = taken.kernels[0].lanes[0].estimate;
    assert_eq!((spin.steps, spin.total_ns, spin.error), (1, 22_000.0, None));

    recorder.close();
    let mut after = telemetry.snapshot();
    // An age is to the moment of its snapshot.
    after.slowest_steps[0].age_ns = taken.slowest_steps[0].age_ns;
    assert_eq!(after, taken);
    let json = serde_json::to_string(&taken).unwrap();
    assert_eq!(serde_json::from_str::<Snapshot>(&json).unwrap(), taken);
}
