// SPDX-License-Identifier: MIT OR Apache-2.0
//! What was read, held against the timeline, under ideal stamps.
//!
//! A span of so many nanoseconds reads what the driver's f32 milliseconds make
//! of it. So what each row should read is known to the nanosecond, and what it
//! reads less is the time of the spans that it misses.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use metrale_telemetry::snapshot::RowKind;
use serde::Serialize;

use crate::model;
use crate::plan::{Launched, Plan, What};
use crate::report::{KernelRow, LaneRow};
use crate::steps::Lane;

/// By how much what was read differs from the timeline, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Differences {
    /// Time that a stream in order takes otherwise than it was recorded, as it
    /// lays end to end what was recorded at once.
    pub overlap_ns: u64,
    /// By how much f32 milliseconds are off, summed over rows.
    pub rounding_ns: u64,
    /// Spans that rows miss.
    pub missed_spans: u64,
    /// Their time.
    pub missed_ns: u64,
    /// Kernels, graphs and copies without a row, as the table was full.
    pub rowless: u64,
    /// The time of their spans.
    pub rowless_ns: u64,
    /// What nothing of this explains.
    pub unexplained_ns: u64,
}

/// What was read, against the timeline's own sums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Check {
    /// Of the lanes.
    pub lanes: Differences,
    /// Of kernels, graphs and copies; only where every step was armed.
    pub kernels: Option<Differences>,
}

/// What a row should read.
#[derive(Clone, Copy, Default)]
struct Expected {
    ns: u64,
    read_ns: u64,
}

impl Expected {
    fn add(&mut self, ns: u64) {
        *self += Self { ns, read_ns: as_read(ns) };
    }
}

impl AddAssign for Expected {
    fn add_assign(&mut self, other: Self) {
        self.ns += other.ns;
        self.read_ns += other.read_ns;
    }
}

/// What a span of `ns` reads: the driver gives f32 milliseconds.
fn as_read(ns: u64) -> u64 {
    let milliseconds = (ns as f64 / 1e6) as f32;
    (f64::from(milliseconds) * 1e6).round() as u64
}

impl Differences {
    fn row(&mut self, expected: Expected, read_ns: u64, missed: u64) {
        self.rounding_ns += expected.ns.abs_diff(expected.read_ns);
        self.missed_spans += missed;
        match expected.read_ns.checked_sub(read_ns) {
            Some(less_ns) if missed > 0 => self.missed_ns += less_ns,
            _ => self.unexplained_ns += expected.read_ns.abs_diff(read_ns),
        }
    }
}

/// The lanes, against what an in-order device makes of the plan.
pub(crate) fn lanes(plan: &Plan, rows: &[LaneRow]) -> Differences {
    let mut differences = Differences::default();
    let mut expected: BTreeMap<(u32, Lane), Expected> = BTreeMap::new();
    for (span, ns) in plan.spans.iter().zip(model::run(plan).spans) {
        differences.overlap_ns += ns.abs_diff(span.span_ns);
        let row = (plan.device(span.stream), span.lane);
        expected.entry(row).or_default().add(ns);
    }
    for ((device, lane), expected) in expected {
        let mut rows = rows.iter();
        let row = rows.find(|row| row.device == device && row.lane == plan.lane_name(lane));
        let (read_ns, missed) = row.map_or((0, 0), |row| (row.total_ns, row.missed));
        differences.row(expected, read_ns, missed);
    }
    differences
}

/// Kernels, graphs and copies, where every launch was to be timed.
pub(crate) fn kernels(plan: &Plan, rows: &[KernelRow]) -> Differences {
    let mut differences = Differences::default();
    let mut launches: BTreeMap<(u32, Launched), Expected> = BTreeMap::new();
    for op in &plan.ops {
        let (launched, stream, ns) = match op.what {
            What::Kernel { kernel, stream, duration_ns } => {
                (Launched::Kernel(kernel), stream, duration_ns)
            }
            What::Copy { copy, stream, duration_ns } => (Launched::Copy(copy), stream, duration_ns),
            What::Graph { graph } => {
                let planned = &plan.graphs[graph as usize];
                (Launched::Graph(graph), planned.stream, planned.length_ns())
            }
            _ => continue,
        };
        let of = (plan.device(stream), launched);
        launches.entry(of).or_default().add(ns);
    }
    let mut expected = plan.by_row(launches);
    let mut inside = plan.by_row(inside(plan));
    // How long copies in graphs ran by the timeline is nobody's row.
    for row in rows.iter().filter(|row| !row.in_graph || row.kind == RowKind::Kernel) {
        let of = if row.in_graph { &mut inside } else { &mut expected };
        let expected = of.remove(&row.key()).unwrap_or_default();
        if row.samples > 0 {
            differences.row(expected, row.total_ns, row.missed);
        } else {
            differences.rowless += 1;
            differences.rowless_ns += expected.ns;
        }
    }
    differences
}

/// Kernels inside graphs. Their marks are read from the graph's begin, so that a kernel
/// reads the difference of two times.
fn inside(plan: &Plan) -> BTreeMap<(u32, Launched), Expected> {
    let mut launches: BTreeMap<(u32, Launched), Expected> = BTreeMap::new();
    for op in &plan.ops {
        let What::Graph { graph } = op.what else { continue };
        let graph = &plan.graphs[graph as usize];
        for (kernel, from_ns, to_ns) in graph.inside() {
            let of = (plan.device(graph.stream), Launched::Kernel(kernel));
            let read_ns = as_read(to_ns) - as_read(from_ns);
            *launches.entry(of).or_default() += Expected { ns: to_ns - from_ns, read_ns };
        }
    }
    launches
}
