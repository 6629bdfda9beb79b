// SPDX-License-Identifier: MIT OR Apache-2.0
//! Drivers as shared libraries: the simulator under cudarc, and a real one
//! without a GPU. Each in a process of its own, as a driver stays loaded.
#![cfg(target_os = "linux")]

use cudarc::driver::{CudaContext, DriverError as CudarcError, sys::CUresult};
use metrale_gpu_runtime::timing::{
    Driver, DriverError, Harvest, InstallError, Origin, Recorder, RecorderConfig, Status,
};
use metrale_gpu_sim::child::{self, over_simulator};
use metrale_telemetry::kernel::LANE_DECODE;
use std::ffi::{CStr, CString, c_char};
use std::path::Path;
use std::sync::Arc;

/// How often the loaded simulator's function was called.
fn calls(name: &str) -> u64 {
    // SAFETY: counts another reference to a library that is loaded already.
    let library =
        unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOLOAD | libc::RTLD_LAZY) };
    assert!(!library.is_null(), "cudarc loaded it");
    // SAFETY: a live library and a C string.
    let count = unsafe { libc::dlsym(library, c"sim_call_count".as_ptr()) };
    assert!(!count.is_null(), "not the simulator");
    // SAFETY: the simulator's function has this type.
    let count = unsafe {
        std::mem::transmute::<*mut libc::c_void, unsafe extern "C" fn(*const c_char) -> u64>(count)
    };
    let name = CString::new(name).unwrap();
    // SAFETY: a C string that outlives the call.
    let calls = unsafe { count(CStr::as_ptr(&name)) };
    assert_ne!(calls, u64::MAX, "the simulator has it");
    calls
}

#[test]
fn a_driver_that_the_process_holds_is_the_one_used() {
    const NAME: &str = "libraries::a_driver_that_the_process_holds_is_the_one_used";
    if !child::is_child() {
        return child::passes(NAME, &[]);
    }
    let path = child::library_folder().join("libcuda.so.1");
    // SAFETY: the simulator's library; its initialisers do nothing.
    let first = unsafe { Driver::open(&path) }.unwrap();
    assert_eq!(first.origin(), &Origin::Loaded(path.clone()));
    assert!(first.is_simulated());
    let second = Driver::system().unwrap();
    assert_eq!(second.origin(), &Origin::Held(path));
    assert_eq!(
        second.api().event_query as usize,
        first.api().event_query as usize,
        "one library, not two"
    );
    assert!(
        matches!(first.device_count(), Err(DriverError::NoDevice { .. })),
        "cuInit was not called"
    );
}

fn recorder(context: &Arc<CudaContext>, harvest: Harvest) -> Recorder {
    let config =
        RecorderConfig { harvest, lane_slots: 16, kernel_slots: 16, ..RecorderConfig::default() };
    Recorder::new(context, metrale_telemetry::global(), config).unwrap()
}

#[test]
fn a_cudarc_recorder_keeps_its_context_alive() {
    over_simulator("libraries::a_cudarc_recorder_keeps_its_context_alive", || {
        for harvest in [Harvest::Explicit, Harvest::default()] {
            for close in [true, false] {
                let released = calls_or_zero("cuDevicePrimaryCtxRelease_v2");
                let context = CudaContext::new(0).unwrap();
                let recorder = recorder(&context, harvest);
                let stream = context.new_stream().unwrap();
                drop(recorder.step().lane(LANE_DECODE, &stream));
                drop((context, stream));
                assert_eq!(calls("cuDevicePrimaryCtxRelease_v2"), released);
                while recorder.lane_ledger().landed == 0 {
                    recorder.harvest();
                }
                if close {
                    recorder.close();
                } else {
                    drop(recorder);
                }
                assert_eq!(calls("cuDevicePrimaryCtxRelease_v2"), released + 1);
            }
        }
        assert_eq!(calls("cuInit"), 4, "cudarc's own, one to a context");
    });
}

/// cudarc's default and per-thread streams, on a thread that it did not make its
/// context current on.
#[test]
fn cudarcs_default_streams_are_timed_whatever_is_current() {
    over_simulator("libraries::cudarcs_default_streams_are_timed_whatever_is_current", || {
        let context = CudaContext::new(0).unwrap();
        let recorder = recorder(&context, Harvest::Explicit);
        let streams = [context.default_stream(), context.per_thread_stream()];
        let current = || cudarc::driver::result::ctx::get_current().unwrap();
        std::thread::scope(|scope| {
            let serving = scope.spawn(|| {
                for stream in &streams {
                    drop(recorder.step().lane(LANE_DECODE, stream));
                    assert_eq!(current(), None);
                }
                recorder.harvest()
            });
            assert_eq!(serving.join().unwrap(), 2);
        });
        assert_eq!(recorder.lane_ledger().refused, 0);
        assert_eq!(current(), Some(context.cu_ctx()));
    });
}

/// Before cudarc's first call nothing is loaded.
fn calls_or_zero(name: &str) -> u64 {
    // SAFETY: only asks whether the library is loaded.
    let library =
        unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOLOAD | libc::RTLD_LAZY) };
    if library.is_null() { 0 } else { calls(name) }
}

/// cudarc keeps an error until somebody asks. It is the application's to find.
#[test]
fn an_error_that_cudarc_keeps_stays_the_applications() {
    over_simulator("libraries::an_error_that_cudarc_keeps_stays_the_applications", || {
        let context = CudaContext::new(0).unwrap();
        let stream = context.new_stream().unwrap();
        let error = CudarcError(CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
        context.record_err::<()>(Err(error));
        let recorder = recorder(&context, Harvest::Explicit);
        let step = recorder.step();
        let lane = step.lane(LANE_DECODE, &stream);
        let token = lane.is_armed();
        drop(lane);
        drop(step);
        recorder.harvest();
        let _ = (recorder.kernels(), recorder.health(), token);
        recorder.close();
        assert_eq!(context.check_err(), Err(error), "kept, and unchanged");
    });
}

#[test]
fn without_a_device_the_error_is_typed() {
    over_simulator("libraries::without_a_device_the_error_is_typed", || {
        // Nobody called `cuInit`.
        let driver = Arc::new(Driver::system().unwrap());
        // SAFETY: the recorder is not made, so the context is never used.
        let made = unsafe {
            Recorder::from_raw(
                driver,
                super::rig::context(0x1000),
                metrale_telemetry::global(),
                RecorderConfig::default(),
            )
        };
        assert!(
            matches!(
                made,
                Err(InstallError::Driver(DriverError::NoDevice {
                    status: Status::ERROR_NOT_INITIALIZED,
                    ..
                }))
            ),
            "{made:?}"
        );
        assert_eq!(calls("cuInit"), 0);
    });
}

/// NVIDIA's own library on a machine without a GPU.
#[test]
fn a_real_driver_without_a_gpu_is_a_typed_error() {
    const NAME: &str = "libraries::a_real_driver_without_a_gpu_is_a_typed_error";
    const VAR: &str = "METRALE_REAL_LIBCUDA";
    let Some(path) = std::env::var_os(VAR) else {
        println!("skipped: {VAR} names no libcuda.so.1 of NVIDIA's");
        return;
    };
    if !child::is_child() {
        return child::passes(NAME, &[]);
    }
    // SAFETY: the driver's own library.
    let driver = unsafe { Driver::open(Path::new(&path)) }.unwrap();
    assert!(!driver.is_simulated());
    println!("{driver:?}");
    let driver = Arc::new(driver);
    for round in 0..2 {
        let no_device = driver.device_count();
        assert!(matches!(no_device, Err(DriverError::NoDevice { .. })), "{no_device:?}");
        let telemetry = metrale_telemetry::global();
        // SAFETY: the recorder is not made, so the context is never used.
        let made = unsafe {
            Recorder::from_raw(
                Arc::clone(&driver),
                super::rig::context(0),
                telemetry,
                RecorderConfig::default(),
            )
        };
        let Err(InstallError::Driver(DriverError::NoDevice { status, .. })) = made else {
            panic!("{made:?}");
        };
        let expected = [Status::ERROR_NOT_INITIALIZED, Status::ERROR_NO_DEVICE];
        assert!(expected.contains(&status), "{status}");
        // The second time after the application's own `cuInit`, which fails.
        if round == 0 {
            init(Path::new(&path));
        }
    }
}

fn init(path: &Path) {
    let path = CString::new(path.to_str().unwrap()).unwrap();
    // SAFETY: loaded already.
    let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_LAZY) };
    assert!(!library.is_null());
    // SAFETY: a live library and a C string.
    let init = unsafe { libc::dlsym(library, c"cuInit".as_ptr()) };
    assert!(!init.is_null());
    // SAFETY: `cuInit` takes flags and gives a status.
    let init =
        unsafe { std::mem::transmute::<*mut libc::c_void, unsafe extern "C" fn(u32) -> u32>(init) };
    // SAFETY: flags must be 0.
    let status = unsafe { init(0) };
    assert_eq!(Status(status), Status::ERROR_NO_DEVICE);
}
