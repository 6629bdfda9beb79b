// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is refused of graphs, and how that is told.

use std::mem::MaybeUninit;
use std::ptr::{null, null_mut};

use super::graphs::{instantiate, kernel, mark, new_graph};
use super::{function, load, made, new_event, new_stream, start, told};
use crate::abi::exec::InstantiateParams;
use crate::abi::{capture, exec, exec_update, graph, graph_edges, graph_nodes, memory};

#[test]
fn an_instantiation_that_fails_says_why_and_where() {
    let _alone = crate::exclusive();
    start();
    let timed = function(load(), c"timed");
    let graph = new_graph();
    let a = kernel(graph, timed, 1, &[]);
    let b = mark(graph, new_event(), &[a]);
    let attempt = |flags| {
        let mut params = InstantiateParams { flags, upload_stream: 0, error_node: 9, result: 9 };
        let make =
            |out: &mut _| exec::cuGraphInstantiateWithParams(Some(out), graph, Some(&mut params));
        let (status, _) = told(0, make);
        (status, params.result, params.error_node)
    };
    assert_eq!(attempt(0), (0, 0, 0));
    assert_eq!(attempt(2), (0, 0, 0), "uploaded");
    assert_eq!(attempt(4), (1, 3, b), "a mark cannot be launched from the device");
    assert_eq!(attempt(1 | 4), (1, 1, 0));
    // SAFETY: one edge.
    let edge = unsafe { graph_edges::cuGraphAddDependencies(graph, &raw const b, &raw const a, 1) };
    assert_eq!(edge, 0);
    assert_eq!(attempt(0), (1, 2, a), "a cycle");
    let mut node = MaybeUninit::new(9);
    let (status, _) = told(0, |out| {
        exec::cuGraphInstantiate_v2(Some(out), graph, Some(&mut node), null_mut(), 0)
    });
    // SAFETY: initialised above.
    assert_eq!((status, unsafe { node.assume_init() }), (1, a));
}

#[test]
fn a_graph_that_allocates_is_neither_cloned_nor_cut_and_has_one_executable() {
    let _alone = crate::exclusive();
    start();
    let stream = new_stream();
    assert_eq!(capture::cuStreamBeginCapture_v2(stream, 1), 0);
    let memory: u64 = made(|out| memory::cuMemAllocAsync(Some(out), 8, stream));
    assert_eq!(memory::cuMemFreeAsync(memory, stream), 0);
    let graph = made(|out| capture::cuStreamEndCapture(stream, Some(out)));
    assert_eq!(told(0, |out| graph::cuGraphClone(Some(out), graph)).0, 1);
    let mut nodes = [0; 2];
    let mut count = 2;
    // SAFETY: room for two.
    let status = unsafe { graph::cuGraphGetNodes(graph, nodes.as_mut_ptr(), Some(&mut count)) };
    assert_eq!((status, count), (0, 2));
    let kind = |node| told(99, |out| graph_nodes::cuGraphNodeGetType(node, Some(out)));
    assert_eq!(nodes.map(kind), [(0, 10), (0, 11)]);
    assert_eq!(graph_nodes::cuGraphDestroyNode(nodes[1]), 1);
    let [from, to] = nodes;
    // SAFETY: one edge.
    let cut =
        unsafe { graph_edges::cuGraphRemoveDependencies(graph, &raw const from, &raw const to, 1) };
    assert_eq!(cut, 1);
    let outer = new_graph();
    // SAFETY: no dependencies.
    let (child, _) = told(0, |out| unsafe {
        graph_nodes::cuGraphAddChildGraphNode(Some(out), outer, null(), 0, graph)
    });
    assert_eq!(child, 1);
    let only = instantiate(graph);
    let again = || told(0, |out| exec::cuGraphInstantiateWithFlags(Some(out), graph, 0)).0;
    assert_eq!(again(), 1);
    assert_eq!(exec::cuGraphExecDestroy(only), 0);
    assert_eq!(again(), 0);
}

#[test]
fn whole_graphs_are_unsafe_beside_a_capture_and_nodes_are_not() {
    let _alone = crate::exclusive();
    start();
    let (stream, graph) = (new_stream(), new_graph());
    let exec = instantiate(graph);
    let calls: [(&str, &dyn Fn() -> u32); 6] = [
        ("clone", &|| told(0, |out| graph::cuGraphClone(Some(out), graph)).0),
        ("instantiate", &|| {
            told(0, |out| exec::cuGraphInstantiateWithFlags(Some(out), graph, 0)).0
        }),
        ("upload", &|| exec::cuGraphUpload(exec, new_stream())),
        ("update", &|| exec_update::cuGraphExecUpdate_v2(exec, graph, None)),
        ("destroy the executable", &|| exec::cuGraphExecDestroy(exec)),
        ("destroy the graph", &|| graph::cuGraphDestroy(graph)),
    ];
    for mode in [0, 1] {
        for (what, call) in calls {
            assert_eq!(capture::cuStreamBeginCapture_v2(stream, mode), 0);
            assert_eq!(call(), 900, "{what}");
            assert_eq!(told(1, |out| capture::cuStreamEndCapture(stream, Some(out))).0, 901);
        }
    }
    assert_eq!(capture::cuStreamBeginCapture_v2(stream, 0), 0);
    mark(graph, new_event(), &[]);
    let mut relaxed = 2;
    assert_eq!(capture::cuThreadExchangeStreamCaptureMode(Some(&mut relaxed)), 0);
    for (what, call) in calls {
        // The executable is not of the graph's new shape.
        assert_eq!(call(), if what == "update" { 910 } else { 0 }, "{what}");
    }
    assert_eq!(told(1, |out| capture::cuStreamEndCapture(stream, Some(out))).0, 0);
}
