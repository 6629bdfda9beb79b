// SPDX-License-Identifier: MIT OR Apache-2.0
//! Everything that a change must pass, in order; the first failure ends it. Each
//! step has a headline with its name and ends in the closing table with its time.

use std::{
    fs,
    time::{Duration, Instant},
};

use xshell::cmd;

use crate::{
    api, bench, cargo, demo, differential,
    error::{Context, Result, failed},
    gpu_bench, hta, loom, nvtx, outside, python, test, tidy, traces,
};

type Step = (&'static str, fn() -> Result<()>);

const STEPS: &[Step] = &[
    ("format", format),
    ("clippy", clippy),
    ("docs", docs),
    ("api", || api::run(false)),
    ("tidy", tidy::run),
    ("test", || test::run(&[])),
    ("python", || python::run(&[])),
    ("outside", outside::run),
    ("differential", differential::run),
    ("loom", || loom::run(&[])),
    ("gates", bench::gates::run),
    ("gpu-bench", gpu_bench::smoke),
    ("demo", smoke),
    ("hta", hta::run),
];

/// Runs every step, then prints the table.
pub(crate) fn run() -> Result<()> {
    // Asked here too, so that a missing folder is told at once.
    traces::find(cargo::root())?;
    let (times, result) = run_steps(STEPS);
    println!("\n{}", table(STEPS, &times, result.is_err()));
    result
}

/// The times of the steps that ran, the failed one included, and how it ended.
fn run_steps(steps: &[Step]) -> (Vec<Duration>, Result<()>) {
    let mut times = Vec::new();
    for (step, body) in steps {
        println!("\n=== {step} ===");
        let start = Instant::now();
        let result = body();
        times.push(start.elapsed());
        if let Err(source) = result {
            return (times, failed(format!("step `{step}` failed: {source}")));
        }
        println!("=== {step}: ok, {:.1} s ===", start.elapsed().as_secs_f64());
    }
    (times, Ok(()))
}

fn table(steps: &[Step], times: &[Duration], failed: bool) -> String {
    let row = |(at, (step, _)): (usize, &Step)| {
        let time = times.get(at).map(Duration::as_secs_f64);
        let last = at + 1 == times.len();
        match time {
            None => format!("{step:<14}{:>8}  not run", "-"),
            Some(time) if failed && last => format!("{step:<14}{time:>8.1}  FAILED"),
            Some(time) => format!("{step:<14}{time:>8.1}  ok"),
        }
    };
    let rows: Vec<String> = steps.iter().enumerate().map(row).collect();
    let total: f64 = times.iter().map(Duration::as_secs_f64).sum();
    let (step, seconds) = ("step", "seconds");
    format!("{step:<14}{seconds:>8}\n{}\n{:<14}{total:>8.1}", rows.join("\n"), "total")
}

fn format() -> Result<()> {
    let sh = cargo::shell()?;
    Ok(cmd!(sh, "cargo fmt --all --check").run()?)
}

fn clippy() -> Result<()> {
    let sh = cargo::shell()?;
    let nvtx = nvtx::can_build()?.then_some(nvtx::FEATURES);
    let sets = std::iter::once(&["--workspace"][..]).chain(test::MORE_FEATURES.iter().copied());
    for features in sets.chain(nvtx) {
        cmd!(sh, "cargo clippy --all-targets {features...} -- -D warnings").run()?;
    }
    Ok(())
}

fn docs() -> Result<()> {
    let sh = cargo::shell()?;
    cmd!(sh, "cargo doc --no-deps --workspace").env("RUSTDOCFLAGS", "-D warnings").run()?;
    Ok(())
}

/// The demo runs at both ends of sampling, and its report is a JSON object.
fn smoke() -> Result<()> {
    let folder = tempfile::tempdir().context(|| "make a temporary folder".to_owned())?;
    let report = folder.path().join("report.json");
    demo::run(&["--every".into(), "1".into()])?;
    let args = ["--every".into(), "64".into(), "--json".into(), report.clone().into()];
    demo::run(&args)?;
    let json = fs::read_to_string(&report).context(|| format!("read {}", report.display()))?;
    if json.trim_start().starts_with('{') && json.trim_end().ends_with('}') {
        Ok(())
    } else {
        failed(format!("`demo` left no JSON object at {}", report.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stops_at_the_first_failure_and_says_so() {
        let steps: &[Step] = &[
            ("one", || Ok(())),
            ("two", || failed("it is broken")),
            ("three", || panic!("must not run")),
        ];
        let (times, result) = run_steps(steps);
        assert_eq!(times.len(), 2);
        let err = result.expect_err("two fails").to_string();
        assert!(err.starts_with("step `two` failed: "), "{err}");
        let table = table(steps, &times, true);
        let ends: Vec<_> = table.lines().skip(1).take(3).map(|l| &l[24..]).collect();
        assert_eq!(ends, ["ok", "FAILED", "not run"]);
    }
}
