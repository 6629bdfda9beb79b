// SPDX-License-Identifier: MIT OR Apache-2.0
//! A serving stack in miniature with the recorder in it, one to a GPU: what
//! `docs/integration.md` explains. Prefill launches kernels, decode replays a
//! CUDA graph. It serves on every GPU there is, or on the simulated driver.

use cudarc::driver::sys::{CUgraphInstantiate_flags, CUstreamCaptureMode};
use cudarc::driver::{
    CudaContext, CudaFunction, CudaGraph, CudaStream, DriverError, LaunchConfig, PushKernelArg,
};
use cudarc::nvrtc::Ptx;
use metrale_gpu_runtime::timing::{
    Driver, GraphRef, Harvest, Recorder, RecorderConfig, RegionRef, demangle,
};
use metrale_telemetry::kernel::{LANE_DECODE, LANE_PREFILL, LANES, Ledger};
use metrale_telemetry::{Level, Telemetry};
use std::sync::Arc;
use std::time::Duration;

/// An empty kernel. The simulated driver makes it last as long as it is told.
const PTX: &str = "
.version 7.0
.target sm_75
.address_size 64
.visible .entry _Z9attentiony(.param .u64 duration_ns) { ret; }
";

type Error = Box<dyn std::error::Error>;

/// One GPU of the server.
struct Gpu {
    recorder: Recorder,
    attention: CudaFunction,
    decode: CudaGraph,
    decode_row: GraphRef,
    sampling: RegionRef,
    stream: Arc<CudaStream>,
}

impl Gpu {
    fn new(ordinal: usize) -> Result<Self, Error> {
        let context = CudaContext::new(ordinal)?;
        // SAFETY: this program shares no memory between its streams.
        unsafe { context.disable_event_tracking() };

        // Telemetry lives as long as the process: whoever reads it may come late.
        let telemetry = Telemetry::new().leak();
        let config = RecorderConfig { label: ordinal.to_string(), ..RecorderConfig::default() };
        // Before any graph is captured. It makes its events now and none later.
        let recorder = Recorder::new(&context, telemetry, config)
            .inspect_err(|error| eprintln!("GPU {ordinal} is not timed: {error}"))
            .unwrap_or_default(); // measures nothing

        let stream = context.new_stream()?;
        let module = context.load_module(Ptx::from_src(PTX))?;
        let attention = module.load_function("_Z9attentiony")?;
        let decode = capture(&stream, &attention)?;
        // Named once, when the graph is made; a graph made anew keeps its row.
        let decode_row = recorder.graph("decode, 8 requests");
        let sampling = recorder.region("sampling");
        Ok(Self { recorder, attention, decode, decode_row, sampling, stream })
    }

    fn step(&self, prompts: u64) -> Result<(), Error> {
        let step = self.recorder.step();

        let lane = step.lane(LANE_PREFILL, &self.stream);
        for prompt in 0..prompts {
            // Timed on one step in 64; on the others this is one branch.
            lane.launch(&self.attention, || {
                launch_attention(&self.stream, &self.attention, 20_000 + prompt)
            })?;
        }
        drop(lane); // records the lane's end: after its last launch

        let lane = step.lane(LANE_DECODE, &self.stream);
        lane.launch(self.decode_row, || self.decode.launch())?;
        lane.region(self.sampling, || {
            top_k(&self.stream, &self.attention)?; // a library's, without a guard
            lane.launch(&self.attention, || launch_attention(&self.stream, &self.attention, 2_000))
        })?;
        drop(lane);
        Ok(())
    }

    /// What was timed, all of it: the GPU is idle by now.
    fn report(&self) -> Ledger {
        let recorder = &self.recorder;
        let drained = recorder.drain(Duration::from_secs(1));
        println!("{} spans landed at the end, {} are left", drained.landed, drained.left);
        println!("GPU {}, {:?}", recorder.label(), recorder.driver().map(Driver::origin));
        let telemetry = recorder.telemetry();
        for (lane, times) in LANES.iter().zip(&telemetry.instruments().lane) {
            let times = times.snapshot();
            println!("  {lane:8} {:12} ns, {} spans", times.sum_ns(), times.count());
        }
        for kernel in recorder.kernels() {
            let name = kernel.name.as_deref().unwrap_or("(no name)");
            let (name, samples) = (demangle(name), kernel.samples);
            println!("  {:12} ns, {samples} timed: {name}", kernel.total_ns);
        }
        println!("  lanes   {:?}", recorder.lane_ledger());
        println!("  kernels {:?}", recorder.kernel_ledger());
        println!("  {:?}", recorder.health());
        recorder.lane_ledger().plus(recorder.kernel_ledger())
    }

    /// Stops timing and gives the events back.
    fn shut_down(self) {
        self.recorder.close();
        // The stream and the context go after it, as fields do anyway.
    }
}

fn launch_attention(
    stream: &Arc<CudaStream>,
    attention: &CudaFunction,
    duration_ns: u64,
) -> Result<(), DriverError> {
    let mut builder = stream.launch_builder(attention);
    builder.arg(&duration_ns);
    // SAFETY: the kernel takes one u64.
    unsafe { builder.launch(LaunchConfig::for_num_elems(32)) }.map(|_| ())
}

/// Stands for a library that launches kernels of its own.
fn top_k(stream: &Arc<CudaStream>, kernel: &CudaFunction) -> Result<(), DriverError> {
    launch_attention(stream, kernel, 3_000)
}

fn capture(stream: &Arc<CudaStream>, attention: &CudaFunction) -> Result<CudaGraph, Error> {
    stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)?;
    for _ in 0..8 {
        launch_attention(stream, attention, 1_000)?;
    }
    let flags = CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
    stream.end_capture(flags)?.ok_or_else(|| "no graph".into())
}

/// The other way to harvest: explicitly, best at the begin of a step.
pub(crate) fn serve_explicitly(steps: u64) -> Result<(), Error> {
    let context = CudaContext::new(0)?;
    let stream = context.new_stream()?;
    let config = RecorderConfig { harvest: Harvest::Explicit, ..RecorderConfig::default() };
    let recorder = Recorder::new(&context, metrale_telemetry::global(), config)?;
    for _ in 0..steps {
        recorder.harvest();
        let step = recorder.step();
        let lane = step.lane(LANE_DECODE, &stream);
        // … launches …
        drop(lane);
    }
    stream.synchronize()?;
    println!("explicitly: {:?}", recorder.drain(Duration::from_secs(1)));
    recorder.close();
    Ok(())
}

/// Serves that many steps on every GPU; what became of their spans.
pub(crate) fn serve(steps: u64) -> Result<Vec<Ledger>, Error> {
    let gpus: Vec<Gpu> = (0..CudaContext::device_count()?)
        .map(|ordinal| Gpu::new(ordinal as usize))
        .collect::<Result<_, Error>>()?;
    for number in 0..steps {
        for gpu in &gpus {
            gpu.step(number % 3)?;
        }
    }
    for gpu in &gpus {
        // From any thread, at any moment.
        gpu.recorder.telemetry().set_level(Level::Basic);
        gpu.stream.synchronize()?; // yours to do; the recorder never does it
    }
    let ledgers = gpus.iter().map(Gpu::report).collect();
    gpus.into_iter().for_each(Gpu::shut_down);
    Ok(ledgers)
}

pub(crate) fn main() -> Result<(), Error> {
    serve(400)?;
    serve_explicitly(100)
}
