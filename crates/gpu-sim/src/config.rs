// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a test can set about the simulated machine and driver.

use std::collections::BTreeMap;

use crate::symbols::Symbol;

/// A kernel without a duration argument and without an entry in the table.
pub(crate) const DEFAULT_KERNEL_NS: u64 = 1_000;

/// `cuDriverGetVersion` unless told otherwise: new enough for every export.
pub(crate) const DEFAULT_DRIVER_VERSION: i32 = 13_000;

/// What graphs take, ns and bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GraphCosts {
    /// An event-record node.
    pub(crate) mark_ns: u64,
    /// More for one that nothing depends on.
    pub(crate) leaf_lag_ns: u64,
    /// Between a kernel and what it depends on.
    pub(crate) gap_ns: u64,
    /// How much earlier a kernel starts behind a programmatic edge.
    pub(crate) overlap_ns: u64,
    /// Of the host, for each node instantiated.
    pub(crate) instantiate_ns: u64,
    /// Of the device's memory, for each node of an executable.
    pub(crate) node_bytes: usize,
}

#[derive(Debug)]
pub(crate) struct Config {
    /// 0 simulates a machine without a GPU.
    pub(crate) devices: u32,
    pub(crate) driver_version: i32,
    /// The toolkit's stub library: every call answers 34.
    pub(crate) stub: bool,
    /// Whether a function's first launch loads it, an unsafe call.
    pub(crate) lazy_loading: bool,
    pub(crate) quantum_ns: u64,
    pub(crate) copy_ns: u64,
    /// What an event recorded on the device takes there.
    pub(crate) event_ns: u64,
    pub(crate) graph: GraphCosts,
    /// Whether an elapsed read answers 201 on a thread without a context.
    pub(crate) elapsed_needs_context: bool,
    /// Whether the capture mode of a thread protects only its own captures.
    pub(crate) strict_captures: bool,
    /// Whether devices are MIG instances.
    pub(crate) mig: bool,
    pub(crate) default_kernel_ns: u64,
    /// Durations of kernels without an argument for it, by name.
    pub(crate) kernel_ns: BTreeMap<String, u64>,
    /// What each call costs the host, by function.
    pub(crate) call_cost_ns: [u64; Symbol::COUNT],
    pub(crate) hidden: [bool; Symbol::COUNT],
}

impl Config {
    pub(crate) const fn new() -> Self {
        Self {
            devices: 1,
            driver_version: DEFAULT_DRIVER_VERSION,
            stub: false,
            lazy_loading: false,
            quantum_ns: 1,
            copy_ns: 0,
            event_ns: 0,
            graph: GraphCosts {
                mark_ns: 0,
                leaf_lag_ns: 0,
                gap_ns: 0,
                overlap_ns: 0,
                instantiate_ns: 0,
                node_bytes: 0,
            },
            elapsed_needs_context: false,
            strict_captures: false,
            mig: false,
            default_kernel_ns: DEFAULT_KERNEL_NS,
            kernel_ns: BTreeMap::new(),
            call_cost_ns: [0; Symbol::COUNT],
            hidden: [false; Symbol::COUNT],
        }
    }

    /// The duration of a kernel that brings none in an argument.
    pub(crate) fn kernel_duration(&self, name: &str) -> u64 {
        self.kernel_ns.get(name).copied().unwrap_or(self.default_kernel_ns)
    }

    pub(crate) fn is_hidden(&self, symbol: Symbol) -> bool {
        self.hidden.get(symbol.index()).copied().unwrap_or(false)
    }
}
