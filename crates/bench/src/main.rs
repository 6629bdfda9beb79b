// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `cargo xtask bench --gates` runs: hot paths, to be counted by callgrind,
//! and workloads, whose driver calls it prints.
//!
//! - `metrale-bench list`: all paths, and the calls of all workloads, as JSON.
//! - `metrale-bench path NAME N`: runs one path N times.

use metrale_bench::{calls::WORKLOADS, paths::PATHS};
use std::collections::BTreeMap;

const USAGE: &str = "use `list` or `path NAME N`";

fn main() {
    // Who reads no further ends it, as any program in a pipe.
    sigpipe::reset();
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    if let Err(problem) = run(&args) {
        eprintln!("metrale-bench: {problem}");
        std::process::exit(2);
    }
}

fn run(args: &[&str]) -> Result<(), String> {
    match args {
        ["list"] => {
            let calls: BTreeMap<_, _> = WORKLOADS.iter().map(|(name, run)| (name, run())).collect();
            println!("{}", serde_json::json!({ "paths": PATHS, "calls": calls }));
        }
        ["path", name, n] => {
            let path = PATHS.iter().find(|path| path.name == *name);
            let path = path.ok_or_else(|| format!("no path {name:?}; `list` lists them"))?;
            let most = 2 * path.n;
            let n = n.parse().ok().filter(|n| (1..=most).contains(n));
            let n = n.ok_or_else(|| format!("{name} runs 1 to {most} times"))?;
            (path.run)(n);
        }
        _ => return Err(USAGE.to_owned()),
    }
    Ok(())
}
