// SPDX-License-Identifier: MIT OR Apache-2.0
//! A replay of a server that works for some seconds and then stands still.

use super::{http, wait_for};
use crate::common::program::Serving;
use crate::common::record::{RecordFile, file, kernel, launch, step};
use metrale_telemetry::Snapshot;

/// Steps that work, and the time from one to the next.
const STEPS: u64 = 160;
const STEP_US: u32 = 50_000;
const BEGIN_US: u32 = 1_000_000;
/// When the step comes that nobody waits for.
const LAST_US: u32 = 3_600_000_000;

/// A replay that serves; it ends with this.
pub(crate) struct Replay {
    pub(crate) serving: Serving,
    _trace: RecordFile,
}

impl Replay {
    /// Starts one on a port; 0: a free one.
    pub(crate) fn start(port: u16) -> Self {
        let trace = file(&timeline());
        let arguments = ["--every", "2", "--for", "600", "--trace", &trace.path];
        Self { serving: Serving::start_on(port, arguments), _trace: trace }
    }

    /// Ends it, and starts another in its place.
    pub(crate) fn restart(&mut self) {
        self.serving.child.kill().expect("killed");
        self.serving.child.wait().expect("ended");
        *self = Self::start(self.serving.port);
    }

    /// What was measured, once it stands still: a replay at full speed, and the
    /// working steps of the first at its pace.
    pub(crate) fn rest(&self) -> Snapshot {
        wait_for("rest", || {
            let snapshot: Snapshot = http::json(self.serving.port, "/snapshot.json");
            let (lanes, kernels) = snapshot.ledgers();
            let is_over = lanes.in_flight + kernels.in_flight == 0;
            let is_at_rest = is_over && snapshot.steps == 2 * STEPS + 1;
            is_at_rest.then_some(snapshot)
        })
    }
}

/// Every third step prefills; durations are spread over the octaves.
fn timeline() -> Vec<String> {
    let mut events = Vec::new();
    let mut random = fastrand::Rng::with_seed(0);
    let mut correlation = 0;
    for number in 0..=STEPS as u32 {
        let at = match u64::from(number) {
            STEPS => LAST_US,
            _ => BEGIN_US + number * STEP_US,
        };
        let name = if number % 3 == 0 { "step[EXTEND bs=1 toks=512]" } else { "step[DECODE bs=8]" };
        events.push(step(name, at, 40_000));
        let mut free = at + 100;
        for name in ["gemm", "attention<\\\"a\\\", 1>", "norm", "sample"] {
            correlation += 1;
            events.push(launch(correlation, at + 10));
            let took = 2 + (1 << random.u32(0..12));
            events.push(kernel(name, 7, correlation, free, took));
            free += took + 3;
        }
    }
    events
}
