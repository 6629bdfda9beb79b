// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gates that do not flicker: instructions of the hot paths, counted by
//! callgrind, and driver calls of workloads, counted by the simulated
//! driver; both held against `crates/bench/limits.toml`.
//!
//! A path is run N and 2N times and the difference taken, so that start-up and
//! set-up cancel. Profile and toolchain are fixed, so the count is too. Gungraun
//! would take the place of `count_paths` alone: it knows neither a difference of
//! two runs nor a path less another one, which the limits are of, and asks for a
//! runner of its own version to be installed.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    fs,
    path::Path,
    process::Command,
    thread,
};

use serde::Deserialize;

use super::{PACKAGE, share};
use crate::{
    cargo,
    error::{Context, Error, Result, failed},
    program,
};

const LIMITS: &str = "crates/bench/limits.toml";

/// What `limits.toml` says.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Limits {
    /// The most instructions that a path may take.
    instructions: Counts,
    /// The most that the recorder may take of the demo's instructions.
    demo_share: f64,
    /// The exact calls of a workload; those not named are none.
    driver_calls: Calls,
}

/// Instructions of each path.
type Counts = BTreeMap<String, f64>;

/// Driver calls of each workload.
type Calls = BTreeMap<String, BTreeMap<String, u64>>;

/// What the binary lists.
#[derive(Debug, Deserialize)]
struct List {
    paths: Vec<HotPath>,
    calls: Calls,
}

/// A path: how often it is run, and the path that it is less.
#[derive(Debug, Deserialize)]
struct HotPath {
    name: String,
    n: u64,
    minus: Option<String>,
}

/// Builds, counts and compares. The benchmarks' own tests are `gpu_bench::smoke`'s.
pub(crate) fn run() -> Result<()> {
    let path = cargo::root().join(LIMITS);
    let text = fs::read_to_string(&path).context(|| format!("read {}", path.display()))?;
    let limits: Limits = toml::from_str(&text)
        .map_err(|problem| Error::Failed(format!("{LIMITS}: {}", problem.message())))?;

    let build = ["build", "--release", "--package", PACKAGE, "--bin", PACKAGE];
    let artifacts = cargo::build(&build, &[])?;
    let binary = cargo::binary(&artifacts, PACKAGE)?;

    let list: List = serde_json::from_str(&output(Command::new(&binary).arg("list"))?)
        .map_err(|problem| Error::Failed(format!("{PACKAGE} list: {problem}")))?;
    let mut problems = check_calls(&list.calls, &limits.driver_calls);
    println!("driver calls: {} workloads counted", list.calls.len());
    if program::runs("valgrind", &["--version"]) {
        let counts = count_paths(&binary, &list.paths)?;
        print!("\n{}", table(&counts, &limits.instructions));
        problems.extend(check_instructions(&counts, &limits.instructions));
        let share = share::measure()?;
        let line = share.line(limits.demo_share);
        println!("\n{line}");
        problems.extend((!share.is_within(limits.demo_share)).then_some(line));
    } else if program::is_ci() {
        problems.push("valgrind is not installed; `.ci/install` installs it".to_owned());
    } else {
        println!("skipped: instruction counts (valgrind is not installed)");
    }
    if problems.is_empty() {
        Ok(())
    } else {
        problems.iter().for_each(|problem| println!("{problem}"));
        let count = problems.len();
        failed(format!("{count} gate(s) failed, listed above"))
    }
}

/// Runs a command and returns what it printed.
fn output(command: &mut Command) -> Result<String> {
    let asked = format!("{command:?}");
    let out = command.output().context(|| asked.clone())?;
    if out.status.success() {
        Ok(String::from_utf8_lossy(&out.stdout).into_owned())
    } else {
        let said = String::from_utf8_lossy(&out.stderr);
        failed(format!("{asked} ended with {}: {said}", out.status))
    }
}

/// Runs a command under callgrind; its profile.
pub(super) fn profile(options: &[&str], command: &Command) -> Result<String> {
    let file = tempfile::NamedTempFile::new().context(|| "make a temporary file".to_owned())?;
    let mut callgrind = Command::new("valgrind");
    callgrind
        .args(["--quiet", "--tool=callgrind"])
        .arg(format!("--callgrind-out-file={}", file.path().display()))
        .args(options)
        .arg(command.get_program())
        .args(command.get_args())
        .envs(command.get_envs().map(|(name, value)| (name, value.unwrap_or(OsStr::new("")))));
    output(&mut callgrind)?;
    fs::read_to_string(file.path()).context(|| format!("read {}", file.path().display()))
}

/// Instructions of each path, two paths at a time.
fn count_paths(binary: &Path, paths: &[HotPath]) -> Result<Counts> {
    let run = |name: &str, n: u64| {
        let mut command = Command::new(binary);
        command.args(["path", name, &n.to_string()]);
        let total = total(&profile(&[], &command)?);
        total.ok_or_else(|| Error::Failed(format!("no total in the profile of {name}")))
    };
    let every_other = |first: usize| -> Result<Counts> {
        let half = paths.iter().skip(first).step_by(2);
        half.map(|HotPath { name, n, .. }| {
            let once = run(name, *n)?;
            Ok((name.clone(), run(name, 2 * n)?.saturating_sub(once) as f64 / *n as f64))
        })
        .collect()
    };
    let (mine, theirs) = thread::scope(|scope| {
        let other = scope.spawn(|| every_other(1));
        (every_other(0), other.join())
    });
    let mut counts =
        theirs.map_err(|_| Error::Failed("a counting thread panicked".to_owned()))??;
    counts.extend(mine?);
    if counts.len() < paths.len() {
        return failed("two paths have one name");
    }
    for HotPath { name, minus, .. } in paths {
        if let Some(minus) = minus {
            let less = counts.get(minus).copied();
            let less = less.ok_or_else(|| Error::Failed(format!("{minus} is no path")))?;
            *counts.entry(name.clone()).or_default() -= less;
        }
    }
    Ok(counts)
}

/// All instructions of a callgrind profile.
fn total(profile: &str) -> Option<u64> {
    let line = profile.lines().find_map(|line| line.strip_prefix("totals: "))?;
    line.trim().parse().ok()
}

fn check_instructions(counts: &Counts, limits: &Counts) -> Vec<String> {
    let mut problems = Vec::new();
    for (name, count) in counts {
        match limits.get(name) {
            None => problems.push(format!("{LIMITS}: no limit for {name}, which takes {count:.1}")),
            Some(limit) if count > limit => problems.push(format!(
                "{name}: {count:.1} instructions, at most {limit}; make it shorter, or raise the limit in {LIMITS} and say why"
            )),
            Some(_) if *count <= 0.0 => problems.push(format!("{name}: nothing was counted")),
            Some(_) => {}
        }
    }
    let unknown = limits.keys().filter(|name| !counts.contains_key(*name));
    problems.extend(unknown.map(|name| format!("{LIMITS}: {name} is no path")));
    problems
}

fn table(counts: &Counts, limits: &Counts) -> String {
    let mut text = format!("{:<28}{:>10}{:>10}\n", "path", "counted", "limit");
    for (name, count) in counts {
        let limit = limits.get(name).map_or("-".to_owned(), f64::to_string);
        text += &format!("{name:<28}{count:>10.1}{limit:>10}\n");
    }
    text
}

fn check_calls(counted: &Calls, limits: &Calls) -> Vec<String> {
    let workloads: BTreeSet<_> = counted.keys().chain(limits.keys()).collect();
    let differ = workloads.into_iter().filter(|name| counted.get(*name) != limits.get(*name));
    let told = |calls: &Calls, name| calls.get(name).map(|calls| format!("{calls:?}"));
    differ
        .map(|name| {
            let counted = told(counted, name).unwrap_or("no such workload".to_owned());
            let limit = told(limits, name).unwrap_or(format!("no [driver_calls.{name}]"));
            format!("{name}: {counted}; {LIMITS}: {limit}")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers<const N: usize>(of: [(&str, f64); N]) -> Counts {
        of.into_iter().map(|(name, count)| (name.to_owned(), count)).collect()
    }

    #[test]
    fn totals_are_found_in_a_profile() {
        let profile = "version: 1\nsummary: 7\n\nfn=(1)\n1 2\n\ntotals: 2569332\n";
        assert_eq!(total(profile), Some(2_569_332));
        assert_eq!(total("summary: 7\n"), None);
    }

    #[test]
    fn a_path_over_its_limit_or_without_one_fails() {
        let counts = numbers([("begin", 10.0)]);
        assert_eq!(check_instructions(&counts, &numbers([("begin", 10.0)])), [""; 0]);
        let over = check_instructions(&counts, &numbers([("begin", 9.9)]));
        assert!(over.len() == 1 && over[0].contains("10.0 instructions, at most 9.9"), "{over:?}");
        let missing = check_instructions(&counts, &numbers([("end", 1.0)]));
        assert_eq!(missing.len(), 2, "{missing:?}");
        let nothing = check_instructions(&numbers([("begin", 0.0)]), &numbers([("begin", 9.0)]));
        assert_eq!(nothing, ["begin: nothing was counted"]);
    }

    #[test]
    fn a_driver_call_more_or_less_fails() {
        let calls = |text: &str| toml::from_str::<Calls>(text).expect("a table");
        let counted = calls("[off]\n[landed]\ncuA = 2\ncuB = 1\n");
        assert_eq!(check_calls(&counted, &counted), [""; 0]);
        for (text, wrong) in [
            ("[off]\n[landed]\ncuA = 2\n", "landed"),
            ("[off]\n[landed]\ncuA = 3\ncuB = 1\n", "landed"),
            ("[off]\n[landed]\ncuA = 2\ncuB = 1\ncuC = 1\n", "landed"),
            ("[off]\ncuA = 1\n[landed]\ncuA = 2\ncuB = 1\n", "off"),
            ("[off]\n", "landed"),
            ("[off]\n[landed]\ncuA = 2\ncuB = 1\n[gone]\n", "gone"),
        ] {
            let found = check_calls(&counted, &calls(text));
            assert!(found.len() == 1 && found[0].starts_with(wrong), "{text}: {found:?}");
        }
    }
}
