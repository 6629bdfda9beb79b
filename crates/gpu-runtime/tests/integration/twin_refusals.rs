// SPDX-License-Identifier: MIT OR Apache-2.0
//! Graphs that get no twin, and what is left then.

use crate::rig::{App, calls, config, cu, fail_some};
use crate::statuses::every_status;
use crate::twin_rig::{
    always, assert_no_mistakes, chain, instantiated, kernels_run, recorder, replay, settle,
    settled_twin, twin,
};
use metrale_gpu_runtime::timing::{
    InstallError, NodeType, RawGraph, Recorder, RecorderConfig, Status, TwinError, TwinState,
    TwinsConfig,
};
use metrale_gpu_sim::control::{self, graphs};

#[test]
fn a_recorder_without_twins_refuses_and_replays() {
    let app = App::new();
    let graph = chain(&app, &[10_000; 3]);
    for (recorder, why) in
        [(app.recorder(), TwinError::Off), (Recorder::disabled(), TwinError::Silent)]
    {
        let twin = twin(&recorder, graph);
        assert_eq!(twin.state(), TwinState::Refused(why));
        let before = calls("cuGraphLaunch");
        replay(&recorder, &twin, app.stream).expect("a launch");
        assert_eq!(calls("cuGraphLaunch"), before + 1);
        assert_eq!(recorder.twin_ledger().plain(), 0);
    }
}

#[test]
fn options_out_of_range_are_told_at_install() {
    let app = App::new();
    for (twins, option, asked) in [
        (TwinsConfig { marks: 4, ..always() }, "twins.marks", 4),
        (TwinsConfig { resident: 0, ..always() }, "twins.resident", 0),
    ] {
        let config = RecorderConfig { twins: Some(twins), ..config() };
        match app.try_recorder(config) {
            Err(InstallError::Twins { option: told, asked: found }) => {
                assert_eq!((told, found), (option, asked));
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn budgets_are_kept_and_given_back() {
    let app = App::new();
    let graph = chain(&app, &[10_000; 3]);
    let two = recorder(&app, TwinsConfig { resident: 2, ..always() });
    let held = [twin(&two, graph), twin(&two, graph)];
    let third = twin(&two, graph);
    assert_eq!(third.state(), TwinState::Refused(TwinError::NoRoom { resident: 2 }));
    drop(held);
    assert_eq!(twin(&two, graph).state(), TwinState::Ready);

    let small = recorder(&app, TwinsConfig { bytes: 50_000, ..always() });
    let first = twin(&small, graph);
    let (needs, left) = (30_000, 20_000);
    let why = TwinError::NoBytes { needs, left };
    assert_eq!(twin(&small, graph).state(), TwinState::Refused(why));
    first.retire();
    assert_eq!(first.state(), TwinState::Retired(TwinError::Retired));
    assert_eq!(twin(&small, graph).state(), TwinState::Ready);

    let short = recorder(&app, TwinsConfig { nodes: 2, ..always() });
    let why = TwinError::TooLarge { nodes: 3, most: 2 };
    assert_eq!(twin(&short, graph).state(), TwinState::Refused(why));
    assert_no_mistakes();
}

fn empty_graph() -> u64 {
    let mut graph = 0u64;
    let made = cu!("cuGraphCreate", &raw mut graph => *mut u64, 0 => u32);
    assert_eq!(made, Status::SUCCESS);
    graph
}

#[test]
fn a_graph_without_nodes_has_no_twin() {
    let app = App::new();
    let recorder = recorder(&app, always());
    let twin = twin(&recorder, instantiated(empty_graph()));
    assert_eq!(twin.state(), TwinState::Refused(TwinError::NoShape));
}

#[test]
fn a_graph_that_allocates_has_no_twin() {
    let app = App::new();
    let recorder = recorder(&app, always());
    let on = app.new_stream();
    app.begin_capture(on, crate::rig::THREAD_LOCAL);
    let mut memory = 0u64;
    let taken = cu!("cuMemAllocAsync", &raw mut memory => *mut u64, 256 => usize, on => u64);
    assert_eq!(taken, Status::SUCCESS);
    let freed = cu!("cuMemFreeAsync", memory => u64, on => u64);
    assert_eq!(freed, Status::SUCCESS);
    let mut graph = 0u64;
    let ended = cu!("cuStreamEndCapture", on => u64, &raw mut graph => *mut u64);
    assert_eq!(ended, Status::SUCCESS);
    let twin = twin(&recorder, instantiated(graph));
    let call = "cuGraphClone";
    let status = Status::ERROR_INVALID_VALUE;
    assert_eq!(twin.state(), TwinState::Refused(TwinError::Driver { call, status }));
    replay(&recorder, &twin, app.stream).expect("a launch");
    assert_eq!(recorder.health().quarantined, None);
    assert_eq!(NodeType(10).to_string(), "memory allocation (10)");
}

#[test]
fn a_driver_that_cannot_tell_is_not_guessed_at() {
    let app = App::new();
    control::hide_newer_than(11_080);
    let recorder = recorder(&app, always());
    let graph = chain(&app, &[10_000; 3]);
    let unstated = RawGraph { flags: None, ..graph };
    let refused = twin(&recorder, unstated);
    assert_eq!(refused.state(), TwinState::Refused(TwinError::UnknownFlags));
    let twin = settled_twin(&recorder, graph, app.stream);
    replay(&recorder, &twin, app.stream).expect("a launch");
    settle(&recorder);
    assert_eq!(recorder.twin_ledger().read, 1);
    let rows = &recorder.telemetry().snapshot().graphs[0].figures.rows;
    assert_eq!(rows[0].sampled_ns, 20_000);
}

#[test]
fn a_driver_without_a_function_is_named() {
    let app = App::new();
    control::hide_symbol("cuGraphUpload").expect("the simulator has it");
    let recorder = recorder(&app, always());
    let twin = twin(&recorder, chain(&app, &[10_000; 3]));
    let symbol = "cuGraphUpload";
    assert_eq!(twin.state(), TwinState::Refused(TwinError::Missing { symbol }));
}

#[test]
fn edges_with_data_are_kept_and_refused_where_the_driver_does_not_tell_them() {
    let app = App::new();
    let graph = chain(&app, &[10_000; 3]).graph;
    let nodes = crate::twin_rig::nodes(graph);
    let (from, to) = ([nodes[0]], [nodes[1]]);
    let data = [0u8, 0, 1, 0, 0, 0, 0, 0];
    for call in ["remove", "add"] {
        let done = match call {
            "remove" => {
                cu!("cuGraphRemoveDependencies", graph => u64, from.as_ptr() => *const u64, to.as_ptr() => *const u64, 1 => usize)
            }
            _ => {
                cu!("cuGraphAddDependencies_v2", graph => u64, from.as_ptr() => *const u64, to.as_ptr() => *const u64, data.as_ptr() => *const u8, 1 => usize)
            }
        };
        assert_eq!(done, Status::SUCCESS, "{call}");
    }
    let graph = instantiated(graph);
    let newer = recorder(&app, always());
    let twin = settled_twin(&newer, graph, app.stream);
    replay(&newer, &twin, app.stream).expect("a launch");
    settle(&newer);
    let rows = &newer.telemetry().snapshot().graphs[0].figures.rows;
    let serialised: u64 = rows.iter().map(|row| row.serialised).sum();
    assert_eq!(serialised, 2, "the two at the edge");
    control::hide_newer_than(12_020);
    let older = recorder(&app, always());
    let refused = crate::twin_rig::twin(&older, graph);
    assert_eq!(refused.state(), TwinState::Refused(TwinError::EdgeData));
}

/// What is called to make a twin, in order.
pub(crate) const MAKING: [&str; 13] = [
    "cuCtxPushCurrent_v2",
    "cuThreadExchangeStreamCaptureMode",
    "cuGraphExecGetFlags",
    "cuGraphClone",
    "cuGraphGetNodes",
    "cuGraphNodeGetType",
    "cuGraphGetEdges_v2",
    "cuGraphNodeFindInClone",
    "cuGraphKernelNodeGetParams_v2",
    "cuGraphAddEventRecordNode",
    "cuGraphAddDependencies",
    "cuGraphInstantiateWithFlags",
    "cuGraphUpload",
];

#[test]
fn each_call_that_fails_leaves_the_plain_graph_and_nothing_else() {
    let app = App::new();
    for call in MAKING {
        for skip in [0, 1] {
            for status in every_status() {
                let recorder = recorder(&app, always());
                let graph = chain(&app, &[10_000; 3]);
                let live = |made, gone| calls(made) - calls(gone);
                let before = live("cuGraphClone", "cuGraphDestroy");
                let failed = (calls("cuGraphClone"), calls("cuGraphInstantiateWithFlags"));
                fail_some(call, status, skip, 1);
                let twin = twin(&recorder, graph);
                control::clear_faults();
                if twin.state() == TwinState::Ready {
                    assert_eq!(skip, 1, "{call}: {status}");
                    continue;
                }
                assert!(
                    matches!(
                        twin.state(),
                        TwinState::Refused(
                            TwinError::Driver { .. } | TwinError::Silent | TwinError::EdgeData
                        )
                    ),
                    "{call}: {status}: {:?}",
                    twin.state()
                );
                let is_made = call != "cuGraphClone" && calls("cuGraphClone") > failed.0;
                if recorder.health().quarantined.is_none() && is_made {
                    assert_eq!(live("cuGraphClone", "cuGraphDestroy"), before, "{call}: {status}");
                }
                graphs::count_kernels();
                replay(&recorder, &twin, app.stream).expect("a launch");
                assert_eq!(kernels_run(), 3, "{call}: {status}");
                assert_eq!(app.thread_mode(), 0, "{call}: {status}");
                assert_no_mistakes();
            }
        }
    }
}
