// SPDX-License-Identifier: MIT OR Apache-2.0
//! A replay of a server that works for some seconds and then stands still.

use super::{http, wait_for};
use metrale_telemetry::Snapshot;
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

/// Steps that work, and the time from one to the next.
const STEPS: u64 = 160;
const STEP_US: u64 = 50_000;
/// When the step comes that nobody waits for.
const LAST_US: u64 = 3_600_000_000;

/// A replay that serves; it ends with this.
pub(crate) struct Replay {
    child: Child,
    pub(crate) port: u16,
    _trace: tempfile::NamedTempFile,
}

impl Drop for Replay {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Replay {
    /// Starts one on a port; 0: a free one.
    pub(crate) fn start(port: u16) -> Self {
        let trace = tempfile::NamedTempFile::with_suffix(".json").expect("a file");
        std::fs::write(trace.path(), timeline()).expect("written");
        let mut child = Command::new(env!("CARGO_BIN_EXE_metrale-replay"))
            .args(["--driver", "sim", "--every", "2", "--for", "600", "--serve"])
            .arg(format!("127.0.0.1:{port}"))
            .arg("--trace")
            .arg(trace.path())
            .stdout(Stdio::piped())
            .spawn()
            .expect("started");
        let out = BufReader::new(child.stdout.take().expect("piped"));
        let serving = out.lines().map_while(Result::ok).find_map(|line| {
            let at = line.strip_prefix("serving   http://127.0.0.1:")?;
            at.split('/').next()?.parse().ok()
        });
        let mut replay = Self {
            child,
            port: 0,
            _trace: trace,
        };
        replay.port = serving.expect("it says where it serves");
        replay
    }

    /// Ends it, and starts another in its place.
    pub(crate) fn restart(&mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("ended");
        *self = Self::start(self.port);
    }

    /// What was measured, once it stands still: a replay at full speed, and the
    /// working steps of the first at its pace.
    pub(crate) fn rest(&self) -> Snapshot {
        wait_for("rest", || {
            let json = http::get(self.port, "/snapshot.json", "*/*");
            let snapshot: Snapshot = serde_json::from_slice(&json).expect("a snapshot");
            let (lanes, kernels) = snapshot.ledgers();
            let is_over = lanes.in_flight + kernels.in_flight == 0;
            let is_at_rest = is_over && snapshot.steps == 2 * STEPS + 1;
            is_at_rest.then_some(snapshot)
        })
    }
}

/// Every third step prefills; durations are spread over the octaves.
fn timeline() -> String {
    let mut events = String::new();
    let mut random = fastrand::Rng::with_seed(0);
    let mut correlation = 0;
    for step in 0..=STEPS {
        let at = if step == STEPS {
            LAST_US
        } else {
            step * STEP_US
        };
        let name = if step % 3 == 0 {
            "step[EXTEND bs=1 toks=512]"
        } else {
            "step[DECODE bs=8]"
        };
        event(&mut events, "user_annotation", name, at, 40_000, "");
        let mut free = at + 100;
        for kernel in ["gemm", "attention<\\\"a\\\", 1>", "norm", "sample"] {
            correlation += 1;
            let launch = format!("\"correlation\": {correlation}");
            event(
                &mut events,
                "cuda_runtime",
                "cudaLaunchKernel",
                at + 10,
                5,
                &launch,
            );
            let took = 2 + (1 << random.u32(0..12));
            let work = format!("\"device\": 0, \"stream\": 7, {launch}");
            event(&mut events, "kernel", kernel, free, took, &work);
            free += took + 3;
        }
    }
    format!("{{\"traceEvents\": [{}]}}", events.trim_end_matches(','))
}

fn event(out: &mut String, cat: &str, name: &str, at: u64, took: u64, args: &str) {
    // Host and GPU in tracks of their own.
    let (pid, tid) = if cat == "kernel" { (0, 7) } else { (100, 100) };
    write!(
        out,
        "{{\"ph\": \"X\", \"cat\": \"{cat}\", \"name\": \"{name}\", \"pid\": {pid}, \"tid\": {tid}, \
         \"ts\": {}, \"dur\": {took}, \"args\": {{{args}}}}},",
        1_000_000 + at
    )
    .expect("a String");
}
