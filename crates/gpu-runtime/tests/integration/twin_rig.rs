// SPDX-License-Identifier: MIT OR Apache-2.0
//! Graphs of an application, and a recorder that makes twins of them.

use crate::rig::{App, THREAD_LOCAL, config, cu, stream, telemetry};
use metrale_gpu_runtime::timing::{
    GraphLaunch, RawGraph, Recorder, RecorderConfig, Status, Twin, TwinLedger, TwinState,
    TwinsConfig, Updates,
};
pub(crate) use metrale_gpu_sim::app::set_duration;
use metrale_gpu_sim::control::{self, graphs};
use metrale_gpu_sim::{app, symbol};
use metrale_telemetry::TelemetryConfig;
use metrale_telemetry::kernel::LANE_DECODE;
use std::ffi::c_void;

pub(crate) fn launch_function() -> GraphLaunch {
    let address = symbol("cuGraphLaunch").expect("the simulator has it");
    // SAFETY: the simulator's function of that name has this signature.
    unsafe { std::mem::transmute::<*const c_void, GraphLaunch>(address) }
}

/// A graph of kernels one after the other, of so many nanoseconds each: the first is
/// `spin`, the next `other`, and so on in turn.
pub(crate) fn chain(app: &App, kernels_ns: &[u64]) -> RawGraph {
    let on = app.new_stream();
    app.begin_capture(on, THREAD_LOCAL);
    for (at, ns) in kernels_ns.iter().enumerate() {
        let kernel = if at % 2 == 0 { app.spin } else { app.other };
        assert!(app.launch(kernel, on, *ns).is_success());
    }
    let mut graph = 0u64;
    let ended = cu!("cuStreamEndCapture", on => u64, &raw mut graph => *mut u64);
    assert_eq!(ended, Status::SUCCESS);
    app.destroy_stream(on);
    instantiated(graph)
}

pub(crate) fn instantiated(graph: u64) -> RawGraph {
    let mut exec = 0u64;
    let made =
        cu!("cuGraphInstantiateWithFlags", &raw mut exec => *mut u64, graph => u64, 0 => u64);
    assert_eq!(made, Status::SUCCESS);
    RawGraph { graph, exec, flags: Some(0), launch: launch_function() }
}

/// Twins on every armed step.
pub(crate) fn always() -> TwinsConfig {
    TwinsConfig { always: true, ..TwinsConfig::default() }
}

pub(crate) fn recorder(app: &App, twins: TwinsConfig) -> Recorder {
    let config = RecorderConfig { twins: Some(twins), ..config() };
    app.try_recorder(config).expect("the simulator is healthy")
}

pub(crate) fn twin(recorder: &Recorder, graph: RawGraph) -> Twin<'static> {
    // SAFETY: tests destroy graphs after their twins, if at all.
    unsafe { recorder.twin_raw(graph, "decode", Updates::Told) }
}

/// A step of one replay; its status.
pub(crate) fn replay(recorder: &Recorder, twin: &Twin<'_>, on: u64) -> Result<(), Status> {
    let step = recorder.step();
    step.lane(LANE_DECODE, stream(on)).replay(twin)
}

/// Until the GPU is done, and all is read.
pub(crate) fn settle(recorder: &Recorder) {
    control::advance_ns(1_000_000_000);
    for _ in 0..4 {
        recorder.harvest();
    }
}

/// A plain replay, so that the last stream is known and the twin is on the device.
pub(crate) fn settled_twin(recorder: &Recorder, graph: RawGraph, on: u64) -> Twin<'static> {
    let twin = twin(recorder, graph);
    assert_eq!(twin.state(), TwinState::Ready);
    replay(recorder, &twin, on).expect("a launch");
    settle(recorder);
    twin
}

/// A recorder of which no step is armed, but for every ten thousandth.
pub(crate) fn unarmed_recorder(app: &App) -> Recorder {
    let telemetry = telemetry();
    let rarely = TelemetryConfig { every: 10_000, ..TelemetryConfig::DEFAULT };
    telemetry.configure(rarely).expect("a stride");
    let config = RecorderConfig { twins: Some(always()), ..config() };
    // SAFETY: the context outlives the recorder.
    let made = unsafe {
        Recorder::from_raw(
            crate::rig::driver(),
            crate::rig::context(app.context),
            telemetry,
            config,
        )
    };
    made.expect("the simulator is healthy")
}

/// A chain of five kernels of 10 µs each and its settled twin, which is launched on
/// every armed step, and two streams.
pub(crate) struct Case {
    pub(crate) twin: Twin<'static>,
    pub(crate) graph: RawGraph,
    pub(crate) recorder: Recorder,
    /// The first stream is the application's.
    pub(crate) other: u64,
    pub(crate) app: App,
}

impl Case {
    pub(crate) fn new() -> Self {
        let app = App::new();
        let recorder = recorder(&app, always());
        let graph = chain(&app, &[10_000; 5]);
        let twin = settled_twin(&recorder, graph, app.stream);
        Self { twin, graph, recorder, other: app.new_stream(), app }
    }

    pub(crate) fn replay(&self) {
        self.replay_on(self.app.stream);
    }

    pub(crate) fn replay_on(&self, on: u64) {
        replay(&self.recorder, &self.twin, on).expect("a launch");
    }

    pub(crate) fn settle(&self) {
        settle(&self.recorder);
    }

    pub(crate) fn ledger(&self) -> TwinLedger {
        self.recorder.twin_ledger()
    }

    /// Tells both executables that the third kernel takes so long from now on.
    pub(crate) fn update(&self, ns: u64) -> Result<(), Status> {
        let third = nodes(self.graph.graph)[2];
        let set = |exec, node_of: &dyn Fn(u64) -> u64| {
            set_duration(exec, node_of(third), self.app.spin, ns)
        };
        self.twin.follow(set)
    }
}

/// How many kernels graphs ran since they are counted.
pub(crate) fn kernels_run() -> u64 {
    graphs::kernel_runs().iter().map(|run| run.count).sum()
}

pub(crate) const NO_MISTAKES: graphs::Mistakes = graphs::Mistakes {
    overlapping_launches: 0,
    reads_in_flight: 0,
    unread_marks: 0,
    stale_launches: 0,
    shared_uses: 0,
};

/// No mistake that a driver answers with success.
pub(crate) fn assert_no_mistakes() {
    assert_eq!(graphs::mistakes(), NO_MISTAKES);
    assert_eq!(control::stale_handle_uses(), 0);
}

/// The nodes of a graph.
pub(crate) fn nodes(graph: u64) -> Vec<u64> {
    app::nodes(graph).expect("a live graph")
}
