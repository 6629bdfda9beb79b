// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether the tests on real Prometheus servers can run. Where there is none
//! they are skipped with a printed reason, and fail under `CI=true`.

use std::process::{Command, Stdio};

use crate::error::{Error, Result};

/// Says so where the tests will be skipped.
pub(crate) fn check() -> Result<()> {
    if ["prometheus", "promtool"].into_iter().all(runs) {
        return Ok(());
    }
    if std::env::var_os("CI").is_some_and(|ci| ci == "true") {
        return Err(Error::NoPrometheus);
    }
    println!(
        "skipped: tests on a Prometheus server (not installed; on Debian: apt-get install prometheus)"
    );
    Ok(())
}

fn runs(program: &str) -> bool {
    let mut command = Command::new(program);
    command
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
