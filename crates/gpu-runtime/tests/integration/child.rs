// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that need a process of their own: they run themselves again.

use std::ffi::OsStr;
use std::process::{Command, Output};

/// Says to a child that it is one.
const CHILD: &str = "METRALE_CHILD";

/// Whether this process is such a child.
pub(crate) fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// Runs that test of this program again, alone, with more variables.
pub(crate) fn run(test: &str, variables: &[(&str, &OsStr)]) -> Output {
    let program = std::env::current_exe().expect("the test's own path");
    Command::new(program)
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(CHILD, "1")
        .envs(variables.iter().copied())
        .output()
        .expect("the test starts again")
}

/// As [`run`], for a test that ends well.
pub(crate) fn passes(test: &str, variables: &[(&str, &OsStr)]) {
    let output = run(test, variables);
    let told = String::from_utf8_lossy(&output.stdout);
    // "1 passed": a name that matches no test ends well too.
    assert!(
        output.status.success() && told.contains("1 passed"),
        "{test}: {}\n{told}{}",
        output.status,
        String::from_utf8_lossy(&output.stderr),
    );
}
