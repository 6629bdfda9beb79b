// SPDX-License-Identifier: MIT OR Apache-2.0
//! All tests of the default members, in every feature set that is promised, and
//! the doctests where no test is selected. What is skipped is printed.

use std::ffi::OsString;

use xshell::cmd;

use crate::{cargo, error::Result, nvtx, sim, traces};

/// Feature sets besides the default one, as cargo's arguments.
pub(crate) const MORE_FEATURES: &[&[&str]] = &[
    &["--package", "metrale-gpu-runtime", "--no-default-features"],
    // Without the protobuf that the others ask of prometheus-client.
    &["--package", "metrale-telemetry", "--package", "metrale-http"],
];

/// Runs the tests; `args` go to the test runner.
pub(crate) fn run(args: &[OsString]) -> Result<()> {
    let traces = traces::find(cargo::root())?;
    let sh = cargo::shell()?;
    sh.set_var(sim::VAR, sim::build()?);
    match traces {
        Some(folder) => sh.set_var(traces::VAR, folder),
        None => println!(
            "skipped: tests on recorded traces ({} is skip, or none are there)",
            traces::VAR
        ),
    }
    let nextest = cargo::has_nextest();
    if !nextest {
        println!("skipped: nextest (not installed); `cargo test` runs the tests");
    }
    for features in std::iter::once(&[][..]).chain(MORE_FEATURES.iter().copied()) {
        if nextest {
            // A name given in `args` must match in the default set, not in each.
            let none = if features.is_empty() { "fail" } else { "pass" };
            cmd!(sh, "cargo nextest run --no-tests={none} {features...} {args...}").run()?;
        } else {
            cmd!(sh, "cargo test --no-fail-fast --lib --bins --tests {features...} {args...}")
                .run()?;
        }
    }
    if args.is_empty() {
        cmd!(sh, "cargo test --doc").run()?;
        nvtx::test(&sh, nextest)?;
    } else {
        println!("skipped: doctests and feature nvtx (the arguments are the test runner's)");
    }
    Ok(())
}
