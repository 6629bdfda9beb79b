// SPDX-License-Identifier: MIT OR Apache-2.0
//! The figures of the page, held against `/snapshot.json`: worked out and spelt
//! anew here.

use super::{Browser, devtools::wait_for_the_same, http};
use metrale_telemetry::Snapshot;
use metrale_telemetry::kernel::{Estimate, LaneFigures};
use metrale_telemetry::snapshot::{GraphSnapshot, LaneSnapshot, NodeKind};

/// The tables whose cells are compared, in the page's order.
const TABLES: [&str; 6] =
    ["lanes-table", "rows-table", "inside-table", "twins-table", "slow-table", "ledger-table"];
const FACTS: &str = "JSON.stringify([...document.querySelectorAll('#sound-facts dd')].map((fact) => fact.textContent.trim()))";
/// Rows that are shown of those of kernels, and of slow steps.
const ROWS: usize = 12;
const SLOW: usize = 8;
/// What is not known.
pub(crate) const NONE: &str = "–";

pub(crate) type Table = Vec<Vec<String>>;

/// Waits until page and snapshot are of the same second, and say the same: the
/// steps of it.
pub(crate) fn hold(browser: &mut Browser, port: u16) -> u64 {
    let mut steps = 0;
    wait_for_the_same(|| {
        let snapshot: Snapshot = http::json(port, "/snapshot.json");
        steps = snapshot.steps;
        let facts = serde_json::from_str(&browser.text(FACTS)).expect("facts");
        let tables = TABLES.map(|table| cells(browser, &format!("#{table} tbody")));
        ((tables, facts), expected(&snapshot))
    });
    steps
}

/// The cells of a table's body.
pub(crate) fn cells(browser: &mut Browser, body: &str) -> Table {
    let cells = browser.text(&format!("JSON.stringify([...document.querySelector('{body}').rows].map((row) => [...row.cells].map((cell) => cell.innerText.trim().replace(/\\s+/g, ' '))))"));
    serde_json::from_str(&cells).expect("cells")
}

fn expected(snapshot: &Snapshot) -> ([Table; 6], Vec<String>) {
    let tables = [
        lanes(snapshot),
        rows(snapshot),
        inside(snapshot, ROWS),
        twins(snapshot),
        slow(snapshot),
        ledger(snapshot),
    ];
    (tables, sound(snapshot))
}

fn lanes(snapshot: &Snapshot) -> Table {
    let all: u64 = snapshot.lanes.iter().map(|lane| lane.gpu.sum_ns()).sum();
    let row = |lane: &LaneSnapshot| {
        let of = |part: fn(&LaneFigures) -> u64| {
            let figures = lane.figures.filter(|figures| figures.time_ns > 0);
            share(figures.map(|figures| part(&figures) as f64 / figures.time_ns as f64))
        };
        vec![
            lane.lane.clone(),
            share(Some(lane.gpu.sum_ns() as f64 / all as f64)),
            count(lane.gpu.count()),
            time(Some(lane.gpu.sum_ns() as f64)),
            time(lane.gpu.quantile(0.5).map(|ns| ns as f64)),
            time(lane.gpu.quantile(0.99).map(|ns| ns as f64)),
            time(lane.gap.quantile(0.5).map(|ns| ns as f64)),
            of(|figures| figures.busy_ns),
            of(|figures| figures.waited_ns),
            of(|figures| figures.lead_ns + figures.tail_ns),
        ]
    };
    snapshot.lanes.iter().map(row).collect()
}

fn rows(snapshot: &Snapshot) -> Table {
    let pairs = snapshot.kernels.iter();
    let mut pairs: Vec<_> =
        pairs.flat_map(|kernel| kernel.lanes.iter().map(move |lane| (kernel, lane))).collect();
    pairs.sort_by(|(_, a), (_, b)| b.estimate.total_ns.total_cmp(&a.estimate.total_ns));
    let floor = snapshot.floor.pair_ns.expect("measured") as f64;
    let row = |(kernel, lane): &(
        &metrale_telemetry::snapshot::KernelSnapshot,
        &metrale_telemetry::snapshot::KernelLane,
    )| {
        let estimate = lane.estimate;
        let mean = kernel.total_ns as f64 / kernel.samples as f64;
        let name = kernel.series.as_ref().or(kernel.name.as_ref()).expect("named");
        let kind = kernel.kind.as_str();
        let tag = if kind == "kernel" { String::new() } else { format!(" {kind}") };
        let near = if mean < 3.0 * floor { "≈ " } else { "" };
        vec![
            shortened(name, 46) + &tag,
            lane.lane.clone(),
            String::new(),
            share_of(&estimate),
            total_of(&estimate),
            format!("{near}{}", time(Some(mean))),
            count(kernel.samples),
            time(Some(kernel.figures.waited_ns as f64)),
        ]
    };
    pairs.iter().take(ROWS).map(row).collect()
}

/// What is inside of graphs, up to so many rows.
pub(crate) fn inside(snapshot: &Snapshot, most: usize) -> Table {
    let mut rows = Table::new();
    for graph in snapshot.graphs.iter().filter(|graph| !graph.figures.rows.is_empty()) {
        let figures = &graph.figures;
        for row in &figures.rows {
            let what = match row.kind {
                NodeKind::Kernel => row.series.clone().unwrap_or("(no name)".to_owned()),
                NodeKind::Copy => "copies".to_owned(),
                NodeKind::Set => "memory sets".to_owned(),
                NodeKind::SideBySide => format!("{} nodes side by side", row.width),
                other => panic!("{other:?} is in no test"),
            };
            rows.push(vec![
                shortened(&what, 46),
                graph_name(graph),
                String::new(),
                share_of(&row.estimate),
                total_of(&row.estimate),
                time(Some(row.sampled_ns as f64 / row.samples as f64)),
                count(row.nodes),
                count(row.samples),
            ]);
        }
        let rest = (figures.total_ns > 0.0).then(|| figures.remainder_ns / figures.total_ns);
        let (part, total) = (share(rest), time(Some(figures.remainder_ns)));
        let rest = ["the rest", &graph_name(graph), "", &part, &total, "", "", ""];
        rows.push(rest.map(str::to_owned).into());
    }
    rows.truncate(most);
    rows
}

/// What twins say of their graphs.
pub(crate) fn twins(snapshot: &Snapshot) -> Table {
    let row = |graph: &GraphSnapshot| {
        let figures = &graph.figures;
        let explained: f64 = figures.rows.iter().map(|row| row.estimate.share).sum();
        vec![
            graph_name(graph),
            share(Some(explained)),
            count(figures.nodes),
            count(figures.plans),
            count(figures.twin_launches),
            count(figures.plain_launches),
            time(figures.mark_ns),
            figures.perturbation.map_or(NONE.to_owned(), |ratio| format!("× {ratio:.3}")),
        ]
    };
    snapshot.graphs.iter().map(row).collect()
}

fn graph_name(graph: &GraphSnapshot) -> String {
    graph.name.as_ref().map_or("(no name)".to_owned(), |name| shortened(name, 24))
}

/// A share with its error.
fn share_of(estimate: &Estimate) -> String {
    let part = share(Some(estimate.share));
    match estimate.error {
        Some(error) => format!("{part} ± {}", share(Some(error.share))),
        None => format!("{part} (too few)"),
    }
}

/// A total with its error.
fn total_of(estimate: &Estimate) -> String {
    let total = time(Some(estimate.total_ns));
    match estimate.error {
        Some(error) => format!("{total} ± {}", time(Some(error.total_ns))),
        None => total,
    }
}

fn slow(snapshot: &Snapshot) -> Table {
    let steps = snapshot.slowest_steps.iter().take(SLOW);
    let row = |step: &metrale_telemetry::snapshot::StepSnapshot| {
        let lanes = step.lanes.iter();
        let of_it = lanes.map(|lane| format!("{} {}", lane.lane, time(Some(lane.gpu_ns as f64))));
        let gaps: Option<u64> = step.lanes.iter().map(|lane| lane.gap_ns).sum();
        let armed = match step {
            step if step.marked => " twin",
            step if step.armed => " armed",
            _ => "",
        };
        vec![
            count(step.number) + armed,
            time(Some(step.gpu_ns as f64)),
            String::new(),
            of_it.collect::<Vec<_>>().join(", "),
            time(gaps.map(|ns| ns as f64)),
            time(step.wall_ns.map(|ns| ns as f64)),
            made_of(step.shape),
            step.age_ns.map_or(NONE.to_owned(), ago),
        ]
    };
    steps.map(row).collect()
}

pub(crate) fn made_of(shape: Option<metrale_telemetry::kernel::StepShape>) -> String {
    let shape = shape.unwrap_or_default();
    let parts = [
        (shape.prompt_tokens, "prompt"),
        (shape.decode_tokens, "decode"),
        (shape.requests, "requests"),
    ];
    let parts = parts.iter().filter(|(many, _)| *many > 0);
    let parts: Vec<_> =
        parts.map(|(many, name)| format!("{} {name}", count(u64::from(*many)))).collect();
    if parts.is_empty() { NONE.to_owned() } else { parts.join(", ") }
}

fn ago(ns: u64) -> String {
    let seconds = ns as f64 / 1e9;
    let age = match seconds {
        ..10.0 => time(Some(ns as f64)),
        ..120.0 => format!("{} s", seconds.round()),
        _ => format!("{} min", (seconds / 60.0).round()),
    };
    age + " ago"
}

fn ledger(snapshot: &Snapshot) -> Table {
    let rings = snapshot.recorders.iter().flat_map(|recorder| {
        let rings = [("lanes", recorder.lane_ledger), ("kernels", recorder.kernel_ledger)];
        rings.map(|(ring, ledger)| (recorder.label.clone(), ring.to_owned(), ledger))
    });
    let row = |(label, ring, of): (String, String, metrale_telemetry::kernel::Ledger)| {
        let counts = [
            of.attempts,
            of.begun,
            of.landed,
            of.dropped,
            of.refused,
            of.failed,
            of.cancelled,
            of.reclaimed,
            of.in_flight,
        ];
        let closes = if of.closes() { "yes" } else { "off by 1" };
        let counts = counts.into_iter().map(count);
        [label, ring].into_iter().chain(counts).chain([closes.to_owned()]).collect()
    };
    rings.map(row).collect()
}

fn sound(snapshot: &Snapshot) -> Vec<String> {
    let (config, floor) = (snapshot.config.expect("one process"), snapshot.floor);
    let figure = |ns: Option<u64>| time(ns.map(|ns| ns as f64));
    let oldest = |is_open| {
        let spans = snapshot.recorders.iter().flat_map(|recorder| &recorder.oldest);
        let ages = spans.filter(|span| span.is_open == is_open).filter_map(|span| span.age_ns);
        ages.max().map_or(NONE.to_owned(), |ns| ago(ns).replace(" ago", ""))
    };
    vec![
        "kernel".to_owned(),
        format!("1 in {} hashed", count(config.every)),
        format!("{} {} armed", count(snapshot.steps), count(snapshot.armed_steps)),
        figure(floor.pair_ns),
        format!(
            "{} and {} to harvest",
            figure(floor.begin_ns.zip(floor.end_ns).map(|(a, b)| a + b)),
            figure(floor.harvest_ns)
        ),
        oldest(false),
        oldest(true),
    ]
}

pub(crate) fn time(ns: Option<f64>) -> String {
    let Some(ns) = ns else { return NONE.to_owned() };
    let units = [("s", 1e9), ("ms", 1e6), ("µs", 1e3)];
    let unit = units.iter().find(|(_, size)| ns.abs() >= size * 0.99995);
    unit.map_or_else(
        || format!("{} ns", ns.round()),
        |(unit, size)| {
            let value = ns / size;
            match value.abs() {
                1000.0.. => format!("{} {unit}", count(value.round() as u64)),
                100.0.. => format!("{value:.1} {unit}"),
                _ => format!("{value:.2} {unit}"),
            }
        },
    )
}

pub(crate) fn share(part: Option<f64>) -> String {
    let Some(part) = part else {
        return NONE.to_owned();
    };
    match 100.0 * part {
        ..0.0 => format!("-{}", share(Some(-part))),
        0.0 => "0 %".to_owned(),
        ..0.0005 => "< 0.001 %".to_owned(),
        percent @ ..0.00995 => format!("{percent:.3} %"),
        percent @ ..0.995 => format!("{percent:.2} %"),
        percent => format!("{percent:.1} %"),
    }
}

pub(crate) fn count(value: u64) -> String {
    let digits = value.to_string();
    let groups = digits.as_bytes().rchunks(3).rev();
    let groups: Vec<_> = groups.map(String::from_utf8_lossy).collect();
    groups.join(",")
}

/// A name of so many characters at most: it loses its middle.
fn shortened(name: &str, most: usize) -> String {
    if name.len() <= most {
        return name.to_owned();
    }
    let (begin, end) = ((11 * most).div_ceil(20), 2 * most / 5);
    format!("{}…{}", &name[..begin], &name[name.len() - end..])
}
