// SPDX-License-Identifier: MIT OR Apache-2.0
//! A replay as a list of host operations.
//!
//! Invariants: operations stand in host order and their times never fall; on
//! each stream they stand in the recorded order; every span begun is ended
//! once; the same trace gives the same plan.

mod build;
mod graph;
mod join;
mod lanes;
mod notes;
mod overruns;
mod place;
mod units;

pub use build::build;

use std::collections::BTreeMap;
use std::ops::AddAssign;

use metrale_telemetry::kernel::{LANES, StepShape};
use metrale_telemetry::snapshot::RowKind;

use crate::report::count;
use crate::steps::Lane;

/// When the host launches what it launches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timing {
    /// At its recorded GPU start: for a host that costs nothing.
    Ideal,
    /// At its recorded host launch time.
    Honest,
}

/// A whole replay.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The lanes of the caller's own, by name.
    pub lanes: Vec<String>,
    /// Devices, by the name the trace gives them.
    pub devices: Vec<String>,
    /// Streams; operations name them by index.
    pub streams: Vec<Stream>,
    /// Whole kernel names, no two equal; operations name them by index.
    pub kernels: Vec<String>,
    /// The same of copies, and of sets of memory.
    pub copies: Vec<String>,
    /// Distinct graphs; one may be launched many times.
    pub graphs: Vec<Graph>,
    /// Steps with GPU work, in the order in which they begin on the GPU.
    pub steps: Vec<PlannedStep>,
    /// The lane spans of the replay.
    pub spans: Vec<LaneSpan>,
    /// What the host does.
    pub ops: Vec<Op>,
    /// Records that cannot be right.
    pub overruns: Vec<Overrun>,
    /// What a reader must know: drops, guesses, steps without counts.
    pub notes: Vec<String>,
}

/// A stream of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream {
    /// Index into [`Plan::devices`].
    pub device: u32,
    /// The stream's recorded name.
    pub name: String,
}

/// A step of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedStep {
    /// Its recorded name.
    pub name: String,
    /// Its lane; admit where it serves no tokens.
    pub lane: Lane,
    /// What it is made of, where its name tells.
    pub shape: Option<StepShape>,
}

/// One span of a lane, as it was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneSpan {
    /// The lane.
    pub lane: Lane,
    /// The step; none for work outside every step.
    pub step: Option<u32>,
    /// Index into [`Plan::streams`].
    pub stream: u32,
    /// First GPU start on the stream, nanoseconds from the trace's first.
    pub start_ns: i64,
    /// From there to the last end on the stream, nanoseconds.
    pub span_ns: u64,
    /// Sum of the work on the stream less its union, nanoseconds: a stream that runs
    /// in order lays it end to end, but for what is in one graph.
    pub overlap_ns: u64,
    /// The same of this span's work and other work on the stream begun before
    /// it, nanoseconds.
    pub overlap_lanes_ns: u64,
}

/// A record that goes on long after the next one on its stream has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overrun {
    /// What it is of.
    pub launched: Launched,
    /// Index into [`Plan::streams`].
    pub stream: u32,
    /// The lane of its launch.
    pub lane: Lane,
    /// Its recorded length, nanoseconds.
    pub duration_ns: u64,
}

/// What is launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Launched {
    /// Index into [`Plan::kernels`].
    Kernel(u32),
    /// Index into [`Plan::graphs`].
    Graph(u32),
    /// Index into [`Plan::copies`].
    Copy(u32),
}

/// A row: its device, its kind and its name.
pub type RowKey = (u32, RowKind, String);

/// What a host operation launches or marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// The recorder's step begins, with the admit work before the step's own.
    /// None where a trace has no step at all.
    StepBegin {
        /// Index into [`Plan::steps`].
        step: Option<u32>,
    },
    /// The recorder's step ends: all of it is launched and marked. Others may
    /// still be open, as steps overlap.
    StepEnd,
    /// A lane span begins on its stream; index into [`Plan::spans`].
    LaneBegin {
        /// The span.
        span: u32,
    },
    /// A lane span ends on its stream.
    LaneEnd {
        /// The span.
        span: u32,
    },
    /// A kernel launched one by one: it gets a span in an armed step.
    Kernel {
        /// Index into [`Plan::kernels`].
        kernel: u32,
        /// Index into [`Plan::streams`].
        stream: u32,
        /// How long it runs, nanoseconds.
        duration_ns: u64,
    },
    /// A copy or a set of memory: a region, which gets a span in an armed step.
    Copy {
        /// Index into [`Plan::copies`].
        copy: u32,
        /// Index into [`Plan::streams`].
        stream: u32,
        /// How long it runs, nanoseconds.
        duration_ns: u64,
    },
    /// A graph launch on its stream.
    Graph {
        /// Index into [`Plan::graphs`].
        graph: u32,
    },
}

/// One host operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Op {
    /// Host time, nanoseconds from the plan's first operation; never falls.
    pub at_ns: u64,
    /// What is done.
    pub what: What,
    /// The step of the launch record, or of the span that is marked: an index
    /// into [`Plan::steps`]. None for work outside every step. It need not be
    /// the recorder's step of the moment, nor its lane the one begun last:
    /// steps overlap, and a side stream may start ahead of the lane's own.
    pub step: Option<u32>,
}

/// A graph: parts that follow each other.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Graph {
    /// What an export of ours calls it, an index into [`Plan::kernels`]: it says
    /// nothing of what is in the graph.
    pub name: Option<u32>,
    /// The stream that it is launched on, the one with most of its GPU time: an
    /// index into [`Plan::streams`].
    pub stream: u32,
    /// Of each part the branches, which run side by side, and of each the nodes in
    /// order.
    pub parts: Vec<Vec<Vec<Node>>>,
}

/// A node of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    /// What runs.
    pub kind: NodeWork,
    /// How long, nanoseconds.
    pub duration_ns: u64,
}

/// What a node of a graph is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NodeWork {
    /// Index into [`Plan::kernels`].
    Kernel(u32),
    /// A copy or a set of memory.
    Copy,
    /// Time in which the branch was recorded idle.
    Gap,
}

impl Graph {
    /// What its row is called; `kernels` are [`Plan::kernels`].
    pub fn row_name(&self, kernels: &[String]) -> String {
        let name = self.name.and_then(|name| kernels.get(name as usize));
        let counted = || format!("graph of {} kernels", count(self.kernels() as u64));
        name.cloned().unwrap_or_else(counted)
    }

    /// Its nodes, each with its begin and end from the graph's start: nanoseconds.
    pub fn nodes(&self) -> impl Iterator<Item = (&Node, u64, u64)> {
        let mut end_ns = 0;
        self.parts.iter().flat_map(move |part| {
            let from_ns = end_ns;
            let lengths = part.iter().map(|branch| length_ns(branch));
            end_ns += lengths.max().unwrap_or(0);
            part.iter().flat_map(move |branch| {
                branch.iter().scan(from_ns, |at_ns, node| {
                    let begin_ns = *at_ns;
                    *at_ns += node.duration_ns;
                    Some((node, begin_ns, *at_ns))
                })
            })
        })
    }

    /// The kernels that are known to run in it, an entry for each node.
    pub fn inside(&self) -> impl Iterator<Item = (u32, u64, u64)> {
        let known = self.nodes().filter(|_| self.name.is_none());
        known.filter_map(|(node, begin_ns, end_ns)| match node.kind {
            NodeWork::Kernel(kernel) => Some((kernel, begin_ns, end_ns)),
            NodeWork::Copy | NodeWork::Gap => None,
        })
    }

    /// Nodes that are kernels.
    pub fn kernels(&self) -> usize {
        self.nodes().filter(|(node, ..)| matches!(node.kind, NodeWork::Kernel(_))).count()
    }

    /// From the graph's start to its last node's end, nanoseconds.
    pub fn length_ns(&self) -> u64 {
        self.nodes().map(|(_, _, end_ns)| end_ns).max().unwrap_or(0)
    }
}

/// What the nodes of a branch take.
fn length_ns(branch: &[Node]) -> u64 {
    branch.iter().map(|node| node.duration_ns).sum()
}

impl Plan {
    /// The device of a stream.
    pub fn device(&self, stream: u32) -> u32 {
        let stream = self.streams.get(stream as usize);
        stream.map_or(0, |stream| stream.device)
    }

    /// What was counted by device and launch, by row: graphs of as many kernels
    /// share one.
    pub fn by_row<T: Default + AddAssign>(
        &self,
        counted: impl IntoIterator<Item = ((u32, Launched), T)>,
    ) -> BTreeMap<RowKey, T> {
        let mut rows: BTreeMap<RowKey, T> = BTreeMap::new();
        for ((device, launched), counted) in counted {
            let key = match launched {
                Launched::Kernel(kernel) => {
                    let name = self.kernels[kernel as usize].clone();
                    (device, RowKind::Kernel, name)
                }
                Launched::Graph(graph) => {
                    let name = self.graphs[graph as usize].row_name(&self.kernels);
                    (device, RowKind::Graph, name)
                }
                Launched::Copy(copy) => {
                    let name = self.copies[copy as usize].clone();
                    (device, RowKind::Copy, name)
                }
            };
            *rows.entry(key).or_default() += counted;
        }
        rows
    }

    /// A lane's name.
    pub fn lane_name(&self, lane: Lane) -> &str {
        let own = || self.lanes.get(lane.index().checked_sub(LANES.len())?);
        let found = LANES.get(lane.index()).copied();
        found.or_else(|| own().map(String::as_str)).unwrap_or("")
    }

    /// The lane of an operation that has this step.
    pub fn lane(&self, step: Option<u32>) -> Lane {
        let step = step.and_then(|step| self.steps.get(step as usize));
        step.map_or(Lane::Admit, |step| step.lane)
    }

    /// Graph launches, and the kernels in them.
    pub fn graph_totals(&self) -> (u64, u64) {
        self.ops.iter().fold((0, 0), |(n, kernels), op| match op.what {
            What::Graph { graph } => {
                (n + 1, kernels + self.graphs[graph as usize].kernels() as u64)
            }
            _ => (n, kernels),
        })
    }
}
