// SPDX-License-Identifier: MIT OR Apache-2.0
//! The figures of the page, held against `/snapshot.json`: worked out and spelt
//! anew here.

use super::{Browser, devtools::PATIENCE, http};
use metrale_telemetry::Snapshot;
use metrale_telemetry::kernel::LaneFigures;
use metrale_telemetry::snapshot::LaneSnapshot;
use std::time::{Duration, Instant};

/// The cells of the tables, and the facts, of the page.
const SHOWN: &str = "JSON.stringify([...document.querySelectorAll('#lanes-table, #rows-table, #slow-table, #ledger-table')]\
    .map((table) => [...table.tBodies[0].rows].map((row) => [...row.cells].map((cell) => cell.innerText.trim().replace(/\\s+/g, ' '))))\
    .concat([[[...document.querySelectorAll('#sound-facts dd')].map((fact) => fact.textContent.trim())]]))";
/// Rows that are shown of those of kernels, and of slow steps.
const ROWS: usize = 12;
const SLOW: usize = 8;
/// What is not known.
const NONE: &str = "–";

type Table = Vec<Vec<String>>;

/// Waits until page and snapshot are of the same second, and say the same: the
/// steps of it.
pub(crate) fn hold(browser: &mut Browser, port: u16) -> u64 {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let json = http::get(port, "/snapshot.json", "*/*");
        let snapshot: Snapshot = serde_json::from_slice(&json).expect("a snapshot");
        let shown = browser.text(SHOWN);
        let shown: Vec<Table> = serde_json::from_str(&shown).expect("tables");
        let expected = expected(&snapshot);
        if shown == expected {
            return snapshot.steps;
        }
        if Instant::now() > deadline {
            assert_eq!(shown, expected);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn expected(snapshot: &Snapshot) -> Vec<Table> {
    vec![lanes(snapshot), rows(snapshot), slow(snapshot), ledger(snapshot), vec![sound(snapshot)]]
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
        let (part, total) = (share(Some(estimate.share)), time(Some(estimate.total_ns)));
        vec![
            shortened(name) + &tag,
            lane.lane.clone(),
            String::new(),
            match estimate.error {
                Some(error) => format!("{part} ± {}", share(Some(error.share))),
                None => format!("{part} (too few)"),
            },
            match estimate.error {
                Some(error) => format!("{total} ± {}", time(Some(error.total_ns))),
                None => total,
            },
            format!("{near}{}", time(Some(mean))),
            count(kernel.samples),
            time(Some(kernel.figures.waited_ns as f64)),
        ]
    };
    pairs.iter().take(ROWS).map(row).collect()
}

fn slow(snapshot: &Snapshot) -> Table {
    let steps = snapshot.slowest_steps.iter().take(SLOW);
    let row = |step: &metrale_telemetry::snapshot::StepSnapshot| {
        let lanes = step.lanes.iter();
        let of_it = lanes.map(|lane| format!("{} {}", lane.lane, time(Some(lane.gpu_ns as f64))));
        let gaps: Option<u64> = step.lanes.iter().map(|lane| lane.gap_ns).sum();
        let armed = if step.armed { " armed" } else { "" };
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

fn made_of(shape: Option<metrale_telemetry::kernel::StepShape>) -> String {
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

fn time(ns: Option<f64>) -> String {
    let Some(ns) = ns else { return NONE.to_owned() };
    let units = [("s", 1e9), ("ms", 1e6), ("µs", 1e3)];
    let unit = units.iter().find(|(_, size)| ns >= size * 0.99995);
    unit.map_or_else(
        || format!("{} ns", ns.round()),
        |(unit, size)| {
            let value = ns / size;
            match value {
                1000.0.. => format!("{} {unit}", count(value.round() as u64)),
                100.0.. => format!("{value:.1} {unit}"),
                _ => format!("{value:.2} {unit}"),
            }
        },
    )
}

fn share(part: Option<f64>) -> String {
    let Some(part) = part else {
        return NONE.to_owned();
    };
    match 100.0 * part {
        0.0 => "0 %".to_owned(),
        ..0.0005 => "< 0.001 %".to_owned(),
        percent @ ..0.00995 => format!("{percent:.3} %"),
        percent @ ..0.995 => format!("{percent:.2} %"),
        percent => format!("{percent:.1} %"),
    }
}

fn count(value: u64) -> String {
    let digits = value.to_string();
    let groups = digits.as_bytes().rchunks(3).rev();
    let groups: Vec<_> = groups.map(String::from_utf8_lossy).collect();
    groups.join(",")
}

/// The page's names have 46 characters at most, and lose their middle.
fn shortened(name: &str) -> String {
    if name.len() <= 46 {
        return name.to_owned();
    }
    format!("{}…{}", &name[..26], &name[name.len() - 18..])
}
