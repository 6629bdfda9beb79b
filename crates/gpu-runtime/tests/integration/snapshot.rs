// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a snapshot says of work on a GPU: gaps between launches, what no span
//! covers, and what the recorder knows, also after it was closed.

use super::rig::{App, config, func, loaded, stream};
use metrale_gpu_runtime::timing::{Recorder, RecorderConfig};
use metrale_gpu_sim::control;
use metrale_telemetry::kernel::{LANE_DECODE, LANE_PREFILL};
use metrale_telemetry::snapshot::LaunchBound;
use metrale_telemetry::{Floor, Snapshot};

/// A step whose decode lane has three launches: the GPU idles for 3 µs before
/// the second one, and a graph of 20 µs runs between it and the third.
fn step(app: &App, recorder: &Recorder, exec: u64, guard_the_graph: bool) {
    let step = recorder.step();
    let lane = step.lane(LANE_DECODE, stream(app.stream));
    let launch = |ns| {
        let _launch = lane.launch(loaded(app.spin));
        assert!(app.launch(app.spin, app.stream, ns).is_success());
    };
    launch(10_000);
    control::advance_ns(13_000);
    launch(5_000);
    let guard = guard_the_graph.then(|| lane.graph(recorder.graph("twenty")));
    assert!(app.launch_graph(exec, app.stream).is_success());
    drop(guard);
    launch(7_000);
    drop(lane);
    control::advance_ns(100_000);
    recorder.harvest();
}

fn gaps(taken: &Snapshot) -> (u64, u64, u64) {
    let gaps = &taken.lanes[LANE_DECODE].kernel_gap;
    (gaps.count(), gaps.sum_ns(), taken.kernel_gap_unknown)
}

#[test]
fn a_launch_without_a_guard_is_in_the_gap_and_one_with_it_is_not() {
    let app = App::new();
    let exec = app.graph_exec(20_000);
    let recorder = app.recorder();
    step(&app, &recorder, exec, false);
    let taken = recorder.telemetry().snapshot();
    assert_eq!(gaps(&taken), (2, 3_000 + 20_000, 1));
    let lane = &taken.lanes[LANE_DECODE];
    assert_eq!((lane.armed_ns, lane.kernel_ns), (45_000, 22_000));
    assert_eq!(lane.uncovered_ns(), 23_000);

    // The first launch of a step follows nothing of that step.
    step(&app, &recorder, exec, true);
    let taken = recorder.telemetry().snapshot();
    assert_eq!(gaps(&taken), (5, 23_000 + 3_000, 2));
    let lane = &taken.lanes[LANE_DECODE];
    assert_eq!(lane.uncovered_ns(), 23_000 + 3_000);
    assert_eq!(lane.launch_bound, None, "no floor is known");

    let floor = Floor {
        pair_ns: Some(4_000),
        ..Floor::default()
    };
    recorder.telemetry().set_floor(floor);
    let bound = LaunchBound {
        launches: 1,
        gap_ns: 20_000,
    };
    let taken = recorder.telemetry().snapshot();
    assert_eq!(taken.lanes[LANE_DECODE].launch_bound, Some(bound));
    assert_eq!(
        taken.lanes[LANE_PREFILL].launch_bound,
        Some(LaunchBound::default())
    );
}

#[test]
fn no_gap_is_read_across_streams_or_a_lost_launch() {
    let app = App::new();
    let recorder = app.recorder();
    let other = app.new_stream();
    let step = recorder.step();
    let lane = step.lane(LANE_DECODE, stream(app.stream));
    for at in 0..3 {
        for handle in [app.stream, other] {
            let launch = lane.launch_on(func(app.spin), stream(handle));
            assert!(app.launch(app.spin, handle, 1_000).is_success());
            // The one in the middle is given up on one of the two.
            if at == 1 && handle == other {
                launch.cancel();
            }
        }
        control::advance_ns(1_500);
    }
    drop(lane);
    drop(step);
    control::advance_ns(10_000);
    recorder.harvest();
    // Of the five that landed two are a stream's first. The launch given up may
    // have been of any stream: nothing is known of those after it.
    assert_eq!(gaps(&recorder.telemetry().snapshot()), (1, 500, 4));
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
    let names: Vec<_> = (taken.kernels.iter())
        .map(|it| (it.name.as_deref(), it.is_graph, it.total_ns))
        .collect();
    assert_eq!(
        names,
        [
            (Some("spin"), false, 22_000),
            (Some("twenty"), true, 20_000)
        ]
    );
    let spin = taken.kernels[0].lanes[0].estimate;
    assert_eq!((spin.steps, spin.total_ns, spin.error), (1, 22_000.0, None));

    recorder.close();
    assert_eq!(telemetry.snapshot(), taken);
    let json = serde_json::to_string(&taken).unwrap();
    assert_eq!(serde_json::from_str::<Snapshot>(&json).unwrap(), taken);
}
