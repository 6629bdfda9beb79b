// SPDX-License-Identifier: MIT OR Apache-2.0
//! An application on the simulated driver: its own calls, and a recorder.

use metrale_gpu_runtime::timing::{
    Driver, FuncRef, Harvest, InstallError, KernelRef, Recorder, RecorderConfig, Status, StreamRef,
};
use metrale_gpu_sim::control;
use metrale_telemetry::{Telemetry, TelemetryConfig};
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::Arc;

pub(crate) const GLOBAL: u32 = 0;
pub(crate) const THREAD_LOCAL: u32 = 1;
pub(crate) const RELAXED: u32 = 2;

const PTX: &str = "
.version 6.0
.target sm_50
.address_size 64
.visible .entry spin(.param .u64 duration_ns) { ret; }
.visible .entry other(.param .u64 duration_ns) { ret; }
";

/// Calls the application's side of the driver by name; every function used here
/// takes what is passed.
macro_rules! cu {
    ($name:literal, $($arg:expr => $kind:ty),*) => {{
        let address = metrale_gpu_sim::symbol($name).expect("the simulator has it");
        // SAFETY: the simulator's function of that name has this signature.
        let call = unsafe { std::mem::transmute::<*const std::ffi::c_void, unsafe extern "C" fn($($kind),*) -> Status>(address) };
        // SAFETY: handles come from the simulator, pointers are to live values.
        unsafe { call($($arg),*) }
    }};
}
pub(crate) use cu;

/// The application. Only one exists at a time; its world is reset before.
pub(crate) struct App {
    pub(crate) context: u64,
    pub(crate) stream: u64,
    pub(crate) spin: u64,
    pub(crate) other: u64,
    _alone: metrale_gpu_sim::Exclusive,
}

impl App {
    pub(crate) fn new() -> Self {
        Self::with_devices(1)
    }

    /// On the first of so many devices.
    pub(crate) fn with_devices(devices: u32) -> Self {
        let alone = metrale_gpu_sim::exclusive();
        control::set_device_count(devices);
        assert_eq!(cu!("cuInit", 0 => c_uint), Status::SUCCESS);
        let mut context = 0u64;
        let retained = cu!("cuDevicePrimaryCtxRetain", &raw mut context => *mut u64, 0 => c_int);
        assert_eq!(retained, Status::SUCCESS);
        assert_eq!(cu!("cuCtxSetCurrent", context => u64), Status::SUCCESS);
        let module = load_module(PTX);
        let function = |name: &std::ffi::CStr| function(module, name);
        let (spin, other) = (function(c"spin"), function(c"other"));
        let mut app = Self {
            context,
            stream: 0,
            spin,
            other,
            _alone: alone,
        };
        app.stream = app.new_stream();
        app
    }

    /// A non-blocking stream.
    pub(crate) fn new_stream(&self) -> u64 {
        new_stream(1)
    }

    /// A stream that waits for the legacy one, and the legacy one for it.
    pub(crate) fn new_blocking_stream(&self) -> u64 {
        new_stream(0)
    }

    pub(crate) fn destroy_stream(&self, stream: u64) {
        let gone = cu!("cuStreamDestroy_v2", stream => u64);
        assert_eq!(gone, Status::SUCCESS);
    }

    /// A graph of one kernel, instantiated.
    pub(crate) fn graph_exec(&self, duration_ns: u64) -> u64 {
        let stream = self.new_stream();
        self.begin_capture(stream, THREAD_LOCAL);
        assert!(self.launch(self.spin, stream, duration_ns).is_success());
        let (mut graph, mut exec) = (0u64, 0u64);
        let ended = cu!("cuStreamEndCapture", stream => u64, &raw mut graph => *mut u64);
        assert_eq!(ended, Status::SUCCESS);
        let made =
            cu!("cuGraphInstantiateWithFlags", &raw mut exec => *mut u64, graph => u64, 0 => u64);
        assert_eq!(made, Status::SUCCESS);
        self.destroy_stream(stream);
        exec
    }

    pub(crate) fn launch_graph(&self, exec: u64, stream: u64) -> Status {
        cu!("cuGraphLaunch", exec => u64, stream => u64)
    }

    pub(crate) fn launch(&self, function: u64, stream: u64, duration_ns: u64) -> Status {
        let argument = &raw const duration_ns;
        let mut arguments = [argument.cast_mut().cast::<c_void>()];
        cu!("cuLaunchKernel", function => u64, 1 => c_uint, 1 => c_uint, 1 => c_uint,
            1 => c_uint, 1 => c_uint, 1 => c_uint, 0 => c_uint, stream => u64,
            arguments.as_mut_ptr() => *mut *mut c_void, std::ptr::null_mut() => *mut *mut c_void)
    }

    pub(crate) fn begin_capture(&self, stream: u64, mode: u32) {
        let begun = cu!("cuStreamBeginCapture_v2", stream => u64, mode => c_uint);
        assert_eq!(begun, Status::SUCCESS);
    }

    /// Ends the capture, and whether it gave a graph.
    pub(crate) fn end_capture(&self, stream: u64) -> Status {
        let mut graph = 0u64;
        let ended = cu!("cuStreamEndCapture", stream => u64, &raw mut graph => *mut u64);
        assert_eq!(ended.is_success(), graph != 0);
        ended
    }

    pub(crate) fn capture_status(&self, stream: u64) -> u32 {
        let mut status = 9u32;
        let asked = cu!("cuStreamIsCapturing", stream => u64, &raw mut status => *mut u32);
        assert_eq!(asked, Status::SUCCESS);
        status
    }

    /// The calling thread's capture mode.
    pub(crate) fn thread_mode(&self) -> u32 {
        let mode = self.set_thread_mode(RELAXED);
        self.set_thread_mode(mode);
        mode
    }

    /// Puts the calling thread into a capture mode; the one it had.
    pub(crate) fn set_thread_mode(&self, mode: u32) -> u32 {
        let mut mode = mode;
        let status = cu!("cuThreadExchangeStreamCaptureMode", &raw mut mode => *mut u32);
        assert_eq!(status, Status::SUCCESS);
        mode
    }

    /// Telemetry of its own that arms every step, and a recorder that is
    /// harvested explicitly.
    pub(crate) fn recorder(&self) -> Recorder {
        self.try_recorder(config())
            .expect("the simulator is healthy")
    }

    pub(crate) fn try_recorder(&self, config: RecorderConfig) -> Result<Recorder, InstallError> {
        // SAFETY: the context lives as long as the application, which outlives
        // the recorder in every test.
        unsafe { Recorder::from_raw(driver(), self.context, telemetry(), config) }
    }
}

fn new_stream(flags: c_uint) -> u64 {
    let mut stream = 0u64;
    let made = cu!("cuStreamCreate", &raw mut stream => *mut u64, flags => c_uint);
    assert_eq!(made, Status::SUCCESS);
    stream
}

/// Loads a module of PTX text into the current context.
pub(crate) fn load_module(ptx: &str) -> u64 {
    let (mut module, text) = (0u64, format!("{ptx}\0"));
    let loaded = cu!("cuModuleLoadData", &raw mut module => *mut u64, text.as_ptr() => *const u8);
    assert_eq!(loaded, Status::SUCCESS);
    module
}

pub(crate) fn unload_module(module: u64) {
    let unloaded = cu!("cuModuleUnload", module => u64);
    assert_eq!(unloaded, Status::SUCCESS);
}

pub(crate) fn function(module: u64, name: &std::ffi::CStr) -> u64 {
    let mut function = 0u64;
    let found = cu!("cuModuleGetFunction", &raw mut function => *mut u64, module => u64, name.as_ptr() => *const c_char);
    assert_eq!(found, Status::SUCCESS);
    function
}

/// The next calls of that name, after `skip_first`, return `status` and do
/// nothing else.
pub(crate) fn fail_some(call: &str, status: Status, skip_first: u64, count: u64) {
    let fault = control::Fault {
        call,
        status,
        skip_first,
        count,
        this_thread_only: false,
    };
    control::fault(fault).unwrap();
}

/// As [`fail_some`], for all later calls.
pub(crate) fn fail(call: &str, status: Status, skip_first: u64) {
    fail_some(call, status, skip_first, u64::MAX);
}

/// Waits until so many calls of that name hang.
pub(crate) fn wait_until_hung(call: &str, calls: u64) {
    while control::hung_calls(call).unwrap() < calls {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

pub(crate) fn telemetry() -> &'static Telemetry {
    let telemetry = Box::leak(Box::new(Telemetry::new()));
    let every_step = TelemetryConfig {
        every: 1,
        ..TelemetryConfig::DEFAULT
    };
    telemetry.configure(every_step).expect("1 is a stride");
    telemetry
}

pub(crate) fn config() -> RecorderConfig {
    RecorderConfig {
        harvest: Harvest::Explicit,
        lane_slots: 64,
        kernel_slots: 64,
        clock: control::now_ns,
        // Tests count the calls of their own spans.
        measure_floor: false,
        ..RecorderConfig::default()
    }
}

pub(crate) fn driver() -> Arc<Driver> {
    // SAFETY: the simulator's functions have the driver's signatures.
    let found = unsafe {
        Driver::from_symbols("the simulator", |name| {
            let name = name.to_str().expect("names are ASCII");
            metrale_gpu_sim::symbol(name).unwrap_or(std::ptr::null())
        })
    };
    Arc::new(found.expect("the simulator is complete"))
}

pub(crate) fn stream(handle: u64) -> StreamRef<'static> {
    // SAFETY: tests use a stream only while it exists, or say why not.
    unsafe { StreamRef::from_raw(handle) }
}

pub(crate) fn func(handle: u64) -> FuncRef {
    FuncRef::from_raw(handle)
}

/// A function that is loaded while a test uses it.
pub(crate) fn loaded(handle: u64) -> KernelRef<'static> {
    // SAFETY: tests unload a function's module after its last launch.
    unsafe { KernelRef::from_raw(handle) }
}

pub(crate) fn calls(name: &str) -> u64 {
    control::call_count(name).expect("the simulator has it")
}

/// All driver calls so far.
pub(crate) fn all_calls() -> u64 {
    control::log_clear();
    control::log_start();
    let mut version = 0;
    let _ = cu!("cuDriverGetVersion", &raw mut version => *mut c_int);
    control::log_stop();
    control::log().first().expect("just logged").sequence
}
