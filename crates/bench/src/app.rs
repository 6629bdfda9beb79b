// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recorders over the simulator's application, and its steps. The application's
//! own driver calls are launches and what set-up needs, so that every other call
//! is the recorder's.

use metrale_gpu_runtime::timing::{
    ContextRef, FuncRef, Harvest, Recorder, RecorderConfig, StreamRef, TwinsConfig,
};
use metrale_gpu_sim::app::{self, App};
use metrale_gpu_sim::control;
use metrale_telemetry::kernel::LANES;
use metrale_telemetry::{Level, Telemetry, TelemetryConfig};

/// A recorder that is harvested explicitly, over telemetry of its own at `level`
/// that arms one step in `every`, with room for twins. It must not outlive the
/// application.
///
/// # Panics
/// Where it cannot be installed, and where `every` is 0.
#[must_use]
pub fn recorder(app: &App, level: Level, every: u64, twins: Option<TwinsConfig>) -> Recorder {
    let telemetry = Telemetry::new().leak();
    let config = TelemetryConfig { level, every, ..TelemetryConfig::DEFAULT };
    telemetry.configure(config).expect("a stride of at least 1");
    let config = RecorderConfig {
        harvest: Harvest::Explicit,
        clock: control::now_ns,
        twins,
        ..RecorderConfig::default()
    };
    let driver = app::driver().expect("the simulator is complete");
    // SAFETY: the context lives as long as the simulator's world, which outlives
    // the recorder.
    unsafe { Recorder::from_raw(driver, ContextRef::from_raw(app.context), telemetry, config) }
        .expect("the simulator is healthy")
}

/// One step of a server: each lane launches `launches` kernels of 10 µs, as
/// `recorder` sees it; `None` runs the bare step.
pub fn step(app: &App, recorder: Option<&Recorder>, launches: usize) {
    let Some(recorder) = recorder else {
        return (0..LANES.len() * launches).for_each(|_| launch(app, app.stream, 10_000));
    };
    let step = recorder.step();
    for lane in 0..LANES.len() {
        let lane = step.lane(lane, stream_ref(app.stream));
        for _ in 0..launches {
            let _launch = lane.launch_guard(FuncRef::from_raw(app.spin));
            launch(app, app.stream, 10_000);
        }
    }
}

/// Launches the kernel for `duration_ns` of GPU time.
///
/// # Panics
/// Where the simulator refuses the launch.
pub fn launch(app: &App, stream: u64, duration_ns: u64) {
    let status = app.launch(app.spin, stream, duration_ns);
    assert!(status.is_success(), "launch: {status:?}");
}

/// The recorder's view of a stream of an application.
#[must_use]
pub fn stream_ref(handle: u64) -> StreamRef<'static> {
    // SAFETY: an application's streams live as long as the simulator's world.
    unsafe { StreamRef::from_raw(handle) }
}
