// SPDX-License-Identifier: MIT OR Apache-2.0
//! Twins of graphs: what they measure, and that the application cannot tell.

use crate::rig::{App, THREAD_LOCAL, config, cu, stream};
use metrale_gpu_runtime::timing::{
    GraphLaunch, RawGraph, Recorder, RecorderConfig, Status, Twin, TwinState,
    TwinsConfig, Updates,
};
use metrale_gpu_sim::control::{self, graphs};
use metrale_gpu_sim::symbol;
use metrale_telemetry::kernel::LANE_DECODE;
use std::ffi::c_void;

fn launch_function() -> GraphLaunch {
    let address = symbol("cuGraphLaunch").expect("the simulator has it");
    // SAFETY: the simulator's function of that name has this signature.
    unsafe { std::mem::transmute::<*const c_void, GraphLaunch>(address) }
}

/// A graph of kernels one after the other, of so many nanoseconds each: the first is
/// `spin`, the next `other`, and so on in turn.
fn chain(app: &App, kernels_ns: &[u64]) -> RawGraph {
    let on = app.new_stream();
    app.begin_capture(on, THREAD_LOCAL);
    for (at, ns) in kernels_ns.iter().enumerate() {
        let kernel = if at % 2 == 0 { app.spin } else { app.other };
        assert!(app.launch(kernel, on, *ns).is_success());
    }
    let mut graph = 0u64;
    let ended = cu!("cuStreamEndCapture", on => u64, &raw mut graph => *mut u64);
    assert_eq!(ended, Status::SUCCESS);
    app.destroy_stream(on);
    instantiated(graph)
}

fn instantiated(graph: u64) -> RawGraph {
    let mut exec = 0u64;
    let made =
        cu!("cuGraphInstantiateWithFlags", &raw mut exec => *mut u64, graph => u64, 0 => u64);
    assert_eq!(made, Status::SUCCESS);
    RawGraph {
        graph,
        exec,
        flags: Some(0),
        launch: launch_function(),
    }
}

/// Twins on every armed step.
fn always() -> TwinsConfig {
    TwinsConfig {
        always: true,
        ..TwinsConfig::default()
    }
}

fn recorder(app: &App, twins: TwinsConfig) -> Recorder {
    let config = RecorderConfig {
        twins: Some(twins),
        ..config()
    };
    app.try_recorder(config).expect("the simulator is healthy")
}

fn twin(recorder: &Recorder, graph: RawGraph) -> Twin<'static> {
    // SAFETY: tests destroy graphs after their twins, if at all.
    unsafe { recorder.twin_raw(graph, "decode", Updates::Told) }
}

/// A step of one replay; its status.
fn replay(recorder: &Recorder, twin: &Twin<'_>, on: u64) -> Result<(), Status> {
    let step = recorder.step();
    step.lane(LANE_DECODE, stream(on)).replay(twin)
}

/// Until the GPU is done, and all is read.
fn settle(recorder: &Recorder) {
    control::advance_ns(1_000_000_000);
    for _ in 0..4 {
        recorder.harvest();
    }
}

/// A plain replay, so that the last stream is known and the twin is on the device.
fn settled_twin(recorder: &Recorder, graph: RawGraph, on: u64) -> Twin<'static> {
    let twin = twin(recorder, graph);
    assert_eq!(twin.state(), TwinState::Ready);
    replay(recorder, &twin, on).expect("a launch");
    settle(recorder);
    twin
}

#[test]
fn every_node_is_read_as_the_driver_ran_it() {
    let app = App::new();
    graphs::set_mark_duration(1_000);
    let recorder = recorder(&app, always());
    let graph = chain(&app, &[10_000, 20_000, 30_000, 40_000, 50_000]);
    let twin = settled_twin(&recorder, graph, app.stream);
    for _ in 0..40 {
        replay(&recorder, &twin, app.stream).expect("a launch");
        settle(&recorder);
    }
    let ledger = recorder.twin_ledger();
    assert_eq!((ledger.launched, ledger.read, ledger.plain()), (40, 40, 1));
    let snapshot = recorder.telemetry().snapshot();
    let [inside] = &snapshot.graphs[..] else {
        panic!("{:?}", snapshot.graphs);
    };
    assert_eq!(inside.name.as_deref(), Some("decode"));
    let rows = &inside.figures.rows;
    let told: Vec<_> = rows
        .iter()
        .map(|row| {
            (
                row.name.as_deref(),
                row.nodes,
                row.samples,
                row.sampled_ns,
                row.marks_ns,
            )
        })
        .collect();
    // Nodes 1, 3 and 5 are `spin`: 90 µs a launch; 2 and 4 are `other`: 60 µs.
    let expected = [
        (Some("spin"), 3, 120, 40 * 90_000, 120_000),
        (Some("other"), 2, 80, 40 * 60_000, 80_000),
    ];
    assert_eq!(told, expected);
    assert_eq!(inside.figures.mark_ns, Some(1_000.0));
    assert_eq!(graphs::mistakes(), none());
}

fn none() -> graphs::Mistakes {
    graphs::Mistakes {
        overlapping_launches: 0,
        reads_in_flight: 0,
        unread_marks: 0,
        stale_launches: 0,
        shared_uses: 0,
    }
}
