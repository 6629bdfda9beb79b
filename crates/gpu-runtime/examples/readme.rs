// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program that the README shows the heart of.

use cudarc::driver::{
    CudaContext, CudaFunction, CudaStream, DriverError, LaunchConfig, PushKernelArg,
};
use cudarc::nvrtc::Ptx;
use metrale_gpu_runtime::timing::{Driver, Recorder, RecorderConfig};
use metrale_telemetry::{global, kernel::LANE_DECODE};
use std::sync::Arc;
use std::time::Duration;

/// An empty kernel.
const PTX: &str = ".version 7.0 .target sm_75 .address_size 64
    .visible .entry attention(.param .u64 token) { ret; }";

fn launch(stream: &Arc<CudaStream>, kernel: &CudaFunction, token: u64) -> Result<(), DriverError> {
    let mut builder = stream.launch_builder(kernel);
    builder.arg(&token);
    // SAFETY: the kernel takes one u64.
    unsafe { builder.launch(LaunchConfig::for_num_elems(1024)) }.map(|_| ())
}

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Where there is no driver this says what is missing; `CudaContext::new` panics.
    Driver::system()?;
    let context = CudaContext::new(0)?;
    let stream = context.new_stream()?;
    let module = context.load_module(Ptx::from_src(PTX))?;
    let attention = module.load_function("attention")?;

    // Once, before any graph is captured.
    let recorder = Recorder::new(&context, global(), RecorderConfig::default())?;
    for token in 0..1_000 {
        let step = recorder.step();
        let decode = step.lane(LANE_DECODE, &stream); // timed on every step
        decode.launch(&attention, || launch(&stream, &attention, token))?; // on one in 64
    }
    stream.synchronize()?; // yours to do; the recorder never does it
    println!("{:?}", recorder.drain(Duration::from_secs(1)));
    println!("{:#?}", recorder.kernels());
    Ok(())
}
