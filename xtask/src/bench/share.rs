// SPDX-License-Identifier: MIT OR Apache-2.0
//! How much of the demo's instructions are the recorder's own, counted by
//! callgrind: outside the simulated driver and cudarc, which stand for the GPU's
//! driver and for what a server would do anyway.
//!
//! Each instruction is of the function that it stands in. What is inlined into
//! the recorder's functions is theirs; what the recorder calls in libraries is
//! not.

use crate::{demo, error::Result};

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
    fn ratio(&self) -> f64 {
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

    /// Whether it is within the limit; nothing is not, as nothing was found then.
    pub(super) fn is_within(&self, limit: f64) -> bool {
        self.recorder > 0 && self.ratio() <= limit
    }
}

/// Runs the demo at its defaults under callgrind.
pub(super) fn measure() -> Result<Share> {
    // The binary becomes itself once more, with the simulator's folder; names
    // stand in full at each use.
    let options = ["--trace-children=yes", "--compress-strings=no"];
    super::gates::profile(&options, &demo::command(&[])?).map(|profile| count(&profile))
}

fn count(profile: &str) -> Share {
    let (mut object, mut function) = ("", "");
    let mut share = Share::default();
    let mut is_inclusive = false;
    for line in profile.lines() {
        if let Some(name) = line.strip_prefix("ob=") {
            object = name;
        } else if let Some(name) = line.strip_prefix("fn=") {
            function = name;
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
            ob=/usr/bin/demo\nfl=a.rs\nfn=demo::serve\n10 100\n\
            cob=/x/libcuda.so.1\ncfn=cuEventRecord\ncalls=3 7\n11 900\n\
            +1 20\n\
            fn=metrale_telemetry::kernel::ring::SpanRing<E>::begin_into\n* 30\n\
            cfn=demo::serve\ncalls=1 0\n* 5000\n\
            fn=<cudarc::driver::CudaStream as X>::launch\n-4 14\n\
            ob=/x/libcuda.so.1\nfn=cuEventRecord\n1 900\n\
            fn=metrale_telemetry::kernel::ring::SpanRing<E>::begin_into\n1 100\n\
            ob=/usr/bin/demo\nfn=metrale_telemetry::kernel::ring::SpanRing<E>::begin_into\n2 10\n\n\
            totals: 1164\n";
        let share = count(profile);
        assert_eq!(share, Share { recorder: 40, all: 160 });
        assert_eq!(share.ratio(), 0.25);
        assert!(share.is_within(0.25) && !share.is_within(0.2));
    }

    #[test]
    fn a_profile_without_the_recorder_is_a_problem() {
        let share = count("ob=x\nfn=y\n1 5\n");
        assert_eq!(share, Share { recorder: 0, all: 5 });
        assert!(!share.is_within(1.0));
    }
}
