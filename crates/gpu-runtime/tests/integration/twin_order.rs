// SPDX-License-Identifier: MIT OR Apache-2.0
//! Twins change neither the order nor the outcome of an application's work.

use crate::rig::{App, THREAD_LOCAL, calls, cu, fail_some, loaded, stream};
use crate::statuses::every_status;
use crate::twin_rig::{
    Case, always, assert_no_mistakes, chain, kernels_run, nodes, recorder, replay, set_duration,
    settle,
};
use metrale_gpu_runtime::timing::{Recorder, Status, TwinError, TwinState, Updates};
use metrale_gpu_sim::control::{self, graphs};
use metrale_telemetry::kernel::LANE_DECODE;

#[test]
fn a_launch_on_another_stream_waits_for_the_twin() {
    let case = Case::new();
    case.replay();
    assert_eq!(case.ledger().launched, 1);
    case.replay_on(case.other);
    assert_eq!(calls("cuStreamWaitEvent"), 1);
    assert_eq!(case.ledger().waits, 1);
    // Back, and the first is still in flight.
    case.replay();
    assert_no_mistakes();
    case.settle();
    // None of the wait is in a span. The last one began behind the twin, and ran behind
    // the launch on the other stream, as the driver orders launches of one executable.
    let figures = &case.recorder.telemetry().snapshot().graphs[0].figures;
    assert_eq!((figures.plain_launches, figures.plain_ns), (3, 200_000));
    // Over: nobody waits.
    case.replay_on(case.other);
    assert_eq!(calls("cuStreamWaitEvent"), 1);
    let ledger = case.ledger();
    assert_eq!((ledger.launched, ledger.unread, ledger.other_stream), (1, 3, 1));
    assert_no_mistakes();
}

/// The detector of the tests here sees what the wait is for.
#[test]
fn without_the_wait_both_would_run_at_once() {
    let case = Case::new();
    case.replay();
    fail_some("cuStreamWaitEvent", Status::ERROR_NOT_PERMITTED, 0, 1);
    case.replay_on(case.other);
    assert_eq!(graphs::mistakes().overlapping_launches, 1);
}

#[test]
fn a_launch_on_another_stream_waits_also_where_the_span_has_no_end() {
    let case = Case::new();
    let step = case.recorder.step();
    let lane = step.lane(LANE_DECODE, stream(case.app.stream));
    // The start is recorded, and then the end.
    fail_some("cuEventRecord", Status::ERROR_NOT_PERMITTED, 1, 1);
    lane.replay(&case.twin).expect("a launch");
    assert_eq!(case.ledger().lost, 1);
    drop(lane);
    drop(step);
    case.replay_on(case.other);
    assert_eq!(case.ledger().waits, 1);
    case.settle();
    case.replay_on(case.other);
    assert_eq!(case.twin.state(), TwinState::Retired(TwinError::Lost));
    assert_eq!(case.ledger().read, 0);
    assert_no_mistakes();
}

#[test]
fn a_capture_on_another_stream_survives_and_waits_for_nobody() {
    let case = Case::new();
    case.replay();
    assert_eq!(case.ledger().launched, 1);
    case.app.begin_capture(case.other, THREAD_LOCAL);
    case.replay_on(case.other);
    assert_eq!(calls("cuStreamWaitEvent"), 0);
    assert_eq!(case.app.end_capture(case.other), Status::SUCCESS);
    // What was captured ran nowhere: the twin is still the last.
    case.replay_on(case.other);
    assert_eq!(calls("cuStreamWaitEvent"), 1);
    assert_no_mistakes();
}

#[test]
fn no_twin_goes_into_a_capture() {
    let case = Case::new();
    case.app.begin_capture(case.app.stream, THREAD_LOCAL);
    case.replay();
    assert_eq!(case.app.end_capture(case.app.stream), Status::SUCCESS);
    let ledger = case.ledger();
    assert_eq!((ledger.launched, ledger.no_span), (0, 1));
    case.replay();
    assert_eq!(case.ledger().launched, 1);
}

/// The application's own executable orders its launches over streams; a twin stays
/// out of it, also where a launch in between was captured.
#[test]
fn a_twin_is_launched_only_where_the_last_launch_was() {
    let case = Case::new();
    let (one, other) = (case.app.stream, case.other);
    case.replay_on(other);
    case.app.begin_capture(one, THREAD_LOCAL);
    case.replay_on(one);
    assert_eq!(case.app.end_capture(one), Status::SUCCESS);
    case.replay_on(one);
    assert_eq!(case.ledger().launched, 0);
    case.replay_on(one);
    assert_eq!(case.ledger().launched, 1);
    for _ in 0..20 {
        case.settle();
        for on in [other, one, one, other] {
            case.replay_on(on);
        }
    }
    let ledger = case.ledger();
    assert_eq!(ledger.launched, 21, "{ledger:?}");
    assert_no_mistakes();
}

/// It cannot be taken back, and nothing else is left.
#[test]
fn a_launch_that_fails_on_another_stream_leaves_its_wait() {
    let case = Case::new();
    case.replay();
    fail_some("cuGraphLaunch", Status::ERROR_NOT_SUPPORTED, 0, 1);
    let failed = replay(&case.recorder, &case.twin, case.other);
    assert_eq!(failed, Err(Status::ERROR_NOT_SUPPORTED));
    let ends_ns = [case.other, case.app.stream].map(|stream| {
        assert_eq!(cu!("cuStreamSynchronize", stream => u64), Status::SUCCESS);
        control::now_ns()
    });
    assert_eq!(ends_ns[0], ends_ns[1], "behind the twin");
    assert_eq!((case.ledger().launched, case.ledger().waits), (1, 1));
    assert_eq!(case.twin.state(), TwinState::Ready);
    assert_no_mistakes();
}

/// It ran nowhere: the last one is still where it was.
#[test]
fn after_a_launch_that_failed_nobody_knows_which_stream_was_last() {
    let case = Case::new();
    case.replay_on(case.other);
    fail_some("cuGraphLaunch", Status::ERROR_NOT_SUPPORTED, 0, 1);
    let failed = replay(&case.recorder, &case.twin, case.app.stream);
    assert_eq!(failed, Err(Status::ERROR_NOT_SUPPORTED));
    case.replay();
    assert_eq!((case.ledger().launched, case.ledger().other_stream), (0, 3));
    case.replay();
    assert_eq!(case.ledger().launched, 1);
    assert_no_mistakes();
}

#[test]
fn an_update_that_is_followed_is_the_twins_too() {
    let case = Case::new();
    for round in 1..=10u64 {
        assert_eq!(case.update(10_000 * round), Ok(()));
        case.replay();
        case.settle();
        case.twin.renew();
    }
    assert_eq!(case.ledger().launched, 10);
    assert_eq!(case.twin.state(), TwinState::Ready);
    assert_no_mistakes();
    let figures = &case.recorder.telemetry().snapshot().graphs[0].figures;
    let spin = figures.rows.iter().find(|row| row.name.as_deref() == Some("spin"));
    // Nodes 1 and 5 took 10 µs, node 3 of 10 to 100 µs.
    assert_eq!(spin.map(|row| row.sampled_ns), Some(20 * 10_000 + 550_000));
}

#[test]
fn a_twin_that_missed_an_update_is_launched_no_more() {
    let case = Case::new();
    let set = "cuGraphExecKernelNodeSetParams_v2";
    // The plain one takes it, and the twin does not.
    fail_some(set, Status::ERROR_OUT_OF_MEMORY, 1, 1);
    assert_eq!(case.update(90_000), Ok(()));
    assert_eq!(case.twin.state(), TwinState::Stale);
    for _ in 0..5 {
        case.replay();
        case.settle();
        case.twin.renew();
    }
    let ledger = case.ledger();
    assert_eq!((ledger.launched, ledger.stale, ledger.updates_failed), (0, 5, 1));
    assert_no_mistakes();
}

#[test]
fn an_update_that_fails_is_the_applications_error() {
    let case = Case::new();
    let done = case.twin.follow(|exec, _| set_duration(exec, 0, case.app.spin, 90_000));
    assert_eq!(done, Err(Status::ERROR_INVALID_VALUE));
    assert_eq!(case.twin.state(), TwinState::Stale);
}

#[test]
fn an_update_that_nobody_was_to_make_makes_the_twin_stale() {
    let app = App::new();
    let recorder = recorder(&app, always());
    let graph = chain(&app, &[10_000; 5]);
    // SAFETY: the graph outlives the twin.
    let twin = unsafe { recorder.twin_raw(graph, "decode", Updates::Never) };
    let third = nodes(graph.graph)[2];
    let done = twin.follow(|exec, node_of| set_duration(exec, node_of(third), app.spin, 90_000));
    assert_eq!((done, twin.state()), (Ok(()), TwinState::Stale));
}

#[test]
fn an_update_may_take_the_twin_down() {
    let case = Case::new();
    let (twin, graph) = (&case.twin, case.graph);
    let third = nodes(graph.graph)[2];
    let mut seen = Vec::new();
    let done = twin.follow(|exec, node_of| {
        seen.push((exec, node_of(third)));
        if seen.len() == 2 {
            twin.retire();
            assert_eq!(node_of(third), 0);
        }
        Ok::<_, Status>(())
    });
    assert_eq!((done, seen.len(), seen[0]), (Ok(()), 2, (graph.exec, third)));
    assert_eq!(twin.state(), TwinState::Retired(TwinError::Retired));
    assert_no_mistakes();
}

#[test]
fn a_twin_is_made_anew_of_the_graph_that_its_executable_was_updated_by() {
    let case = Case::new();
    for round in 1..=6u64 {
        let newer = chain(&case.app, &[10_000 * (round + 1); 5]);
        let update = |exec: u64| {
            let mut result = [0u64; 3];
            metrale_gpu_sim::cu!("cuGraphExecUpdate_v2", exec => u64, newer.graph => u64, result.as_mut_ptr() => *mut u64)
        };
        assert_eq!(update(case.graph.exec), Status::SUCCESS);
        // SAFETY: the graph is live, and on this thread.
        unsafe { case.twin.replace_raw(newer.graph) };
        // In flight or not, nothing stale is launched.
        case.replay();
        if round % 2 == 0 {
            case.settle();
        }
        case.twin.renew();
        case.settle();
        case.twin.renew();
        case.settle();
        case.replay();
    }
    case.settle();
    let ledger = case.ledger();
    assert_eq!(ledger.launched, 6, "{ledger:?}");
    assert_eq!(ledger.read, 6);
    // One graph of one shape, all the time.
    assert_eq!(case.recorder.telemetry().snapshot().graphs.len(), 1);
    assert_no_mistakes();
}

#[test]
fn a_twins_launch_that_fails_is_followed_by_the_plain_one() {
    for status in every_status() {
        let case = Case::new();
        graphs::count_kernels();
        fail_some("cuGraphLaunch", status, 0, 1);
        case.replay();
        assert_eq!(kernels_run(), 5, "the graph ran once");
        assert_eq!(case.twin.state(), TwinState::Retired(TwinError::Launch { status }));
        case.replay();
        let ledger = case.ledger();
        assert_eq!((ledger.launched, ledger.launch_failed, ledger.no_twin), (0, 1, 1));
        assert_eq!(case.recorder.health().quarantined, None);
    }
}

#[test]
fn a_plain_launch_that_fails_is_the_applications_error_and_no_launch() {
    let case = Case::new();
    let launches = || case.recorder.telemetry().snapshot().host.graph_launches;
    let before = launches();
    let status = Status::ERROR_ILLEGAL_ADDRESS;
    fail_some("cuGraphLaunch", status, 0, 2);
    assert_eq!(replay(&case.recorder, &case.twin, case.app.stream), Err(status));
    assert_eq!(launches(), before);
    assert_eq!(case.recorder.kernel_ledger().cancelled, 1);
    // In a lane without a guard a launch is counted at once.
    fail_some("cuGraphLaunch", status, 0, 1);
    let step = case.recorder.telemetry().step_begin();
    let launched = case.recorder.replay(step, LANE_DECODE, &case.twin, stream(case.app.stream));
    assert_eq!((launched, launches()), (Err(status), before + 1));
    assert_eq!(case.recorder.kernel_ledger().cancelled, 2);
}

/// Every node as often, with the same parameters, on one stream and two.
#[test]
fn a_run_with_twins_does_what_one_without_does() {
    let app = App::new();
    let run = |recorder: &Recorder| {
        let graph = chain(&app, &[10_000, 20_000, 30_000, 40_000]);
        let other = app.new_stream();
        // SAFETY: the graph outlives the twin.
        let twin = unsafe { recorder.twin_raw(graph, "decode", Updates::Told) };
        let second = nodes(graph.graph)[1];
        graphs::count_kernels();
        for at in 0..200u64 {
            let on = if at % 7 < 4 { app.stream } else { other };
            if at % 5 == 0 {
                let update = |exec, node_of: &dyn Fn(u64) -> u64| {
                    set_duration(exec, node_of(second), app.other, 1_000 * at)
                };
                twin.follow(update).expect("an update");
            }
            let step = recorder.step();
            let lane = step.lane(LANE_DECODE, stream(on));
            lane.launch(loaded(app.spin), || app.launch(app.spin, on, 500).ok()).expect("a launch");
            lane.replay(&twin).expect("a launch");
            drop(lane);
            drop(step);
            if at % 3 == 0 {
                control::advance_ns(500_000);
                recorder.harvest();
            }
        }
        settle(recorder);
        app.destroy_stream(other);
        graphs::kernel_runs()
    };
    let with = recorder(&app, always());
    let runs = run(&with);
    let ledger = with.twin_ledger();
    assert!(ledger.launched > 20 && ledger.waits > 0, "{ledger:?}");
    assert_eq!(runs, run(&Recorder::disabled()));
    assert_no_mistakes();
}
