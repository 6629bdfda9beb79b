// SPDX-License-Identifier: MIT OR Apache-2.0
//! The steps about graphs that are built and edited by hand.

use std::ffi::c_void;
use std::ptr::{null, null_mut};

use super::driver::{Called, Calls};
use super::machine::{Answer, Bindings, Object, Trouble};
use super::parse::Line;
use crate::abi::graph_nodes::KernelParams;
use crate::graph::EdgeData;

plain! {
    upload = "cuGraphUpload"(exec: u64, stream: u64);
    destroy_node = "cuGraphDestroyNode"(node: u64);
    node_event = "cuGraphEventRecordNodeSetEvent"(node: u64, event: u64);
    exec_event = "cuGraphExecEventRecordNodeSetEvent"(exec: u64, node: u64, event: u64);
    enable = "cuGraphNodeSetEnabled"(exec: u64, node: u64, is_enabled: u32);
}

telling! {
    create_graph = "cuGraphCreate"() told u64 = 0; (&raw mut told => *mut u64, 0 => u32);
    clone_graph = "cuGraphClone"(graph: u64) told u64 = 0; (&raw mut told => *mut u64, graph => u64);
    find_in_clone = "cuGraphNodeFindInClone"(node: u64, copy: u64) told u64 = 0; (&raw mut told => *mut u64, node => u64, copy => u64);
    instantiate_for = "cuGraphInstantiateWithFlags"(graph: u64, flags: u64) told u64 = 0; (&raw mut told => *mut u64, graph => u64, flags => u64);
    empty_node = "cuGraphAddEmptyNode"(graph: u64, deps: &[u64]) told u64 = 0; (&raw mut told => *mut u64, graph => u64, deps.as_ptr() => *const u64, deps.len() => usize);
    node_type = "cuGraphNodeGetType"(node: u64) told u32 = u32::MAX; (node => u64, &raw mut told => *mut u32);
    roots = "cuGraphGetRootNodes"(graph: u64) told usize = usize::MAX; (graph => u64, null_mut() => *mut u64, &raw mut told => *mut usize);
    edges = "cuGraphGetEdges"(graph: u64) told usize = usize::MAX; (graph => u64, null_mut() => *mut u64, null_mut() => *mut u64, &raw mut told => *mut usize);
    before = "cuGraphNodeGetDependencies"(node: u64) told usize = usize::MAX; (node => u64, null_mut() => *mut u64, &raw mut told => *mut usize);
    behind = "cuGraphNodeGetDependentNodes"(node: u64) told usize = usize::MAX; (node => u64, null_mut() => *mut u64, &raw mut told => *mut usize);
    exec_flags = "cuGraphExecGetFlags"(exec: u64) told u64 = u64::MAX; (exec => u64, &raw mut told => *mut u64);
}

/// Most edges that a script's graph may have.
const ROOM: usize = 64;

impl Calls<'_> {
    /// Gives one thread of a kernel whose one argument is a `u64` to `call`.
    fn with_kernel<T>(function: u64, mut ns: u64, call: impl FnOnce(&KernelParams) -> T) -> T {
        let mut arguments = [(&raw mut ns).cast::<c_void>()];
        call(&KernelParams {
            function,
            grid: [1; 3],
            block: [1; 3],
            shared_bytes: 0,
            parameters: arguments.as_mut_ptr(),
            extra: null_mut(),
        })
    }

    fn kernel_node(
        &self,
        graph: u64,
        (function, ns): (u64, u64),
        deps: &[u64],
    ) -> Called<(u32, u64)> {
        let mut told = 0;
        let status = Self::with_kernel(function, ns, |kernel| {
            Ok(call!(self, "cuGraphAddKernelNode": &raw mut told => *mut u64, graph => u64,
                deps.as_ptr() => *const u64, deps.len() => usize, kernel => *const KernelParams))
        });
        Ok((status?, told))
    }

    /// Adds a node that is made of one object.
    fn node_of(
        &self,
        function: &'static str,
        graph: u64,
        what: u64,
        deps: &[u64],
    ) -> Called<(u32, u64)> {
        let mut told = 0;
        let status = call!(self, function: &raw mut told => *mut u64, graph => u64,
            deps.as_ptr() => *const u64, deps.len() => usize, what => u64);
        Ok((status, told))
    }

    fn exec_kernel(&self, exec: u64, node: u64, (function, ns): (u64, u64)) -> Called<u32> {
        Self::with_kernel(function, ns, |kernel| {
            Ok(
                call!(self, "cuGraphExecKernelNodeSetParams": exec => u64, node => u64, kernel => *const KernelParams),
            )
        })
    }

    /// Adds an edge, or removes it.
    fn edge(&self, is_new: bool, graph: u64, (from, to): (u64, u64), kind: u8) -> Called<u32> {
        let data = EdgeData { from_port: kind, kind, ..EdgeData::default() };
        let (from, to) = (&raw const from, &raw const to);
        Ok(match (is_new, kind) {
            (true, 0) => {
                call!(self, "cuGraphAddDependencies": graph => u64, from => *const u64, to => *const u64, 1 => usize)
            }
            (false, 0) => {
                call!(self, "cuGraphRemoveDependencies": graph => u64, from => *const u64, to => *const u64, 1 => usize)
            }
            (true, _) => {
                call!(self, "cuGraphAddDependencies_v2": graph => u64, from => *const u64, to => *const u64, &raw const data => *const EdgeData, 1 => usize)
            }
            (false, _) => {
                call!(self, "cuGraphRemoveDependencies_v2": graph => u64, from => *const u64, to => *const u64, &raw const data => *const EdgeData, 1 => usize)
            }
        })
    }

    /// Reads the edges with or without their data; how many there are.
    fn list_edges(&self, graph: u64, with_data: bool) -> Called<(u32, usize)> {
        let (mut from, mut to) = ([0_u64; ROOM], [0_u64; ROOM]);
        let (mut data, mut count) = ([EdgeData::default(); ROOM], ROOM);
        let status = if with_data {
            call!(self, "cuGraphGetEdges_v2": graph => u64, from.as_mut_ptr() => *mut u64, to.as_mut_ptr() => *mut u64,
                data.as_mut_ptr() => *mut EdgeData, &raw mut count => *mut usize)
        } else {
            call!(self, "cuGraphGetEdges": graph => u64, from.as_mut_ptr() => *mut u64, to.as_mut_ptr() => *mut u64,
                &raw mut count => *mut usize)
        };
        Ok((status, count))
    }

    /// The newest form there is; its result.
    fn update(&self, exec: u64, graph: u64) -> Called<(u32, u32)> {
        if (self.0)("cuGraphExecUpdate_v2").is_some() {
            // `CUgraphExecUpdateResultInfo`: the result and two nodes.
            let mut told = [u64::MAX; 3];
            let status = call!(self, "cuGraphExecUpdate_v2": exec => u64, graph => u64, told.as_mut_ptr() => *mut u64);
            let [first, ..] = told;
            let [a, b, c, d, ..] = first.to_ne_bytes();
            return Ok((status, u32::from_ne_bytes([a, b, c, d])));
        }
        let mut told = u32::MAX;
        let status = call!(self, "cuGraphExecUpdate": exec => u64, graph => u64, null::<u64>() => *const u64, &raw mut told => *mut u32);
        Ok((status, told))
    }
}

fn told<T: ToString>((status, value): (u32, T)) -> Answer {
    (status, Some(value.to_string()))
}

fn nodes(names: &Bindings<'_>, words: &[&str]) -> Result<Vec<u64>, Trouble> {
    let handles = words.iter().map(|word| names.find(Object::Node, word));
    handles.collect()
}

fn kind_of(words: &[&str]) -> Result<u8, Trouble> {
    match words {
        [] => Ok(0),
        ["programmatic"] => Ok(EdgeData::PROGRAMMATIC),
        _ => Err(Trouble::Malformed),
    }
}

fn number(word: &str) -> Result<u64, Trouble> {
    word.parse().map_err(|_| Trouble::Malformed)
}

/// Makes the step's call.
pub(super) fn act<'a>(
    driver: &Calls<'_>,
    step: &Line<'a>,
    names: &mut Bindings<'a>,
) -> Result<Answer, Trouble> {
    use Object::{Event, Exec, Function, Graph, Node, Stream};
    Ok(match (step.verb, &*step.arguments) {
        ("graph", [g]) => names.keep(Graph, g, driver.create_graph()?),
        ("clone", [c, g]) => {
            let made = driver.clone_graph(names.find(Graph, g)?)?;
            names.keep(Graph, c, made)
        }
        ("find", [n, m, c]) => {
            let found = driver.find_in_clone(names.find(Node, m)?, names.find(Graph, c)?)?;
            names.keep(Node, n, found)
        }
        ("instantiate-for", [x, g, flags]) => {
            let made = driver.instantiate_for(names.find(Graph, g)?, number(flags)?)?;
            names.keep(Exec, x, made)
        }
        ("empty", [n, g, after @ ..]) => {
            let made = driver.empty_node(names.find(Graph, g)?, &nodes(names, after)?)?;
            names.keep(Node, n, made)
        }
        ("kernel", [n, g, f, ns, after @ ..]) => {
            let (graph, kernel) = (names.find(Graph, g)?, (names.find(Function, f)?, number(ns)?));
            let made = driver.kernel_node(graph, kernel, &nodes(names, after)?)?;
            names.keep(Node, n, made)
        }
        (verb @ ("mark" | "wait-node" | "child"), [n, g, what, after @ ..]) => {
            let (function, kind) = match verb {
                "mark" => ("cuGraphAddEventRecordNode", Event),
                "wait-node" => ("cuGraphAddEventWaitNode", Event),
                _ => ("cuGraphAddChildGraphNode", Graph),
            };
            let (graph, what) = (names.find(Graph, g)?, names.find(kind, what)?);
            let made = driver.node_of(function, graph, what, &nodes(names, after)?)?;
            names.keep(Node, n, made)
        }
        (verb @ ("depend" | "undepend"), [g, a, b, kind @ ..]) => {
            let ends = (names.find(Node, a)?, names.find(Node, b)?);
            let (graph, kind) = (names.find(Graph, g)?, kind_of(kind)?);
            (driver.edge(verb == "depend", graph, ends, kind)?, None)
        }
        ("type", [n]) => told(driver.node_type(names.find(Node, n)?)?),
        ("roots", [g]) => told(driver.roots(names.find(Graph, g)?)?),
        ("edges", [g]) => told(driver.edges(names.find(Graph, g)?)?),
        ("list-edges", [g]) => told(driver.list_edges(names.find(Graph, g)?, false)?),
        ("list-edges-and-data", [g]) => told(driver.list_edges(names.find(Graph, g)?, true)?),
        ("before", [n]) => told(driver.before(names.find(Node, n)?)?),
        ("behind", [n]) => told(driver.behind(names.find(Node, n)?)?),
        ("node-event", [n, e]) => {
            let node = names.find(Node, n)?;
            (driver.node_event(node, names.find(Event, e)?)?, None)
        }
        ("exec-event", [x, n, e]) => {
            let (exec, node) = (names.find(Exec, x)?, names.find(Node, n)?);
            (driver.exec_event(exec, node, names.find(Event, e)?)?, None)
        }
        ("exec-kernel", [x, n, f, ns]) => {
            let (exec, node) = (names.find(Exec, x)?, names.find(Node, n)?);
            let kernel = (names.find(Function, f)?, number(ns)?);
            (driver.exec_kernel(exec, node, kernel)?, None)
        }
        (verb @ ("enable" | "disable"), [x, n]) => {
            let (exec, node) = (names.find(Exec, x)?, names.find(Node, n)?);
            let is_enabled = u32::from(verb == "enable");
            (driver.enable(exec, node, is_enabled)?, None)
        }
        ("update", [x, g]) => {
            let (exec, graph) = (names.find(Exec, x)?, names.find(Graph, g)?);
            told(driver.update(exec, graph)?)
        }
        ("flags", [x]) => told(driver.exec_flags(names.find(Exec, x)?)?),
        ("upload", [x, s]) => {
            let exec = names.find(Exec, x)?;
            (driver.upload(exec, names.find(Stream, s)?)?, None)
        }
        ("destroy-node", [n]) => (driver.destroy_node(names.drop(Node, n)?)?, None),
        _ => return Err(Trouble::Malformed),
    })
}
