// SPDX-License-Identifier: MIT OR Apache-2.0
//! An application on the simulated driver of this process: a context, streams,
//! a kernel, and recorders over raw handles.
//!
//! One exists at a time; its world is reset before. Its own driver calls are
//! launches and what set-up needs, so that every other call is the recorder's.

use metrale_gpu_runtime::timing::{
    Driver, FuncRef, Harvest, Recorder, RecorderConfig, Status, StreamRef,
};
use metrale_gpu_sim::control;
use metrale_telemetry::kernel::LANES;
use metrale_telemetry::{Level, Telemetry, TelemetryConfig};
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::Arc;

const PTX: &std::ffi::CStr = c"
.version 6.0
.target sm_50
.address_size 64
.visible .entry spin(.param .u64 duration_ns) { ret; }
";

/// The driver function of that name. The caller states its signature.
macro_rules! cu {
    ($name:literal as fn($($kind:ty),*)) => {
        cu!($name as unsafe extern "C" fn($($kind),*) -> Status)
    };
    ($name:literal as $call:ty) => {{
        let address = metrale_gpu_sim::symbol($name).expect("the simulator has it");
        // SAFETY: the simulator's function of that name has this signature.
        unsafe { std::mem::transmute::<*const c_void, $call>(address) }
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

/// See the module.
pub struct App {
    /// The context, current on the thread that made the application.
    pub context: u64,
    /// Non-blocking streams.
    pub streams: Vec<u64>,
    /// A kernel that takes as long as its argument says.
    pub spin: u64,
    launch: Launch,
    _alone: metrale_gpu_sim::Exclusive,
}

impl App {
    /// An application with `streams` streams.
    ///
    /// # Panics
    /// Where the simulator refuses a call of the set-up.
    #[must_use]
    pub fn new(streams: usize) -> Self {
        let alone = metrale_gpu_sim::exclusive();
        let init = cu!("cuInit" as fn(c_uint));
        // SAFETY: takes flags.
        let ready = unsafe { init(0) };
        assert!(ready.is_success());
        let mut context = 0u64;
        let retain = cu!("cuDevicePrimaryCtxRetain" as fn(*mut u64, c_int));
        // SAFETY: the pointer is to a live handle; device 0 exists.
        let retained = unsafe { retain(&raw mut context, 0) };
        assert!(retained.is_success());
        let set_current = cu!("cuCtxSetCurrent" as fn(u64));
        // SAFETY: the context was just retained.
        let current = unsafe { set_current(context) };
        assert!(current.is_success());
        let mut module = 0u64;
        let load = cu!("cuModuleLoadData" as fn(*mut u64, *const c_char));
        // SAFETY: the pointers are to a live handle and to a C string.
        let loaded = unsafe { load(&raw mut module, PTX.as_ptr()) };
        assert!(loaded.is_success());
        let mut spin = 0u64;
        let find = cu!("cuModuleGetFunction" as fn(*mut u64, u64, *const c_char));
        // SAFETY: as above, and the module is loaded.
        let found = unsafe { find(&raw mut spin, module, c"spin".as_ptr()) };
        assert!(found.is_success());
        let create = cu!("cuStreamCreate" as fn(*mut u64, c_uint));
        let new_stream = |_| {
            let mut stream = 0u64;
            // SAFETY: the pointer is to a live handle; 1 is non-blocking.
            let made = unsafe { create(&raw mut stream, 1) };
            assert!(made.is_success());
            stream
        };
        let launch = cu!("cuLaunchKernel" as Launch);
        Self {
            context,
            streams: (0..streams).map(new_stream).collect(),
            spin,
            launch,
            _alone: alone,
        }
    }

    /// Launches the kernel for `duration_ns` of GPU time.
    ///
    /// # Panics
    /// Where the simulator refuses the launch.
    pub fn launch(&self, stream: u64, duration_ns: u64) {
        let argument = &raw const duration_ns;
        let mut arguments = [argument.cast_mut().cast::<c_void>()];
        let (function, none) = (self.spin, std::ptr::null_mut());
        let arguments = arguments.as_mut_ptr();
        // SAFETY: live handles, and pointers that outlive the call.
        let status =
            unsafe { (self.launch)(function, 1, 1, 1, 1, 1, 1, 0, stream, arguments, none) };
        assert!(status.is_success(), "launch: {status:?}");
    }

    /// A recorder that is harvested explicitly, over telemetry of its own at
    /// `level` that arms one step in `every`. It must not outlive the
    /// application.
    ///
    /// # Panics
    /// Where it cannot be installed, and where `every` is 0.
    #[must_use]
    pub fn recorder(&self, level: Level, every: u64) -> Recorder {
        let telemetry: &'static Telemetry = Box::leak(Box::new(Telemetry::new()));
        let config = TelemetryConfig {
            level,
            every,
            ..TelemetryConfig::DEFAULT
        };
        telemetry.configure(config).expect("a stride of at least 1");
        let config = RecorderConfig {
            harvest: Harvest::Explicit,
            clock: control::now_ns,
            ..RecorderConfig::default()
        };
        // SAFETY: the context lives as long as the simulator's world, which
        // outlives the recorder.
        unsafe { Recorder::from_raw(driver(), self.context, telemetry, config) }
            .expect("the simulator is healthy")
    }

    /// One step of a server: each lane launches `launches` kernels of 10 µs on
    /// the first stream, as `recorder` sees it; `None` runs the bare step.
    pub fn step(&self, recorder: Option<&Recorder>, launches: usize) {
        let stream = self.streams[0];
        let Some(recorder) = recorder else {
            for _ in 0..LANES.len() * launches {
                self.launch(stream, 10_000);
            }
            return;
        };
        let step = recorder.step();
        for lane in 0..LANES.len() {
            let lane = step.lane(lane, stream_ref(stream));
            for _ in 0..launches {
                let _launch = lane.launch(FuncRef::from_raw(self.spin));
                self.launch(stream, 10_000);
            }
        }
    }
}

/// The recorder's view of a stream of an [`App`].
#[must_use]
pub fn stream_ref(handle: u64) -> StreamRef<'static> {
    // SAFETY: an application's streams live as long as the simulator's world.
    unsafe { StreamRef::from_raw(handle) }
}

fn driver() -> Arc<Driver> {
    // SAFETY: the simulator's functions have the driver's signatures.
    let found = unsafe {
        Driver::from_symbols("the simulator", |name| {
            let name = name.to_str().expect("names are ASCII");
            metrale_gpu_sim::symbol(name).unwrap_or(std::ptr::null())
        })
    };
    Arc::new(found.expect("the simulator is complete"))
}

impl std::fmt::Debug for App {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("App")
            .field("context", &self.context)
            .field("streams", &self.streams)
            .finish_non_exhaustive()
    }
}
