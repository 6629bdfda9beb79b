// SPDX-License-Identifier: MIT OR Apache-2.0
//! cudarc's ordinary path over the simulator as a shared library.
//!
//! cudarc opens `libcuda` by name, so the simulator has to lie in a folder of
//! its own as `libcuda.so.1` and `libcuda.so`, and the dynamic linker reads
//! `LD_LIBRARY_PATH` at a program's start. Each test therefore runs itself
//! again with that folder (`METRALE_SIM_DIR`) on the path.
#![cfg(target_os = "linux")]

use std::ffi::{CString, c_char};
use std::sync::Arc;

use cudarc::driver::sys::{
    CUevent_flags, CUgraphInstantiate_flags, CUresult, CUstreamCaptureMode, CUstreamCaptureStatus,
};
use cudarc::driver::{CudaContext, CudaFunction, CudaStream, LaunchConfig, PushKernelArg};
use cudarc::nvrtc::Ptx;
use metrale_gpu_sim::child::over_simulator;

const PTX: &str = "
.version 7.0
.target sm_70
.address_size 64
.visible .entry work(.param .u64 work_duration_ns)
{
    ret;
}
";

const TIMED: Option<CUevent_flags> = Some(CUevent_flags::CU_EVENT_DEFAULT);
const ONE: LaunchConfig =
    LaunchConfig { grid_dim: (1, 1, 1), block_dim: (32, 1, 1), shared_mem_bytes: 0 };

/// The simulator that cudarc loaded.
struct Sim(libloading::Library);

impl Sim {
    fn new() -> Self {
        // SAFETY: the simulator's library has no constructors to speak of.
        let library = unsafe { libloading::Library::new("libcuda.so.1") };
        let sim = Self(library.expect("libcuda.so.1"));
        let version = sim.function::<extern "C" fn() -> u32>(b"sim_version");
        assert_eq!(version(), 1, "not the simulator");
        sim
    }

    /// A function of that name, which the caller says is of this type.
    fn function<F: Copy>(&self, name: &[u8]) -> F {
        // SAFETY: what the caller says.
        let found = unsafe { self.0.get::<F>(name) };
        *found.expect("a sim_ function")
    }

    fn number(&self, name: &[u8]) -> u64 {
        self.function::<extern "C" fn() -> u64>(name)()
    }

    fn calls(&self, name: &str) -> u64 {
        let name = CString::new(name).expect("no NUL");
        let count = self.function::<extern "C" fn(*const c_char) -> u64>(b"sim_call_count");
        count(name.as_ptr())
    }
}

fn work(context: &Arc<CudaContext>) -> CudaFunction {
    let module = context.load_module(Ptx::from_src(PTX)).expect("module");
    module.load_function("work").expect("function")
}

fn launch(stream: &Arc<CudaStream>, function: &CudaFunction, ns: u64) {
    let mut builder = stream.launch_builder(function);
    builder.arg(&ns);
    // SAFETY: the entry takes one u64.
    unsafe { builder.launch(ONE) }.expect("launch");
}

fn close(ms: f32, ns: u64) {
    let read = (f64::from(ms) * 1e6).round();
    assert!((read - ns as f64).abs() < 1.0, "{ms} ms for {ns} ns");
}

#[test]
fn a_graph_is_captured_and_replayed() {
    over_simulator("a_graph_is_captured_and_replayed", || {
        let sim = Sim::new();
        {
            let context = CudaContext::new(0).expect("context");
            let function = work(&context);
            // SAFETY: no slice of cudarc's is used here.
            unsafe { context.disable_event_tracking() };
            let stream = context.new_stream().expect("stream");
            let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
            stream.begin_capture(mode).expect("begin");
            let status = stream.capture_status().expect("status");
            let active = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_ACTIVE;
            assert_eq!(status, active);

            // 10 µs, then 20 µs beside 35 µs on a forked stream, then 5 µs.
            launch(&stream, &function, 10_000);
            let side = stream.fork().expect("fork");
            launch(&side, &function, 35_000);
            launch(&stream, &function, 20_000);
            stream.join(&side).expect("join");
            launch(&stream, &function, 5_000);
            let graph = stream.end_capture(CUgraphInstantiate_flags(0));
            let graph = graph.expect("end").expect("a graph");
            graph.upload().expect("upload");

            let start = context.new_event(TIMED).expect("event");
            let end = context.new_event(TIMED).expect("event");
            let before = sim.number(b"sim_now_ns");
            start.record(&stream).expect("record");
            graph.launch().expect("launch");
            graph.launch().expect("launch");
            end.record(&stream).expect("record");
            stream.synchronize().expect("synchronize");
            assert_eq!(sim.number(b"sim_now_ns") - before, 2 * 50_000);
            close(start.elapsed_ms(&end).expect("elapsed"), 2 * 50_000);
        }
        assert_eq!(sim.number(b"sim_stale_handle_uses"), 0);
        assert_eq!(sim.calls("cuGraphExecDestroy"), 1);
        assert_eq!(sim.calls("cuGraphDestroy"), 1);
    });
}

#[test]
fn memory_makes_the_round_trip() {
    over_simulator("memory_makes_the_round_trip", || {
        let sim = Sim::new();
        {
            let context = CudaContext::new(0).expect("context");
            let (free, total) = context.mem_get_info().expect("info");
            assert_eq!(free, total);
            let stream = context.new_stream().expect("stream");
            let numbers: Vec<u32> = (0..1_000).collect();
            let there = stream.clone_htod(&numbers).expect("up");
            let copy = stream.clone_dtod(&there).expect("across");
            assert_eq!(stream.clone_dtoh(&copy).expect("down"), numbers);
            let zeros = stream.alloc_zeros::<u32>(16).expect("zeros");
            assert_eq!(stream.clone_dtoh(&zeros).expect("down"), [0; 16]);
            let (free, _) = context.mem_get_info().expect("info");
            assert_eq!(total - free, 4_000 + 4_000 + 64);
            drop((there, copy, zeros));
            let (free, _) = context.mem_get_info().expect("info");
            assert_eq!(free, total);
            context.check_err().expect("no error left behind");
        }
        assert_eq!(sim.number(b"sim_stale_handle_uses"), 0);
    });
}

#[test]
fn errors_have_names_and_texts() {
    over_simulator("errors_have_names_and_texts", || {
        let context = CudaContext::new(0).expect("context");
        let error = context.load_module(Ptx::from_src("garbage"));
        let error = error.expect_err("no PTX");
        assert_eq!(error.0, CUresult::CUDA_ERROR_INVALID_PTX);
        let name = error.error_name().expect("name");
        assert_eq!(name.to_str(), Ok("CUDA_ERROR_INVALID_PTX"));
        assert!(format!("{error:?}").contains("PTX could not be compiled"));
        let module = context.load_module(Ptx::from_src(PTX)).expect("module");
        let error = module.load_function("absent").expect_err("absent");
        assert_eq!(error.0, CUresult::CUDA_ERROR_NOT_FOUND);
    });
}
