// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether the tests on real Prometheus servers can run. Where there is none
//! they are skipped with a printed reason, and fail under `CI=true`.

use crate::{
    error::{Error, Result},
    program,
};

/// Says so where the tests will be skipped.
pub(crate) fn check() -> Result<()> {
    let programs = ["prometheus", "promtool"];
    if programs
        .iter()
        .all(|program| program::runs(program, &["--version"]))
    {
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
