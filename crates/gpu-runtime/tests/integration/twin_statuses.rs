// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every status of the driver from every call that is made for a twin: each replay
//! ends in one launch of the graph, and the ledger says what became of it.

use crate::rig::{App, GLOBAL, calls, fail_some};
use crate::statuses::every_status;
use crate::twin_refusals::MAKING;
use crate::twin_rig::{
    NO_MISTAKES, always, chain, kernels_run, nodes, recorder, replay, set_duration, settle, twin,
};
use metrale_gpu_runtime::timing::{RawGraph, Recorder, Status, TwinsConfig};
use metrale_gpu_sim::control::{self, graphs};

/// What is called for a twin once it was made.
const LATER: [&str; 11] = [
    "cuStreamIsCapturing",
    "cuStreamGetId",
    "cuEventRecord",
    "cuEventQuery",
    "cuEventElapsedTime_v2",
    "cuStreamWaitEvent",
    "cuGraphDestroyNode",
    "cuGraphExecDestroy",
    "cuGraphDestroy",
    "cuFuncGetName",
    "cuCtxPopCurrent_v2",
];
/// Without their answers nothing keeps a launch on another stream behind the twin.
const ORDERING: [&str; 2] = ["cuStreamIsCapturing", "cuStreamWaitEvent"];
/// The application's own call comes first.
const UPDATE: &str = "cuGraphExecKernelNodeSetParams_v2";
const NODES: usize = 12;

/// A twin from its making to its end, with windows, on two streams, in two plans and
/// with an update; how many replays there were.
fn live(app: &App, recorder: &Recorder, graph: RawGraph, node: u64) -> u64 {
    let (one, other) = (app.stream, app.new_stream());
    let twin = twin(recorder, graph);
    let mut replays = 0;
    let mut replay_on = |streams: &[u64]| {
        for on in streams {
            replays += 1;
            replay(recorder, &twin, *on).expect("a launch");
        }
    };
    replay_on(&[one]);
    settle(recorder);
    replay_on(&[one, other]);
    settle(recorder);
    replay_on(&[one, one]);
    settle(recorder);
    twin.renew();
    settle(recorder);
    replay_on(&[one]);
    settle(recorder);
    let update =
        |exec, node_of: &dyn Fn(u64) -> u64| set_duration(exec, node_of(node), app.spin, 9_000);
    assert_eq!(twin.follow(update), Ok(()));
    replay_on(&[one]);
    settle(recorder);
    twin.retire();
    replay_on(&[one]);
    settle(recorder);
    replays
}

/// Whether the call was made so often that it could fail.
fn check(call: &str, skip: u64, status: Option<Status>) -> bool {
    let met = format!("{call}, {skip} before it: {status:?}");
    let app = App::new();
    let twins = TwinsConfig { marks: 7, plan_launches: 2, ..always() };
    let recorder = recorder(&app, twins);
    let graph = chain(&app, &[10_000; NODES]);
    let node = nodes(graph.graph)[2];
    graphs::count_kernels();
    let before = calls(call);
    if let Some(status) = status {
        fail_some(call, status, skip, 1);
    }
    let replays = live(&app, &recorder, graph, node);
    control::clear_faults();
    let is_met = calls(call) - before > skip;
    assert_eq!(kernels_run(), replays * NODES as u64, "{met}");
    let ledger = recorder.twin_ledger();
    if recorder.health().quarantined.is_none() {
        assert_eq!(ledger.launched + ledger.plain(), replays, "{met}: {ledger:?}");
        assert_eq!(ledger.read + ledger.lost, ledger.launched, "{met}: {ledger:?}");
    }
    assert_eq!(app.thread_mode(), GLOBAL, "{met}");
    let mut mistakes = graphs::mistakes();
    if ledger.lost > 0 {
        // A launch is lost whole: marks behind the one that failed are not read.
        mistakes.unread_marks = 0;
    }
    if ORDERING.contains(&call) {
        mistakes.overlapping_launches = 0;
    }
    assert_eq!(mistakes, NO_MISTAKES, "{met}");
    assert_eq!(control::stale_handle_uses(), 0, "{met}");
    if status.is_none() {
        assert_eq!((ledger.launched, ledger.read, ledger.waits), (4, 4, 1), "{ledger:?}");
    }
    is_met
}

#[test]
fn every_status_of_every_call_ends_in_a_plain_launch_and_the_right_count() {
    check(UPDATE, 0, None);
    for call in MAKING.into_iter().chain(LATER).chain([UPDATE]) {
        // Each place at which it is called, by two statuses; the first of these by all.
        let first = u64::from(call == UPDATE);
        let mut skip = first;
        while skip < 60 && check(call, skip, Some(Status::ERROR_INVALID_VALUE)) {
            check(call, skip, Some(Status::ERROR_UNKNOWN));
            skip += 1;
        }
        assert!(skip > first, "{call} is not called");
        for status in every_status() {
            check(call, first, Some(status));
        }
    }
}
