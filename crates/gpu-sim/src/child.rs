// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that need a process of their own run themselves again; most of them
//! because a driver is found by the environment, at a program's start.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, Output};

/// Says to a child that it is one.
const CHILD: &str = "METRALE_CHILD";

/// Whether this process is such a child.
#[must_use]
pub fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// Runs that test of this program again, alone, with more variables.
///
/// # Panics
/// Where it cannot be started.
#[must_use]
pub fn run(test: &str, variables: &[(&str, &OsStr)]) -> Output {
    let program = std::env::current_exe().expect("the test's own path");
    Command::new(program)
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(CHILD, "1")
        .envs(variables.iter().copied())
        .output()
        .expect("the test starts again")
}

/// As [`run`], for a test that ends well.
///
/// # Panics
/// Where it does not.
pub fn passes(test: &str, variables: &[(&str, &OsStr)]) {
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

/// The folder that holds the simulator as `libcuda.so.1`.
///
/// # Panics
/// Where nobody says which; the message says what to run.
#[must_use]
pub fn library_folder() -> PathBuf {
    let folder = std::env::var_os("METRALE_SIM_DIR");
    let folder = folder.expect(
        "METRALE_SIM_DIR is not set, and this test needs the simulated driver: run `cargo xtask \
         test`, or set it to the folder that `cargo xtask sim` prints",
    );
    folder.into()
}

/// Runs `body` in a child that finds the simulator as the installed driver.
pub fn over_simulator(test: &str, body: fn()) {
    if is_child() {
        return body();
    }
    passes(test, &[("LD_LIBRARY_PATH", library_folder().as_os_str())]);
}
