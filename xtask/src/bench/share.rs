// SPDX-License-Identifier: MIT OR Apache-2.0
//! How much of the demo's instructions are the recorder's own, counted by
//! callgrind: outside the simulated driver and cudarc, which stand for the GPU's
//! driver and for what a server would do anyway.
//!
//! Each instruction is of the function that it stands in. What is inlined into
//! the recorder's functions is theirs; what the recorder calls in libraries is
//! not. `callgrind_annotate`, which comes with callgrind, reads the profile.

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    demo,
    error::{Context, Error, Result},
};

/// Functions of the recorder: all that begins, ends, harvests and lands.
const RECORDER: [&str; 4] = [
    "metrale_gpu_runtime::timing",
    "metrale_telemetry::kernel",
    "metrale_telemetry::instrument",
    "metrale_telemetry::telemetry",
];
const CUDARC: &str = "cudarc::";
/// Part of the name of the simulated driver's file.
const SIMULATOR: &str = "libcuda.so";

/// Instructions by whose they are.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Share {
    recorder: u64,
    /// Of the recorder and of everything else but simulator and cudarc.
    all: u64,
}

impl Share {
    pub(super) fn ratio(&self) -> f64 {
        self.recorder as f64 / self.all.max(1) as f64
    }

    pub(super) fn line(&self, limit: f64) -> String {
        format!(
            "the recorder's share of the demo: {:.2} % of {} instructions outside simulator and cudarc, at most {} %",
            self.ratio() * 100.0,
            self.all,
            limit * 100.0
        )
    }

    /// What is wrong with it.
    pub(super) fn problem(&self, limit: f64) -> Option<String> {
        if self.recorder == 0 {
            Some("the demo's profile has no instruction of the recorder".to_owned())
        } else {
            (self.ratio() > limit).then(|| format!("over its limit: {}", self.line(limit)))
        }
    }
}

/// Runs the demo at its defaults under callgrind.
pub(super) fn measure() -> Result<Share> {
    let folder = tempfile::tempdir().context(|| "make a temporary folder".to_owned())?;
    let demo = demo::command(&[])?;
    let mut command = Command::new("valgrind");
    command
        // The binary starts itself once more, with the simulator's folder.
        .args(["--quiet", "--tool=callgrind", "--trace-children=yes"])
        // One line for each function, which names its file of machine code.
        .arg("--dump-line=no")
        .arg(format!(
            "--callgrind-out-file={}/%p",
            folder.path().display()
        ))
        .arg(demo.get_program());
    for (name, value) in demo.get_envs() {
        command.env(name, value.unwrap_or(OsStr::new("")));
    }
    super::gates::output(&mut command)?;
    let mut annotate = Command::new("callgrind_annotate");
    annotate
        .args(["--auto=no", "--threshold=100", "--show-percs=no"])
        .arg(largest(folder.path())?);
    super::gates::output(&mut annotate).map(|functions| count(&functions))
}

/// The longest profile in a folder: of the process that did the work.
fn largest(folder: &Path) -> Result<PathBuf> {
    let list = || format!("list {}", folder.display());
    let mut longest = None;
    for entry in fs::read_dir(folder).context(list)? {
        let entry = entry.context(list)?;
        let bytes = entry.metadata().context(list)?.len();
        longest = longest.max(Some((bytes, entry.path())));
    }
    longest
        .map(|(_, path)| path)
        .ok_or_else(|| Error::Bench("callgrind left no profile".to_owned()))
}

fn count(functions: &str) -> Share {
    let mut share = Share::default();
    for (cost, function) in functions.lines().filter_map(line) {
        if !function.contains(SIMULATOR) && !function.contains(CUDARC) {
            share.all += cost;
            if RECORDER.iter().any(|part| function.contains(part)) {
                share.recorder += cost;
            }
        }
    }
    share
}

/// The instructions of a function, and its file, name and file of machine code.
fn line(line: &str) -> Option<(u64, &str)> {
    let (cost, function) = line.trim_start().split_once(' ')?;
    let cost = cost.replace(',', "").parse().ok()?;
    (function.trim() != "PROGRAM TOTALS").then_some((cost, function))
}

#[cfg(test)]
mod tests {
    use super::{Share, count};

    #[test]
    fn instructions_are_of_the_function_they_stand_in() {
        let functions = "Thresholds:       100\n\n-----\nIr\n-----\n1,164  PROGRAM TOTALS\n\n\
            -----\nIr     file:function\n-----\n\
            1,900  ???:cuEventRecord [/x/libcuda.so.1]\n  120  a.rs:demo::serve [/usr/bin/demo]\n\
              100  ring.rs:metrale_telemetry::kernel::ring::SpanRing<E>::begin [/x/libcuda.so.1]\n\
               40  ring.rs:metrale_telemetry::kernel::ring::SpanRing<E>::begin [/usr/bin/demo]\n\
               14  s.rs:<cudarc::driver::CudaStream as X>::launch [/usr/bin/demo]\n";
        let share = count(functions);
        assert_eq!(
            share,
            Share {
                recorder: 40,
                all: 160
            }
        );
        assert_eq!(share.ratio(), 0.25);
        assert!(share.problem(0.25).is_none());
        assert!(share.problem(0.2).is_some());
    }

    #[test]
    fn a_profile_without_the_recorder_is_a_problem() {
        let share = count("5  a.rs:y [x]\n");
        assert_eq!(
            share,
            Share {
                recorder: 0,
                all: 5
            }
        );
        assert!(share.problem(1.0).is_some());
    }
}
