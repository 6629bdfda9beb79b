// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line.
//!
//! Everything after `demo`, `gpu-bench` and `differential` belongs to their binaries,
//! `--help` included, but for `--pack` and `--mistakes`.

use std::{ffi::OsString, path::PathBuf};

xflags::xflags! {
    /// Tasks of the metrale workspace.
    cmd xtask {
        /// Serve a workload on the simulated driver (or a GPU) and print what it
        /// took. All arguments go to metrale-replay; try `demo --help`.
        cmd demo {
            /// Arguments of metrale-replay.
            repeated args: OsString
        }
        /// Run all tests; arguments after `--` go to the test runner.
        cmd test {
            /// Arguments of the test runner.
            repeated args: OsString
        }
        /// Model-check the production sources. Each model has a bound on
        /// preemptions; LOOM_MAX_PREEMPTIONS sets another for all.
        cmd loom {
            /// Weaken each memory ordering and make each classic mistake, one at
            /// a time in a scratch copy, and show which model catches it.
            optional --weaken
            /// Write the tables of docs/memory-ordering.md from the comments in
            /// the code.
            optional --page
            /// Arguments of the test runner: names select models. With
            /// --weaken: parts of the names of what is weakened.
            repeated args: OsString
        }
        /// Run random sequences of an application's calls on the simulated
        /// driver, with and without the recorder, and compare.
        cmd differential {
            /// Instead: make each mistake of a twin, one at a time in a scratch copy,
            /// and show which tests catch it. Takes some minutes.
            optional --mistakes
            /// Arguments of metrale-differential; try `differential --help`.
            repeated args: OsString
        }
        /// Check the house rules that no lint can: layers, SPDX lines, links.
        cmd tidy {}
        /// Compare the libraries' public API with docs/api, and the C header with
        /// its sources.
        cmd api {
            /// Write them anew instead.
            optional --write
        }
        /// Build the Python package and run its tests on the simulated driver.
        cmd python {
            /// Arguments of pytest, after `--`.
            repeated args: OsString
        }
        /// Build the README's example as a crate outside the workspace, for each
        /// CUDA version that is promised.
        cmd outside {}
        /// Let HolisticTraceAnalysis read exported timelines, and compare. Installs
        /// it from PyPI, in target/hta.
        cmd hta {}
        /// Measure: every benchmark in its short form, with ratios. Noisy; takes
        /// some minutes.
        cmd bench {
            /// Count instead: instructions and driver calls, against the limits
            /// of crates/bench/limits.toml. Exact; part of `ci`.
            optional --gates
            /// Criterion's filter: a regular expression over group/what/case.
            optional filter: OsString
        }
        /// Measure metrale on this machine's GPU, or on the simulated driver
        /// (`--driver sim`). All arguments but --pack go to metrale-gpu-bench; try
        /// `gpu-bench --help`.
        cmd gpu-bench {
            /// Instead: build one binary for a machine that has a GPU, a driver
            /// and nothing else, and put it here.
            optional --pack file: PathBuf
            /// Arguments of metrale-gpu-bench.
            repeated args: OsString
        }
        /// Everything that a change must pass, in order.
        cmd ci {}
        /// Build the simulated driver and print its folder, for use as
        /// METRALE_SIM_DIR.
        cmd sim {}
    }
}

/// Tasks whose arguments are another binary's, but for one flag.
const OTHERS: [(&str, Option<&str>); 3] =
    [("demo", None), ("gpu-bench", Some("--pack")), ("differential", Some("--mistakes"))];

/// Parses the command line without the program's name.
pub(crate) fn parse(mut args: Vec<OsString>) -> xflags::Result<XtaskCmd> {
    let [task, first] = [0, 1].map(|at| args.get(at).and_then(|arg| arg.to_str()));
    let other = OTHERS.iter().find(|(other, _)| task == Some(other));
    if other.is_some_and(|(_, own)| own.is_none() || first != *own) {
        // After `--` xflags takes everything as it is.
        args.insert(1, "--".into());
    }
    Ok(Xtask::from_vec(args)?.subcommand)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(words: &str) -> Vec<OsString> {
        words.split_whitespace().map(OsString::from).collect()
    }

    #[test]
    fn other_binaries_take_every_argument_unchanged_but_one() {
        for words in ["", "--help", "--every 1 --json x", "-- --every", "-h --pack --mistakes"] {
            for (task, _) in OTHERS {
                match parse(args(&format!("{task} {words}"))) {
                    Ok(XtaskCmd::Demo(Demo { args: taken }))
                    | Ok(XtaskCmd::GpuBench(GpuBench { args: taken, pack: None }))
                    | Ok(XtaskCmd::Differential(Differential { args: taken, mistakes: false })) => {
                        assert_eq!(taken, args(words), "{task} {words}");
                    }
                    other => panic!("{task} {words}: {other:?}"),
                }
            }
        }
        assert!(matches!(parse(args("gpu-bench --pack a/b")),
            Ok(XtaskCmd::GpuBench(GpuBench { pack: Some(file), .. })) if file == *"a/b"));
        assert!(parse(args("gpu-bench --pack")).is_err());
        assert!(matches!(
            parse(args("differential --mistakes")),
            Ok(XtaskCmd::Differential(Differential { mistakes: true, .. }))
        ));
    }

    #[test]
    fn runner_arguments_follow_two_dashes() {
        match parse(args("test -- --no-capture name")) {
            Ok(XtaskCmd::Test(flags)) => assert_eq!(flags.args, args("--no-capture name")),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_unknown_is_refused_in_one_line() {
        for words in ["", "nonsense", "tidy --nonsense", "--nonsense", "ci extra"] {
            let err = parse(args(words)).expect_err(words);
            assert!(!err.is_help(), "{words}");
            assert_eq!(err.to_string().lines().count(), 1, "{words}: {err}");
        }
    }
}
