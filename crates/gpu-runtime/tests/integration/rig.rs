// SPDX-License-Identifier: MIT OR Apache-2.0
//! An application on the simulated driver with a recorder beside it.

use metrale_gpu_runtime::timing::{
    ContextRef, Driver, FuncRef, Harvest, InstallError, KernelRef, Recorder, RecorderConfig,
    StreamRef,
};
pub(crate) use metrale_gpu_sim::app::{
    GLOBAL, RELAXED, THREAD_LOCAL, all_calls, calls, fail, fail_some, function, load_module,
    unload_module, wait_until_hung,
};
pub(crate) use metrale_gpu_sim::cu;
use metrale_gpu_sim::{app, control};
use metrale_telemetry::{Telemetry, TelemetryConfig};
use std::sync::Arc;
use std::time::Duration;

/// See [`app::App`].
#[derive(Default)]
pub(crate) struct App(app::App);

impl std::ops::Deref for App {
    type Target = app::App;
    fn deref(&self) -> &app::App {
        &self.0
    }
}

impl App {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// On the first of so many devices.
    pub(crate) fn with_devices(devices: u32) -> Self {
        Self(app::App::with_devices(devices))
    }

    /// Telemetry of its own that arms every step, and a recorder that is
    /// harvested explicitly.
    pub(crate) fn recorder(&self) -> Recorder {
        self.try_recorder(config()).expect("the simulator is healthy")
    }

    pub(crate) fn try_recorder(&self, config: RecorderConfig) -> Result<Recorder, InstallError> {
        // SAFETY: the context lives as long as the application, which outlives
        // the recorder in every test.
        unsafe { Recorder::from_raw(driver(), context(self.context), telemetry(), config) }
    }
}

pub(crate) fn telemetry() -> &'static Telemetry {
    let telemetry = Telemetry::new().leak();
    let every_step = TelemetryConfig { every: 1, ..TelemetryConfig::DEFAULT };
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

/// As [`config`], for a recorder with a thread of its own.
pub(crate) fn own_thread() -> RecorderConfig {
    RecorderConfig { harvest: Harvest::OwnThread(Duration::from_millis(1)), ..config() }
}

/// A hang is the test's failure.
pub(crate) fn wait_for(done: impl Fn() -> bool) {
    while !done() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

pub(crate) fn driver() -> Arc<Driver> {
    app::driver().expect("the simulator is complete")
}

pub(crate) fn context(handle: u64) -> ContextRef {
    ContextRef::from_raw(handle)
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
