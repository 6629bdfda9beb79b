// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program, run on the simulated driver.

use std::process::Command;

use serde_json::Value;

/// Runs the program and gives its JSON and its text.
pub(crate) fn replay(arguments: &[&str]) -> (Value, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let json = folder.path().join("report.json");
    let output = Command::new(env!("CARGO_BIN_EXE_metrale-replay"))
        .args(arguments)
        .args(["--driver", "sim", "--json"])
        .arg(&json)
        .output()
        .expect("run");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {error}");
    assert_eq!(error, "", "no bar where standard error is no terminal");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(
        !text.contains('\u{1b}'),
        "no colour where there is no terminal"
    );
    let json = std::fs::read(&json).expect("written");
    (serde_json::from_slice(&json).expect("JSON"), text)
}

pub(crate) fn number(value: &Value) -> u64 {
    value.as_u64().expect("a whole number")
}
