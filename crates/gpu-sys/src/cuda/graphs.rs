// SPDX-License-Identifier: MIT OR Apache-2.0
//! The driver functions that read, copy and instantiate CUDA graphs. Functions are
//! found by their suffixed names: headers of CUDA 13 give the plain ones other
//! signatures.

use super::api::{CUevent, CUfunction, CUstream, api};
use super::status::Status;
use std::ffi::{CStr, c_char, c_uint, c_void};

/// A graph.
pub type CUgraph = *mut c_void;
/// A node of a graph.
pub type CUgraphNode = *mut c_void;
/// An executable graph.
pub type CUgraphExec = *mut c_void;

/// What an edge says beside its two nodes; all zero is full completion before
/// start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct CUgraphEdgeData {
    /// Which of its ends the first node completes.
    pub from_port: u8,
    /// Which of its beginnings the second one has.
    pub to_port: u8,
    /// 1: the second kernel may start before the first is done.
    pub kind: u8,
    /// Zeros.
    pub reserved: [u8; 5],
}

/// Parameters of a kernel node, as CUDA 12 has them. Earlier drivers write all but
/// the last two fields.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CUkernelNodeParams {
    /// The function; NULL where `kernel` names it.
    pub function: CUfunction,
    /// Blocks.
    pub grid: [c_uint; 3],
    /// Threads of a block.
    pub block: [c_uint; 3],
    /// Dynamic shared memory.
    pub shared_bytes: c_uint,
    /// The arguments, which are the node's.
    pub parameters: *mut *mut c_void,
    /// The same in another form.
    pub extra: *mut *mut c_void,
    /// A library's kernel.
    pub kernel: *mut c_void,
    /// The context of a library's kernel.
    pub context: *mut c_void,
}

impl Default for CUkernelNodeParams {
    fn default() -> Self {
        let none = std::ptr::null_mut();
        Self {
            function: none,
            grid: [0; 3],
            block: [0; 3],
            shared_bytes: 0,
            parameters: none.cast(),
            extra: none.cast(),
            kernel: none,
            context: none,
        }
    }
}

api! {
    /// Entry points for graphs, of a driver that has them. Every driver that is
    /// supported has the required ones. Graph objects are not thread-safe: all calls
    /// about one are made one after the other.
    GraphApi;
    required {
        /// `cuGraphGetNodes(graph, nodes, count)`; how many, where `nodes` is NULL.
        get_nodes = c"cuGraphGetNodes": fn(CUgraph, *mut CUgraphNode, *mut usize);
        /// `cuGraphGetEdges(graph, from, to, count)`; 402 where one has data.
        get_edges = c"cuGraphGetEdges": fn(CUgraph, *mut CUgraphNode, *mut CUgraphNode, *mut usize);
        /// `cuGraphNodeGetType(node, type)`.
        node_get_type = c"cuGraphNodeGetType": fn(CUgraphNode, *mut c_uint);
        /// `cuGraphKernelNodeGetParams(node, params)`, without the last two fields.
        kernel_node_get_params = c"cuGraphKernelNodeGetParams": fn(CUgraphNode, *mut CUkernelNodeParams);
        /// `cuGraphClone(clone, graph)`.
        clone_graph = c"cuGraphClone": fn(*mut CUgraph, CUgraph);
        /// `cuGraphNodeFindInClone(node, original, clone)`.
        find_in_clone = c"cuGraphNodeFindInClone": fn(*mut CUgraphNode, CUgraphNode, CUgraph);
        /// `cuGraphAddEventRecordNode(node, graph, dependencies, count, event)`.
        add_event_record_node = c"cuGraphAddEventRecordNode": fn(*mut CUgraphNode, CUgraph, *const CUgraphNode, usize, CUevent);
        /// `cuGraphAddDependencies(graph, from, to, count)`: edges without data.
        add_dependencies = c"cuGraphAddDependencies": fn(CUgraph, *const CUgraphNode, *const CUgraphNode, usize);
        /// `cuGraphDestroyNode(node)`.
        destroy_node = c"cuGraphDestroyNode": fn(CUgraphNode);
        /// `cuGraphDestroy(graph)`.
        destroy = c"cuGraphDestroy": fn(CUgraph);
        /// `cuGraphInstantiateWithFlags(exec, graph, flags)`.
        instantiate = c"cuGraphInstantiateWithFlags": fn(*mut CUgraphExec, CUgraph, u64);
        /// `cuGraphLaunch(exec, stream)`: the application's call, for those who cannot
        /// hand theirs over.
        launch = c"cuGraphLaunch": fn(CUgraphExec, CUstream);
        /// `cuGraphUpload(exec, stream)`.
        upload = c"cuGraphUpload": fn(CUgraphExec, CUstream);
        /// `cuGraphExecDestroy(exec)`.
        exec_destroy = c"cuGraphExecDestroy": fn(CUgraphExec);
        /// `cuStreamWaitEvent(stream, event, flags)`.
        stream_wait_event = c"cuStreamWaitEvent": fn(CUstream, CUevent, c_uint);
    }
    optional {
        /// `cuGraphGetEdges_v2(graph, from, to, data, count)`, since CUDA 12.3.
        get_edges_v2 = c"cuGraphGetEdges_v2": fn(CUgraph, *mut CUgraphNode, *mut CUgraphNode, *mut CUgraphEdgeData, *mut usize);
        /// `cuGraphKernelNodeGetParams_v2(node, params)`, since CUDA 12.0.
        kernel_node_get_params_v2 = c"cuGraphKernelNodeGetParams_v2": fn(CUgraphNode, *mut CUkernelNodeParams);
        /// `cuGraphExecGetFlags(exec, flags)`, since CUDA 12.0; without the upload
        /// flag.
        exec_get_flags = c"cuGraphExecGetFlags": fn(CUgraphExec, *mut u64);
        /// `cuKernelGetName(name, kernel)`, since CUDA 12.3.
        kernel_get_name = c"cuKernelGetName": fn(*mut *const c_char, *mut c_void);
    }
}
