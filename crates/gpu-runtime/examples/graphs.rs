// SPDX-License-Identifier: MIT OR Apache-2.0
//! A server whose decode is a CUDA graph, and the kernels inside it: what
//! `docs/graphs.md` explains. It runs on a GPU, or on the simulated driver.

use cudarc::driver::sys::{CUgraphInstantiate_flags, CUstreamCaptureMode};
use cudarc::driver::{
    CudaContext, CudaFunction, CudaGraph, CudaStream, LaunchConfig, PushKernelArg,
};
use cudarc::nvrtc::Ptx;
use metrale_gpu_runtime::timing::{
    Driver, Recorder, RecorderConfig, TwinState, TwinsConfig, Updates, demangle,
};
use metrale_telemetry::kernel::LANE_DECODE;
use metrale_telemetry::{Snapshot, Telemetry, TelemetryConfig};
use std::sync::Arc;
use std::time::Duration;

/// Empty kernels. The simulated driver makes them last as long as they are told.
const PTX: &str = "
.version 7.0
.target sm_75
.address_size 64
.visible .entry _Z9attentiony(.param .u64 duration_ns) { ret; }
.visible .entry _Z3mlpy(.param .u64 duration_ns) { ret; }
";

type Error = Box<dyn std::error::Error>;

/// A step of twelve layers.
fn capture(stream: &Arc<CudaStream>, layer: &[(CudaFunction, u64)]) -> Result<CudaGraph, Error> {
    let one = LaunchConfig { grid_dim: (1, 1, 1), block_dim: (1, 1, 1), shared_mem_bytes: 0 };
    stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)?;
    for (kernel, ns) in layer.iter().cycle().take(24) {
        // SAFETY: the kernel takes one u64, and does nothing with it.
        unsafe { stream.launch_builder(kernel).arg(ns).launch(one) }?;
    }
    let flags = CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
    Ok(stream.end_capture(flags)?.ok_or("nothing was captured")?)
}

/// Serves so many steps; what is known of them.
pub(crate) fn serve(steps: u64) -> Result<Snapshot, Error> {
    let context = CudaContext::new(0)?;
    // SAFETY: this program shares no memory between its streams.
    unsafe { context.disable_event_tracking() };
    let telemetry = Telemetry::new().leak();
    // A server keeps the default, one step in 64; this program is short.
    telemetry.configure(TelemetryConfig { every: 4, ..TelemetryConfig::DEFAULT })?;
    let config =
        RecorderConfig { twins: Some(TwinsConfig::default()), ..RecorderConfig::default() };
    let recorder = Recorder::new(&context, telemetry, config)?;
    let stream = context.new_stream()?;

    // Loaded for as long as the graph is there.
    let module = context.load_module(Ptx::from_src(PTX))?;
    let attention = (module.load_function("_Z9attentiony")?, 9_000);
    let layer = [attention, (module.load_function("_Z3mlpy")?, 21_000)];
    let graph = capture(&stream, &layer)?;
    // Where the graph is made, on the thread that launches it.
    let decode = recorder.twin(graph, "decode, 8 requests", Updates::Never);
    if let TwinState::Refused(why) = decode.state() {
        println!("no rows inside the graph: {why}");
    }

    for _ in 0..steps {
        let step = recorder.step();
        let lane = step.lane(LANE_DECODE, &stream);
        lane.replay(&decode)?; // in place of `graph.launch()`
        drop(lane);
        drop(step);
        stream.synchronize()?; // for the tokens
        decode.renew(); // between steps
        recorder.drain(Duration::from_millis(1)); // on a GPU there is no need to
    }
    recorder.drain(Duration::from_secs(1));
    println!("{:?}", recorder.twin_ledger());
    Ok(telemetry.snapshot())
}

pub(crate) fn main() -> Result<(), Error> {
    // cudarc panics where there is no driver.
    Driver::system()?;
    for graph in serve(200)?.graphs {
        println!("{:?}", graph.name.as_deref().unwrap_or("(no name)"));
        for row in graph.figures.rows {
            let name = row.name.as_deref().map(demangle);
            let share = 100.0 * row.estimate.share;
            println!("  {share:5.1} % {name:?} of {} nodes", row.nodes);
        }
    }
    Ok(())
}
