// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `cargo xtask bench --gates` runs: hot paths, to be counted by callgrind,
//! and workloads, whose driver calls it prints.
//!
//! - `metrale-bench paths`: a line for each path: name, count, and the path to
//!   take off or `-`.
//! - `metrale-bench path NAME N`: runs one path N times.
//! - `metrale-bench calls`: a line for each workload: name, then `call=count`.

use metrale_bench::{calls::WORKLOADS, paths::PATHS};

const USAGE: &str = "use `paths`, `path NAME N` or `calls`";

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
        ["paths"] => {
            for path in PATHS {
                println!("{} {} {}", path.name, path.n, path.minus.unwrap_or("-"));
            }
        }
        ["path", name, n] => {
            let path = PATHS.iter().find(|path| path.name == *name);
            let path = path.ok_or_else(|| format!("no path {name:?}; `paths` lists them"))?;
            let most = 2 * path.n;
            let n = n.parse().ok().filter(|n| (1..=most).contains(n));
            let n = n.ok_or_else(|| format!("{name} runs 1 to {most} times"))?;
            (path.run)(n);
        }
        ["calls"] => {
            for workload in WORKLOADS {
                print!("{}", workload.name);
                for (call, count) in (workload.run)() {
                    print!(" {call}={count}");
                }
                println!();
            }
        }
        _ => return Err(USAGE.to_owned()),
    }
    Ok(())
}
