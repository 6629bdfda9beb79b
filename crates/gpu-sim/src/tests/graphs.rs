// SPDX-License-Identifier: MIT OR Apache-2.0
//! Graphs built by hand in detail: what a script cannot say.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{function, load, made, new_event, new_stream, start, told};
use crate::abi::graph_nodes::{KernelParams, KernelParamsV2};
use crate::abi::{exec, exec_update, graph, graph_edges, graph_nodes, stream, user_object};
use crate::control;
use crate::graph::EdgeData;

pub(super) fn new_graph() -> u64 {
    made(|out| graph::cuGraphCreate(Some(out), 0))
}

pub(super) fn clone(original: u64) -> u64 {
    made(|out| graph::cuGraphClone(Some(out), original))
}

pub(super) fn instantiate(graph: u64) -> u64 {
    made(|out| exec::cuGraphInstantiateWithFlags(Some(out), graph, 0))
}

pub(super) fn mark(graph: u64, event: u64, after: &[u64]) -> u64 {
    let (deps, count) = (after.as_ptr(), after.len());
    // SAFETY: so many dependencies.
    made(|out| unsafe {
        graph_nodes::cuGraphAddEventRecordNode(Some(out), graph, deps, count, event)
    })
}

/// Gives a kernel whose one argument is that number to `call`.
pub(super) fn with_params<T>(
    function: u64,
    mut argument: u64,
    call: impl FnOnce(&KernelParams) -> T,
) -> T {
    let mut arguments = [(&raw mut argument).cast::<c_void>()];
    call(&KernelParams {
        function,
        grid: [3, 1, 1],
        block: [32, 1, 1],
        shared_bytes: 64,
        parameters: arguments.as_mut_ptr(),
        extra: null_mut(),
    })
}

pub(super) fn kernel(graph: u64, function: u64, argument: u64, after: &[u64]) -> u64 {
    let (deps, count) = (after.as_ptr(), after.len());
    with_params(function, argument, |params| {
        // SAFETY: so many dependencies, and one argument.
        made(|out| unsafe {
            graph_nodes::cuGraphAddKernelNode(Some(out), graph, deps, count, Some(params))
        })
    })
}

#[test]
fn a_kernel_nodes_parameters_are_read_in_both_forms_and_changed() {
    let _alone = crate::exclusive();
    start();
    let timed = function(load(), c"timed");
    let graph = new_graph();
    let node = kernel(graph, timed, 70, &[]);
    let argument = |params: &KernelParams| {
        // SAFETY: the kernel has one argument of eight bytes, which the node lends.
        let pointer = unsafe { params.parameters.read() };
        // SAFETY: as above.
        unsafe { pointer.cast::<u64>().read() }
    };
    let read = || {
        let mut out = MaybeUninit::uninit();
        let status = graph_nodes::cuGraphKernelNodeGetParams_v2(node, Some(&mut out));
        assert_eq!(status, 0);
        // SAFETY: the call succeeded.
        let second: KernelParamsV2 = unsafe { out.assume_init() };
        let mut out = MaybeUninit::uninit();
        assert_eq!(graph_nodes::cuGraphKernelNodeGetParams(node, Some(&mut out)), 0);
        // SAFETY: the call succeeded.
        let first: KernelParams = unsafe { out.assume_init() };
        assert_eq!((second.kernel, second.context), (0, 0));
        assert_eq!(first.parameters, second.first.parameters);
        first
    };
    let first = read();
    assert_eq!((first.function, first.grid, first.shared_bytes), (timed, [3, 1, 1], 64));
    assert_eq!((argument(&first), first.extra), (70, null_mut()));
    let before = instantiate(graph);
    let status = with_params(timed, 90, |params| {
        // SAFETY: one argument.
        unsafe { graph_nodes::cuGraphKernelNodeSetParams(node, Some(params)) }
    });
    assert_eq!((status, argument(&read())), (0, 90));
    let stream = new_stream();
    for (exec, end) in [(before, 70), (instantiate(graph), 160)] {
        assert_eq!(exec::cuGraphLaunch(exec, stream), 0);
        assert_eq!(crate::abi::stream::cuStreamSynchronize(stream), 0);
        assert_eq!(control::now_ns(), end);
    }
    let event = mark(graph, new_event(), &[]);
    let mut out = MaybeUninit::uninit();
    assert_eq!(graph_nodes::cuGraphKernelNodeGetParams(event, Some(&mut out)), 1);
    assert_eq!(control::stale_handle_uses(), 0);
}

#[test]
fn edges_are_told_with_their_ends_and_data() {
    let _alone = crate::exclusive();
    start();
    let timed = function(load(), c"timed");
    let graph = new_graph();
    let (a, b) = (kernel(graph, timed, 1, &[]), kernel(graph, timed, 1, &[]));
    let data = EdgeData { from_port: 1, kind: 1, ..EdgeData::default() };
    let add = |data: &EdgeData| {
        // SAFETY: one edge.
        unsafe {
            graph_edges::cuGraphAddDependencies_v2(graph, &raw const a, &raw const b, data, 1)
        }
    };
    for wrong in [
        EdgeData { to_port: 1, ..data },
        EdgeData { kind: 2, ..data },
        EdgeData { from_port: 3, ..data },
        EdgeData { reserved: [0, 0, 0, 0, 1], ..data },
    ] {
        assert_eq!(add(&wrong), 1, "{wrong:?}");
    }
    assert_eq!(add(&data), 0);
    let (mut from, mut to) = ([9; 3], [9; 3]);
    let (mut found, mut count) = ([EdgeData::default(); 3], 3);
    // SAFETY: room for three.
    let status = unsafe {
        graph_edges::cuGraphGetEdges_v2(
            graph,
            from.as_mut_ptr(),
            to.as_mut_ptr(),
            found.as_mut_ptr(),
            Some(&mut count),
        )
    };
    assert_eq!((status, count), (0, 1));
    assert_eq!((from, to, found[0]), ([a, 0, 0], [b, 0, 0], data));
    let mut nodes = [9; 2];
    let mut count = 2;
    // SAFETY: room for two.
    let status = unsafe {
        graph_edges::cuGraphNodeGetDependencies_v2(
            b,
            nodes.as_mut_ptr(),
            found.as_mut_ptr(),
            Some(&mut count),
        )
    };
    assert_eq!((status, count, nodes), (0, 1, [a, 0]));
    // SAFETY: room for two.
    let lossy = unsafe {
        graph_edges::cuGraphNodeGetDependentNodes(a, nodes.as_mut_ptr(), Some(&mut count))
    };
    assert_eq!(lossy, 402);
    // SAFETY: no room is asked for.
    let counted =
        unsafe { graph_edges::cuGraphNodeGetDependentNodes(a, null_mut(), Some(&mut count)) };
    assert_eq!((counted, count), (0, 1), "a number loses nothing");
    // Two edges at once, of which the second is there: neither is added.
    let c = kernel(graph, timed, 1, &[]);
    let (from, to) = ([b, a], [c, b]);
    // SAFETY: two edges.
    let status =
        unsafe { graph_edges::cuGraphAddDependencies(graph, from.as_ptr(), to.as_ptr(), 2) };
    assert_eq!(status, 1);
    // SAFETY: no room is asked for.
    let counted =
        unsafe { graph_edges::cuGraphGetEdges(graph, null_mut(), null_mut(), Some(&mut count)) };
    assert_eq!((counted, count), (0, 1));
}

#[test]
fn a_child_nodes_graph_is_its_own_and_is_updated_within_the_executable() {
    let _alone = crate::exclusive();
    start();
    let timed = function(load(), c"timed");
    let inner = new_graph();
    let k = kernel(inner, timed, 10, &[]);
    let outer = new_graph();
    let before = kernel(outer, timed, 1, &[]);
    // SAFETY: one dependency.
    let child = made(|out| unsafe {
        graph_nodes::cuGraphAddChildGraphNode(Some(out), outer, &raw const before, 1, inner)
    });
    kernel(outer, timed, 2, &[child]);
    let owned = made(|out| graph_nodes::cuGraphChildGraphNodeGetGraph(child, Some(out)));
    assert_ne!(owned, inner);
    assert_eq!(graph::cuGraphDestroy(owned), 1, "it is the node's");
    let copy = made(|out| graph::cuGraphNodeFindInClone(Some(out), k, owned));
    let exec = instantiate(outer);
    let stream = new_stream();
    let mut now = 0;
    let mut run = |exec: u64, ns: u64, what: &str| {
        assert_eq!(exec::cuGraphLaunch(exec, stream), 0);
        assert_eq!(crate::abi::stream::cuStreamSynchronize(stream), 0);
        now += ns;
        assert_eq!(control::now_ns(), now, "{what}");
    };
    run(exec, 13, "one after another");
    let set = |argument| {
        with_params(timed, argument, |params| {
            // SAFETY: one argument.
            unsafe { exec_update::cuGraphExecKernelNodeSetParams(exec, copy, Some(params)) }
        })
    };
    assert_eq!(set(20), 0);
    run(exec, 23, "a node of the child's");
    let other = new_graph();
    kernel(other, timed, 30, &[]);
    let set = |node, graph| exec_update::cuGraphExecChildGraphNodeSetParams(exec, node, graph);
    assert_eq!(set(child, other), 0);
    run(exec, 33, "the child as a whole");
    kernel(other, timed, 1, &[]);
    assert_eq!(set(child, other), 1, "another shape");
    assert_eq!(set(before, other), 1, "no child");
    assert_eq!(exec_update::cuGraphNodeSetEnabled(exec, copy, 0), 0);
    run(exec, 3, "off");
    let enabled = told(9, |out| exec_update::cuGraphNodeGetEnabled(exec, copy, Some(out)));
    assert_eq!(enabled, (0, 0));
    run(instantiate(clone(outer)), 13, "a clone has copies of its children");
    assert_eq!(graph::cuGraphDestroy(outer), 0);
    assert_eq!(told(0, |out| graph_nodes::cuGraphNodeGetType(copy, Some(out))).0, 400);
}

static DESTROYED: AtomicU64 = AtomicU64::new(0);

extern "C" fn destroy(data: *mut c_void) {
    // The lock is free, but no driver call is allowed.
    assert_eq!(stream::cuStreamQuery(0), 800);
    DESTROYED.fetch_add(data.addr() as u64, Ordering::Relaxed);
}

#[test]
fn a_user_object_lives_as_long_as_its_last_holder() {
    let _alone = crate::exclusive();
    start();
    DESTROYED.store(0, Ordering::Relaxed);
    let gone = || DESTROYED.load(Ordering::Relaxed);
    let object = made(|out| {
        let data = std::ptr::without_provenance_mut(7);
        user_object::cuUserObjectCreate(Some(out), data, Some(destroy), 1, 1)
    });
    let graph = new_graph();
    assert_eq!(user_object::cuGraphRetainUserObject(graph, object, 0, 0), 1);
    assert_eq!(user_object::cuGraphRetainUserObject(graph, object, 1, 2), 1);
    assert_eq!(user_object::cuGraphRetainUserObject(graph, object, 1, 1), 0, "moved");
    let copy = clone(graph);
    let exec = instantiate(copy);
    assert_eq!(user_object::cuGraphReleaseUserObject(graph, object, 2), 1);
    assert_eq!(graph::cuGraphDestroy(graph), 0);
    assert_eq!(graph::cuGraphDestroy(copy), 0);
    assert_eq!(user_object::cuUserObjectRetain(object, 2), 0);
    assert_eq!(exec::cuGraphExecDestroy(exec), 0);
    assert_eq!(user_object::cuUserObjectRelease(object, 1), 0);
    assert_eq!(gone(), 0, "one is left");
    assert_eq!(user_object::cuUserObjectRelease(object, 1), 0);
    assert_eq!(gone(), 7, "once");
    assert_eq!(user_object::cuUserObjectRelease(object, 1), 400, "allowed again, and dead");
}
