// SPDX-License-Identifier: MIT OR Apache-2.0
//! The graphs of a device, each with its twin.
//!
//! Invariant: where every step is armed all nodes have marks and every launch is to
//! be the twin's, so that what is read can be held against the recording; otherwise
//! twins measure windows, as on a server.

use std::collections::HashMap;
use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaEvent, CudaGraph, CudaStream, DriverError, sys};
use metrale_gpu_runtime::timing::{Recorder, Twin, TwinsConfig, Updates};

use crate::device::Device;
use crate::plan::{Graph, Node, NodeWork, Plan, What};
use crate::play::PlayError;

/// Marks of a twin that measures windows: so many that a demo has a sample of each
/// kernel in most launches, and that they take about 2 % of a large decode graph.
const WINDOW_MARKS: usize = 128;
/// Launches of one plan of windows: a replay is short.
const PLAN_LAUNCHES: u32 = 4;
/// Twins, and events of all of them together, at most.
const MOST_TWINS: usize = 256;
const MOST_EVENTS: usize = 1 << 17;
/// Marks that [`TwinsConfig`] takes.
const MARKS: std::ops::RangeInclusive<usize> = 5..=1 << 16;
/// Marks that a harvest reads at most.
const READS: usize = 256;

/// Whether the recording tells what is in the graph, and it is of that device.
fn is_known(plan: &Plan, graph: &Graph, device: u32) -> bool {
    plan.device(graph.stream) == device && graph.name.is_none()
}

/// The options of a device's twins; `None` where it has no graph for one.
pub(crate) fn twins(plan: &Plan, device: u32, every: u32) -> Option<TwinsConfig> {
    let known = plan.graphs.iter().filter(|graph| is_known(plan, graph, device));
    let nodes: Vec<usize> = known.map(|graph| graph.nodes().count()).collect();
    let largest = nodes.iter().copied().max()?;
    if every > 1 {
        let resident = nodes.len().min(TwinsConfig::default().resident);
        let plan_launches = PLAN_LAUNCHES;
        return Some(TwinsConfig {
            marks: WINDOW_MARKS,
            resident,
            plan_launches,
            ..TwinsConfig::default()
        });
    }
    // One before the first node, one behind each, and a second one behind one of them
    // to read what a mark costs.
    let marks = (largest + 2).clamp(*MARKS.start(), *MARKS.end());
    Some(TwinsConfig {
        marks,
        resident: nodes.len().min(MOST_TWINS).min((MOST_EVENTS / marks).max(1)),
        nodes: largest,
        bytes: usize::MAX,
        always: true,
        ..TwinsConfig::default()
    })
}

/// Harvests that it takes to read a launch with so many marks.
pub(crate) fn harvests(twins: Option<TwinsConfig>) -> usize {
    twins.map_or(0, |twins| twins.marks / READS + 2)
}

/// The graphs of a device by index into [`Plan::graphs`]: those launched most get a
/// twin first.
pub(crate) fn capture(
    plan: &Plan,
    number: u32,
    device: &Device,
    context: &Arc<CudaContext>,
) -> Result<HashMap<u32, Twin<'static>>, PlayError> {
    let mut launches = vec![0u64; plan.graphs.len()];
    for op in &plan.ops {
        if let What::Graph { graph } = op.what {
            launches[graph as usize] += 1;
        }
    }
    let all = (0u32..).zip(&plan.graphs);
    let mut own: Vec<_> = all.filter(|(_, graph)| plan.device(graph.stream) == number).collect();
    own.sort_by_key(|(index, _)| std::cmp::Reverse(launches[*index as usize]));
    let mut capture = Capture { device, context, forks: Vec::new() };
    let mut graphs = HashMap::new();
    for (index, graph) in own {
        let captured = capture.graph(graph)?;
        let name = graph.row_name(&plan.kernels);
        let twin = device.recorder.twin(captured, &name, Updates::Never);
        if !is_known(plan, graph, number) {
            // Its one node stands for all that the recording does not tell.
            twin.retire();
        }
        graphs.insert(index, twin);
    }
    Ok(graphs)
}

/// Captures graphs, with streams for their branches.
struct Capture<'d> {
    device: &'d Device,
    context: &'d Arc<CudaContext>,
    forks: Vec<Arc<CudaStream>>,
}

impl Capture<'_> {
    fn graph(&mut self, graph: &Graph) -> Result<CudaGraph, PlayError> {
        let forks = graph.parts.iter().map(|part| part.len() - 1).max().unwrap_or(0);
        while self.forks.len() < forks {
            self.forks.push(self.context.new_stream()?);
        }
        let origin = self.device.stream(graph.stream)?;
        origin.begin_capture(sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL)?;
        for part in &graph.parts {
            self.part(origin, part)?;
        }
        let captured = origin.end_capture(sys::CUgraphInstantiate_flags(0))?;
        captured.ok_or(PlayError::Plan("a graph without nodes"))
    }

    /// The first branch of a part on the stream that launches the graph, the others
    /// forked from there and joined again.
    fn part(&self, origin: &CudaStream, part: &[Vec<Node>]) -> Result<(), PlayError> {
        let Some((first, forked)) = part.split_first() else {
            return Ok(());
        };
        let mut joins = Vec::with_capacity(forked.len());
        if !forked.is_empty() {
            let fork = self.event(origin)?;
            for (branch, stream) in forked.iter().zip(&self.forks) {
                stream.wait(&fork)?;
                self.branch(stream, branch)?;
                joins.push(self.event(stream)?);
            }
        }
        self.branch(origin, first)?;
        for join in &joins {
            origin.wait(join)?;
        }
        Ok(())
    }

    fn branch(&self, stream: &CudaStream, branch: &[Node]) -> Result<(), PlayError> {
        for node in branch {
            let function = match node.kind {
                NodeWork::Kernel(kernel) => self.device.function(Some(kernel))?,
                NodeWork::Copy => self.device.function(None)?,
                NodeWork::Gap => &self.device.gap,
            };
            self.device.launch(stream, function, node.duration_ns)?;
        }
        Ok(())
    }

    fn event(&self, stream: &CudaStream) -> Result<CudaEvent, DriverError> {
        let event = self.context.new_event(None)?;
        event.record(stream)?;
        Ok(event)
    }
}

impl Device {
    /// A graph with its twin.
    pub(crate) fn graph(&self, graph: u32) -> Result<&Twin<'static>, PlayError> {
        self.graphs.get(&graph).ok_or(PlayError::Plan("a graph of no device"))
    }

    /// Makes the next plans of twins, where their last ones are spent.
    pub(crate) fn renew(&self) {
        self.graphs.values().for_each(Twin::renew);
    }
}

/// Whether every launch of a twin was read, or can never be.
pub(crate) fn is_read(recorder: &Recorder) -> bool {
    let ledger = recorder.twin_ledger();
    ledger.launched <= ledger.read + ledger.lost
}
