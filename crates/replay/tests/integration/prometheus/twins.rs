// SPDX-License-Identifier: MIT OR Apache-2.0
//! A server with twins, as far as its metrics go: the trace that the others replay has
//! no graph. It works on between two scrapes.

use super::pages::serve;
use super::server::Prometheus;
use metrale_telemetry::Snapshot;
use metrale_telemetry::export::{MetraleCollector, text};
use prometheus_client::encoding::prometheus_text;
use serde_json::{Value, json};

const GRAPH: &str = "decode, 8 requests";

fn row(kind: &str, name: Option<&str>, seconds: f64) -> Value {
    json!({
        "kind": kind, "name": name, "series": name,
        "estimate": {
            "steps": 64, "total_ns": 1e9 * seconds, "share": seconds / 10.0,
            "error": {"total_ns": 1e8, "share": 0.01},
        },
    })
}

/// After so many scrapes. Eager launches of a kernel that the graph has too.
fn snapshot(scrapes: u64) -> Snapshot {
    let eager = json!({"lane": "decode", "steps": 64, "total_ns": 1e9, "share": 0.1});
    let json = json!({
        "version": 2,
        "labels": {"gpu": "GPU-twins"},
        "kernels": [
            {"name": GRAPH, "kind": "graph", "series": GRAPH},
            {"name": "gemm", "kind": "kernel", "series": "gemm", "lanes": [eager]},
        ],
        "graphs": [{
            "name": GRAPH, "nodes": 420, "perturbation": 1.02, "mark_ns": 1_500.0, "total_ns": 1e10,
            "rows": [
                row("kernel", Some("gemm"), 6.0), row("kernel", Some("attention"), 3.0),
                row("copy", None, 0.5),
            ],
        }],
        "recorders": [{"replays": {
            "launched": 4 * scrapes, "read": 3 * scrapes, "lost": scrapes, "by_turn": 5 * scrapes,
            "waits": scrapes, "updates_failed": scrapes,
        }}],
    });
    serde_json::from_value(json).expect("a snapshot")
}

fn page(scrapes: u64) -> String {
    text(&MetraleCollector::from_fn(move || [snapshot(scrapes)]))
}

/// Serves it; the port.
pub(crate) fn start() -> u16 {
    super::promtool_has_no_complaint(page(1).as_bytes());
    let mut scrapes = 0;
    serve(prometheus_text::CONTENT_TYPE, move || {
        scrapes += 1;
        page(scrapes)
    })
}

/// What is inside of a graph is part of its time, and no sum has it twice.
pub(crate) fn sums_are_right(server: &Prometheus) {
    let value = |query: &str| server.values(query, "").first().map(|(_, value)| *value);
    assert_eq!(value("sum(metrale_gpu_graph_kernel_share_ratio)"), Some(0.95));
    let gpu = "{gpu=\"GPU-twins\"}";
    let outside = format!("sum(metrale_gpu_kernel_estimated_seconds{gpu})");
    assert_eq!(value(&outside), Some(1.0));
    let both = "{__name__=~\"metrale_gpu_(graph_)?kernel_estimated_seconds\",kind=\"kernel\",kernel=\"gemm\",gpu=\"GPU-twins\"}";
    assert_eq!(value(&format!("sum by (kernel) ({both})")), Some(7.0));
}
