// SPDX-License-Identifier: MIT OR Apache-2.0
//! `docs/metrics.md` has a table of the families, which this writes.

use crate::export::families::FAMILIES;

fn table() -> String {
    let mut out =
        "| metric | type | unit | labels | series | what it says |\n|---|---|---|---|---|---|\n"
            .to_owned();
    for family in FAMILIES {
        let metric_type = family.metric_type.as_str();
        let unit = if family.seconds {
            "seconds"
        } else if family.name.ends_with("_ratio") {
            "ratio"
        } else {
            ""
        };
        let labels: Vec<String> = family.labels.iter().map(|label| format!("`{label}`")).collect();
        out += &format!(
            "| `{}` | {metric_type} | {unit} | {} | {} | {} |\n",
            family.full_name(),
            labels.join(", "),
            family.series,
            family.help
        );
    }
    out
}

#[test]
fn the_documented_metrics_are_the_ones_there_are() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
    let document = std::fs::read_to_string(path).expect("docs/metrics.md");
    assert!(document.contains(&table()), "docs/metrics.md needs this table:\n\n{}", table());
}
