// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tests of feature `nvtx`. NVIDIA's crate needs libclang to build: where
//! there is none they are skipped with a printed reason, and fail under `CI=true`.

use std::process::Command;

use xshell::{Shell, cmd};

use crate::{
    cargo,
    error::{Context, Result, failed},
    program,
};

/// The packages with the feature, and the feature of each.
pub(crate) const FEATURES: &[&str] = &[
    "--package",
    "metrale-gpu-sys",
    "--package",
    "metrale-telemetry",
    "--package",
    "metrale-gpu-runtime",
    "--package",
    "metrale-replay",
    "--features",
    "metrale-gpu-sys/nvtx,metrale-telemetry/nvtx,metrale-gpu-runtime/nvtx,metrale-replay/nvtx",
];

/// The variable that tells tests where the listener lies.
const LISTENER: &str = "METRALE_NVTX_LISTENER";

/// Whether the feature can be built here; says so where it cannot.
pub(crate) fn can_build() -> Result<bool> {
    let what = || "cargo build of feature nvtx".to_owned();
    let output = Command::new("cargo")
        .args(["build", "--quiet", "--package", "metrale-gpu-sys", "--features", "nvtx"])
        .current_dir(cargo::root())
        .output()
        .context(what)?;
    let told = String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        return Ok(true);
    }
    if !told.contains("libclang") {
        eprint!("{told}");
        return failed("`cargo build` of feature nvtx failed, see above");
    }
    if program::is_ci() {
        return failed(
            "no libclang, which feature nvtx needs; on Debian: apt-get install libclang-dev",
        );
    }
    println!(
        "skipped: tests of feature nvtx (no libclang; on Debian: apt-get install libclang-dev)"
    );
    Ok(false)
}

/// Runs the tests of the feature; `sh` has the simulated driver's folder.
pub(crate) fn test(sh: &Shell, nextest: bool) -> Result<()> {
    if !can_build()? {
        return Ok(());
    }
    let built = cargo::build(&["build", "--package", "metrale-nvtx-listener"], &[])?;
    let listener = cargo::cdylib(&built, "metrale_nvtx_listener")?;
    let _listener = sh.push_env(LISTENER, listener);
    // The rest of these packages' tests ran without the feature.
    if nextest {
        cmd!(sh, "cargo nextest run --no-tests=fail {FEATURES...} nvtx ranges").run()?;
    } else {
        cmd!(sh, "cargo test --lib --bins --tests {FEATURES...} nvtx").run()?;
    }
    // Guards stay on their thread with the feature too.
    cmd!(sh, "cargo test --doc --package metrale-gpu-runtime --features nvtx").run()?;
    Ok(())
}
