// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an in-order device makes of a plan when its host costs nothing.
//!
//! It knows operations only, not traces, so that it can be held against sums
//! made by other tools and against what a recorder reads.
//! Invariants: whole nanoseconds; a stream does one thing at a time; work
//! starts when it is launched or when its stream is free, whichever is later.

use crate::plan::{Op, Plan, What};

/// Launches and time of a kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelSum {
    /// Launches one by one.
    pub launches: u64,
    /// Their durations, nanoseconds.
    pub total_ns: u64,
}

/// What the device did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// For each of [`Plan::spans`], between its two marks: nanoseconds.
    pub spans: Vec<u64>,
    /// For each of [`Plan::kernels`]; kernels of graphs do not count.
    pub kernels: Vec<KernelSum>,
    /// From the first operation to the end of the last work, nanoseconds.
    pub length_ns: u64,
}

/// Runs `plan`.
pub fn run(plan: &Plan) -> Outcome {
    let mut free_at = vec![0u64; plan.streams.len()];
    let mut begun = vec![0u64; plan.spans.len()];
    let mut outcome = Outcome {
        spans: vec![0; plan.spans.len()],
        kernels: vec![KernelSum::default(); plan.kernels.len()],
        length_ns: 0,
    };
    for Op { at_ns, what, .. } in &plan.ops {
        let (stream, duration_ns) = match *what {
            What::StepBegin { .. } | What::StepEnd => continue,
            // A mark is passed at once on an idle stream, else when the
            // stream's work before it is done.
            What::LaneBegin { span } => {
                let stream = plan.spans[span as usize].stream;
                begun[span as usize] = free_at[stream as usize].max(*at_ns);
                continue;
            }
            What::LaneEnd { span } => {
                let stream = plan.spans[span as usize].stream;
                let end = free_at[stream as usize].max(*at_ns);
                outcome.spans[span as usize] = end - begun[span as usize];
                continue;
            }
            What::Kernel { kernel, stream, duration_ns } => {
                let sum = &mut outcome.kernels[kernel as usize];
                sum.launches += 1;
                sum.total_ns += duration_ns;
                (stream, duration_ns)
            }
            What::Copy { stream, duration_ns, .. } => (stream, duration_ns),
            What::Graph { graph } => {
                let graph = &plan.graphs[graph as usize];
                (graph.stream, graph.length_ns())
            }
        };
        let free = &mut free_at[stream as usize];
        *free = (*free).max(*at_ns) + duration_ns;
        outcome.length_ns = outcome.length_ns.max(*free);
    }
    outcome
}
