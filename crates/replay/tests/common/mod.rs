// SPDX-License-Identifier: MIT OR Apache-2.0
//! What several test programs need: the recorded traces, the sums that another
//! tool made of them, and the simulated driver.

// Each test program uses some of it.
#![allow(dead_code, reason = "shared by several test programs")]

pub(crate) mod bytes;
pub(crate) mod http;
pub(crate) mod program;
pub(crate) mod record;

use std::path::PathBuf;

pub(crate) const TRACES: [&str; 5] = [
    "vllm-decode-graph",
    "vllm-prefill-decode-piecewise",
    "sglang-decode-graph",
    "h100-qwen-eager",
    "ddp-five-steps",
];

/// The folder of the traces, see CONTRIBUTING.md.
pub(crate) fn folder() -> Option<PathBuf> {
    let named = std::env::var_os("METRALE_TRACES");
    if named.as_deref().is_some_and(|named| named == "skip") {
        println!("skipped: METRALE_TRACES=skip");
        return None;
    }
    let must = named.is_some() || std::env::var_os("CI").is_some_and(|ci| ci == "true");
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = root.join(named.unwrap_or_else(|| "../shared/traces".into()));
    if folder.is_dir() {
        return Some(folder);
    }
    assert!(!must, "{} is absent", folder.display());
    println!("skipped: {} is absent", folder.display());
    None
}

/// The rows of `X.what.csv`, without its header.
pub(crate) fn read_csv(folder: &std::path::Path, name: &str, what: &str) -> Vec<Vec<String>> {
    let table = csv::Reader::from_path(folder.join(format!("{name}.{what}.csv")));
    let rows = table.expect("a table").into_deserialize();
    rows.map(|row| row.expect("a row")).collect()
}

/// # Panics
/// Where nobody says where the simulated driver is.
pub(crate) fn needs_simulator() {
    assert!(
        std::env::var_os("METRALE_SIM_DIR").is_some(),
        "METRALE_SIM_DIR is not set, and this test needs the simulated driver: run `cargo xtask \
         test`, or set it to the folder that `cargo xtask sim` prints"
    );
}
