// SPDX-License-Identifier: MIT OR Apache-2.0
//! How twins end, and what is left of them.

use crate::rig::{App, calls, cu, fail_some, stream};
use crate::twin_rig::{
    always, assert_no_mistakes, chain, instantiated, recorder, replay, settle, settled_twin, twin,
};
use metrale_gpu_runtime::timing::{Status, TwinError, TwinState, TwinsConfig};
use metrale_gpu_sim::control;
use metrale_telemetry::kernel::LANE_DECODE;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};

static LET_GO: AtomicU64 = AtomicU64::new(0);

extern "C" fn let_go(_: *mut c_void) {
    LET_GO.fetch_add(1, Ordering::SeqCst);
}

#[test]
fn a_retired_twin_lets_go_of_what_the_graph_holds() {
    let app = App::new();
    let recorder = recorder(&app, always());
    let graph = chain(&app, &[10_000; 3]);
    let mut object = 0u64;
    let made = cu!("cuUserObjectCreate", &raw mut object => *mut u64, std::ptr::null_mut() => *mut c_void, let_go => extern "C" fn(*mut c_void), 1 => u32, 1 => u32);
    assert_eq!(made, Status::SUCCESS);
    let moved =
        cu!("cuGraphRetainUserObject", graph.graph => u64, object => u64, 1 => u32, 1 => u32);
    assert_eq!(moved, Status::SUCCESS);
    let graph = instantiated(graph.graph);
    let twin = settled_twin(&recorder, graph, app.stream);
    replay(&recorder, &twin, app.stream).expect("a launch");
    let destroy = |name, handle| match name {
        "exec" => cu!("cuGraphExecDestroy", handle => u64),
        _ => cu!("cuGraphDestroy", handle => u64),
    };
    twin.retire();
    let before = LET_GO.load(Ordering::SeqCst);
    assert_eq!(destroy("exec", graph.exec), Status::SUCCESS);
    assert_eq!(destroy("graph", graph.graph), Status::SUCCESS);
    assert_eq!(LET_GO.load(Ordering::SeqCst), before + 1, "the twin held none");
    assert_no_mistakes();
}

#[test]
fn a_twin_destroys_what_it_made_in_order_and_nothing_else() {
    let app = App::new();
    let recorder = recorder(&app, always());
    let graph = chain(&app, &[10_000; 3]);
    let twin = settled_twin(&recorder, graph, app.stream);
    control::log_clear();
    control::log_start();
    drop(twin);
    control::log_stop();
    let gone: Vec<_> = control::log()
        .into_iter()
        .filter(|call| call.name.contains("Destroy"))
        .map(|call| (call.name.to_string(), call.handle, call.status))
        .collect();
    let names: Vec<_> = gone.iter().map(|(name, _, status)| (name.as_str(), *status)).collect();
    assert_eq!(
        names,
        [("cuGraphExecDestroy", Status::SUCCESS), ("cuGraphDestroy", Status::SUCCESS)]
    );
    assert!(gone.iter().all(|(_, handle, _)| ![graph.exec, graph.graph].contains(handle)));
    assert_eq!(app.launch_graph(graph.exec, app.stream), Status::SUCCESS);
}

#[test]
fn a_seat_is_given_on_once_its_last_launch_was_read() {
    let app = App::new();
    let recorder = recorder(&app, TwinsConfig { resident: 1, ..always() });
    let graph = chain(&app, &[10_000; 3]);
    let first = settled_twin(&recorder, graph, app.stream);
    replay(&recorder, &first, app.stream).expect("a launch");
    drop(first);
    let refused = twin(&recorder, graph);
    assert_eq!(refused.state(), TwinState::Refused(TwinError::NoRoom { resident: 1 }));
    settle(&recorder);
    assert_eq!(recorder.twin_ledger().read, 1);
    let second = settled_twin(&recorder, graph, app.stream);
    replay(&recorder, &second, app.stream).expect("a launch");
    settle(&recorder);
    assert_eq!(recorder.twin_ledger().read, 2);
    assert_no_mistakes();
}

/// A twin that outlives its recorder's closing launches the plain graph, and the
/// order still holds.
#[test]
fn a_twin_may_outlive_its_recorder() {
    let app = App::new();
    for is_in_flight in [false, true] {
        let first = recorder(&app, always());
        let graph = chain(&app, &[10_000; 3]);
        let twin = settled_twin(&first, graph, app.stream);
        if is_in_flight {
            replay(&first, &twin, app.stream).expect("a launch");
        }
        let events = calls("cuEventDestroy_v2");
        first.close();
        let leaked = calls("cuEventDestroy_v2") == events;
        assert_eq!(leaked, is_in_flight, "its marks are still to be recorded");
        let (second, other) = (recorder(&app, always()), app.new_stream());
        let before = calls("cuStreamWaitEvent");
        replay(&second, &twin, other).expect("a launch");
        assert_eq!(calls("cuStreamWaitEvent") - before, u64::from(is_in_flight));
        let clones = (calls("cuGraphExecDestroy"), calls("cuGraphDestroy"));
        drop(twin);
        let after = (calls("cuGraphExecDestroy"), calls("cuGraphDestroy"));
        assert_eq!(after, (clones.0 + 1, clones.1 + 1));
        assert_no_mistakes();
        settle(&second);
    }
}

#[test]
fn a_quarantined_recorder_launches_no_twin() {
    let app = App::new();
    let recorder = recorder(&app, always());
    let twin = settled_twin(&recorder, chain(&app, &[10_000; 3]), app.stream);
    replay(&recorder, &twin, app.stream).expect("a launch");
    fail_some("cuEventQuery", Status(12_345), 0, 1);
    settle(&recorder);
    assert!(recorder.health().quarantined.is_some());
    let before = (crate::rig::all_calls(), calls("cuGraphLaunch"));
    replay(&recorder, &twin, app.stream).expect("a launch");
    // The launch, and the question itself.
    assert_eq!(crate::rig::all_calls() - before.0, 2);
    assert_eq!(calls("cuGraphLaunch"), before.1 + 1);
    let gone = calls("cuGraphExecDestroy");
    drop(twin);
    assert_eq!(calls("cuGraphExecDestroy"), gone, "leaked");
}

/// The lane of one recorder and the twin of another.
#[test]
fn a_twin_of_another_recorder_is_not_launched() {
    let app = App::new();
    let (one, other) = (recorder(&app, always()), recorder(&app, always()));
    let twin = settled_twin(&one, chain(&app, &[10_000; 3]), app.stream);
    let step = other.step();
    let lane = step.lane(LANE_DECODE, stream(app.stream));
    lane.replay(&twin).expect("a launch");
    assert_eq!((one.twin_ledger().launched, one.twin_ledger().no_span), (0, 1));
}

/// The simulator answers every call of a child with 3, as the driver does, and a call
/// of ours would quarantine the recorder.
#[cfg(unix)]
#[test]
fn a_forked_child_launches_the_plain_graph_and_makes_no_other_call() {
    use metrale_gpu_sim::child;
    const NAME: &str = "twin_ends::a_forked_child_launches_the_plain_graph_and_makes_no_other_call";
    if !child::is_child() {
        return child::passes(NAME, &[]);
    }
    let app = App::new();
    let recorder = recorder(&app, always());
    let graph = chain(&app, &[10_000; 3]);
    let (held, dropped) =
        (settled_twin(&recorder, graph, app.stream), settled_twin(&recorder, graph, app.stream));
    let other = app.new_stream();
    replay(&recorder, &held, app.stream).expect("a launch");
    // SAFETY: the child only calls what is under test, and ends.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "fork");
    if pid == 0 {
        let launched = [app.stream, other].map(|on| replay(&recorder, &held, on));
        held.renew();
        held.retire();
        drop(dropped);
        let snapshot = recorder.telemetry().snapshot();
        let is_right = launched == [Err(Status::ERROR_NOT_INITIALIZED); 2]
            && recorder.health().quarantined.is_none()
            && recorder.twin_ledger().launched == 1
            && snapshot.graphs.is_empty();
        // SAFETY: ends the child without handlers that belong to the parent.
        unsafe { libc::_exit(if is_right { 0 } else { 1 }) };
    }
    let mut status = 0;
    // SAFETY: our child, and a pointer to a live integer.
    let ended = unsafe { libc::waitpid(pid, &raw mut status, 0) };
    assert_eq!((ended, status), (pid, 0));
    settle(&recorder);
    assert_eq!(recorder.twin_ledger().read, 1);
}
