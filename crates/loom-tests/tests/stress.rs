// SPDX-License-Identifier: MIT OR Apache-2.0
//! The stress binary at the size that every change must pass; by hand it takes
//! any number (`cargo run --release -p metrale-loom-tests --bin stress -- --help`).
#![cfg(not(metrale_loom))]

use std::process::{Command, Output};

fn stress(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stress"));
    command.args(args).output().expect("the binary can be run")
}

#[test]
fn ten_million_spans_end_with_the_ledger_closed() {
    let output = stress(&["--spans", "10000000", "--threads", "4"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("begun      10000000\n"), "{text}");
    assert!(text.ends_with("\nclosed\n"), "{text}");
}

#[test]
fn bad_arguments_are_one_line_and_exit_code_2() {
    for args in [&["--threads", "0"][..], &["--spans", "many"], &["more"]] {
        let output = stress(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(text.lines().count(), 1, "{text}");
    }
}
