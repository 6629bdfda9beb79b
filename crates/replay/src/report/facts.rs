// SPDX-License-Identifier: MIT OR Apache-2.0
//! The facts below the tables: how lanes' time was spent, what was lost, what
//! measuring costs, and whether what was read is right.

use super::inside::InsideGraphs;
use super::latency::latency;
use super::text::Page;
use super::{
    Excess, LaneRow, LedgerTotals, Report, Stamps, count, listed, number, share, shorten, time,
};
use crate::check::{Check, Differences};

/// Rows that are named where several miss spans.
const NAMED: usize = 3;
/// Columns of such a name.
const NAME: usize = 32;

/// The facts; the rows shown read too long by `marked`.
pub(super) fn facts(report: &Report, marked: Vec<Excess>, inside: &InsideGraphs, out: &mut Page) {
    busy(report, out);
    losses(report, out);
    launches(report, out);
    inside.facts(report, out);
    latency(marked, out);
    cost(report, out);
    overlap(report, out);
    if let Some(text) = check(report) {
        out.fact("check", &text);
    }
    ledger(&report.ledger, out);
    for note in &report.notes {
        out.fact("note", note);
    }
}

/// How the lanes' time on armed steps was spent.
fn busy(report: &Report, out: &mut Page) {
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
        let waits = format!("before {} launches that the GPU waited for", count(waits));
        let parts = [
            (sum(|lane| lane.lead_ns), "before a lane's first launch"),
            (sum(|lane| lane.waited_ns), &waits),
            (sum(|lane| lane.tail_ns), "after its last"),
        ];
        text += &format!("; idle {}: {}", time(idle_ns), listed(parts, time, ", "));
    }
    out.fact("busy", &text);
    if report.devices.len() > 1 {
        for device in &report.devices {
            let text = format!(
                "GPU {}: {} of {} that any lane took",
                device.device,
                share(device.busy_ns, device.span_ns),
                time(device.span_ns)
            );
            out.fact("", &text);
        }
    }
    let overlap_ns = sum(|lane| lane.overlap_busy_ns);
    if overlap_ns > 0 {
        let overlap = time(overlap_ns);
        out.fact("", &format!("launches ran beside others of their lane for {overlap}"));
    }
    // Rounding of places and lengths comes to some nanoseconds.
    let outside_ns = sum(|lane| lane.outside_ns);
    if outside_ns > 1_000 {
        let outside = time(outside_ns);
        out.fact("", &format!("launches ran outside their lane's time for {outside}"));
    }
    let incomplete_ns = sum(|lane| lane.incomplete_ns);
    if incomplete_ns > 0 {
        let incomplete = time(incomplete_ns);
        out.fact(
            "",
            &format!("how {incomplete} of lane time on armed steps was spent is not known"),
        );
    }
}

/// What steps lost, and which rows miss spans.
fn losses(report: &Report, out: &mut Page) {
    let losses = &report.shown.snapshot.losses;
    let parts = [
        (losses.incomplete_steps, "armed step", "that lost a span"),
        (losses.unplaced_steps, "armed step", "without a place in time"),
        (losses.late_spans, "span", "begun after its step was over"),
        (losses.unpaired_steps, "step", "with launches in a lane without a span"),
        (losses.rowless_spans, "span", "without a row for estimates"),
    ];
    let told: Vec<String> = (parts.iter())
        .filter(|(n, ..)| *n > 0)
        .map(|(n, thing, what)| format!("{} {what}", number(*n, thing)))
        .collect();
    if !told.is_empty() {
        out.fact("losses", &told.join(", "));
    }
    let lanes = report.lanes.iter();
    let lanes = lanes.map(|row| (row.missed, row.spans, report.on(&row.lane, row.device)));
    let rows = report.kernels.iter();
    let rows = rows.map(|row| (row.missed, row.samples, report.on(&row.name, row.device)));
    let mut missing: Vec<_> = lanes.chain(rows).filter(|row| row.0 > 0).collect();
    missing.sort_by_key(|row| std::cmp::Reverse(row.0));
    let told: Vec<String> = (missing.iter().take(NAMED))
        .map(|(missed, landed, name)| {
            let (missed, all) = (count(*missed), count(missed + landed));
            format!("{} {missed} of {all}", shorten(&[name], NAME)[0])
        })
        .collect();
    let more = missing.len().saturating_sub(NAMED);
    if !told.is_empty() {
        let more = match more {
            0 => String::new(),
            more => format!(", and {} more", count(more as u64)),
        };
        out.fact("missing", &format!("rows (!) miss spans: {}{more}", told.join(", ")));
    }
}

/// Launches, timed or not.
fn launches(report: &Report, out: &mut Page) {
    let host = &report.shown.snapshot.host;
    let [kernels, graphs] = [host.launches, host.graph_launches].map(count);
    let inside = match report.graphs.kernels {
        0 => String::new(),
        inside => format!(", which hold {} kernels", count(inside)),
    };
    out.fact("launches", &format!("{kernels} kernels and {graphs} graphs{inside}"));
}

/// What measuring costs, and what an empty span reads.
fn cost(report: &Report, out: &mut Page) {
    if report.stamps == Stamps::Ideal {
        // All of it is 0 by decree.
        return;
    }
    let floor = &report.shown.snapshot.floor;
    let known = |ns: Option<u64>| ns.map_or("unknown".to_owned(), time);
    let mut text = format!(
        "{} to begin a span, {} to end it, {} to harvest it",
        known(floor.begin_ns),
        known(floor.end_ns),
        known(floor.harvest_ns),
    );
    let lanes_ns: u64 = report.lanes.iter().map(|lane| lane.total_ns).sum();
    if let (Some(begin_ns), Some(end_ns), 1..) = (floor.begin_ns, floor.end_ns, lanes_ns) {
        let steps = report.steps.max(1) as f64;
        let spans = report.ledger.spans.begun as f64;
        let host_ns = spans * (begin_ns + end_ns) as f64;
        text = format!(
            "a step's {:.1} spans take {} of host time, {:.2} % of its GPU time: {text}",
            spans / steps,
            time((host_ns / steps).round() as u64),
            host_ns / lanes_ns as f64 * 100.0,
        );
    }
    out.fact("cost", &text);
    out.fact("floor", &format!("an empty span reads {}", known(floor.pair_ns)));
}

fn overlap(report: &Report, out: &mut Page) {
    let sum = |of: fn(&LaneRow) -> u64| report.lanes.iter().map(of).sum::<u64>();
    let across_ns = sum(|lane| lane.overlap_lanes_ns);
    let overlap_ns = sum(|lane| lane.overlap_ns) + across_ns;
    if overlap_ns > 0 {
        let across = match across_ns {
            0 => String::new(),
            ns => format!(", {} of it between lanes", time(ns)),
        };
        let within = match report.graphs.launches {
            0 => "",
            _ => ", but at once within a graph",
        };
        let text = format!(
            "{} recorded at once on a lane's stream{across}: replayed end to end{within}",
            time(overlap_ns)
        );
        out.fact("overlap", &text);
    }
}

fn check(report: &Report) -> Option<String> {
    let Some(Check { lanes, kernels }) = &report.check else {
        let read = report.kernels.iter().filter(|row| row.is_eager_kernel());
        let read_ns: u64 = read.map(|row| row.total_ns).sum();
        let planned_ns = report.shown.planned_ns;
        let more_ns = read_ns.checked_sub(planned_ns).filter(|_| planned_ns > 0)?;
        return Some(format!(
            "kernels read {} longer than they ran, {}: on an idle stream a span waits for its \
             launch",
            share(more_ns, planned_ns),
            time(more_ns)
        ));
    };
    let dropped =
        report.ledger.spans.attempts == report.ledger.spans.landed + report.ledger.spans.dropped;
    let off = |found: &Differences| off(found, if dropped { "dropped" } else { "lost" });
    Some(match kernels {
        Some(kernels) if off(kernels) == off(lanes) => {
            format!("lanes, kernels and graphs equal the timeline, {}", off(lanes))
        }
        Some(kernels) => format!(
            "lanes equal the timeline, {}; kernels and graphs, {}",
            off(lanes),
            off(kernels)
        ),
        None => format!("lanes equal the timeline, {}", off(lanes)),
    })
}

/// What differs, by cause.
fn off(found: &Differences, lost: &str) -> String {
    let parts = [
        (found.overlap_ns, "of overlap laid end to end".to_owned()),
        (found.rounding_ns, "of f32 rounding".to_owned()),
        (found.missed_ns, format!("of {}", number(found.missed_spans, &format!("{lost} span")))),
        (found.rowless_ns, format!("of {} without a row", number(found.rowless, "name"))),
        (found.unexplained_ns, "unexplained".to_owned()),
    ];
    match listed(parts, time, ", ").as_str() {
        "" => "to the nanosecond".to_owned(),
        told => format!("but for {told}"),
    }
}

fn ledger(LedgerTotals { spans: l, table_full }: &LedgerTotals, out: &mut Page) {
    let sum = |first: u64, what: &str, rest: &[(u64, &str)]| -> String {
        let rest = listed(rest.iter().copied(), count, " + ");
        let plus = if rest.is_empty() { "" } else { " + " };
        format!("{} {what}{plus}{rest}", count(first))
    };
    let full = l.stale_ends + table_full > 0;
    if l.landed == l.attempts && !full {
        let all = count(l.attempts);
        out.fact("ledger", &format!("{all} attempts = {all} begun = {all} landed"));
        return;
    }
    let attempts = sum(l.begun, "begun", &[(l.dropped, "dropped"), (l.refused, "refused")]);
    let rest = [
        (l.failed, "failed"),
        (l.cancelled, "cancelled"),
        (l.reclaimed, "reclaimed"),
        (l.in_flight, "in flight"),
    ];
    let begun = sum(l.landed, "landed", &rest);
    out.fact("ledger", &format!("{} attempts = {attempts}", count(l.attempts)));
    out.fact("", &format!("{} begun = {begun}", count(l.begun)));
    if full {
        out.fact(
            "",
            &format!("{} stale ends, {} without a row", count(l.stale_ends), count(*table_full)),
        );
    }
}
