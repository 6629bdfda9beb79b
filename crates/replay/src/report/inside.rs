// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table of what is inside graphs, and the facts of how it was found.
//!
//! Invariant: a recorded gap is no row. Rows are of all graphs together, and shares
//! are of what all of these took.

use std::collections::BTreeMap;

use metrale_telemetry::snapshot::{GraphRow, NodeKind, TwinLedger};

use super::table::{Columns, Rest, error};
use super::text::Page;
use super::{Report, count, listed, number, percent, shorten, time};
use crate::device::GAPS;

/// Rows of the table.
const TOP: usize = 8;

/// A row, of all graphs.
struct InsideRow {
    total_ns: f64,
    share: f64,
    /// Squared, of the share; `None`: of one graph not known.
    error: Option<f64>,
    launches: u64,
}

/// What the rows inside graphs come to.
pub(super) struct InsideGraphs {
    rows: Vec<(String, InsideRow)>,
    /// What the graphs took.
    total_ns: f64,
    /// Recorded gaps: their share of that.
    gaps: f64,
}

/// Whether a row is of nodes that were recorded.
pub(crate) fn is_recorded(row: &GraphRow) -> bool {
    row.name.as_deref() != Some(GAPS)
}

fn label(row: &GraphRow) -> String {
    match (&row.name, row.kind) {
        (_, NodeKind::SideBySide) => format!("{} nodes side by side", row.width),
        (Some(name), _) if !name.is_empty() => name.clone(),
        _ => "(without a name)".to_owned(),
    }
}

impl InsideGraphs {
    pub(super) fn of(report: &Report) -> Self {
        let seen = report.shown.snapshot.graphs.iter().map(|graph| &graph.figures);
        let seen: Vec<_> = seen.filter(|figures| figures.twin_launches > 0).collect();
        let total_ns: f64 = seen.iter().map(|figures| figures.total_ns).sum();
        let mut rows: BTreeMap<String, InsideRow> = BTreeMap::new();
        let mut gaps = 0.0;
        for figures in seen {
            let part = figures.total_ns / total_ns.max(1.0);
            for of in &figures.rows {
                if !is_recorded(of) {
                    gaps += part * of.estimate.share;
                    continue;
                }
                let none = InsideRow { total_ns: 0.0, share: 0.0, error: Some(0.0), launches: 0 };
                let row = rows.entry(label(of)).or_insert(none);
                // Where every step was armed nothing is estimated.
                row.total_ns += match report.every {
                    1 => of.sampled_ns as f64,
                    _ => of.estimate.total_ns,
                };
                row.share += part * of.estimate.share;
                row.error = row.error.zip(of.estimate.error).map(|(sum, error)| {
                    let error = part * error.share;
                    error.mul_add(error, sum)
                });
                row.launches += of.estimate.steps;
            }
        }
        let mut rows: Vec<_> = rows.into_iter().collect();
        // Stable: of equals in the order of their names.
        rows.sort_by(|(_, one), (_, other)| other.total_ns.total_cmp(&one.total_ns));
        Self { rows, total_ns, gaps }
    }

    /// The table, and a blank line; nothing where no twin was read.
    pub(super) fn table(&self, report: &Report, out: &mut Page) {
        if self.rows.is_empty() {
            return;
        }
        let columns = Columns::new(report, out, 0);
        columns.line(["inside graphs", "", "share", "± error", "total", "launches"], out);
        let names: Vec<&str> = self.rows.iter().map(|(name, _)| name.as_str()).collect();
        let labels = shorten(&names, columns.name - 1);
        for ((_, row), label) in self.rows.iter().zip(&labels).take(TOP) {
            let (share, error) = (percent(row.share), error(row.error.map(f64::sqrt)));
            let total = time(row.total_ns.round() as u64);
            columns.line([label, "", &share, &error, &total, &count(row.launches)], out);
        }
        let rest = self.rows.get(TOP..).unwrap_or_default();
        let sum = |of: fn(&InsideRow) -> f64| rest.iter().map(|(_, row)| of(row)).sum();
        let (share, total_ns) = (Some(sum(|row| row.share)), sum(|row| row.total_ns));
        columns.rest(&Rest { rows: rest.len(), share, total_ns }, out);
        out.gap();
    }

    /// What the rows explain, what marks took, and which launches had none.
    pub(super) fn facts(&self, report: &Report, out: &mut Page) {
        let Some(twins) = report.twins else {
            return;
        };
        let mut label = "inside";
        if !self.rows.is_empty() {
            let share: f64 = self.rows.iter().map(|(_, row)| row.share).sum();
            let rows = number(self.rows.len() as u64, "row");
            let total = time(self.total_ns.round() as u64);
            let mut text = format!("{rows} explain {} of {total} in graphs", percent(share));
            if self.gaps >= 0.000_5 {
                text += &format!(", gaps between kernels {}", percent(self.gaps));
            }
            out.fact(label, &text);
            label = "";
            if let Some(text) = marks(report) {
                out.fact(label, &text);
            }
        }
        if let Some(text) = plain(&twins) {
            out.fact(label, &text);
        }
    }
}

/// What marks took of the launches that had them.
fn marks(report: &Report) -> Option<String> {
    let mark_ns = report.graphs.mark_ns.filter(|ns| *ns > 0)?;
    let (mut twin_ns, mut marks_ns, mut launches) = (0, 0, 0);
    for graph in &report.shown.snapshot.graphs {
        twin_ns += graph.figures.twin_ns;
        marks_ns += graph.figures.marks_ns;
        launches += graph.figures.twin_launches;
    }
    let more = marks_ns as f64 / twin_ns.saturating_sub(marks_ns).max(1) as f64;
    Some(format!(
        "a mark takes {} of the GPU, all of them {} of the {} that had marks, whose steps stand \
         behind all others among the slowest",
        time(mark_ns),
        percent(more),
        match launches {
            1 => "launch".to_owned(),
            launches => format!("{} launches", count(launches)),
        }
    ))
}

/// Why launches on armed steps had no marks.
fn plain(twins: &TwinLedger) -> Option<String> {
    let lost = twins.launched.saturating_sub(twins.read);
    let reasons = [
        (twins.by_turn, "to compare with"),
        (twins.unread, "too soon after one that had"),
        (twins.plan_spent, "before the next marks were made"),
        (twins.other_stream, "as a graph's first, or on another stream"),
        (twins.no_span, "without a span"),
        (twins.no_twin + twins.stale + twins.launch_failed, "of graphs without a twin"),
    ];
    let told = listed(reasons, count, ", ");
    let (all, plain) = (count(twins.launched + twins.plain()), count(twins.plain()));
    let none = format!("{plain} of {all} launches on armed steps had none: {told}");
    match (twins.plain(), lost) {
        (0, 0) => None,
        (_, 0) => Some(none),
        (_, lost) => Some(format!("{none}; marks of {} were not read", count(lost))),
    }
}
