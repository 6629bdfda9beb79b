// SPDX-License-Identifier: MIT OR Apache-2.0
//! A stack whose cudarc does not tell the handle of a `CudaFunction` (before 0.19.10),
//! or, without feature `cudarc`, is none that the library knows (before 0.19): it
//! launches by raw handles, and so does it time. On the simulated driver a launch
//! takes as long as it says.

use cudarc::driver::{CudaContext, result, sys};
#[cfg(not(feature = "cudarc"))]
use metrale_gpu_runtime::timing::{ContextRef, Driver};
use metrale_gpu_runtime::timing::{KernelRef, Recorder, RecorderConfig, StreamRef};
use metrale_telemetry::kernel::LANE_DECODE;
use metrale_telemetry::{Telemetry, TelemetryConfig};
use std::time::Duration;

const PTX: &std::ffi::CStr = c".version 7.0 .target sm_75 .address_size 64
    .visible .entry attention(.param .u64 duration_ns) { ret; }";

fn launch(function: sys::CUfunction, stream: sys::CUstream) -> Result<(), result::DriverError> {
    let mut duration_ns = 5_000_u64;
    let one = (1, 1, 1);
    let parameters = &mut [(&raw mut duration_ns).cast()];
    // SAFETY: the function is loaded and takes one u64; the stream exists.
    unsafe { result::launch_kernel(function, one, one, 0, stream, parameters) }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let context = CudaContext::new(0)?;
    let stream = context.new_stream()?;
    // SAFETY: text that ends in NUL; the module is never unloaded.
    let module = unsafe { result::module::load_data(PTX.as_ptr().cast()) }?;
    // SAFETY: a module that is loaded.
    let attention = unsafe { result::module::get_function(module, c"attention".into()) }?;
    // SAFETY: the same, as long as this program runs.
    let kernel = unsafe { KernelRef::from_raw(attention as u64) };

    let telemetry = Telemetry::new().leak();
    telemetry.configure(TelemetryConfig { every: 1, ..TelemetryConfig::default() })?;
    let config = RecorderConfig::default();
    #[cfg(feature = "cudarc")]
    let (recorder, on) = (Recorder::new(&context, telemetry, config)?, StreamRef::from(&stream));
    #[cfg(not(feature = "cudarc"))]
    let (recorder, on) = {
        let driver = Driver::system()?.into();
        let of = ContextRef::from_raw(context.cu_ctx() as u64);
        // SAFETY: the context outlives the recorder, which is closed below.
        let recorder = unsafe { Recorder::from_raw(driver, of, telemetry, config) }?;
        // SAFETY: the stream is of that context, and lives as long as this function.
        (recorder, unsafe { StreamRef::from_raw_of(stream.cu_stream() as u64, of) })
    };
    for _ in 0..100 {
        let step = recorder.step();
        let lane = step.lane(LANE_DECODE, on);
        lane.launch(kernel, || launch(attention, stream.cu_stream()))?;
    }
    stream.synchronize()?;
    recorder.drain(Duration::from_secs(1));
    let lanes = telemetry.instruments().lane[LANE_DECODE].snapshot();
    println!("lanes: {}, {} ns", lanes.count(), lanes.sum_ns());
    for row in recorder.kernels() {
        let name = row.name.as_deref().unwrap_or("(no name)");
        println!("{name}: {}, {} ns", row.samples, row.total_ns);
    }
    recorder.close();
    Ok(())
}
