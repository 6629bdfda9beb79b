// SPDX-License-Identifier: MIT OR Apache-2.0
//! Twins of graphs: what they measure, and that the application cannot tell.

use crate::rig::{App, all_calls, calls, fail_some};
use crate::twin_rig::{
    Case, always, assert_no_mistakes, chain, recorder, replay, settle, settled_twin, twin,
    unarmed_recorder,
};
use metrale_gpu_runtime::timing::{Recorder, Status, TwinState, TwinsConfig};
use metrale_gpu_sim::control::graphs;
use metrale_telemetry::Step;
use metrale_telemetry::kernel::LANE_DECODE;
use metrale_telemetry::snapshot::RowKind;

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
        .map(|row| (row.name.as_deref(), row.nodes, row.samples, row.sampled_ns, row.marks_ns))
        .collect();
    // Nodes 1, 3 and 5 are `spin`: 90 µs a launch; 2 and 4 are `other`: 60 µs.
    let expected =
        [(Some("spin"), 3, 120, 40 * 90_000, 120_000), (Some("other"), 2, 80, 40 * 60_000, 80_000)];
    assert_eq!(told, expected);
    assert_eq!(inside.figures.mark_ns, Some(1_000.0));
    // One before the first node, one behind each and the second one of a pair.
    assert_eq!(inside.figures.marks_ns, 40 * 7_000);
    assert_eq!(inside.figures.twin_ns - inside.figures.marks_ns, 40 * 150_000);
    // The first step ran the plain graph, in less time than all others.
    let records = recorder.telemetry().recent_steps().steps;
    let marked: Vec<_> = records.iter().map(|step| step.marked).collect();
    assert_eq!(marked, [[false].as_slice(), &[true; 40]].concat());
    let slowest = &snapshot.slowest_steps;
    assert_eq!((slowest[0].number, slowest[0].marked, slowest[1].marked), (0, false, true));
    assert_no_mistakes();
}

/// The rows inside the only graph: name, samples, and mean time of one.
fn rows(recorder: &Recorder) -> Vec<(String, u64, u64)> {
    let snapshot = recorder.telemetry().snapshot();
    let rows = snapshot.graphs.iter().flat_map(|graph| &graph.figures.rows);
    let mut rows: Vec<_> = rows
        .map(|row| {
            let name = row.name.clone().expect("kernels have names");
            (name, row.samples, row.sampled_ns / row.samples)
        })
        .collect();
    rows.sort();
    rows
}

#[test]
fn windows_see_every_kernel_within_their_plans() {
    let app = App::new();
    graphs::set_mark_duration(700);
    let twins = TwinsConfig { marks: 12, plan_launches: 4, ..always() };
    let recorder = recorder(&app, twins);
    // Of 40 nodes a plan marks about eight.
    let kernels: Vec<u64> = (0..40).map(|at| 10_000 + 5_000 * (at % 2)).collect();
    let graph = chain(&app, &kernels);
    let twin = settled_twin(&recorder, graph, app.stream);
    for at in 0..10 * 5 {
        replay(&recorder, &twin, app.stream).expect("a launch");
        settle(&recorder);
        if at % 5 == 4 {
            twin.renew();
            settle(&recorder);
        }
    }
    let ledger = recorder.twin_ledger();
    assert_eq!((ledger.launched, ledger.read, ledger.plan_spent), (40, 40, 10));
    let graphs = recorder.telemetry().snapshot().graphs;
    let figures = &graphs[0].figures;
    assert_eq!((figures.nodes, figures.plans, figures.twin_launches), (40, 10, 40));
    assert_eq!(figures.mark_ns, Some(700.0));
    let rows = rows(&recorder);
    let means: Vec<_> = rows.iter().map(|(name, _, ns)| (name.as_str(), *ns)).collect();
    assert_eq!(means, [("other", 15_000), ("spin", 10_000)]);
    assert!(rows.iter().all(|(_, samples, _)| *samples >= 40), "{rows:?}");
    assert_no_mistakes();
}

#[test]
fn of_armed_steps_about_one_in_two_is_plain_and_tells_what_marks_cost() {
    let app = App::new();
    graphs::set_mark_duration(1_000);
    let recorder = recorder(&app, TwinsConfig { always: false, ..always() });
    let graph = chain(&app, &[50_000; 10]);
    let twin = settled_twin(&recorder, graph, app.stream);
    for _ in 0..400 {
        replay(&recorder, &twin, app.stream).expect("a launch");
        settle(&recorder);
    }
    let ledger = recorder.twin_ledger();
    assert_eq!(ledger.launched + ledger.by_turn, 400, "{ledger:?}");
    assert!((150..=250).contains(&ledger.launched), "{ledger:?}");
    let figures = &recorder.telemetry().snapshot().graphs[0].figures;
    assert_eq!(figures.plain_launches, ledger.by_turn + 1);
    // Ten kernels of 50 µs; entry, ten behind nodes, and a double one.
    let told = figures.perturbation.expect("there are both");
    assert!((told - 512.0 / 500.0).abs() < 1e-3, "{told}");
    let all_ns: f64 = figures.rows.iter().map(|row| row.estimate.total_ns).sum();
    assert!((all_ns + figures.remainder_ns - figures.total_ns).abs() < 1.0);
    assert_no_mistakes();
}

#[test]
fn an_unarmed_replay_makes_the_launch_and_no_other_call() {
    let app = App::new();
    let recorder = unarmed_recorder(&app);
    let graph = chain(&app, &[10_000; 4]);
    let twin = twin(&recorder, graph);
    let (step, on) = (recorder.step(), crate::rig::stream(app.stream));
    assert!(!step.is_armed());
    let lane = step.lane(LANE_DECODE, on);
    let before = all_calls();
    for _ in 0..100 {
        lane.replay(&twin).expect("a launch");
    }
    // One is the question itself.
    assert_eq!(all_calls() - before, 101);
    assert_eq!(calls("cuGraphLaunch"), 100);
    assert_eq!(recorder.twin_ledger().plain(), 0, "counted on armed steps only");
}

#[test]
fn an_armed_replay_of_a_twin_makes_no_call_more_than_a_plain_launch_in_a_span() {
    let app = App::new();
    let recorder = recorder(&app, always());
    let graph = chain(&app, &[10_000; 4]);
    let twin = settled_twin(&recorder, graph, app.stream);
    let row = recorder.graph("decode");
    let count = |launch: &dyn Fn() -> Status| {
        let step = recorder.step();
        let lane = step.lane(LANE_DECODE, crate::rig::stream(app.stream));
        let before = all_calls();
        lane.launch(row, || launch().ok()).expect("a launch");
        all_calls() - before
    };
    let plain = count(&|| app.launch_graph(graph.exec, app.stream));
    settle(&recorder);
    let step = recorder.step();
    let lane = step.lane(LANE_DECODE, crate::rig::stream(app.stream));
    let before = all_calls();
    lane.replay(&twin).expect("a launch");
    assert_eq!(all_calls() - before, plain);
    assert_eq!(recorder.twin_ledger().launched, 1);
}

#[test]
fn a_replay_without_guards_is_the_same() {
    let app = App::new();
    let recorder = recorder(&app, always());
    let graph = chain(&app, &[10_000; 4]);
    let twin = settled_twin(&recorder, graph, app.stream);
    let telemetry = recorder.telemetry();
    let counted = telemetry.snapshot().host.graph_launches;
    let replay = |of: &Recorder, step| {
        let on = crate::rig::stream(app.stream);
        of.replay(step, LANE_DECODE, &twin, on)
    };
    let step = telemetry.step_begin();
    assert_eq!(replay(&recorder, step), Ok(()));
    settle(&recorder);
    fail_some("cuGraphLaunch", Status::ERROR_ILLEGAL_ADDRESS, 0, 2);
    assert_eq!(replay(&recorder, step), Err(Status::ERROR_ILLEGAL_ADDRESS));
    recorder.end_step(step);
    // Of no step, and of nobody who records: the plain one.
    assert_eq!(replay(&recorder, Step::UNMEASURED), Ok(()));
    assert_eq!(replay(&Recorder::disabled(), step), Ok(()));
    let ledger = recorder.twin_ledger();
    assert_eq!((ledger.launched, ledger.launch_failed), (1, 1), "{ledger:?}");
    assert_eq!(recorder.kernel_ledger().cancelled, 1);
    // A token's launch is counted also where it fails.
    assert_eq!(telemetry.snapshot().host.graph_launches, counted + 2);
    assert_eq!(calls("cuGraphLaunch"), 1 + 1 + 2 + 2);
    assert_no_mistakes();
}

#[test]
fn replays_make_and_destroy_nothing() {
    let app = App::new();
    let recorder = recorder(&app, always());
    let twin = settled_twin(&recorder, chain(&app, &[10_000; 4]), app.stream);
    let made = || {
        let names = [
            "cuEventCreate",
            "cuEventDestroy_v2",
            "cuStreamCreate",
            "cuGraphClone",
            "cuGraphInstantiateWithFlags",
            "cuGraphExecDestroy",
            "cuGraphDestroy",
        ];
        names.map(calls)
    };
    let before = made();
    for _ in 0..100 {
        replay(&recorder, &twin, app.stream).expect("a launch");
        settle(&recorder);
    }
    assert_eq!(recorder.twin_ledger().launched, 100);
    assert_eq!(made(), before);
}

#[test]
fn marks_are_read_so_many_a_pass_and_a_launch_lands_whole() {
    let app = App::new();
    let twins = TwinsConfig { marks: 1_000, resident: 1, ..always() };
    let recorder = recorder(&app, twins);
    let twin = settled_twin(&recorder, chain(&app, &[1_000; 600]), app.stream);
    replay(&recorder, &twin, app.stream).expect("a launch");
    metrale_gpu_sim::control::advance_ns(1_000_000_000);
    // Entry, 600 behind nodes and a double one: two passes of 256, and the rest.
    for read in [0, 0, 1] {
        let before = calls("cuEventElapsedTime_v2");
        recorder.harvest();
        assert!(calls("cuEventElapsedTime_v2") - before <= 256 + 8);
        assert_eq!(recorder.twin_ledger().read, read);
    }
    assert_eq!(twin.state(), TwinState::Ready);
    let figures = &recorder.telemetry().snapshot().graphs[0].figures;
    assert_eq!(figures.twin_launches, 1);
    assert_no_mistakes();
}

#[test]
fn no_mark_is_read_in_flight() {
    let case = Case::new();
    case.replay();
    for _ in 0..4 {
        case.recorder.harvest();
        metrale_gpu_sim::control::advance_ns(10_000);
    }
    assert_eq!(case.ledger().read, 0);
    assert_no_mistakes();
    case.settle();
    assert_eq!(case.ledger().read, 1);
}

#[test]
fn shapes_of_one_name_share_its_time() {
    let app = App::new();
    let recorder = recorder(&app, always());
    let graphs = [chain(&app, &[10_000; 3]), chain(&app, &[10_000; 12])];
    for graph in graphs {
        let twin = twin(&recorder, graph);
        settle(&recorder);
        for _ in 0..2 {
            replay(&recorder, &twin, app.stream).expect("a launch");
            settle(&recorder);
        }
    }
    assert_eq!(recorder.twin_ledger().read, 4, "also of the first launch of each");
    let snapshot = recorder.telemetry().snapshot();
    let totals: Vec<_> =
        snapshot.graphs.iter().map(|graph| (graph.figures.nodes, graph.figures.total_ns)).collect();
    assert_eq!(totals, [(12, 240_000.0), (3, 60_000.0)]);
    for graph in &snapshot.graphs {
        let rows = graph.figures.rows.iter();
        let rows_ns: f64 = rows.map(|row| row.estimate.total_ns).sum();
        assert_eq!(rows_ns, graph.figures.total_ns);
    }
    assert_no_mistakes();
}

#[test]
fn a_replay_in_a_lane_without_a_guard_is_counted_timed_and_the_twins() {
    let app = App::new();
    let recorder = recorder(&app, always());
    let twin = twin(&recorder, chain(&app, &[10_000; 3]));
    settle(&recorder);
    for round in 1..=2 {
        let step = recorder.telemetry().step_begin();
        let on = crate::rig::stream(app.stream);
        let lane = recorder.begin_lane(step, LANE_DECODE, on).expect("a span");
        recorder.replay(step, LANE_DECODE, &twin, on).expect("a launch");
        recorder.end_lane(lane, on);
        recorder.end_step(step);
        settle(&recorder);
        assert_eq!(recorder.twin_ledger().read, round);
        assert_eq!(recorder.telemetry().snapshot().host.graph_launches, round);
        let ledger = recorder.kernel_ledger();
        assert_eq!((ledger.begun, ledger.landed), (round, round));
    }
    assert_no_mistakes();
}

#[test]
fn what_a_closed_recorder_knew_of_graphs_stays() {
    let app = App::new();
    let recorder = recorder(&app, always());
    let twin = settled_twin(&recorder, chain(&app, &[10_000; 4]), app.stream);
    replay(&recorder, &twin, app.stream).expect("a launch");
    settle(&recorder);
    let telemetry = recorder.telemetry();
    let before = telemetry.snapshot().graphs;
    assert_eq!(before.len(), 1);
    drop(twin);
    recorder.close();
    assert_eq!(telemetry.snapshot().graphs, before);
}

#[test]
fn merged_snapshots_add_up_their_graphs() {
    let app = App::new();
    let recorder = recorder(&app, always());
    let twin = settled_twin(&recorder, chain(&app, &[10_000; 4]), app.stream);
    replay(&recorder, &twin, app.stream).expect("a launch");
    settle(&recorder);
    let one = recorder.telemetry().snapshot();
    let mut both = one.clone();
    both.merge(&one).expect("one version");
    let (one, both) = (&one.graphs[0].figures, &both.graphs[0].figures);
    assert_eq!(both.twin_launches, 2 * one.twin_launches);
    assert_eq!(both.total_ns, 2.0 * one.total_ns);
    assert_eq!(both.mark_ns, one.mark_ns);
    assert_eq!(both.rows.len(), one.rows.len());
    for (both, one) in both.rows.iter().zip(&one.rows) {
        assert_eq!(both.samples, 2 * one.samples);
        assert!((both.estimate.share - one.estimate.share).abs() < 1e-9);
    }
}

#[test]
fn graphs_of_one_name_share_what_its_row_took() {
    let app = App::new();
    let recorder = recorder(&app, always());
    let [short, long] = [&[10_000; 4][..], &[30_000; 8]].map(|kernels_ns| {
        let graph = chain(&app, kernels_ns);
        settled_twin(&recorder, graph, app.stream)
    });
    for at in 0..40 {
        let twin = if at % 4 == 0 { &long } else { &short };
        replay(&recorder, twin, app.stream).expect("a launch");
        settle(&recorder);
    }
    let snapshot = recorder.telemetry().snapshot();
    let row = snapshot.kernels.iter().find(|row| row.kind == RowKind::Graph).expect("its row");
    let all_ns: f64 = row.lanes.iter().map(|lane| lane.estimate.total_ns).sum();
    let told: Vec<_> =
        snapshot.graphs.iter().map(|graph| (graph.figures.nodes, graph.figures.total_ns)).collect();
    // Eleven launches of 240 µs, and 31 of 40 µs.
    let expected = [(8, 2_640_000.0), (4, 1_240_000.0)];
    assert_eq!(told, expected);
    assert_eq!(all_ns, 3_880_000.0);
    let rows = snapshot.graphs.iter().flat_map(|graph| &graph.figures.rows);
    assert!(rows.clone().all(|row| row.series == row.name && row.series.is_some()), "{rows:?}");
    assert_no_mistakes();
}
