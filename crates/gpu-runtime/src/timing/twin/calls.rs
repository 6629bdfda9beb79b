// SPDX-License-Identifier: MIT OR Apache-2.0
//! Driver calls about graphs, and what they are made in.
//!
//! Graph objects are not thread-safe, and making one is not safe beside a capture:
//! every call here is made on the thread that holds the twin, in the recorder's
//! context and in the relaxed capture mode, which the thread had not before and has
//! not after. None is made by a recorder that was stopped, in a forked child or at
//! exit.

use super::error::{NodeType, TwinError};
use crate::timing::events::CudaEvents;
use crate::timing::making::context_id;
use crate::timing::process::{Busy, unless_exiting};
use crate::timing::shared::Shared;
use metrale_gpu_sys::cuda::{
    CAPTURE_MODE_RELAXED, CUevent, CUgraph, CUgraphEdgeData, CUgraphExec, CUgraphNode,
    CUkernelNodeParams, CUstream, GraphApi, Status,
};
use std::ptr::null_mut;

/// `CU_GRAPH_NODE_TYPE_KERNEL`.
pub(super) const KERNEL: NodeType = NodeType(0);
/// `CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH`: no event nodes.
const DEVICE_LAUNCH: u64 = 4;

/// A thread's licence to make these calls, while it lives.
pub(super) struct Workplace<'a> {
    pub(super) ops: &'a CudaEvents,
    api: &'a GraphApi,
    outer_mode: u32,
    _busy: Busy,
}

/// Nodes of a graph and the edges between them.
pub(super) struct Read {
    pub(super) nodes: Vec<CUgraphNode>,
    pub(super) kinds: Vec<NodeType>,
    /// From and to, by place in `nodes`.
    pub(super) edges: Vec<(usize, usize, CUgraphEdgeData)>,
}

impl<'a> Workplace<'a> {
    /// For making something: not once the recorder was closed.
    pub(super) fn open(shared: &'a Shared) -> Result<Self, TwinError> {
        if shared.watch.is_silent() {
            return Err(TwinError::Silent);
        }
        Self::enter(shared)
    }

    /// For taking back what was made: also once the recorder was closed, while its
    /// context is the one that it was.
    pub(super) fn reopen(shared: &'a Shared) -> Option<Self> {
        if shared.watch.is_quarantined() {
            return None;
        }
        let workplace = Self::enter(shared).ok()?;
        let id = context_id(&shared.driver, shared.context);
        let is_same = !shared.watch.is_ended() || id == Ok(shared.context_id);
        is_same.then_some(workplace)
    }

    fn enter(shared: &'a Shared) -> Result<Self, TwinError> {
        let busy = shared.watch.busy().ok_or(TwinError::Silent)?;
        let missing = |symbol: &'static std::ffi::CStr| TwinError::Missing {
            symbol: symbol.to_str().unwrap_or("a function"),
        };
        let api = shared.driver.graphs().map_err(missing)?;
        let ops = shared.kernels.ops();
        let asked = |call, status| judge(ops, call, status);
        if let Err(status) = crate::timing::making::push(&shared.driver, shared.context) {
            return Err(asked("cuCtxPushCurrent", status));
        }
        match ops.exchange_mode(CAPTURE_MODE_RELAXED) {
            Ok(outer_mode) => Ok(Self { ops, api, outer_mode, _busy: busy }),
            Err(status) => {
                ops.pop_context();
                Err(asked("cuThreadExchangeStreamCaptureMode", status))
            }
        }
    }

    /// Makes a call, unless the recorder was stopped meanwhile.
    fn call(
        &self,
        name: &'static str,
        call: impl FnOnce(&GraphApi) -> Status,
    ) -> Result<(), TwinError> {
        if self.ops.watch.is_quarantined() {
            return Err(TwinError::Silent);
        }
        let status = unless_exiting(|| call(self.api));
        status.ok().map_err(|status| judge(self.ops, name, status))
    }

    /// Flags to instantiate a twin of an executable with; `stated` by the caller
    /// where the driver cannot be asked.
    pub(super) fn flags(&self, exec: u64, stated: Option<u64>) -> Result<u64, TwinError> {
        let flags = match self.api.exec_get_flags {
            Some(get_flags) => {
                let mut flags = 0;
                // SAFETY: a live executable, and a pointer to a live integer.
                let call = |_: &GraphApi| unsafe { get_flags(exec as CUgraphExec, &raw mut flags) };
                self.call("cuGraphExecGetFlags", call)?;
                flags
            }
            None => stated.ok_or(TwinError::UnknownFlags)?,
        };
        if flags & DEVICE_LAUNCH != 0 {
            return Err(TwinError::Flags { flags });
        }
        Ok(flags)
    }

    /// Reads nodes and edges of a live graph.
    pub(super) fn read(&self, graph: CUgraph, most: usize) -> Result<Read, TwinError> {
        let mut count = 0;
        self.call("cuGraphGetNodes", |api| {
            // SAFETY: a live graph, and a pointer to a live integer.
            unsafe { (api.get_nodes)(graph, null_mut(), &raw mut count) }
        })?;
        if count > most {
            let nodes = count;
            return Err(TwinError::TooLarge { nodes, most });
        }
        let mut nodes: Vec<CUgraphNode> = vec![null_mut(); count];
        if count > 0 {
            self.call("cuGraphGetNodes", |api| {
                // SAFETY: the same, and room for so many nodes.
                unsafe { (api.get_nodes)(graph, nodes.as_mut_ptr(), &raw mut count) }
            })?;
        }
        nodes.truncate(count);
        let mut kinds = Vec::with_capacity(count);
        for node in &nodes {
            let mut kind = 0;
            self.call("cuGraphNodeGetType", |api| {
                // SAFETY: a node of a live graph, and a pointer to a live integer.
                unsafe { (api.node_get_type)(*node, &raw mut kind) }
            })?;
            kinds.push(NodeType(kind));
        }
        let edges = self.edges(graph, &nodes)?;
        Ok(Read { nodes, kinds, edges })
    }

    fn edges(
        &self,
        graph: CUgraph,
        nodes: &[CUgraphNode],
    ) -> Result<Vec<(usize, usize, CUgraphEdgeData)>, TwinError> {
        let mut count = 0;
        let name = match self.api.get_edges_v2 {
            Some(_) => "cuGraphGetEdges_v2",
            None => "cuGraphGetEdges",
        };
        let none = null_mut;
        self.call(name, |api| match api.get_edges_v2 {
            // SAFETY: a live graph, and a pointer to a live integer.
            Some(get) => unsafe { get(graph, none(), none(), null_mut(), &raw mut count) },
            // SAFETY: the same.
            None => unsafe { (api.get_edges)(graph, none(), none(), &raw mut count) },
        })?;
        if count == 0 {
            return Ok(Vec::new());
        }
        let (mut from, mut to) = (vec![null_mut(); count], vec![null_mut(); count]);
        let mut data = vec![CUgraphEdgeData::default(); count];
        let (first, second) = (from.as_mut_ptr(), to.as_mut_ptr());
        let told = self.call(name, |api| match api.get_edges_v2 {
            // SAFETY: the same, and room for so many in each list.
            Some(get) => unsafe { get(graph, first, second, data.as_mut_ptr(), &raw mut count) },
            // SAFETY: the same.
            None => unsafe { (api.get_edges)(graph, first, second, &raw mut count) },
        });
        told.map_err(|error| match error {
            TwinError::Driver { status: Status::ERROR_LOSSY_QUERY, .. } => TwinError::EdgeData,
            error => error,
        })?;
        let mut places: Vec<_> = nodes.iter().copied().zip(0..).collect();
        places.sort_unstable();
        let place = |node: &CUgraphNode| {
            let at = places.binary_search_by_key(node, |(known, _)| *known).ok()?;
            places.get(at).map(|(_, place)| *place)
        };
        let edges = from.iter().zip(&to).zip(data).take(count);
        let placed = edges.map(|((from, to), data)| Some((place(from)?, place(to)?, data)));
        placed.collect::<Option<_>>().ok_or(TwinError::NoShape)
    }

    /// The function of a kernel node, or a library's kernel: its handle, and its
    /// name where it is the second.
    pub(super) fn kernel_of(&self, node: CUgraphNode) -> Result<CUkernelNodeParams, TwinError> {
        let mut params = CUkernelNodeParams::default();
        let name = match self.api.kernel_node_get_params_v2 {
            Some(_) => "cuGraphKernelNodeGetParams_v2",
            None => "cuGraphKernelNodeGetParams",
        };
        self.call(name, |api| {
            let get = api.kernel_node_get_params_v2;
            let get = get.unwrap_or(api.kernel_node_get_params);
            // SAFETY: a kernel node of a live graph, and room for what it has.
            unsafe { get(node, &raw mut params) }
        })?;
        Ok(params)
    }

    /// The name of a library's kernel.
    pub(super) fn name_of(&self, kernel: u64) -> Option<Vec<u8>> {
        let get_name = self.api.kernel_get_name?;
        let mut name = std::ptr::null();
        let asked = self.call("cuKernelGetName", |_| {
            // SAFETY: a kernel of a live node, and a pointer to a live pointer.
            unsafe { get_name(&raw mut name, kernel as *mut _) }
        });
        if asked.is_err() || name.is_null() {
            return None;
        }
        // SAFETY: the driver gave a C string that is good while the kernel is loaded.
        let name = unsafe { std::ffi::CStr::from_ptr(name) };
        Some(name.to_bytes().to_vec())
    }

    /// Copies a live graph.
    pub(super) fn copy(&self, graph: CUgraph) -> Result<CUgraph, TwinError> {
        let mut copy = null_mut();
        self.call("cuGraphClone", |api| {
            // SAFETY: a live graph that no other thread uses, and a pointer to a
            // live handle.
            unsafe { (api.clone_graph)(&raw mut copy, graph) }
        })?;
        Ok(copy)
    }

    /// A clone's node for each of the original's.
    pub(super) fn find(&self, node: CUgraphNode, copy: CUgraph) -> Result<CUgraphNode, TwinError> {
        let mut found = null_mut();
        self.call("cuGraphNodeFindInClone", |api| {
            // SAFETY: a node of the live original, its live clone, and a pointer to
            // a live handle.
            unsafe { (api.find_in_clone)(&raw mut found, node, copy) }
        })?;
        Ok(found)
    }

    /// Adds a node that records `event`, between others.
    pub(super) fn add_mark(
        &self,
        copy: CUgraph,
        event: usize,
        (after, before): (&[CUgraphNode], &[CUgraphNode]),
    ) -> Result<CUgraphNode, TwinError> {
        let mut mark = null_mut();
        self.call("cuGraphAddEventRecordNode", |api| {
            // SAFETY: our clone, its own nodes, and an event of the pool.
            unsafe {
                (api.add_event_record_node)(
                    &raw mut mark,
                    copy,
                    after.as_ptr(),
                    after.len(),
                    event as CUevent,
                )
            }
        })?;
        let from = vec![mark; before.len()];
        if !before.is_empty() {
            self.call("cuGraphAddDependencies", |api| {
                // SAFETY: our clone and its own nodes, as many of each.
                unsafe {
                    (api.add_dependencies)(copy, from.as_ptr(), before.as_ptr(), before.len())
                }
            })?;
        }
        Ok(mark)
    }

    pub(super) fn remove(&self, mark: CUgraphNode) -> Result<(), TwinError> {
        // SAFETY: a node that was added to our clone, and is taken out once.
        self.call("cuGraphDestroyNode", |api| unsafe { (api.destroy_node)(mark) })
    }

    pub(super) fn instantiate(&self, copy: CUgraph, flags: u64) -> Result<CUgraphExec, TwinError> {
        let mut exec = null_mut();
        self.call("cuGraphInstantiateWithFlags", |api| {
            // SAFETY: our clone, and a pointer to a live handle.
            unsafe { (api.instantiate)(&raw mut exec, copy, flags) }
        })?;
        Ok(exec)
    }

    /// Puts an executable on the device, behind which `event` is recorded.
    pub(super) fn upload(
        &self,
        exec: CUgraphExec,
        stream: CUstream,
        event: usize,
    ) -> Result<(), TwinError> {
        self.call("cuGraphUpload", |api| {
            // SAFETY: our executable and our stream.
            unsafe { (api.upload)(exec, stream) }
        })?;
        let record = self.ops.api().event_record;
        self.call("cuEventRecord", |_| {
            // SAFETY: an event of the pool and our stream, which never captures.
            unsafe { record(event as CUevent, stream) }
        })
    }

    /// Whether it is gone.
    pub(super) fn destroy_exec(&self, exec: CUgraphExec) -> bool {
        let gone = self.call("cuGraphExecDestroy", |api| {
            // SAFETY: an executable of ours, destroyed once. One that runs is
            // destroyed when it is done.
            unsafe { (api.exec_destroy)(exec) }
        });
        gone.is_ok()
    }

    pub(super) fn destroy_graph(&self, copy: CUgraph) -> bool {
        let gone = self.call("cuGraphDestroy", |api| {
            // SAFETY: a clone of ours, destroyed once.
            unsafe { (api.destroy)(copy) }
        });
        gone.is_ok()
    }
}

impl Drop for Workplace<'_> {
    fn drop(&mut self) {
        self.ops.restore_mode(self.outer_mode);
        self.ops.pop_context();
    }
}

/// The error of a call, which stops the recorder where the status must: but not
/// where a graph or a driver merely cannot do it.
fn judge(ops: &CudaEvents, call: &'static str, status: Status) -> TwinError {
    let is_graphs = matches!(
        status,
        Status::ERROR_NOT_SUPPORTED
            | Status::ERROR_LOSSY_QUERY
            | Status::ERROR_ILLEGAL_STATE
            | Status::ERROR_NOT_FOUND
            | Status::ERROR_GRAPH_EXEC_UPDATE_FAILURE
    );
    if !is_graphs {
        ops.note(status);
    }
    TwinError::Driver { call, status }
}
