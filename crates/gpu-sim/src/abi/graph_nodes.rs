// SPDX-License-Identifier: MIT OR Apache-2.0
//! A graph's nodes of each kind: making, reading and changing them. Executables
//! made before do not change.
#![allow(non_snake_case, reason = "the driver's own names")]

use std::ffi::{c_uint, c_void};

use metrale_gpu_sys::cuda::Status;

use super::graph::{given, graph, node, owns_memory, place_in};
use super::graph_edges::add_edge;
use super::launch::Launch;
use super::{Out, graph_call, put, some};
use crate::graph::{Edge, EdgeData, Kind, node_handle, node_of};
use crate::kernel::Kernel;
use crate::symbols::Symbol;
use crate::user_object::Callback;
use crate::world::{Outcome, World};

/// Where a new node goes.
struct Place<'a> {
    out: Out<'a, u64>,
    graph: u64,
    deps: *const u64,
    count: usize,
}

/// Adds a node.
///
/// # Safety
/// Dependencies are NULL or good for `count`.
unsafe fn add(
    symbol: Symbol,
    place: Place<'_>,
    kind: impl FnOnce(&mut World) -> Result<Kind, Status>,
) -> u32 {
    let handle = place.graph;
    graph_call(symbol, handle, 0, |world, _| {
        some(&place.out)?;
        graph(world, handle)?;
        // SAFETY: this function's contract.
        let given = unsafe { given(place.deps, place.count) }?;
        let mut deps = Vec::with_capacity(given.len());
        for before in given {
            deps.push(place_in(world, handle, *before)?);
        }
        let kind = kind(world)?;
        let found = graph(world, handle)?;
        let made = found.add(kind, Vec::new());
        for from in deps {
            let data = EdgeData::default();
            if let Err(status) = add_edge(found, made, Edge { from, data }) {
                found.remove(made);
                return Err(status);
            }
        }
        put(place.out, node_handle(handle, made))
    })
}

macro_rules! adds {
    ($($(#[$meta:meta])* $name:ident($($arg:ident: $type:ty),*) |$world:ident| $kind:expr;)*) => {
        $(
            $(#[$meta])*
            ///
            /// # Safety
            /// Dependencies are NULL or good for `count`, parameters as the
            /// driver wants them.
            #[unsafe(no_mangle)]
            pub(crate) unsafe extern "C" fn $name(
                out: Out<'_, u64>,
                graph: u64,
                deps: *const u64,
                count: usize,
                $($arg: $type),*
            ) -> u32 {
                let place = Place { out, graph, deps, count };
                let kind = |$world: &mut World| -> Result<Kind, Status> { $kind };
                // SAFETY: this function's contract.
                unsafe { add(Symbol::$name, place, kind) }
            }
        )*
    };
}

adds! {
    /// A node that does nothing.
    cuGraphAddEmptyNode() |_world| Ok(Kind::Empty);
    /// Records an event at every launch.
    cuGraphAddEventRecordNode(event: u64) |world| {
        world.event_context(event).map(|_| Kind::RecordEvent(event))
    };
    /// Waits for an event at every launch.
    cuGraphAddEventWaitNode(event: u64) |world| {
        world.event_context(event).map(|_| Kind::WaitEvent(event))
    };
    /// Runs a copy of a graph, which belongs to the node: 1 for one that
    /// allocates or frees.
    cuGraphAddChildGraphNode(child: u64) |world| child_of(world, child);
    /// Runs a kernel.
    cuGraphAddKernelNode(kernel: Option<&KernelParams>) |world| {
        // SAFETY: the caller's parameters.
        unsafe { kernel_of(world, kernel.map(KernelParamsV2::from)) }.map(Kind::Kernel)
    };
    /// Runs a kernel.
    cuGraphAddKernelNode_v2(kernel: Option<&KernelParamsV2>) |world| {
        // SAFETY: the caller's parameters.
        unsafe { kernel_of(world, kernel.copied()) }.map(Kind::Kernel)
    };
    /// Calls a function of the host at every launch.
    cuGraphAddHostNode(host: Option<&HostParams>) |_world| {
        let host = host.ok_or(Status::ERROR_INVALID_VALUE)?;
        let function = host.function.ok_or(Status::ERROR_INVALID_VALUE)?;
        let data = host.data.expose_provenance();
        Ok(Kind::Host(Callback { function, data }))
    };
}

fn child_of(world: &mut World, child: u64) -> Result<Kind, Status> {
    graph(world, child)?;
    if owns_memory(world, child) {
        return Err(Status::ERROR_INVALID_VALUE);
    }
    let copy = world.clone_graph(child).ok_or(Status::ERROR_UNKNOWN)?;
    graph(world, copy)?.is_child = true;
    Ok(Kind::Child(copy))
}

/// `CUDA_HOST_NODE_PARAMS`.
#[repr(C)]
pub(crate) struct HostParams {
    pub(crate) function: Option<extern "C" fn(*mut c_void)>,
    pub(crate) data: *mut c_void,
}

/// `CUDA_KERNEL_NODE_PARAMS` of before CUDA 12.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct KernelParams {
    pub(crate) function: u64,
    pub(crate) grid: [c_uint; 3],
    pub(crate) block: [c_uint; 3],
    pub(crate) shared_bytes: c_uint,
    pub(crate) parameters: *mut *mut c_void,
    pub(crate) extra: *mut *mut c_void,
}

/// `CUDA_KERNEL_NODE_PARAMS` since CUDA 12.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct KernelParamsV2 {
    pub(crate) first: KernelParams,
    /// A library's kernel, where `function` is NULL.
    pub(crate) kernel: u64,
    /// Ignored: the simulated device has one context that counts.
    pub(crate) context: u64,
}

impl From<&KernelParams> for KernelParamsV2 {
    fn from(first: &KernelParams) -> Self {
        let (kernel, context) = (0, 0);
        Self { first: *first, kernel, context }
    }
}

/// # Safety
/// Parameters are as the driver wants them.
pub(super) unsafe fn kernel_of(
    world: &mut World,
    params: Option<KernelParamsV2>,
) -> Result<Kernel, Status> {
    let params = params.ok_or(Status::ERROR_INVALID_VALUE)?;
    let KernelParams { function, grid, block, shared_bytes, parameters, extra } = params.first;
    let launch = Launch {
        function: if function == 0 { params.kernel } else { function },
        grid,
        block,
        shared_bytes,
        stream: (0, false),
        parameters,
        extra,
    };
    // SAFETY: this function's contract.
    unsafe { launch.kernel(world) }
}

/// The kernel of a node: 1 if it is of another kind.
fn kernel_node(world: &mut World, handle: u64) -> Result<&mut Kernel, Status> {
    match &mut node(world, handle)?.kind {
        Kind::Kernel(kernel) => Ok(kernel),
        _ => Err(Status::ERROR_INVALID_VALUE),
    }
}

/// What a node's parameters are; the arguments are the node's, and good until
/// it is changed.
fn params(world: &mut World, handle: u64) -> Result<KernelParamsV2, Status> {
    let kernel = kernel_node(world, handle)?.clone();
    let first = KernelParams {
        function: kernel.function,
        grid: kernel.grid,
        block: kernel.block,
        shared_bytes: kernel.shared_bytes,
        parameters: kernel.arguments.lent().cast_mut().cast(),
        extra: std::ptr::null_mut(),
    };
    Ok(KernelParamsV2::from(&first))
}

exports! {
    fn cuGraphKernelNodeGetParams(handle: u64, out: Out<'_, KernelParams>)
    in graph_call(node_of(handle).0, 0) |world, _| {
        put(out, params(world, handle)?.first)
    }

    fn cuGraphKernelNodeGetParams_v2(handle: u64, out: Out<'_, KernelParamsV2>)
    in graph_call(node_of(handle).0, 0) |world, _| {
        put(out, params(world, handle)?)
    }
}

/// # Safety
/// Parameters are as the driver wants them.
unsafe fn set_kernel(world: &mut World, handle: u64, params: Option<KernelParamsV2>) -> Outcome {
    kernel_node(world, handle)?;
    // SAFETY: this function's contract.
    let kernel = unsafe { kernel_of(world, params) }?;
    *kernel_node(world, handle)? = kernel;
    Ok(())
}

exports! {
    /// # Safety
    /// Parameters are as the driver wants them.
    unsafe fn cuGraphKernelNodeSetParams(handle: u64, params: Option<&KernelParams>)
    in graph_call(node_of(handle).0, 0) |world, _| {
        // SAFETY: this function's contract.
        unsafe { set_kernel(world, handle, params.map(KernelParamsV2::from)) }
    }

    /// # Safety
    /// Parameters are as the driver wants them.
    unsafe fn cuGraphKernelNodeSetParams_v2(handle: u64, params: Option<&KernelParamsV2>)
    in graph_call(node_of(handle).0, 0) |world, _| {
        // SAFETY: this function's contract.
        unsafe { set_kernel(world, handle, params.copied()) }
    }

    fn cuGraphNodeGetType(handle: u64, out: Out<'_, u32>)
    in graph_call(node_of(handle).0, 0) |world, _| {
        put(out, node(world, handle)?.kind.number())
    }

    /// 1 in a graph that allocates or frees.
    fn cuGraphDestroyNode(handle: u64) in graph_call(node_of(handle).0, 0) |world, _| {
        node(world, handle)?;
        let (owner, place) = node_of(handle);
        let found = graph(world, owner)?;
        if found.owns_memory() {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        if let Some(gone) = found.remove(place)
            && let Kind::Child(child) = gone.kind
        {
            world.remove_graph(child);
        }
        Ok(())
    }

    /// The node's own graph, as long as the node is there.
    fn cuGraphChildGraphNodeGetGraph(handle: u64, out: Out<'_, u64>)
    in graph_call(node_of(handle).0, 0) |world, _| {
        match node(world, handle)?.kind {
        Kind::Child(child) => put(out, child),
        _ => Err(Status::ERROR_INVALID_VALUE),
    }
    }
}

/// The event of a node of that kind: 1 if it is of another.
macro_rules! event_nodes {
    ($($kind:ident: $get:ident, $set:ident;)*) => {
        exports! {
            $(
                fn $get(handle: u64, out: Out<'_, u64>)
                in graph_call(node_of(handle).0, 0) |world, _| {
                    match node(world, handle)?.kind {
                        Kind::$kind(event) => put(out, event),
                        _ => Err(Status::ERROR_INVALID_VALUE),
                    }
                }

                fn $set(handle: u64, event: u64) in graph_call(node_of(handle).0, 0) |world, _| {
                    node(world, handle)?;
                    world.event_context(event)?;
                    match &mut node(world, handle)?.kind {
                        Kind::$kind(now) => *now = event,
                        _ => return Err(Status::ERROR_INVALID_VALUE),
                    }
                    Ok(())
                }
            )*
        }
    };
}

event_nodes! {
    RecordEvent: cuGraphEventRecordNodeGetEvent, cuGraphEventRecordNodeSetEvent;
    WaitEvent: cuGraphEventWaitNodeGetEvent, cuGraphEventWaitNodeSetEvent;
}
