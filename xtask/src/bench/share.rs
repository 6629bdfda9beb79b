// SPDX-License-Identifier: MIT OR Apache-2.0
//! How much of the demo's instructions are the recorder's own, counted by
//! callgrind: outside the simulated driver and cudarc, which stand for the GPU's
//! driver and for what a server would do anyway.
//!
//! Each instruction is of the function that it stands in. What is inlined into
//! the recorder's functions is theirs; what the recorder calls in libraries is
//! not.

use std::{collections::BTreeMap, ffi::OsStr, fs, path::Path, process::Command};

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
        .arg(format!("--callgrind-out-file={}/%p", folder.path().display()))
        .arg(demo.get_program());
    for (name, value) in demo.get_envs() {
        command.env(name, value.unwrap_or(OsStr::new("")));
    }
    super::gates::output(&mut command)?;
    largest(folder.path()).map(|profile| count(&profile))
}

/// The longest profile in a folder: of the process that did the work.
fn largest(folder: &Path) -> Result<String> {
    let list = || format!("list {}", folder.display());
    let mut longest = String::new();
    for entry in fs::read_dir(folder).context(list)? {
        let path = entry.context(list)?.path();
        let profile = fs::read_to_string(&path).context(|| format!("read {}", path.display()))?;
        if profile.len() > longest.len() {
            longest = profile;
        }
    }
    if longest.is_empty() {
        return Err(Error::Bench("callgrind left no profile".to_owned()));
    }
    Ok(longest)
}

/// NameTable stand in full once, and by their number from then on.
#[derive(Default)]
struct NameTable<'p>(BTreeMap<&'p str, &'p str>);

impl<'p> NameTable<'p> {
    fn get(&mut self, text: &'p str) -> &'p str {
        let Some((number, name)) = text.split_once(')') else {
            return text;
        };
        if !name.is_empty() {
            self.0.insert(number, name.trim_start());
        }
        self.0.get(number).copied().unwrap_or("")
    }
}

fn count(profile: &str) -> Share {
    let (mut objects, mut functions) = (NameTable::default(), NameTable::default());
    let (mut object, mut function) = ("", "");
    let mut share = Share::default();
    let mut is_inclusive = false;
    for line in profile.lines() {
        if let Some(name) = line.strip_prefix("ob=") {
            object = objects.get(name);
        } else if let Some(name) = line.strip_prefix("cob=") {
            objects.get(name);
        } else if let Some(name) = line.strip_prefix("fn=") {
            function = functions.get(name);
        } else if let Some(name) = line.strip_prefix("cfn=") {
            functions.get(name);
        } else if line.starts_with("calls=") {
            // The next line is the cost of what is called.
            is_inclusive = true;
        } else if let Some(cost) = cost(line) {
            let is_own = !std::mem::take(&mut is_inclusive);
            let is_ours = !object.contains(SIMULATOR) && !function.contains(CUDARC);
            if is_own && is_ours {
                share.all += cost;
                if RECORDER.iter().any(|part| function.contains(part)) {
                    share.recorder += cost;
                }
            }
        }
    }
    share
}

/// The cost in a line of position and cost.
fn cost(line: &str) -> Option<u64> {
    if !line.starts_with(|first: char| first.is_ascii_digit() || "+-*".contains(first)) {
        return None;
    }
    line.split(' ').nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{Share, count};

    #[test]
    fn instructions_are_of_the_function_they_stand_in() {
        let profile = "version: 1\nevents: Ir\nsummary: 1164\n\n\
            ob=(1) /usr/bin/demo\nfl=(1) a.rs\nfn=(1) demo::serve\n10 100\n\
            cob=(2) /x/libcuda.so.1\ncfn=(2) cuEventRecord\ncalls=3 7\n11 900\n\
            +1 20\n\
            fn=(3) metrale_telemetry::kernel::ring::SpanRing<E>::begin_into\n* 30\n\
            cfn=(1)\ncalls=1 0\n* 5000\n\
            fn=(4) <cudarc::driver::CudaStream as X>::launch\n-4 14\n\
            ob=(2)\nfn=(2)\n1 900\nfn=(3)\n1 100\n\
            ob=(1)\nfn=(3)\n2 10\n\ntotals: 1164\n";
        let share = count(profile);
        assert_eq!(share, Share { recorder: 40, all: 160 });
        assert_eq!(share.ratio(), 0.25);
        assert!(share.problem(0.25).is_none());
        assert!(share.problem(0.2).is_some());
    }

    #[test]
    fn a_profile_without_the_recorder_is_a_problem() {
        let share = count("ob=(1) x\nfn=(1) y\n1 5\n");
        assert_eq!(share, Share { recorder: 0, all: 5 });
        assert!(share.problem(1.0).is_some());
    }
}
