// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rows inside graphs: of a recorder of the test's, which says what a twin would.

use super::{browser, everybody, figures, http};
use metrale_http::{Pages, Server};
use metrale_telemetry::kernel::{LANE_DECODE, SpanKey};
use metrale_telemetry::runtime::{GraphTotal, KernelName, RecorderSource};
use metrale_telemetry::snapshot::{GraphSnapshot, RecorderSnapshot, RowKind};
use metrale_telemetry::{Snapshot, Telemetry};
use serde_json::{Value, json};
use std::sync::{Arc, Weak};

/// As long as a name in a real graph.
const GEMM: &str = "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_64x64_64x6_tn_align8>(cutlass_80_tensorop::Params)";

fn row(kind: &str, series: Option<&str>, share: f64, error: Option<f64>) -> Value {
    let error = error.map(|share| json!({"total_ns": 4.2e9 * share, "share": share}));
    json!({
        "kind": kind, "name": series, "series": series, "width": if kind == "side_by_side" { 3 } else { 1 },
        "nodes": 36, "samples": 1_152, "sampled_ns": (4e6 * share).round() as u64,
        "estimate": {"steps": 32, "total_ns": 4.2e9 * share, "share": share, "error": error},
    })
}

/// A large graph and one of which nothing was read yet.
fn graphs() -> Vec<GraphSnapshot> {
    let mut rows = vec![
        row("kernel", Some(GEMM), 0.61, Some(0.012)),
        row("kernel", Some("paged_attention_v2"), 0.2, Some(0.04)),
        row("kernel", None, 0.03, None),
        row("copy", None, 0.02, Some(0.000_01)),
        row("side_by_side", None, 0.01, None),
    ];
    rows.extend((0..12).map(|at| row("kernel", Some(&format!("norm_{at}")), 0.001, Some(0.000_2))));
    let json = json!([
        {
            "name": "decode, 8 requests", "nodes": 420, "plans": 41, "twin_launches": 1_290,
            "plain_launches": 1_311, "perturbation": 1.013_6, "mark_ns": 1_210.5,
            "total_ns": 4.2e9, "remainder_ns": 4.2e9 * 0.118, "rows": rows,
        },
        {"name": null, "nodes": 12, "total_ns": 0.0, "remainder_ns": 0.0},
    ]);
    serde_json::from_value(json).expect("graphs")
}

struct Recorder;

impl RecorderSource for Recorder {
    fn recorder(&self) -> RecorderSnapshot {
        let json = json!({"label": "0", "gpu": "GPU-twins", "replays": {"launched": 9, "read": 9, "updates_failed": 2}});
        serde_json::from_value(json).expect("a recorder")
    }

    fn name(&self, _: u64) -> Option<KernelName> {
        Some(KernelName { text: "decode, 8 requests".into(), kind: RowKind::Graph })
    }

    fn graphs(&self, _: &dyn Fn(u64) -> GraphTotal) -> Vec<GraphSnapshot> {
        graphs()
    }
}

#[test]
fn rows_inside_graphs_are_shown_to_everybody() {
    let Some(mut browser) = browser() else { return };
    let source: Arc<dyn RecorderSource> = Arc::new(Recorder);
    let telemetry: &'static Telemetry = Telemetry::new().leak();
    telemetry.attach(Weak::clone(&Arc::downgrade(&source))).expect("the first");
    telemetry.instruments().record(SpanKey::Lane(LANE_DECODE), 9_000_000);
    telemetry.instruments().record(SpanKey::Kernel(1 << 60), 8_000_000);
    telemetry.step_begin();
    let server = Server::bind(([127, 0, 0, 1], 0).into()).expect("a port");
    let address = server.address().expect("an address");
    server.start(Pages::new([telemetry]).router()).expect("a thread");
    browser.open(&format!("http://{address}/"));
    browser.wait("document.body.dataset.state === 'live'");

    let snapshot: Snapshot = http::json(address.port(), "/snapshot.json");
    let twins = figures::cells(&mut browser, "#twins-table tbody");
    assert_eq!(twins, figures::twins(&snapshot));
    let rows = figures::cells(&mut browser, "#inside-table tbody");
    assert_eq!(rows, figures::inside(&snapshot, 12));
    let button = "document.getElementById('inside-more')";
    assert_eq!(browser.text(&format!("{button}.innerText")), "Show all 18");
    browser.eval(&format!("{button}.click()"));
    browser.wait(&format!("{button}.getAttribute('aria-expanded') === 'true'"));
    let rows = figures::cells(&mut browser, "#inside-table tbody");
    assert_eq!((rows.len(), rows), (18, figures::inside(&snapshot, 18)));
    let verdict = browser.text("document.getElementById('verdict').innerText");
    assert!(verdict.contains("2 updates that a twin did not take"), "{verdict}");
    everybody::axe_finds_nothing_in(&mut browser);
    assert_eq!(browser.complaints(), [] as [&str; 0]);
}
