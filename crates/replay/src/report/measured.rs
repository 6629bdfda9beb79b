// SPDX-License-Identifier: MIT OR Apache-2.0
//! What was measured and estimated, for people: lanes, kernels with their
//! errors, coverage, launches that the GPU waited for, the floor.

use metrale_telemetry::kernel::Estimate;
use metrale_telemetry::snapshot::{LaneSnapshot, LaunchBound, Snapshot};

use super::text::Page;
use super::{Report, count, percent, share, shorten, time};

/// Rows of the kernel table.
const TOP: usize = 12;
/// Marks a kernel whose mean is within three floors.
const NEAR_FLOOR: &str = " *";

pub(super) fn lanes(report: &Report, out: &mut Page) {
    let row = |cells: [&str; 7]| {
        let [lane, spans, total, p50, p99, gap, covered] = cells;
        format!("{lane:<9}{spans:>9}{total:>12}{p50:>12}{p99:>12}{gap:>14}{covered:>12}")
    };
    out.line(&row([
        "lane",
        "spans",
        "total",
        "p50",
        "p99",
        "gap before",
        "covered",
    ]));
    for lane in &report.lanes {
        let cell = |ns| {
            if lane.spans == 0 {
                "-".to_owned()
            } else {
                time(ns)
            }
        };
        let measured = (report.shown.snapshot.lanes.iter()).find(|it| it.lane == lane.lane);
        let covered = measured.and_then(|it| it.estimate.covered);
        out.line(&row([
            &lane.lane,
            &count(lane.spans),
            &cell(lane.total_ns),
            &cell(lane.p50_ns),
            &cell(lane.p99_ns),
            &cell(lane.gap_ns),
            &covered.map_or("-".to_owned(), |it| percent(it.share)),
        ]));
    }
}

struct Row<'a> {
    name: &'a str,
    lane: &'a str,
    estimate: Estimate,
    near_floor: bool,
}

fn rows(snapshot: &Snapshot) -> Vec<Row<'_>> {
    let of_kernel = snapshot.kernels.iter().flat_map(|kernel| {
        kernel.lanes.iter().map(|lane| Row {
            name: kernel.name.as_deref().unwrap_or("(without a name)"),
            lane: &lane.lane,
            estimate: lane.estimate,
            near_floor: kernel.near_floor == Some(true),
        })
    });
    let mut rows: Vec<_> = of_kernel.collect();
    rows.sort_by(|a, b| {
        let by_time = b.estimate.total_ns.total_cmp(&a.estimate.total_ns);
        by_time.then_with(|| (a.name, a.lane).cmp(&(b.name, b.lane)))
    });
    rows
}

/// Each kernel by lane: its share of the lane's time, and its total on all
/// steps.
pub(super) fn kernels(snapshot: &Snapshot, every: u32, out: &mut Page) {
    // Where every step was armed nothing is estimated.
    let errors = every > 1;
    let column = out.width - if errors { 48 } else { 39 };
    let line = |name: &str, lane: &str, share: &str, error: &str, total: &str, steps: &str| {
        let error = if errors {
            format!("{error:>9}")
        } else {
            String::new()
        };
        format!("{name:<column$}{lane:<8}{share:>8}{error}{total:>11}{steps:>12}")
    };
    let head = match every {
        1 => "kernel".to_owned(),
        n => format!("kernel, from one step in {n}"),
    };
    out.line(&line(&head, "lane", "share", "± error", "total", "steps"));
    let rows = rows(snapshot);
    if rows.is_empty() {
        out.line("(none was launched one by one on an armed step)");
    }
    // All names take part, so that a label cut here stays unlike every other.
    let mut names: Vec<&str> = rows.iter().map(|row| row.name).collect();
    names.sort_unstable();
    names.dedup();
    let labels = shorten(&names, column - 1 - NEAR_FLOOR.len());
    for row in rows.iter().take(TOP) {
        let at = names.partition_point(|name| *name < row.name);
        let mark = if row.near_floor { NEAR_FLOOR } else { "" };
        let label = labels.get(at).map_or(row.name, String::as_str);
        let error = row.estimate.error;
        out.line(&line(
            &format!("{label}{mark}"),
            row.lane,
            &percent(row.estimate.share),
            &error.map_or("too few".to_owned(), |it| {
                format!("{:.2} %", it.share * 100.0)
            }),
            &time(row.estimate.total_ns.round() as u64),
            &count(row.estimate.steps),
        ));
    }
    let rest = rows.get(TOP..).unwrap_or(&[]);
    if !rest.is_empty() {
        let total: f64 = rest.iter().map(|row| row.estimate.total_ns).sum();
        let label = format!("and {} more", rest.len());
        out.line(&line(&label, "", "", "", &time(total.round() as u64), ""));
    }
}

pub(super) fn coverage(snapshot: &Snapshot, out: &mut Page) {
    let sum = |of: fn(&LaneSnapshot) -> u64| snapshot.lanes.iter().map(of).sum::<u64>();
    let (armed_ns, kernel_ns) = (sum(|it| it.armed_ns), sum(|it| it.kernel_ns));
    out.fact(
        "coverage",
        &format!(
            "{} of {} of lane time on armed steps is under kernel and graph spans; of the {} \
             uncovered, {} is between neighbouring launches, the rest at the lanes' ends",
            share(kernel_ns, armed_ns),
            time(armed_ns),
            time(sum(LaneSnapshot::uncovered_ns)),
            time(sum(|it| it.kernel_gap.sum_ns())),
        ),
    );
}

/// Launches, and those that the GPU waited for.
pub(super) fn launches(snapshot: &Snapshot, out: &mut Page) {
    let known: Option<Vec<LaunchBound>> = snapshot.lanes.iter().map(|it| it.launch_bound).collect();
    let bound = known.map_or(String::new(), |lanes| {
        format!(
            "; the GPU waited for {} on armed steps longer than the floor, {} in all",
            count(lanes.iter().map(|it| it.launches).sum()),
            time(lanes.iter().map(|it| it.gap_ns).sum()),
        )
    });
    let [kernels, graphs] = [snapshot.host.launches, snapshot.host.graph_launches].map(count);
    out.fact(
        "launches",
        &format!("{kernels} of kernels and {graphs} of graphs{bound}"),
    );
}

/// What an empty span reads, and what measuring costs.
pub(super) fn floor(snapshot: &Snapshot, out: &mut Page) {
    let floor = &snapshot.floor;
    let known = |ns: Option<u64>| ns.map_or("unknown".to_owned(), time);
    let near = snapshot.kernels.iter();
    let near = near.filter(|it| it.near_floor == Some(true)).count();
    let marked = match near {
        0 => String::new(),
        n => format!("; {} (*) read three times that or less", count(n as u64)),
    };
    out.fact(
        "floor",
        &format!("an empty span reads {}{marked}", known(floor.pair_ns)),
    );
    out.fact(
        "cost",
        &format!(
            "begin {}, end {}, harvest {} a span, a poll without an answer {}",
            known(floor.begin_ns),
            known(floor.end_ns),
            known(floor.harvest_ns),
            known(floor.poll_ns),
        ),
    );
}
