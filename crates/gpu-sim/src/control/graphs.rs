// SPDX-License-Identifier: MIT OR Apache-2.0
//! Steering graphs: what their parts cost, and which mistakes were made with
//! them. Every cost is 0 at first.

use crate::watch;
use crate::world;

/// What an event-record node of a graph takes before it is stamped.
/// C: `sim_set_graph_mark(uint64_t ns)`.
pub fn set_mark_duration(ns: u64) {
    world::lock().config.graph.mark_ns = ns;
}

/// How much later an event-record node is stamped that nothing depends on.
/// C: `sim_set_graph_leaf_lag(uint64_t ns)`.
pub fn set_leaf_lag(ns: u64) {
    world::lock().config.graph.leaf_lag_ns = ns;
}

/// The gap between a kernel in a graph and what it depends on.
/// C: `sim_set_graph_gap(uint64_t ns)`.
pub fn set_kernel_gap(ns: u64) {
    world::lock().config.graph.gap_ns = ns;
}

/// How much earlier a kernel behind a programmatic edge starts, at most when the
/// one before it does. A node between the two loses it.
/// C: `sim_set_graph_overlap(uint64_t ns)`.
pub fn set_overlap(ns: u64) {
    world::lock().config.graph.overlap_ns = ns;
}

/// What the host takes for each node that it instantiates.
/// C: `sim_set_graph_instantiation(uint64_t ns)`.
pub fn set_instantiation_cost(ns: u64) {
    world::lock().config.graph.instantiate_ns = ns;
}

/// The device memory that each node of an executable made from now on takes
/// until that is destroyed. C: `sim_set_graph_node_bytes(uint64_t bytes)`.
pub fn set_node_bytes(bytes: usize) {
    world::lock().config.graph.node_bytes = bytes;
}

/// Mistakes that a driver answers with success, so far.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mistakes {
    /// Launches beside one of another executable of the same graph or of a clone
    /// of it: both work on the same memory.
    pub overlapping_launches: u64,
    /// Elapsed reads of an event that a graph still has to record.
    pub reads_in_flight: u64,
    /// Launches that recorded an event anew of which the last time was not read;
    /// once for each event.
    pub unread_marks: u64,
    /// Launches of an executable with parameters that another one of the same
    /// graph, or of a clone of it, was told to replace.
    pub stale_launches: u64,
    /// Uses of a graph or executable by two threads at once.
    pub shared_uses: u64,
}

impl Mistakes {
    pub(crate) const NONE: Self = Self {
        overlapping_launches: 0,
        reads_in_flight: 0,
        unread_marks: 0,
        stale_launches: 0,
        shared_uses: 0,
    };
}

/// The mistakes since the start or the last reset. C:
/// `sim_graph_mistakes(struct sim_mistakes *out)`, five `uint64_t` in the order
/// of the fields.
#[must_use]
pub fn mistakes() -> Mistakes {
    Mistakes { shared_uses: watch::shared_uses(), ..world::lock().watch.counts }
}

/// One kernel with its arguments, as graphs ran it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KernelRuns {
    /// The function's handle.
    pub function: u64,
    /// Each argument filled up with zeros to whole words.
    pub arguments: Vec<u128>,
    /// How often.
    pub count: u64,
}

/// Starts counting the kernels that graphs run, from none.
pub fn count_kernels() {
    world::lock().watch.runs = Some(std::collections::BTreeMap::new());
}

/// The kernels that graphs ran since [`count_kernels`], in order; none without.
#[must_use]
pub fn kernel_runs() -> Vec<KernelRuns> {
    let world = world::lock();
    let runs = world.watch.runs.iter().flatten();
    let run = |((function, arguments), count): (&(u64, Vec<u128>), &u64)| KernelRuns {
        function: *function,
        arguments: arguments.clone(),
        count: *count,
    };
    runs.map(run).collect()
}
