// SPDX-License-Identifier: MIT OR Apache-2.0
//! Launches of graphs: what they cost, and the mistakes that are counted.

use super::graphs::{clone, instantiate, kernel, mark, new_graph, with_params};
use super::{elapsed, function, launch, load, new_event, new_stream, start, told};
use crate::abi::{context, event, exec, exec_update, graph, memory, stream};
use crate::control::{self, graphs};
use crate::graph::EdgeData;

fn run(exec: u64, stream: u64) {
    assert_eq!(exec::cuGraphLaunch(exec, stream), 0);
    assert_eq!(stream::cuStreamSynchronize(stream), 0);
}

/// a(10) → {b(20), c(5)} → d(1) with a mark behind each of a, b and d: by hand.
#[test]
fn branches_run_side_by_side_and_a_mark_costs_what_is_set() {
    let _alone = crate::exclusive();
    start();
    let timed = function(load(), c"timed");
    let events = [(); 4].map(|()| new_event());
    let graph = new_graph();
    let entry = mark(graph, events[0], &[]);
    let a = kernel(graph, timed, 10, &[entry]);
    let behind_a = mark(graph, events[1], &[a]);
    let b = kernel(graph, timed, 20, &[a, behind_a]);
    let c = kernel(graph, timed, 5, &[a, behind_a]);
    let behind_b = mark(graph, events[2], &[b]);
    let d = kernel(graph, timed, 1, &[b, behind_b, c]);
    mark(graph, events[3], &[d]);
    let (exec, stream) = (instantiate(graph), new_stream());
    let ns = |at: usize| {
        let (status, ms) = elapsed(events[0], events[at]);
        assert_eq!(status, 0);
        (f64::from(ms) * 1e6).round()
    };
    run(exec, stream);
    assert_eq!([ns(1), ns(2), ns(3)], [10.0, 30.0, 31.0]);
    graphs::set_mark_duration(2);
    run(exec, stream);
    assert_eq!([ns(1), ns(2), ns(3)], [12.0, 34.0, 37.0]);
    graphs::set_leaf_lag(1_000);
    run(exec, stream);
    assert_eq!([ns(1), ns(2), ns(3)], [12.0, 34.0, 1_037.0], "only the last");
    graphs::set_leaf_lag(0);
    graphs::set_kernel_gap(3);
    run(exec, stream);
    // Three kernels in a row, and a gap before each.
    assert_eq!([ns(1), ns(2), ns(3)], [15.0, 40.0, 46.0]);
}

#[test]
fn a_mark_loses_the_overlap_of_a_programmatic_edge() {
    let _alone = crate::exclusive();
    start();
    let timed = function(load(), c"timed");
    let graph = new_graph();
    let a = kernel(graph, timed, 100, &[]);
    let b = kernel(graph, timed, 100, &[]);
    let data = EdgeData { from_port: 1, kind: 1, ..EdgeData::default() };
    // SAFETY: one edge.
    let status = unsafe {
        crate::abi::graph_edges::cuGraphAddDependencies_v2(
            graph,
            &raw const a,
            &raw const b,
            &raw const data,
            1,
        )
    };
    assert_eq!(status, 0);
    graphs::set_overlap(30);
    let stream = new_stream();
    run(instantiate(graph), stream);
    assert_eq!(control::now_ns(), 170);
    let between = mark(graph, new_event(), &[a]);
    // SAFETY: one edge.
    let status = unsafe {
        crate::abi::graph_edges::cuGraphAddDependencies(graph, &raw const between, &raw const b, 1)
    };
    assert_eq!(status, 0);
    run(instantiate(graph), stream);
    assert_eq!(control::now_ns(), 370);
}

#[test]
fn an_executable_costs_time_to_make_and_memory_to_keep() {
    let _alone = crate::exclusive();
    let context = start();
    let timed = function(load(), c"timed");
    let graph = new_graph();
    let k = kernel(graph, timed, 1, &[]);
    mark(graph, new_event(), &[k]);
    graphs::set_instantiation_cost(1_500);
    graphs::set_node_bytes(10_000);
    let free = || {
        let mut total = std::mem::MaybeUninit::new(0);
        told(0, |out| memory::cuMemGetInfo_v2(Some(out), Some(&mut total))).1
    };
    let before = free();
    let exec = instantiate(graph);
    assert_eq!((control::now_ns(), before - free()), (3_000, 20_000));
    graphs::set_node_bytes(before);
    let failed = told(0, |out| exec::cuGraphInstantiateWithFlags(Some(out), graph, 0));
    assert_eq!(failed.0, 2, "no room");
    graphs::set_node_bytes(0);
    assert_eq!(exec::cuGraphExecDestroy(exec), 0);
    assert_eq!(free(), before);
    let kept = instantiate(graph);
    assert_eq!(context::cuCtxSetCurrent(context), 0);
    assert_eq!(exec::cuGraphExecDestroy(kept), 0);
    assert_eq!(free(), before, "it took none");
}

#[test]
fn launches_of_two_executables_are_not_ordered_and_that_is_told() {
    let _alone = crate::exclusive();
    start();
    let timed = function(load(), c"timed");
    let graph = new_graph();
    kernel(graph, timed, 100, &[]);
    let (plain, twin) = (instantiate(graph), instantiate(clone(graph)));
    let (a, b) = (new_stream(), new_stream());
    assert_eq!(exec::cuGraphLaunch(plain, a), 0);
    assert_eq!(exec::cuGraphLaunch(plain, b), 0);
    assert_eq!(graphs::mistakes().overlapping_launches, 0, "one after the other");
    assert_eq!(stream::cuStreamSynchronize(b), 0);
    assert_eq!(control::now_ns(), 200);
    assert_eq!(exec::cuGraphLaunch(twin, a), 0);
    assert_eq!(exec::cuGraphLaunch(plain, b), 0);
    assert_eq!(stream::cuStreamSynchronize(b), 0);
    assert_eq!(control::now_ns(), 300, "side by side");
    assert_eq!(graphs::mistakes().overlapping_launches, 1);
    // With a wait all is well, and another graph works on other memory.
    let done = new_event();
    assert_eq!(exec::cuGraphLaunch(twin, a), 0);
    assert_eq!(event::cuEventRecord(done, a), 0);
    assert_eq!(stream::cuStreamWaitEvent(b, done, 0), 0);
    assert_eq!(exec::cuGraphLaunch(plain, b), 0);
    let other = new_graph();
    kernel(other, timed, 100, &[]);
    assert_eq!(exec::cuGraphLaunch(instantiate(other), new_stream()), 0);
    assert_eq!(graphs::mistakes().overlapping_launches, 1);
}

#[test]
fn marks_are_read_once_they_are_there_and_before_they_are_made_anew() {
    let _alone = crate::exclusive();
    start();
    let timed = function(load(), c"timed");
    let (first, last) = (new_event(), new_event());
    let graph = new_graph();
    let entry = mark(graph, first, &[]);
    let k = kernel(graph, timed, 100, &[entry]);
    mark(graph, last, &[k]);
    let (exec, stream) = (instantiate(graph), new_stream());
    assert_eq!(event::cuEventQuery(last), 0, "never recorded");
    assert_eq!(exec::cuGraphLaunch(exec, stream), 0);
    assert_eq!(event::cuEventQuery(last), 600, "as soon as it is queued");
    assert_eq!(graphs::mistakes().reads_in_flight, 0, "asking is right");
    assert_eq!(elapsed(first, last).0, 600);
    assert_eq!(graphs::mistakes().reads_in_flight, 1);
    assert_eq!(stream::cuStreamSynchronize(stream), 0);
    assert_eq!(elapsed(first, last).0, 0);
    run(exec, stream);
    assert_eq!(graphs::mistakes().unread_marks, 0);
    run(exec, stream);
    assert_eq!(graphs::mistakes().unread_marks, 2, "both events");
    // An ordinary record in between is no mark.
    assert_eq!(event::cuEventRecord(first, stream), 0);
    assert_eq!(event::cuEventRecord(last, stream), 0);
    run(exec, stream);
    let expected = graphs::Mistakes {
        overlapping_launches: 0,
        reads_in_flight: 1,
        unread_marks: 2,
        stale_launches: 0,
        shared_uses: 0,
    };
    assert_eq!(graphs::mistakes(), expected);
}

#[test]
fn a_launch_with_parameters_that_were_replaced_is_told() {
    let _alone = crate::exclusive();
    start();
    let timed = function(load(), c"timed");
    let graph = new_graph();
    let node = kernel(graph, timed, 100, &[]);
    let copy = clone(graph);
    let (plain, twin) = (instantiate(graph), instantiate(copy));
    let stream = new_stream();
    let stale = || graphs::mistakes().stale_launches;
    graphs::count_kernels();
    run(plain, stream);
    run(twin, stream);
    assert_eq!(stale(), 0);
    let set = |exec, node| {
        with_params(timed, 200, |params| {
            // SAFETY: one argument.
            unsafe { exec_update::cuGraphExecKernelNodeSetParams(exec, node, Some(params)) }
        })
    };
    assert_eq!(set(plain, node), 0);
    run(plain, stream);
    assert_eq!(stale(), 0);
    run(twin, stream);
    assert_eq!(stale(), 1);
    run(instantiate(clone(graph)), stream);
    assert_eq!(stale(), 2, "made later, of the graph as it was");
    let mut of_twin = 0;
    let found = told(0, |out| graph::cuGraphNodeFindInClone(Some(out), node, copy));
    assert_eq!(found.0, 0);
    of_twin += found.1;
    assert_eq!(set(twin, node), 1, "a node of another graph");
    assert_eq!(set(twin, of_twin), 0);
    run(twin, stream);
    assert_eq!(stale(), 2);
    let runs = graphs::kernel_runs();
    let counts: Vec<_> =
        runs.iter().map(|run| (run.function, run.arguments[0], run.count)).collect();
    assert_eq!(counts, [(timed, 100, 4), (timed, 200, 2)]);
}

#[test]
fn two_threads_on_one_graph_are_told() {
    let _alone = crate::exclusive();
    start();
    let graph = new_graph();
    let shared = || graphs::mistakes().shared_uses;
    assert_eq!(control::hang("cuGraphGetNodes"), Ok(()));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut count = 0;
            // SAFETY: no room is asked for.
            unsafe { graph::cuGraphGetNodes(graph, std::ptr::null_mut(), Some(&mut count)) }
        });
        crate::app::wait_until_hung("cuGraphGetNodes", 1);
        mark(new_graph(), new_event(), &[]);
        assert_eq!(shared(), 0, "another graph");
        mark(graph, new_event(), &[]);
        assert_eq!(shared(), 1);
        assert_eq!(control::release("cuGraphGetNodes"), Ok(()));
    });
    mark(graph, new_event(), &[]);
    assert_eq!(shared(), 1, "one after the other");
    control::reset();
    assert_eq!(shared(), 0);
}

#[test]
fn a_launch_that_fails_does_nothing() {
    let _alone = crate::exclusive();
    start();
    let timed = function(load(), c"timed");
    let (kept, lost) = (new_event(), new_event());
    let graph = new_graph();
    let first = mark(graph, kept, &[]);
    let k = kernel(graph, timed, 100, &[first]);
    mark(graph, lost, &[k]);
    let (exec, stream) = (instantiate(graph), new_stream());
    assert_eq!(event::cuEventDestroy_v2(lost), 0);
    assert_eq!(exec::cuGraphLaunch(exec, stream), 400);
    assert_eq!(control::stale_handle_uses(), 1);
    assert_eq!(elapsed(kept, kept).0, 400, "not recorded");
    assert_eq!(stream::cuStreamQuery(stream), 0, "nothing is queued");
    assert_eq!(launch(timed, stream, 5), 0);
    assert_eq!(stream::cuStreamSynchronize(stream), 0);
    assert_eq!(control::now_ns(), 5);
}
