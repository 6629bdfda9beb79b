// SPDX-License-Identifier: MIT OR Apache-2.0
//! Model checks of the production sources under loom, and checks of the models.
//!
//! A model runs in a process of its own: loom's execution state is per process,
//! and one model that aborts must not hide the others. The profile keeps debug
//! assertions on; the models refuse to be built without them.

mod document;

use std::{
    ffi::{OsStr, OsString},
    path::Path,
    process::Command,
};

use xshell::cmd;

use crate::{
    cargo,
    error::{Context, Result, failed},
};

/// How cargo builds the models.
pub(crate) const PACKAGE: [&str; 6] =
    ["--package", "metrale-loom-tests", "--profile", "loom", "--test", "models"];
/// What the sources are built with for the checker.
pub(crate) const CFG: [&str; 2] = ["--cfg", "metrale_loom"];

pub(crate) use document::write as write_page;

/// Runs the models; `args` go to the test runner.
pub(crate) fn run(args: &[OsString]) -> Result<()> {
    let envs = [cargo::with_flags(&CFG)];
    if !cargo::has_nextest() {
        println!("skipped: nextest (not installed); each model is run by itself");
        return one_by_one(&envs, args);
    }
    let sh = cargo::shell()?;
    cmd!(
        sh,
        "cargo nextest run --package metrale-loom-tests --cargo-profile loom --profile loom
         --no-tests=fail {args...}"
    )
    .envs(envs)
    .run()?;
    Ok(())
}

/// Without nextest: one process for each model, all of them, then the verdict.
fn one_by_one(envs: &[(&str, OsString)], args: &[OsString]) -> Result<()> {
    let (mut ran, mut broken) = (0, Vec::new());
    for binary in cargo::tests(cargo::root(), &PACKAGE, envs)? {
        for model in list(&binary, args)? {
            let what = || format!("run {model} of {}", binary.display());
            let mut command = Command::new(&binary);
            command.args([model.as_str(), "--exact"]);
            ran += 1;
            if !command.status().context(what)?.success() {
                broken.push(model);
            }
        }
    }
    if ran == 0 {
        return failed("no model was run; does a name on the command line match one?");
    }
    if !broken.is_empty() {
        return failed(format!("{} model(s) failed: {}", broken.len(), broken.join(", ")));
    }
    println!("{ran} model(s) passed");
    Ok(())
}

/// The models of a test binary that `args` select.
pub(crate) fn list(binary: &Path, args: &[OsString]) -> Result<Vec<String>> {
    let mut command = Command::new(binary);
    command.args(args).args([OsStr::new("--list"), OsStr::new("--format=terse")]);
    let output = command.output().context(|| format!("list the models of {}", binary.display()))?;
    Ok(models(&String::from_utf8_lossy(&output.stdout)))
}

fn models(terse: &str) -> Vec<String> {
    terse.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_tests_and_no_benchmarks() {
        assert_eq!(models("a::b: test\nc: benchmark\n\nd: test\n"), ["a::b", "d"]);
    }
}
