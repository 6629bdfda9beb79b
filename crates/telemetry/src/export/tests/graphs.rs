// SPDX-License-Identifier: MIT OR Apache-2.0
//! Series of what is inside graphs: bounded, and in no sum with what is outside.

use super::{MetraleCollector, full, samples, text};
use crate::kernel::{Estimate, StandardError};
use crate::snapshot::{
    GraphFigures, GraphRow, GraphSnapshot, KernelSnapshot, NodeKind, RowKind, Snapshot, TwinLedger,
};
use std::collections::BTreeMap;

pub(super) fn ledger() -> TwinLedger {
    TwinLedger {
        launched: 1,
        read: 2,
        lost: 3,
        by_turn: 4,
        launch_failed: 5,
        waits: 6,
        updates_failed: 7,
        ..TwinLedger::default()
    }
}

fn row(kind: NodeKind, name: Option<&str>, seconds: f64) -> GraphRow {
    let error = StandardError { total_ns: 1e8, share: 0.02 };
    GraphRow {
        kind,
        // Mangled or not: a series has the label.
        name: name.map(|_| "_Z4gemmv".to_owned()),
        series: name.map(str::to_owned),
        estimate: Estimate {
            steps: 40,
            total_ns: 1e9 * seconds,
            share: seconds / 8.0,
            error: Some(error),
        },
        ..GraphRow::default()
    }
}

fn graph(name: &str, rows: Vec<GraphRow>) -> GraphSnapshot {
    let figures = GraphFigures {
        perturbation: Some(1.02),
        mark_ns: Some(1_500.0),
        total_ns: 8e9,
        rows,
        ..GraphFigures::default()
    };
    GraphSnapshot::new(Some(name.to_owned()), figures)
}

fn own_row(name: &str, series: Option<&str>) -> KernelSnapshot {
    KernelSnapshot {
        name: Some(name.to_owned()),
        kind: RowKind::Graph,
        series: series.map(str::to_owned),
        ..KernelSnapshot::default()
    }
}

/// A graph with a series, another shape of the same name, and one without a series.
pub(super) fn add(snapshot: &mut Snapshot) {
    snapshot.kernels.push(own_row("decode, 8 requests", Some("decode")));
    snapshot.kernels.push(own_row("other graph", None));
    snapshot.graphs.extend([
        graph(
            "decode, 8 requests",
            vec![
                row(NodeKind::Kernel, Some("gemm"), 4.0),
                // Another function of that name.
                row(NodeKind::Kernel, Some("gemm"), 1.0),
                row(NodeKind::Copy, None, 0.5),
                row(NodeKind::SideBySide, None, 0.25),
                row(NodeKind::Kernel, None, 0.5),
                row(NodeKind::Other, None, 0.25),
            ],
        ),
        graph("decode, 8 requests", vec![row(NodeKind::Kernel, Some("shadow"), 4.0)]),
        graph("other graph", vec![row(NodeKind::Kernel, Some("shadow"), 4.0)]),
    ]);
}

pub(super) const EXPECTED: [(&str, f64); 14] = [
    ("gpu_graph_kernel_estimated_seconds{GPU,graph=decode,kernel=gemm,kind=kernel}", 5.0),
    ("gpu_graph_kernel_estimated_error_seconds{GPU,graph=decode,kernel=gemm,kind=kernel}", 0.2),
    ("gpu_graph_kernel_share_ratio{GPU,graph=decode,kernel=gemm,kind=kernel}", 0.625),
    ("gpu_graph_kernel_share_error_ratio{GPU,graph=decode,kernel=gemm,kind=kernel}", 0.04),
    ("gpu_graph_kernel_estimated_seconds{GPU,graph=decode,kernel=copy,kind=copy}", 0.5),
    ("gpu_graph_kernel_share_ratio{GPU,graph=decode,kernel=other,kind=other}", 0.09375),
    ("gpu_graph_perturbation_ratio{GPU,graph=decode}", 1.02),
    ("gpu_graph_mark_seconds{GPU,graph=decode}", 1.5e-6),
    // Three recorders.
    ("graph_replays_total{GPU,outcome=launched}", 3.0),
    ("graph_replays_total{GPU,outcome=by_turn}", 12.0),
    ("graph_replays_total{GPU,outcome=launch_failed}", 15.0),
    ("twin_launches_total{GPU,outcome=lost}", 9.0),
    ("twin_waits_total{GPU}", 18.0),
    ("twin_updates_failed_total{GPU}", 21.0),
];

/// Of a family, by its labels.
fn of<'a>(samples: &'a BTreeMap<String, f64>, family: &str) -> BTreeMap<&'a str, f64> {
    let own = samples.iter().filter_map(|(series, value)| {
        Some((series.strip_prefix(family)?.strip_prefix('{')?, *value))
    });
    own.collect()
}

#[test]
fn a_graph_has_series_if_its_own_row_has_one_and_each_once() {
    let samples = samples(&text(&MetraleCollector::from_fn(|| [full()])));
    assert!(!samples.keys().any(|series| series.contains("shadow")));
    let shares = of(&samples, "metrale_gpu_graph_kernel_share_ratio");
    assert_eq!(shares.len(), 4);
    assert_eq!(shares.values().sum::<f64>(), 6.5 / 8.0, "how much of it is explained");
}

#[test]
fn every_outcome_of_a_replay_is_counted_once() {
    let mut snapshot = full();
    for (at, recorder) in snapshot.recorders.iter_mut().enumerate() {
        let seed = 1 + at as u64;
        let json = serde_json::to_value(TwinLedger::default()).unwrap();
        let counts = json.as_object().unwrap().keys().zip(1..);
        let counts = counts.map(|(name, place)| (name.clone(), (seed << (2 * place)).into()));
        let counts = serde_json::Value::Object(counts.collect());
        recorder.replays = serde_json::from_value(counts).unwrap();
    }
    let of_ledger = |of: fn(&TwinLedger) -> u64| {
        snapshot.recorders.iter().map(|recorder| of(&recorder.replays)).sum::<u64>() as f64
    };
    let (armed, plain) = (of_ledger(|ledger| ledger.launched), of_ledger(TwinLedger::plain));
    let (read, lost) = (of_ledger(|ledger| ledger.read), of_ledger(|ledger| ledger.lost));
    let samples = samples(&text(&MetraleCollector::from_fn(move || [snapshot.clone()])));
    let replays = of(&samples, "metrale_graph_replays_total");
    assert_eq!((replays.len(), replays.values().sum::<f64>()), (9, armed + plain));
    let launches = of(&samples, "metrale_twin_launches_total");
    assert_eq!((launches.len(), launches.values().sum::<f64>()), (2, read + lost));
}

#[test]
fn there_are_128_rows_and_the_others_of_a_graph_are_one() {
    let mut snapshot = full();
    let label = |at| format!("kernel {at}");
    let rows = |from: u32| {
        let rows = from..from + 100;
        rows.map(|at| row(NodeKind::Kernel, Some(&label(at)), f64::from(1_000 - at))).collect()
    };
    snapshot.kernels = vec![own_row("one", Some("one")), own_row("two", Some("two"))];
    snapshot.graphs = vec![graph("one", rows(0)), graph("two", rows(100))];
    let expected: f64 = (0..200).map(|at| f64::from(1_000 - at)).sum();
    let samples = samples(&text(&MetraleCollector::from_fn(move || [snapshot.clone()])));
    let seconds = of(&samples, "metrale_gpu_graph_kernel_estimated_seconds");
    assert_eq!((seconds.len(), seconds.values().sum::<f64>()), (129, expected));
    let others = seconds.iter().filter(|(labels, _)| labels.contains("kind=\"other\""));
    let others: Vec<_> = others.map(|(labels, _)| *labels).collect();
    assert_eq!(
        others,
        ["gpu=\"unknown\",graph=\"two\",kernel=\"other\",kind=\"other\"} ".trim_end()]
    );
}

/// The same families with and without what is inside: what is outside is as it was.
#[test]
fn rows_inside_are_in_no_family_of_rows_outside() {
    let mut without = full();
    without.graphs.clear();
    let with = samples(&text(&MetraleCollector::from_fn(|| [full()])));
    let without = samples(&text(&MetraleCollector::from_fn(move || [without.clone()])));
    let inside = |series: &&String| series.starts_with("metrale_gpu_graph_");
    let outside: BTreeMap<_, _> = with.iter().filter(|(series, _)| !inside(series)).collect();
    assert_eq!(outside, without.iter().collect::<BTreeMap<_, _>>());
}
