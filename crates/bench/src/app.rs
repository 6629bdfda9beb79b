// SPDX-License-Identifier: MIT OR Apache-2.0
//! An application on the simulated driver of this process with recorders over
//! raw handles. Its own driver calls are launches and what set-up needs, so that
//! every other call is the recorder's.

use metrale_gpu_runtime::timing::{
    ContextRef, FuncRef, GraphLaunch, Harvest, RawGraph, Recorder, RecorderConfig, StreamRef,
    TwinsConfig,
};
use metrale_gpu_sim::{app, control};
use metrale_telemetry::kernel::LANES;
use metrale_telemetry::{Level, Telemetry, TelemetryConfig};

/// See the module.
#[derive(Debug)]
pub struct App {
    own: app::App,
    /// Non-blocking streams.
    pub streams: Vec<u64>,
    /// A kernel that takes as long as its argument says.
    pub spin: u64,
}

impl App {
    /// An application with `streams` streams.
    ///
    /// # Panics
    /// Where the simulator refuses a call of the set-up.
    #[must_use]
    pub fn new(streams: usize) -> Self {
        let own = app::App::default();
        Self { streams: (0..streams).map(|_| own.new_stream()).collect(), spin: own.spin, own }
    }

    /// A graph of one kernel that `launch` launches.
    #[must_use]
    pub fn graph(&self, launch: GraphLaunch) -> RawGraph {
        let (graph, exec) = self.own.graph(1_000);
        RawGraph { graph, exec, flags: Some(0), launch }
    }

    /// Launches the kernel for `duration_ns` of GPU time.
    ///
    /// # Panics
    /// Where the simulator refuses the launch.
    pub fn launch(&self, stream: u64, duration_ns: u64) {
        let status = self.own.launch(self.spin, stream, duration_ns);
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
        self.recorder_with(level, every, None)
    }

    /// As [`recorder`](Self::recorder), with twins.
    ///
    /// # Panics
    /// As for [`recorder`](Self::recorder).
    #[must_use]
    pub fn recorder_with(&self, level: Level, every: u64, twins: Option<TwinsConfig>) -> Recorder {
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
        // SAFETY: the context lives as long as the simulator's world, which
        // outlives the recorder.
        unsafe {
            Recorder::from_raw(driver, ContextRef::from_raw(self.own.context), telemetry, config)
        }
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
                let _launch = lane.launch_guard(FuncRef::from_raw(self.spin));
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
