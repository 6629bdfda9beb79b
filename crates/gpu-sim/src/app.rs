// SPDX-License-Identifier: MIT OR Apache-2.0
//! An application on the simulated driver of this process, for tests and
//! benchmarks: its own calls by name, and what most of them start with.

use crate::{Exclusive, control, exclusive, symbol};
use metrale_gpu_sys::cuda::{CUkernelNodeParams, Driver};
pub use metrale_gpu_sys::cuda::{DriverError, Status};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::Arc;

/// Capture mode: no thread may call what could break a capture.
pub const GLOBAL: u32 = 0;
/// Capture mode: the capturing thread may not.
pub const THREAD_LOCAL: u32 = 1;
/// Capture mode: all may.
pub const RELAXED: u32 = 2;

const PTX: &str = "
.version 6.0
.target sm_50
.address_size 64
.visible .entry spin(.param .u64 duration_ns) { ret; }
.visible .entry other(.param .u64 duration_ns) { ret; }
";

/// Calls the simulator's function of that name with these arguments, which the
/// caller says are of its types. Pointers are to live values.
#[macro_export]
macro_rules! cu {
    ($name:literal $(, $arg:expr => $kind:ty)*) => {{
        let address = $crate::symbol($name).expect("the simulator has it");
        // SAFETY: the simulator's function of that name has this signature; what
        // the caller passes is good.
        let call = unsafe { std::mem::transmute::<*const std::ffi::c_void, extern "C" fn($($kind),*) -> $crate::app::Status>(address) };
        call($($arg),*)
    }};
}

type Launch = unsafe extern "C" fn(
    u64,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    u64,
    *mut *mut c_void,
    *mut *mut c_void,
) -> Status;

/// The application. Only one exists at a time; its world is reset before.
#[derive(Debug)]
pub struct App {
    /// A primary context, current on the thread that made the application.
    pub context: u64,
    /// A non-blocking stream.
    pub stream: u64,
    /// A kernel that takes as long as its argument says.
    pub spin: u64,
    /// Another one.
    pub other: u64,
    launch: Launch,
    _alone: Exclusive,
}

impl Default for App {
    fn default() -> Self {
        Self::with_devices(1)
    }
}

impl App {
    /// On the first of so many devices.
    ///
    /// # Panics
    /// Where the simulator refuses a call of the set-up, as all of this do.
    #[must_use]
    pub fn with_devices(devices: u32) -> Self {
        let alone = exclusive();
        control::set_device_count(devices);
        assert_eq!(cu!("cuInit", 0 => c_uint), Status::SUCCESS);
        let mut context = 0u64;
        let retained = cu!("cuDevicePrimaryCtxRetain", &raw mut context => *mut u64, 0 => c_int);
        assert_eq!(retained, Status::SUCCESS);
        assert_eq!(cu!("cuCtxSetCurrent", context => u64), Status::SUCCESS);
        let module = load_module(PTX);
        let launch = symbol("cuLaunchKernel").expect("the simulator has it");
        Self {
            context,
            stream: new_stream(1),
            spin: function(module, c"spin"),
            other: function(module, c"other"),
            // SAFETY: the simulator's function of that name has this signature.
            launch: unsafe { std::mem::transmute::<*const c_void, Launch>(launch) },
            _alone: alone,
        }
    }

    /// A non-blocking stream.
    #[must_use]
    pub fn new_stream(&self) -> u64 {
        new_stream(1)
    }

    /// A stream that waits for the legacy one, and the legacy one for it.
    #[must_use]
    pub fn new_blocking_stream(&self) -> u64 {
        new_stream(0)
    }

    /// Its handle may name another one from here on.
    pub fn destroy_stream(&self, stream: u64) {
        let gone = cu!("cuStreamDestroy_v2", stream => u64);
        assert_eq!(gone, Status::SUCCESS);
    }

    /// A graph of one kernel, instantiated.
    #[must_use]
    pub fn graph_exec(&self, duration_ns: u64) -> u64 {
        self.graph(duration_ns).1
    }

    /// A graph of one kernel, and its executable.
    #[must_use]
    pub fn graph(&self, duration_ns: u64) -> (u64, u64) {
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
        (graph, exec)
    }

    /// The launch's status.
    pub fn launch_graph(&self, exec: u64, stream: u64) -> Status {
        cu!("cuGraphLaunch", exec => u64, stream => u64)
    }

    /// Launches a kernel for `duration_ns` of GPU time; the launch's status.
    pub fn launch(&self, function: u64, stream: u64, duration_ns: u64) -> Status {
        let argument = &raw const duration_ns;
        let mut arguments = [argument.cast_mut().cast::<c_void>()];
        let (arguments, none) = (arguments.as_mut_ptr(), std::ptr::null_mut());
        // SAFETY: live handles, and pointers that outlive the call.
        unsafe { (self.launch)(function, 1, 1, 1, 1, 1, 1, 0, stream, arguments, none) }
    }

    /// Captures what follows on the stream.
    pub fn begin_capture(&self, stream: u64, mode: u32) {
        let begun = cu!("cuStreamBeginCapture_v2", stream => u64, mode => c_uint);
        assert_eq!(begun, Status::SUCCESS);
    }

    /// Ends the capture; its status, which says whether it gave a graph.
    pub fn end_capture(&self, stream: u64) -> Status {
        let mut graph = 0u64;
        let ended = cu!("cuStreamEndCapture", stream => u64, &raw mut graph => *mut u64);
        assert_eq!(ended.is_success(), graph != 0);
        ended
    }

    /// Whether and how the stream captures.
    #[must_use]
    pub fn capture_status(&self, stream: u64) -> u32 {
        let mut status = 9u32;
        let asked = cu!("cuStreamIsCapturing", stream => u64, &raw mut status => *mut u32);
        assert_eq!(asked, Status::SUCCESS);
        status
    }

    /// The calling thread's capture mode.
    #[must_use]
    pub fn thread_mode(&self) -> u32 {
        let mode = self.set_thread_mode(RELAXED);
        self.set_thread_mode(mode);
        mode
    }

    /// Puts the calling thread into a capture mode; the one it had.
    pub fn set_thread_mode(&self, mode: u32) -> u32 {
        let mut mode = mode;
        let status = cu!("cuThreadExchangeStreamCaptureMode", &raw mut mode => *mut u32);
        assert_eq!(status, Status::SUCCESS);
        mode
    }
}

fn new_stream(flags: c_uint) -> u64 {
    let mut stream = 0u64;
    let made = cu!("cuStreamCreate", &raw mut stream => *mut u64, flags => c_uint);
    assert_eq!(made, Status::SUCCESS);
    stream
}

/// Loads a module of PTX text into the current context.
#[must_use]
pub fn load_module(ptx: &str) -> u64 {
    let (mut module, text) = (0u64, format!("{ptx}\0"));
    let loaded = cu!("cuModuleLoadData", &raw mut module => *mut u64, text.as_ptr() => *const u8);
    assert_eq!(loaded, Status::SUCCESS);
    module
}

/// Its functions are gone with it.
pub fn unload_module(module: u64) {
    let unloaded = cu!("cuModuleUnload", module => u64);
    assert_eq!(unloaded, Status::SUCCESS);
}

/// The module's function of that name.
#[must_use]
pub fn function(module: u64, name: &CStr) -> u64 {
    let mut function = 0u64;
    let found = cu!("cuModuleGetFunction", &raw mut function => *mut u64, module => u64, name.as_ptr() => *const c_char);
    assert_eq!(found, Status::SUCCESS);
    function
}

/// The simulator as a driver that metrale found, without what is hidden.
///
/// # Errors
/// Where a function that metrale needs is hidden.
pub fn driver() -> Result<Arc<Driver>, DriverError> {
    let find = |name: &CStr| {
        let found = name.to_str().ok().and_then(symbol);
        found.unwrap_or(std::ptr::null())
    };
    // SAFETY: the simulator's functions have the driver's signatures.
    unsafe { Driver::from_symbols("the simulator", find) }.map(Arc::new)
}

/// The nodes of a graph, 4,096 at most.
///
/// # Errors
/// What the driver answered.
pub fn nodes(graph: u64) -> Result<Vec<u64>, Status> {
    let mut count = 4_096usize;
    let mut nodes = vec![0u64; count];
    cu!("cuGraphGetNodes", graph => u64, nodes.as_mut_ptr() => *mut u64, &raw mut count => *mut usize).ok()?;
    nodes.truncate(count);
    Ok(nodes)
}

/// Tells a kernel of an executable to take so long from its next launch on.
///
/// # Errors
/// What the driver answered.
pub fn set_duration(exec: u64, node: u64, function: u64, mut ns: u64) -> Result<(), Status> {
    let mut arguments = [(&raw mut ns).cast::<c_void>()];
    let params = CUkernelNodeParams {
        function: function as *mut c_void,
        grid: [1; 3],
        block: [1; 3],
        parameters: arguments.as_mut_ptr(),
        ..CUkernelNodeParams::default()
    };
    cu!("cuGraphExecKernelNodeSetParams_v2", exec => u64, node => u64, &raw const params => *const CUkernelNodeParams).ok()
}

/// How often the driver function of that name was called.
#[must_use]
pub fn calls(name: &str) -> u64 {
    control::call_count(name).expect("the simulator has it")
}

/// All driver calls so far.
#[must_use]
pub fn all_calls() -> u64 {
    control::log_clear();
    control::log_start();
    let mut version = 0;
    let _ = cu!("cuDriverGetVersion", &raw mut version => *mut c_int);
    control::log_stop();
    control::log().first().expect("just logged").sequence
}

/// The next calls of that name, after `skip_first`, return `status` and do
/// nothing else.
pub fn fail_some(call: &str, status: Status, skip_first: u64, count: u64) {
    let fault = control::Fault { call, status, skip_first, count, this_thread_only: false };
    control::fault(fault).expect("the simulator has it");
}

/// As [`fail_some`], for all later calls.
pub fn fail(call: &str, status: Status, skip_first: u64) {
    fail_some(call, status, skip_first, u64::MAX);
}

/// Waits until so many calls of that name hang.
pub fn wait_until_hung(call: &str, calls: u64) {
    while control::hung_calls(call).expect("the simulator has it") < calls {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}
