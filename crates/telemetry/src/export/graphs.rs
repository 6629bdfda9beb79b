// SPDX-License-Identifier: MIT OR Apache-2.0
//! Samples of graphs that have a twin. A graph has series if its own row has one, under
//! the same label. What is inside of it is part of what that row took: it is in
//! families of its own, so that no sum has both.

use super::sample::{Sample, Value, sample};
use crate::kernel::Estimate;
use crate::snapshot::{
    GraphFigures, GraphRow, KernelSnapshot, MAX_KERNEL_SERIES, NodeKind, OTHER_KERNELS, RowKind,
    Snapshot, TwinLedger,
};
use std::collections::BTreeMap;

/// The most rows that have series of their own, of all graphs together.
const MOST_ROWS: usize = MAX_KERNEL_SERIES;
/// The same for the document.
pub(super) const ROWS: &str = "128 rows, and `other` for each graph";

/// Graphs by label, the longest first. Of those that share one the first stands.
fn labelled(snapshot: &Snapshot) -> Vec<(&str, &GraphFigures)> {
    let mut labelled: Vec<(&str, &GraphFigures)> = Vec::new();
    for graph in &snapshot.graphs {
        let is_own = |row: &&KernelSnapshot| {
            row.kind == RowKind::Graph && row.name.is_some() && row.name == graph.name
        };
        let own = snapshot.kernels.iter().find(is_own);
        if let Some(label) = own.and_then(|row| row.series.as_deref())
            && !labelled.iter().any(|(known, _)| *known == label)
        {
            labelled.push((label, &graph.figures));
        }
    }
    labelled
}

/// A figure of each graph, where it is known.
pub(super) fn each(
    snapshot: &Snapshot,
    value: impl Fn(&GraphFigures) -> Option<f64>,
) -> Vec<Sample<'_>> {
    let graphs = labelled(snapshot).into_iter();
    let known = graphs.filter_map(|(graph, figures)| {
        Some(sample([("graph", graph)], Value::Float(value(figures)?)))
    });
    known.collect()
}

/// What a row is called, and its kind; a kernel without a name is one of the others.
fn series(row: &GraphRow) -> (&str, NodeKind) {
    match (row.kind, row.series.as_deref()) {
        (NodeKind::Kernel, Some(label)) => (label, NodeKind::Kernel),
        (NodeKind::Kernel, None) => (OTHER_KERNELS, NodeKind::Other),
        (kind, _) => (kind.as_str(), kind),
    }
}

/// A figure of the estimate of each row. Beyond the longest the rows of a graph add up
/// to one; they are estimated on the same launches, and so do their errors.
pub(super) fn rows(
    snapshot: &Snapshot,
    value: impl Fn(&Estimate) -> Option<f64>,
) -> Vec<Sample<'_>> {
    let mut sums: BTreeMap<(&str, &str, NodeKind), Estimate> = BTreeMap::new();
    for (graph, figures) in labelled(snapshot) {
        for row in &figures.rows {
            let (kernel, kind) = series(row);
            sums.entry((graph, kernel, kind))
                .and_modify(|sum| *sum = sum.of_same_steps(row.estimate))
                .or_insert(row.estimate);
        }
    }
    let mut rows: Vec<_> = sums.into_iter().collect();
    rows.sort_by(|(_, one), (_, other)| other.total_ns.total_cmp(&one.total_ns));
    let mut shown: BTreeMap<(&str, &str, NodeKind), Estimate> = BTreeMap::new();
    for (at, (row, estimate)) in rows.into_iter().enumerate() {
        let row = if at < MOST_ROWS { row } else { (row.0, OTHER_KERNELS, NodeKind::Other) };
        shown.entry(row).and_modify(|sum| *sum = sum.of_same_steps(estimate)).or_insert(estimate);
    }
    let known = shown.into_iter().filter_map(|((graph, kernel, kind), estimate)| {
        let labels = [("graph", graph), ("kernel", kernel), ("kind", kind.as_str())];
        Some(sample(labels, Value::Float(value(&estimate)?)))
    });
    known.collect()
}

/// Of all recorders.
pub(super) fn ledger(snapshot: &Snapshot) -> TwinLedger {
    let each = snapshot.recorders.iter().map(|recorder| recorder.replays);
    each.fold(TwinLedger::NONE, TwinLedger::plus)
}

/// Counts of the ledger that are no outcome of a replay: of launches of twins, and others.
const LAUNCHES: [&str; 2] = ["read", "lost"];
const OTHERS: [&str; 2] = ["waits", "updates_failed"];

/// Replays by what was launched, and why.
pub(super) fn replays(snapshot: &Snapshot) -> Vec<Sample<'_>> {
    outcomes(snapshot, |name| !LAUNCHES.contains(&name) && !OTHERS.contains(&name))
}

/// Launches of twins by what became of them.
pub(super) fn launches(snapshot: &Snapshot) -> Vec<Sample<'_>> {
    outcomes(snapshot, |name| LAUNCHES.contains(&name))
}

fn outcomes(snapshot: &Snapshot, is_one: fn(&str) -> bool) -> Vec<Sample<'_>> {
    let counts = ledger(snapshot).each().into_iter().filter(|(name, _)| is_one(name));
    counts.map(|(name, count)| sample([("outcome", name)], Value::Count(count))).collect()
}
