// SPDX-License-Identifier: MIT OR Apache-2.0
//! What was measured and estimated, for people: lanes and how their time was
//! spent, kernels with their errors, losses, the floor, launch latency.

use metrale_telemetry::kernel::Estimate;
use metrale_telemetry::snapshot::Snapshot;

use super::latency::{excess, latency};
use super::text::Page;
use super::{LaneRow, Report, count, percent, share, shorten, time};

/// Rows of the kernel table.
const TOP: usize = 12;
/// Marks a row that reads too long.
const MARK: &str = " *";

pub(super) fn lanes(report: &Report, out: &mut Page) {
    let row = |cells: [&str; 8]| {
        let [lane, spans, total, p50, p99, gap, busy, waited] = cells;
        format!("{lane:<10}{spans:>8}{total:>11}{p50:>10}{p99:>10}{gap:>12}{busy:>8}{waited:>11}")
    };
    out.line(&row([
        "lane",
        "spans",
        "total",
        "p50",
        "p99",
        "gap before",
        "busy",
        "waited",
    ]));
    for lane in &report.lanes {
        let cell = |has: bool, ns| if has { time(ns) } else { "-".to_owned() };
        let (spans, armed) = (lane.spans > 0, lane.armed_ns > 0);
        let name = if report.devices.len() > 1 {
            format!("{} {}", lane.lane, lane.device)
        } else {
            lane.lane.clone()
        };
        out.line(&row([
            &name,
            &count(lane.spans),
            &cell(spans, lane.total_ns),
            &cell(spans, lane.p50_ns),
            &cell(spans, lane.p99_ns),
            &cell(spans, lane.gap_ns),
            &share(lane.busy_ns, lane.armed_ns),
            &cell(armed, lane.waited_ns),
        ]));
    }
}

struct Row<'a> {
    name: &'a str,
    lane: &'a str,
    /// `None`: it was timed, and no lane has an estimate of it.
    estimate: Option<Estimate>,
    total_ns: f64,
    is_marked: bool,
}

/// The rows of the table: each kernel by lane, and what of it has no estimate.
fn rows(snapshot: &Snapshot, every: u32) -> Vec<Row<'_>> {
    let losses = &snapshot.losses;
    // Where every step was armed, estimates are sums, but for steps that lost a
    // span: theirs are estimated from the others.
    let is_told_apart = every == 1 && losses.unpaired_steps + losses.late_spans > 0;
    let mut rows = Vec::new();
    for kernel in &snapshot.kernels {
        let name = kernel.name.as_deref().unwrap_or("(without a name)");
        let is_marked = excess(kernel, snapshot.floor.pair_ns).is_some();
        for lane in &kernel.lanes {
            rows.push(Row {
                name,
                lane: &lane.lane,
                estimate: Some(lane.estimate),
                total_ns: lane.estimate.total_ns,
                is_marked,
            });
        }
        let estimated_ns: f64 = kernel.lanes.iter().map(|lane| lane.estimate.total_ns).sum();
        let rest_ns = kernel.total_ns as f64 - estimated_ns;
        if kernel.lanes.is_empty() || is_told_apart && rest_ns >= 1.0 {
            rows.push(Row {
                name,
                lane: "-",
                estimate: None,
                total_ns: rest_ns,
                is_marked,
            });
        }
    }
    rows.sort_by(|a, b| {
        let by_time = b.total_ns.total_cmp(&a.total_ns);
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
    let rows = rows(snapshot, every);
    if rows.is_empty() {
        out.line("(none was launched one by one on an armed step)");
    }
    // All names take part, so that a label cut here stays unlike every other.
    let mut names: Vec<&str> = rows.iter().map(|row| row.name).collect();
    names.sort_unstable();
    names.dedup();
    let labels = shorten(&names, column - 1 - MARK.len());
    for row in rows.iter().take(TOP) {
        let at = names.partition_point(|name| *name < row.name);
        let mark = if row.is_marked { MARK } else { "" };
        let label = labels.get(at).map_or(row.name, String::as_str);
        let estimate = row.estimate;
        let error = match estimate {
            None => "-".to_owned(),
            Some(estimate) => estimate.error.map_or("too few".to_owned(), |error| {
                format!("{:.2} %", error.share * 100.0)
            }),
        };
        out.line(&line(
            &format!("{label}{mark}"),
            row.lane,
            &estimate.map_or("-".to_owned(), |estimate| percent(estimate.share)),
            &error,
            &time(row.total_ns.round() as u64),
            &estimate.map_or("-".to_owned(), |estimate| count(estimate.steps)),
        ));
    }
    let rest = rows.get(TOP..).unwrap_or(&[]);
    if !rest.is_empty() {
        let total: f64 = rest.iter().map(|row| row.total_ns).sum();
        let label = format!("and {} more", rest.len());
        out.line(&line(&label, "", "", "", &time(total.round() as u64), ""));
    }
}

/// How the lanes' time on armed steps was spent.
pub(super) fn busy(report: &Report, out: &mut Page) {
    let sum = |of: fn(&LaneRow) -> u64| report.lanes.iter().map(of).sum::<u64>();
    let (armed_ns, idle_ns) = (sum(|lane| lane.armed_ns), sum(|lane| lane.idle_ns));
    let mut text = format!(
        "{} of {} of lane time on armed steps",
        share(sum(|lane| lane.busy_ns), armed_ns),
        time(armed_ns),
    );
    if idle_ns > 0 {
        let waits: u64 = (report.shown.snapshot.lanes.iter())
            .filter_map(|lane| lane.figures)
            .map(|figures| figures.waits)
            .sum();
        text += &format!(
            "; idle {}: {} before a lane's first launch, {} before {} launches that the GPU \
             waited for, {} after the last",
            time(idle_ns),
            time(sum(|lane| lane.lead_ns)),
            time(sum(|lane| lane.waited_ns)),
            count(waits),
            time(sum(|lane| lane.tail_ns)),
        );
    }
    out.fact("busy", &text);
    let (overlap_ns, outside_ns) = (
        sum(|lane| lane.overlap_busy_ns),
        sum(|lane| lane.outside_ns),
    );
    if overlap_ns > 0 {
        let text = format!(
            "launches ran beside others of their lane for {}",
            time(overlap_ns)
        );
        out.fact("", &text);
    }
    // Rounding of places and lengths comes to some nanoseconds.
    if outside_ns > 1_000 {
        let text = format!(
            "launches ran outside their lane's time for {}",
            time(outside_ns)
        );
        out.fact("", &text);
    }
    if report.devices.len() > 1 {
        for device in &report.devices {
            let text = format!(
                "device {}: {} of {} that any lane took",
                device.device,
                share(device.busy_ns, device.span_ns),
                time(device.span_ns)
            );
            out.fact("", &text);
        }
    }
    let incomplete_ns = sum(|lane| lane.incomplete_ns);
    if incomplete_ns > 0 {
        let text = format!(
            "how {} of lane time on armed steps was spent is not known",
            time(incomplete_ns)
        );
        out.fact("", &text);
    }
}

/// What steps lost, if anything.
pub(super) fn losses(snapshot: &Snapshot, out: &mut Page) {
    let losses = &snapshot.losses;
    let parts = [
        ("armed steps that lost a span", losses.incomplete_steps),
        ("armed steps without a place in time", losses.unplaced_steps),
        ("spans begun after their step was over", losses.late_spans),
        (
            "steps with launches in a lane without a span",
            losses.unpaired_steps,
        ),
        ("launches without a row for estimates", losses.rowless_spans),
    ];
    let told: Vec<String> = (parts.iter())
        .filter(|(_, n)| *n > 0)
        .map(|(what, n)| format!("{what} {}", count(*n)))
        .collect();
    if !told.is_empty() {
        out.fact("losses", &told.join(", "));
    }
}

/// Launches, timed or not.
pub(super) fn launches(snapshot: &Snapshot, out: &mut Page) {
    let [kernels, graphs] = [snapshot.host.launches, snapshot.host.graph_launches].map(count);
    out.fact(
        "launches",
        &format!("{kernels} of kernels and {graphs} of graphs"),
    );
}

/// What an empty span reads, and what measuring costs.
pub(super) fn floor(snapshot: &Snapshot, out: &mut Page) {
    let floor = &snapshot.floor;
    let known = |ns: Option<u64>| ns.map_or("unknown".to_owned(), time);
    out.fact(
        "floor",
        &format!("an empty span reads {}", known(floor.pair_ns)),
    );
    latency(snapshot, out);
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
