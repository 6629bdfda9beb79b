// SPDX-License-Identifier: MIT OR Apache-2.0
//! Model checks of the production sources under loom, and checks of the models.
//!
//! A model runs in a process of its own: loom's execution state is per process,
//! and one model that aborts must not hide the others. The profile keeps debug
//! assertions on; the models refuse to be built without them.

mod document;
mod mistakes;
mod source;
mod weaken;

use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
    process::Command,
};

use xshell::cmd;

use crate::{
    cargo,
    error::{Context, Error, Result},
};

const PACKAGE: &str = "metrale-loom-tests";
const CFG: [&str; 2] = ["--cfg", "metrale_loom"];

pub(crate) use document::write as write_page;
pub(crate) use source::edited;
pub(crate) use weaken::run as weaken;

/// Runs the models; `args` go to the test runner.
pub(crate) fn run(args: &[OsString]) -> Result<()> {
    let envs = [rustflags(&|name| std::env::var_os(name))];
    if !cargo::has_nextest() {
        println!("skipped: nextest (not installed); each model is run by itself");
        return one_by_one(&envs, args);
    }
    let sh = cargo::shell()?;
    cmd!(
        sh,
        "cargo nextest run --package {PACKAGE} --cargo-profile loom --profile loom
         --no-tests=fail {args...}"
    )
    .envs(envs)
    .run()?;
    Ok(())
}

/// The variable that cargo reads compiler flags from, with ours added. The encoded
/// one wins where both are set, so it is the one to add to.
fn rustflags(var: &dyn Fn(&str) -> Option<OsString>) -> (&'static str, OsString) {
    let (name, separator) = match var("CARGO_ENCODED_RUSTFLAGS") {
        Some(_) => ("CARGO_ENCODED_RUSTFLAGS", "\x1f"),
        None => ("RUSTFLAGS", " "),
    };
    let mut flags = var(name).unwrap_or_default();
    for flag in CFG {
        if !flags.is_empty() {
            flags.push(separator);
        }
        flags.push(flag);
    }
    (name, flags)
}

/// Without nextest: one process for each model, all of them, then the verdict.
fn one_by_one(envs: &[(&str, OsString)], args: &[OsString]) -> Result<()> {
    let binaries = binaries(cargo::root(), envs)?;
    let (mut ran, mut failed) = (0, Vec::new());
    for binary in binaries {
        for model in list(&binary, args)? {
            let what = || format!("run {model} of {}", binary.display());
            let mut command = Command::new(&binary);
            command.args([model.as_str(), "--exact"]);
            command.envs(envs.iter().map(|(name, value)| (name, value)));
            ran += 1;
            if !command.status().context(what)?.success() {
                failed.push(model);
            }
        }
    }
    if ran == 0 {
        return Err(Error::NoModels);
    }
    if failed.is_empty() {
        println!("{ran} model(s) passed");
        Ok(())
    } else {
        Err(Error::Models(failed.len(), failed.join(", ")))
    }
}

/// Builds the test binaries of the workspace at `root`.
fn binaries(root: &Path, envs: &[(&str, OsString)]) -> Result<Vec<PathBuf>> {
    let build = ["test", "--package", PACKAGE, "--profile", "loom", "--no-run"];
    let artifacts = cargo::build_in(root, &build, envs)?.into_iter();
    Ok(artifacts
        .filter(|artifact| artifact.profile.test)
        .filter_map(|artifact| artifact.executable.map(PathBuf::from))
        .collect())
}

/// The models of a test binary that `args` select.
fn list(binary: &Path, args: &[OsString]) -> Result<Vec<String>> {
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
    fn flags_are_added_to_the_variable_that_wins() {
        let flags = |set: &'static [(&str, &str)]| {
            let var = |name: &str| {
                let found = set.iter().find(|(n, _)| *n == name);
                found.map(|(_, value)| OsString::from(value))
            };
            rustflags(&var)
        };
        assert_eq!(flags(&[]), ("RUSTFLAGS", "--cfg metrale_loom".into()));
        assert_eq!(
            flags(&[("RUSTFLAGS", "-Copt-level=1")]),
            ("RUSTFLAGS", "-Copt-level=1 --cfg metrale_loom".into())
        );
        assert_eq!(
            flags(&[("RUSTFLAGS", "-Ca"), ("CARGO_ENCODED_RUSTFLAGS", "-Cb")]),
            ("CARGO_ENCODED_RUSTFLAGS", "-Cb\x1f--cfg\x1fmetrale_loom".into())
        );
    }

    #[test]
    fn lists_tests_and_no_benchmarks() {
        assert_eq!(models("a::b: test\nc: benchmark\n\nd: test\n"), ["a::b", "d"]);
    }
}
