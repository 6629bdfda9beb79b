// SPDX-License-Identifier: MIT OR Apache-2.0
//! An async server in miniature, for `docs/integration.md`: a step of it crosses
//! `.await`, and threads with it. It serves on the first GPU, or on the simulated
//! driver.

use cudarc::driver::{
    CudaContext, CudaFunction, CudaStream, DriverError, LaunchConfig, PushKernelArg,
};
use cudarc::nvrtc::Ptx;
use metrale_gpu_runtime::timing::{Recorder, RecorderConfig};
use metrale_telemetry::kernel::{LANE_DECODE, Ledger};
use metrale_telemetry::{Telemetry, TelemetryConfig};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::{JoinSet, yield_now};

/// An empty kernel. The simulated driver makes it last as long as it is told.
const PTX: &str = ".version 7.0 .target sm_75 .address_size 64
    .visible .entry attention(.param .u64 duration_ns) { ret; }";

type Error = Box<dyn std::error::Error + Send + Sync>;

/// What a request's task has of the server.
struct Server {
    recorder: Arc<Recorder>,
    stream: Arc<CudaStream>,
    attention: CudaFunction,
}

impl Server {
    async fn step(&self) -> Result<(), DriverError> {
        let step = self.recorder.step_owned();
        let lane = step.lane(LANE_DECODE, &self.stream);
        for layer in 0..3 {
            lane.launch(&self.attention, || self.launch(1_000 + layer))?;
            yield_now().await; // the task may go on on another thread
        }
        Ok(())
    }

    fn launch(&self, duration_ns: u64) -> Result<(), DriverError> {
        let mut builder = self.stream.launch_builder(&self.attention);
        builder.arg(&duration_ns);
        // SAFETY: the kernel takes one u64.
        unsafe { builder.launch(LaunchConfig::for_num_elems(32)) }.map(|_| ())
    }
}

/// Serves that many requests of that many steps; what became of their spans.
pub(crate) async fn serve(requests: u64, steps: u64) -> Result<Ledger, Error> {
    let context = CudaContext::new(0)?;
    let telemetry = Telemetry::new().leak();
    telemetry.configure(TelemetryConfig { every: 4, ..TelemetryConfig::DEFAULT })?;
    let recorder = Arc::new(Recorder::new(&context, telemetry, RecorderConfig::default())?);
    let module = context.load_module(Ptx::from_src(PTX))?;
    let attention = module.load_function("attention")?;
    let mut tasks = JoinSet::new();
    for _ in 0..requests {
        let server = Server {
            recorder: Arc::clone(&recorder),
            stream: context.new_stream()?,
            attention: attention.clone(),
        };
        tasks.spawn(async move {
            for _ in 0..steps {
                server.step().await?;
            }
            server.stream.synchronize()
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    println!("{:?}", recorder.drain(Duration::from_secs(1)));
    let ledger = recorder.lane_ledger().plus(recorder.kernel_ledger());
    // No task has it any more.
    if let Some(recorder) = Arc::into_inner(recorder) {
        recorder.close();
    }
    Ok(ledger)
}

#[tokio::main]
pub(crate) async fn main() -> Result<(), Error> {
    println!("{:?}", serve(8, 40).await?);
    Ok(())
}
