// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lanes of a server's own, with the shape of each step: SGLang's nine forward
//! modes, of which a step is one, and the four parts of a step of vLLM. It serves
//! on the first GPU, or on the simulated driver.

use cudarc::driver::{CudaContext, CudaFunction, CudaStream, LaunchConfig, PushKernelArg};
use cudarc::nvrtc::Ptx;
use metrale_gpu_runtime::timing::{Recorder, RecorderConfig, StepGuard};
use metrale_telemetry::kernel::StepShape;
use metrale_telemetry::{Snapshot, Telemetry};
use std::sync::Arc;
use std::time::Duration;

/// An empty kernel. The simulated driver makes it last as long as it is told.
const PTX: &str = ".version 7.0 .target sm_75 .address_size 64
    .visible .entry forward(.param .u64 duration_ns) { ret; }";

type Error = Box<dyn std::error::Error>;

/// SGLang's forward modes but `decode`, which is a lane already.
const MODES: [&str; 8] = [
    "extend",
    "mixed",
    "idle",
    "target_verify",
    "draft_extend",
    "draft_extend_v2",
    "prebuilt",
    "split_prefill",
];

/// The parts of a step of vLLM.
const PARTS: [&str; 4] = ["preprocess", "forward", "sample", "draft"];

struct Server {
    recorder: Recorder,
    stream: Arc<CudaStream>,
    forward: CudaFunction,
}

impl Server {
    fn new(lanes: &[&str]) -> Result<Self, Error> {
        let context = CudaContext::new(0)?;
        let telemetry = Telemetry::new().leak();
        telemetry.name_lanes(lanes)?; // before the first recorder
        let recorder = Recorder::new(&context, telemetry, RecorderConfig::default())?;
        let module = context.load_module(Ptx::from_src(PTX))?;
        Ok(Self {
            recorder,
            stream: context.new_stream()?,
            forward: module.load_function("forward")?,
        })
    }

    /// The index of a lane; a server keeps them.
    fn lane(&self, name: &str) -> Result<usize, String> {
        let telemetry = self.recorder.telemetry();
        let mut lanes = 0..telemetry.lanes();
        let found = lanes.find(|lane| telemetry.lane_name(*lane) == Some(name));
        found.ok_or_else(|| format!("no lane {name}"))
    }

    fn run(&self, step: &StepGuard<'_>, lane: usize, duration_ns: u64) -> Result<(), Error> {
        let lane = step.lane(lane, &self.stream);
        lane.launch(&self.forward, || {
            let mut builder = self.stream.launch_builder(&self.forward);
            builder.arg(&duration_ns);
            // SAFETY: the kernel takes one u64.
            unsafe { builder.launch(LaunchConfig::for_num_elems(32)) }
        })?;
        Ok(())
    }

    /// What was measured, and which step was the slowest.
    fn over(self) -> Result<Snapshot, Error> {
        self.stream.synchronize()?;
        self.recorder.drain(Duration::from_secs(1));
        let snapshot = self.recorder.telemetry().snapshot();
        self.recorder.close();
        for lane in snapshot.lanes.iter().filter(|lane| lane.gpu.count() > 0) {
            println!("{:16} {:10} ns", lane.lane, lane.gpu.sum_ns());
        }
        println!("the slowest: {:?}", snapshot.slowest_steps.first());
        Ok(snapshot)
    }
}

/// A batch of each mode, one after the other.
pub(crate) fn sglang() -> Result<Snapshot, Error> {
    let server = Server::new(&MODES)?;
    for (number, mode) in (1..).zip(MODES.into_iter().chain(["decode"])) {
        let lane = server.lane(mode)?;
        let step = server.recorder.step();
        let shape = StepShape::new().requests(number);
        step.shape(match mode {
            "extend" | "split_prefill" => shape.prompt_tokens(100 * number),
            "mixed" => shape.prompt_tokens(100 * number).decode_tokens(number),
            _ => shape.decode_tokens(number),
        });
        server.run(&step, lane, 1_000 * u64::from(number))?;
    }
    server.over()
}

/// Steps that do prefill and decode at once.
pub(crate) fn vllm() -> Result<Snapshot, Error> {
    let server = Server::new(&PARTS)?;
    for number in 1..=100 {
        let step = server.recorder.step();
        let shape = StepShape::new().prompt_tokens(512).decode_tokens(number);
        step.shape(shape.requests(number + 1));
        for (part, took_ns) in PARTS.into_iter().zip([2_000, 900_000, 30_000, 80_000]) {
            server.run(&step, server.lane(part)?, took_ns + u64::from(number))?;
        }
    }
    server.over()
}

pub(crate) fn main() -> Result<(), Error> {
    sglang()?;
    vllm()?;
    Ok(())
}
