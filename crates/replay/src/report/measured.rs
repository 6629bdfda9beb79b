// SPDX-License-Identifier: MIT OR Apache-2.0
//! The two tables: lanes with how their time was spent, and kernels with their
//! estimates and errors.
//!
//! Invariant: a row that reads too long, misses spans or is of records that
//! cannot be right is marked.

use metrale_telemetry::kernel::Estimate;

use super::table::{Columns, Rest, error};
use super::text::Page;
use super::{Excess, KernelRow, Report, count, percent, share, shorten, time};

/// Rows of the kernel table.
const TOP: usize = 10;
/// Columns of a lane's name, its device's number and its marks.
const LANE: usize = 12;

/// ` *!?`: it reads too long, misses spans, is of records not to be believed.
fn mark(reads_too_long: bool, missed: u64, overruns: u64) -> String {
    let marks = [(reads_too_long, '*'), (missed > 0, '!'), (overruns > 0, '?')];
    let marks: String =
        (marks.iter()).filter(|(is_marked, _)| *is_marked).map(|(_, mark)| *mark).collect();
    match marks.as_str() {
        "" => marks,
        _ => format!(" {marks}"),
    }
}

pub(super) fn lanes(report: &Report, out: &mut Page) {
    let row = |cells: [&str; 8]| {
        let [lane, spans, total, p50, p99, gap, busy, waited] = cells;
        format!(
            "{lane:<LANE$}{spans:>8}{total:>10}{p50:>10}{p99:>10}{gap:>10}{busy:>10}{waited:>10}"
        )
    };
    out.line(&row([
        report.lane_column(),
        "spans",
        "total",
        "p50",
        "p99",
        "p50 gap",
        "busy",
        "waited",
    ]));
    for lane in &report.lanes {
        let cell = |has: bool, ns| if has { time(ns) } else { "-".to_owned() };
        let (spans, armed) = (lane.spans > 0, lane.armed_ns > 0);
        let name = report.on(&lane.lane, lane.device);
        out.line(&row([
            &(name + &mark(false, lane.missed, lane.overruns)),
            &count(lane.spans),
            &cell(spans, lane.total_ns),
            &cell(spans, lane.p50_ns),
            &cell(spans, lane.p99_ns),
            &cell(lane.gaps > 0, lane.gap_p50_ns),
            &share(lane.busy_ns, lane.armed_ns),
            &cell(armed, lane.waited_ns),
        ]));
    }
}

struct Row<'a> {
    of: &'a KernelRow,
    /// Its lane and its estimate there; `None`: it was timed, and no lane has an
    /// estimate of it.
    estimate: Option<(String, Estimate)>,
    total_ns: f64,
}

impl Row<'_> {
    fn name(&self) -> &str {
        match self.of.name.as_str() {
            "" => "(without a name)",
            name => name,
        }
    }
}

/// The rows of the table: each kernel by lane, and what of it has no estimate.
fn rows(report: &Report) -> Vec<Row<'_>> {
    let losses = &report.shown.snapshot.losses;
    // Where every step was armed, estimates are sums, but for steps that lost a
    // span: theirs are estimated from the others.
    let is_told_apart = report.every == 1 && losses.unpaired_steps + losses.late_spans > 0;
    let mut rows = Vec::new();
    for of in report.kernels.iter().filter(|row| !row.in_graph) {
        for lane in &of.lanes {
            rows.push(Row {
                of,
                estimate: Some((report.on(&lane.lane, of.device), lane.estimate)),
                total_ns: lane.estimate.total_ns,
            });
        }
        let estimated_ns: f64 = of.lanes.iter().map(|lane| lane.estimate.total_ns).sum();
        let rest_ns = of.total_ns as f64 - estimated_ns;
        if of.lanes.is_empty() || is_told_apart && rest_ns >= 1.0 {
            rows.push(Row { of, estimate: None, total_ns: rest_ns });
        }
    }
    let lane = |row: &Row<'_>| row.estimate.as_ref().map(|(lane, _)| lane.clone());
    rows.sort_by(|a, b| {
        let by_time = b.total_ns.total_cmp(&a.total_ns);
        by_time.then_with(|| (a.name(), lane(a)).cmp(&(b.name(), lane(b))))
    });
    rows
}

/// Each kernel by lane: its share of the lane's time, and its total on all
/// steps. Returns by how much those shown read too long.
pub(super) fn kernels(report: &Report, out: &mut Page) -> Vec<Excess> {
    let columns = Columns::new(report, out, if report.devices.len() > 1 { LANE } else { 8 });
    let head = match report.every {
        1 => "kernel".to_owned(),
        n => format!("kernel, from one step in {n}"),
    };
    columns.line([&head, report.lane_column(), "share", "± error", "total", "steps"], out);
    let rows = rows(report);
    if rows.is_empty() {
        out.line("(none was launched one by one on an armed step)");
    }
    // All names take part, so that a label cut here stays unlike every other.
    let mut names: Vec<&str> = rows.iter().map(Row::name).collect();
    names.sort_unstable();
    names.dedup();
    let mark = |row: &Row<'_>| mark(row.of.excess.is_some(), row.of.missed, row.of.overruns);
    let marks = rows.iter().map(|row| mark(row).len()).max();
    let labels = shorten(&names, columns.name - 1 - marks.unwrap_or(0));
    let (shown, rest) = rows.split_at(rows.len().min(TOP));
    for row in shown {
        let at = names.partition_point(|name| *name < row.name());
        let label = labels.get(at).map_or(row.name(), String::as_str);
        let label = format!("{label}{}", mark(row));
        let total = match row.of.samples {
            0 => "-".to_owned(),
            _ => time(row.total_ns.round() as u64),
        };
        let Some((lane, estimate)) = &row.estimate else {
            columns.line([&label, "-", "-", "-", &total, "-"], out);
            continue;
        };
        let error = error(estimate.error.map(|error| error.share));
        let (share, steps) = (percent(estimate.share), count(estimate.steps));
        columns.line([&label, lane, &share, &error, &total, &steps], out);
    }
    let total_ns = rest.iter().map(|row| row.total_ns).sum();
    columns.rest(&Rest { rows: rest.len(), share: None, total_ns }, out);
    shown.iter().filter_map(|row| row.of.excess).collect()
}
