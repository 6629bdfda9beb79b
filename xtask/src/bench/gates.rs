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
    collections::BTreeMap,
    fs,
    path::Path,
    process::Command,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use super::{PACKAGE, share};
use crate::{
    cargo,
    error::{Context, Error, Result},
    program,
};

const LIMITS: &str = "crates/bench/limits.toml";

/// Paths whose names start like this are there to compare with.
const NAIVE: &str = "naive_";

/// What `limits.toml` says.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Limits {
    /// The most instructions that a path may take.
    instructions: BTreeMap<String, f64>,
    /// The most that the recorder may take of the demo's instructions.
    demo_share: f64,
    /// The exact calls of a workload; those not named are none.
    driver_calls: BTreeMap<String, BTreeMap<String, u64>>,
}

/// Builds, counts and compares. The benchmarks' own tests are `gpu_bench::smoke`'s.
pub(super) fn run() -> Result<()> {
    let path = cargo::root().join(LIMITS);
    let text = fs::read_to_string(&path).context(|| format!("read {}", path.display()))?;
    let limits: Limits = toml::from_str(&text)
        .map_err(|problem| Error::Bench(format!("{LIMITS}: {}", problem.message())))?;

    let build = ["build", "--release", "--package", PACKAGE, "--bin", PACKAGE];
    let artifacts = cargo::build(&build, &[])?;
    let binary = cargo::binary(&artifacts, PACKAGE)?;

    let calls = parse_calls(&output(Command::new(&binary).arg("calls"))?);
    let mut problems = check_calls(&calls, &limits.driver_calls);
    println!("driver calls: {} workloads counted", calls.len());
    if program::runs("valgrind", &["--version"]) {
        let counts = count_paths(&binary)?;
        println!("\n{}", table(&counts, &limits.instructions));
        problems.extend(check_instructions(&counts, &limits.instructions));
        let share = share::measure()?;
        println!("\n{}", share.line(limits.demo_share));
        problems.extend(share.problem(limits.demo_share));
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
        Err(Error::Bench(format!("{count} gate(s) failed, listed above")))
    }
}

/// Runs a command and returns what it printed.
pub(super) fn output(command: &mut Command) -> Result<String> {
    let asked = format!("{command:?}");
    let out = command.output().context(|| asked.clone())?;
    if out.status.success() {
        Ok(String::from_utf8_lossy(&out.stdout).into_owned())
    } else {
        let said = String::from_utf8_lossy(&out.stderr);
        Err(Error::Bench(format!("{asked} ended with {}: {said}", out.status)))
    }
}

/// A path that the binary lists: its runs, and the path that it is less.
struct Listed<'p> {
    name: &'p str,
    runs: u64,
    minus: &'p str,
}

impl<'p> Listed<'p> {
    fn parse(line: &'p str) -> Result<Self> {
        let words: Vec<_> = line.split(' ').collect();
        let listed = match words[..] {
            [name, runs, minus] => runs.parse().ok().map(|runs| Self { name, runs, minus }),
            _ => None,
        };
        listed.ok_or_else(|| Error::Bench(format!("{PACKAGE} paths: {line:?} is no path")))
    }

    /// Instructions of one run, counted with a profile in `folder`.
    fn count(&self, binary: &Path, folder: &Path) -> Result<f64> {
        let file = folder.join(self.name);
        let count = |runs: u64| -> Result<u64> {
            let mut command = Command::new("valgrind");
            command
                .args(["--quiet", "--tool=callgrind"])
                .arg(format!("--callgrind-out-file={}", file.display()))
                .arg(binary)
                .args(["path", self.name, &runs.to_string()]);
            output(&mut command)?;
            let profile =
                fs::read_to_string(&file).context(|| format!("read {}", file.display()))?;
            total(&profile).ok_or_else(|| Error::Bench(format!("no total in {}", file.display())))
        };
        let (once, twice) = (count(self.runs)?, count(2 * self.runs)?);
        Ok(twice.saturating_sub(once) as f64 / self.runs as f64)
    }
}

/// Instructions of each path that the binary lists, two paths at a time.
fn count_paths(binary: &Path) -> Result<BTreeMap<String, f64>> {
    let folder = tempfile::tempdir().context(|| "make a temporary folder".to_owned())?;
    let list = output(Command::new(binary).arg("paths"))?;
    let paths = list.lines().map(Listed::parse).collect::<Result<Vec<_>>>()?;
    let next = AtomicUsize::new(0);
    let work = || -> Result<Vec<(&str, f64)>> {
        // Relaxed: only hands each path to one thread.
        std::iter::from_fn(|| paths.get(next.fetch_add(1, Ordering::Relaxed)))
            .map(|path| Ok((path.name, path.count(binary, folder.path())?)))
            .collect()
    };
    let (mine, theirs) = thread::scope(|scope| {
        let other = scope.spawn(work);
        (work(), other.join())
    });
    let theirs = theirs.map_err(|_| Error::Bench("a counting thread panicked".to_owned()))?;
    let each: BTreeMap<_, _> = mine?.into_iter().chain(theirs?).collect();
    let mut counts = BTreeMap::new();
    for path in &paths {
        let minus = counts.get(path.minus).copied().unwrap_or(0.0);
        counts.insert(path.name.to_owned(), each[path.name] - minus);
    }
    Ok(counts)
}

/// All instructions of a callgrind profile.
fn total(profile: &str) -> Option<u64> {
    let line = profile.lines().find_map(|line| line.strip_prefix("totals: "))?;
    line.trim().parse().ok()
}

fn check_instructions(
    counts: &BTreeMap<String, f64>,
    limits: &BTreeMap<String, f64>,
) -> Vec<String> {
    let mut problems = Vec::new();
    for (name, count) in counts.iter().filter(|(name, _)| !name.starts_with(NAIVE)) {
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

fn table(counts: &BTreeMap<String, f64>, limits: &BTreeMap<String, f64>) -> String {
    let mut lines = vec![format!(
        "{:<24}{:>14}{:>10}{:>12}{:>8}",
        "instructions", "metrale", "limit", "plain", "ratio"
    )];
    for (name, count) in counts.iter().filter(|(name, _)| !name.starts_with(NAIVE)) {
        let limit = limits.get(name).map_or("-".to_owned(), f64::to_string);
        let naive = counts.get(&format!("{NAIVE}{name}"));
        let (plain, ratio) = naive.map_or((String::new(), String::new()), |plain| {
            (format!("{plain:.1}"), format!("{:.3}", count / plain))
        });
        lines.push(format!("{name:<24}{count:>14.1}{limit:>10}{plain:>12}{ratio:>8}"));
    }
    lines.join("\n")
}

type Calls = BTreeMap<String, BTreeMap<String, u64>>;

/// Lines of a workload's name and its `call=count`.
fn parse_calls(text: &str) -> Calls {
    let workload = |line: &str| {
        let mut words = line.split(' ');
        let name = words.next().unwrap_or_default().to_owned();
        let calls = words.filter_map(|word| {
            let (call, count) = word.split_once('=')?;
            Some((call.to_owned(), count.parse().ok()?))
        });
        (name, calls.collect())
    };
    text.lines().map(workload).collect()
}

fn check_calls(counted: &Calls, limits: &Calls) -> Vec<String> {
    let mut problems = Vec::new();
    for (workload, calls) in counted {
        let Some(expected) = limits.get(workload) else {
            problems.push(format!("{LIMITS}: no [driver_calls.{workload}]"));
            continue;
        };
        let names = calls.keys().chain(expected.keys().filter(|name| !calls.contains_key(*name)));
        for name in names {
            let (found, asked) = (calls.get(name), expected.get(name));
            let (found, asked) = (found.unwrap_or(&0), asked.unwrap_or(&0));
            if found != asked {
                problems
                    .push(format!("{workload}: {found} calls of {name}, {LIMITS} says {asked}"));
            }
        }
    }
    let unknown = limits.keys().filter(|workload| !counted.contains_key(*workload));
    problems.extend(unknown.map(|workload| format!("{LIMITS}: {workload} is no workload")));
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers<const N: usize>(of: [(&str, f64); N]) -> BTreeMap<String, f64> {
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
        let counts = numbers([("begin", 10.0), ("naive_begin", 90.0)]);
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
        let counted = parse_calls("off\nlanded cuA=2 cuB=1\n");
        let limits = |text: &str| toml::from_str::<Calls>(text).expect("a table");
        let exact = limits("[off]\n[landed]\ncuA = 2\ncuB = 1\n");
        assert_eq!(check_calls(&counted, &exact), [""; 0]);
        for (text, problems) in [
            ("[off]\n[landed]\ncuA = 2\n", 1),
            ("[off]\n[landed]\ncuA = 3\ncuB = 1\ncuC = 1\n", 2),
            ("[off]\ncuA = 1\n[landed]\ncuA = 2\ncuB = 1\n", 1),
            ("[off]\n", 1),
            ("[off]\n[landed]\ncuA = 2\ncuB = 1\n[gone]\n", 1),
        ] {
            let found = check_calls(&counted, &limits(text));
            assert_eq!(found.len(), problems, "{text}: {found:?}");
        }
    }
}
