// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every query of the dashboard and of docs/metrics.md, asked of a real server.

use super::server::Prometheus;
use serde_json::Value;

/// The texts under `key`, at any depth.
fn texts(value: &Value, key: &str, out: &mut Vec<String>) {
    match value {
        Value::Object(object) => {
            for (name, value) in object {
                match value {
                    Value::String(text) if name == key => out.push(text.clone()),
                    other => texts(other, key, out),
                }
            }
        }
        Value::Array(array) => array.iter().for_each(|value| texts(value, key, out)),
        _ => {}
    }
}

pub(crate) fn every_query_has_an_answer(server: &Prometheus) {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/dashboards/metrale.json");
    let text = std::fs::read_to_string(path).expect("the dashboard");
    let dashboard: Value = serde_json::from_str(&text).expect("JSON");
    let mut queries = Vec::new();
    texts(&dashboard, "expr", &mut queries);
    assert!(queries.len() > 20, "{} queries", queries.len());
    for query in &queries {
        // As Grafana fills them in. The window reaches back to the load.
        let filled = query
            .replace("$__rate_interval", "5m")
            .replace("$gpu", ".*")
            .replace("$lane", "decode");
        assert!(!filled.contains('$'), "a variable that is not known: {query}");
        assert!(!server.query(&filled).is_empty(), "no answer to {query}");
    }
    let mut variables = Vec::new();
    texts(&dashboard["templating"], "query", &mut variables);
    for variable in variables.iter().filter(|query| query.contains('(')) {
        let inner = variable.strip_prefix("label_values(").and_then(|rest| rest.strip_suffix(')'));
        let (metric, label) = inner.and_then(|inner| inner.split_once(", ")).expect("label_values");
        assert!(server.values(metric, label).iter().all(|(value, _)| !value.is_empty()));
    }
}

/// Those in blocks `promql`; they ask by the names of classic histograms too.
pub(crate) fn every_documented_query_has_an_answer(server: &Prometheus) {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
    let text = std::fs::read_to_string(path).expect("the document");
    let blocks: Vec<&str> = text.split("```promql\n").skip(1).collect();
    assert!(blocks.len() >= 4, "{} queries", blocks.len());
    for block in blocks {
        let (query, _) = block.split_once("```").expect("a block ends");
        let answers = server.query(query);
        assert!(!answers.is_empty(), "no answer to {query}");
        // A time by nothing is no number.
        let known = answers.iter().map(|answer| super::server::number(&answer["value"][1]));
        assert!(known.clone().any(|value| value > 0.0), "{query}: {answers:?}");
    }
}
