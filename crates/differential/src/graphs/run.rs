// SPDX-License-Identifier: MIT OR Apache-2.0
//! An application with graphs, at work on the simulated driver, with or without a
//! recorder that makes twins of them. What it does is the program's alone.

use super::program::{BRANCHES, Fault, GraphAction, Program, STREAMS, Within};
use crate::guest::{driver, telemetry};
use crate::machine::LATER_NS;
use metrale_gpu_runtime::timing::{
    ContextRef, GraphLaunch, Harvest, KernelRef, RawGraph, Recorder, RecorderConfig, StreamRef,
    Twin, TwinLedger, TwinsConfig, Updates,
};
use metrale_gpu_sim::app::{self, App};
use metrale_gpu_sim::control::{self, graphs};
use metrale_gpu_sim::{cu, symbol};
use metrale_gpu_sys::cuda::Status;
use metrale_telemetry::kernel::LANE_DECODE;
use std::ffi::c_void;

pub(super) const BYTES: usize = 16;
const LAUNCH: &str = "cuGraphLaunch";
const UPDATE: &str = "cuGraphExecKernelNodeSetParams_v2";

/// What a recorder calls and the application does not in the same operation. Not
/// what keeps the order of a twin and a plain launch: without an answer there is none.
const REPLAYING: &[&str] = &["cuEventRecord", MODE];
const HARVESTING: &[&str] = &["cuEventQuery", "cuEventElapsedTime", "cuEventElapsedTime_v2", MODE];
const MAKING: &[&str] = &[
    "cuCtxPushCurrent_v2",
    MODE,
    "cuGraphExecGetFlags",
    "cuGraphClone",
    "cuGraphGetNodes",
    "cuGraphKernelNodeGetParams_v2",
    "cuGraphAddEventRecordNode",
    "cuGraphAddDependencies",
    "cuGraphDestroyNode",
    "cuGraphInstantiateWithFlags",
    "cuGraphUpload",
    "cuGraphExecDestroy",
];
const MODE: &str = "cuThreadExchangeStreamCaptureMode";

/// What was done, told, and left behind.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    /// Operation, what was called, and its status or what it told.
    pub(super) seen: Vec<(usize, &'static str, u64)>,
    /// Which kernel ran with which arguments, and how often.
    pub(super) ran: Vec<(bool, Vec<u128>, u64)>,
    pub(super) memory: Vec<u8>,
    pub(super) now_ns: u64,
    pub(super) mode: u32,
    pub(super) mistakes: graphs::Mistakes,
    pub(super) stale_handles: u64,
}

/// A graph with its executable, and the twin where there is a recorder.
struct Made {
    graph: u64,
    exec: u64,
    /// The graph does what the executable does, so that a twin may be made of it.
    is_current: bool,
    /// Kernels of the graph that the executable was made of.
    nodes: Vec<u64>,
    /// The stream of the last launch that was not captured.
    last_on: Option<u64>,
    twin: Option<Twin<'static>>,
}

pub(super) struct Run<'p> {
    program: &'p Program,
    operation: usize,
    fault: Option<Fault>,
    graphs: Vec<Made>,
    recorder: Option<Recorder>,
    streams: Vec<u64>,
    /// Orders streams, and branches of captures.
    event: u64,
    pub(super) buffers: Vec<u64>,
    seen: Vec<(usize, &'static str, u64)>,
    pub(super) app: App,
}

/// Runs a program; what became of replays, if there was a recorder.
pub(super) fn run(program: &Program, with_twins: bool) -> (Outcome, TwinLedger) {
    let app = App::default();
    let mut event = 0u64;
    assert!(cu!("cuEventCreate", &raw mut event => *mut u64, 2 => u32).is_success());
    let buffer = |_| {
        let mut address = 0u64;
        let made = cu!("cuMemAlloc_v2", &raw mut address => *mut u64, BYTES => usize);
        assert!(made.is_success());
        let set = cu!("cuMemsetD8_v2", address => u64, 0 => u8, BYTES => usize);
        assert!(set.is_success());
        address
    };
    let mut run = Run {
        program,
        operation: 0,
        fault: None,
        graphs: Vec::new(),
        recorder: None,
        streams: (0..STREAMS).map(|_| app.new_stream()).collect(),
        event,
        buffers: (0..2 * BRANCHES).map(buffer).collect(),
        seen: Vec::new(),
        app,
    };
    for recipe in &program.graphs {
        let (graph, nodes) = run.capture(recipe, 1);
        let mut exec = 0u64;
        let made =
            cu!("cuGraphInstantiateWithFlags", &raw mut exec => *mut u64, graph => u64, 0 => u64);
        assert!(made.is_success());
        run.graphs.push(Made { graph, exec, is_current: true, nodes, last_on: None, twin: None });
    }
    if with_twins {
        run.install();
    }
    graphs::count_kernels();
    for (operation, (fault, action)) in program.operations.iter().enumerate() {
        (run.operation, run.fault) = (operation, *fault);
        run.act(*action);
    }
    run.end()
}

impl Run<'_> {
    fn install(&mut self) {
        let setup = self.program.setup;
        let driver = driver(setup.driver).expect("what is needed is older");
        let config = RecorderConfig {
            lane_slots: setup.slots,
            kernel_slots: setup.slots,
            harvest: Harvest::Explicit,
            clock: control::now_ns,
            measure_floor: false,
            twins: Some(TwinsConfig {
                marks: setup.marks,
                resident: setup.resident,
                plan_launches: setup.plan_launches,
                always: setup.always,
                ..TwinsConfig::default()
            }),
            ..RecorderConfig::default()
        };
        let context = ContextRef::from_raw(self.app.context);
        // SAFETY: the context is there until the simulator is reset.
        let made = unsafe { Recorder::from_raw(driver, context, telemetry(0), config) };
        self.recorder = Some(made.expect("the simulator is healthy"));
        for graph in 0..self.graphs.len() {
            self.make(graph, true);
        }
    }

    fn make(&mut self, graph: usize, is_told: bool) {
        let (Some(recorder), Some(made)) = (&self.recorder, self.graphs.get_mut(graph)) else {
            return;
        };
        if !made.is_current {
            return;
        }
        let address = symbol(LAUNCH).expect("the simulator has it");
        // SAFETY: the simulator's function of that name has this signature.
        let launch = unsafe { std::mem::transmute::<*const c_void, GraphLaunch>(address) };
        let raw = RawGraph { graph: made.graph, exec: made.exec, flags: Some(0), launch };
        let updates = if is_told { Updates::Told } else { Updates::Never };
        // SAFETY: graphs are not destroyed, and all is on one thread.
        let twin = unsafe { recorder.twin_raw(raw, &format!("graph {graph}"), updates) };
        made.twin = Some(twin);
    }

    fn see(&mut self, what: &'static str, status: Status) {
        self.seen.push((self.operation, what, u64::from(status.0)));
    }

    fn stream(&self, choice: u8) -> u64 {
        self.streams[usize::from(choice) % STREAMS]
    }

    fn graph(&self, choice: u8) -> usize {
        usize::from(choice) % self.graphs.len()
    }

    fn act(&mut self, action: GraphAction) {
        if let GraphAction::Capture { within: Within::Make(_), .. }
        | GraphAction::Recorder { within: Within::Make(_), .. } = action
        {
            // A twin goes when its launches are over: nothing else knows of them.
            (0..STREAMS as u8).for_each(|stream| self.synchronize(stream));
        }
        match action {
            GraphAction::Replay { graph, stream, times } => {
                let (graph, on) = (self.graph(graph), self.stream(stream));
                let last = self.graphs[graph].last_on.replace(on);
                if last.is_some_and(|last| last != on) {
                    // A launch that fails there leaves its wait for the twin: rule 20.
                    self.fault = self.fault.filter(|fault| !matches!(fault, Fault::Launches(_)));
                }
                self.replay(graph, on, times);
            }
            GraphAction::Capture { graph, stream, mode, within } => {
                let on = self.stream(stream);
                self.app.begin_capture(on, u32::from(mode));
                self.within(self.graph(graph), within);
                self.replay(self.graph(graph), on, 1);
                let captured = self.end_capture(on);
                // None of a capture that was broken.
                let nodes = app::nodes(captured).map_or(0, |nodes| nodes.len());
                self.seen.push((self.operation, "nodes captured", nodes as u64));
            }
            GraphAction::Kernel { stream, ns } => self.kernel(self.stream(stream), ns.into()),
            GraphAction::Update { graph, node, ns, missed } => self.update(graph, node, ns, missed),
            GraphAction::Replace { graph, longer } => self.replace(self.graph(graph), longer),
            GraphAction::Order { first, second } => {
                self.order(self.stream(first), self.stream(second));
            }
            GraphAction::Advance { ns } => control::advance_ns(ns.into()),
            GraphAction::Synchronize { stream } => self.synchronize(stream),
            GraphAction::Recorder { graph, within } => self.within(self.graph(graph), within),
        }
    }

    fn synchronize(&mut self, stream: u8) {
        let done = cu!("cuStreamSynchronize", self.stream(stream) => u64);
        self.see("cuStreamSynchronize", done);
        self.seen.push((self.operation, "the clock", control::now_ns()));
    }

    /// Makes the next call fail that the fault is of, of the recorder's one of `calls`,
    /// until it is cleared.
    fn set_fault(&self, calls: &[&str]) {
        match self.fault {
            Some(Fault::Launches(status)) => app::fail(LAUNCH, Status(status), 0),
            Some(Fault::Recorders(call, skip, status)) if self.recorder.is_some() => {
                let call = calls[usize::from(call) % calls.len()];
                app::fail_some(call, Status(status), skip.into(), 1);
            }
            _ => {}
        }
    }

    fn replay(&mut self, graph: usize, on: u64, times: u8) {
        self.set_fault(REPLAYING);
        let step = self.recorder.as_ref().map(Recorder::step);
        // SAFETY: streams are not destroyed.
        let stream = unsafe { StreamRef::from_raw(on) };
        let lane = step.as_ref().map(|step| step.lane(LANE_DECODE, stream));
        let made = &self.graphs[graph];
        let launches: Vec<Status> = (0..times)
            .map(|_| match (&lane, &made.twin) {
                (Some(lane), Some(twin)) => lane.replay(twin).err().unwrap_or(Status::SUCCESS),
                _ => cu!("cuGraphLaunch", made.exec => u64, on => u64),
            })
            .collect();
        drop(lane);
        drop(step);
        control::clear_faults();
        for status in launches {
            self.see(LAUNCH, status);
        }
    }

    fn kernel(&mut self, on: u64, ns: u64) {
        let launch = || self.app.launch(self.app.spin, on, ns);
        let status = match &self.recorder {
            Some(recorder) => {
                let step = recorder.step();
                // SAFETY: streams are not destroyed.
                let lane = step.lane(LANE_DECODE, unsafe { StreamRef::from_raw(on) });
                // SAFETY: modules are not unloaded.
                let kernel = unsafe { KernelRef::from_raw(self.app.spin) };
                lane.launch(kernel, || launch().ok()).err().unwrap_or(Status::SUCCESS)
            }
            None => launch(),
        };
        self.see("cuLaunchKernel", status);
    }

    fn update(&mut self, graph: u8, node: u8, ns: u16, missed: bool) {
        let graph = self.graph(graph);
        let made = &self.graphs[graph];
        let Some(node) = usize::from(node).checked_rem(made.nodes.len()).map(|at| made.nodes[at])
        else {
            return;
        };
        let set = |exec, node| app::set_duration(exec, node, self.app.other, ns.into());
        let status = match &made.twin {
            Some(twin) => {
                if missed {
                    app::fail_some(UPDATE, Status::ERROR_OUT_OF_MEMORY, 1, 1);
                }
                twin.follow(|exec, node_of| set(exec, node_of(node)))
            }
            None => set(made.exec, node),
        };
        control::clear_faults();
        self.graphs[graph].is_current = false;
        self.see(UPDATE, status.err().unwrap_or(Status::SUCCESS));
    }

    fn replace(&mut self, graph: usize, longer: u8) {
        let (newer, _) = self.capture(&self.program.graphs[graph], 1 + u64::from(longer));
        let exec = self.graphs[graph].exec;
        let mut result = [0u64; 3];
        let updated =
            cu!("cuGraphExecUpdate_v2", exec => u64, newer => u64, result.as_mut_ptr() => *mut u64);
        self.see("cuGraphExecUpdate_v2", updated);
        (self.graphs[graph].graph, self.graphs[graph].is_current) = (newer, true);
        self.set_fault(MAKING);
        if let Some(twin) = &self.graphs[graph].twin {
            // SAFETY: the graph is not destroyed, and all is on one thread.
            unsafe { twin.replace_raw(newer) };
        }
        control::clear_faults();
    }

    fn within(&mut self, graph: usize, within: Within) {
        let is_harvest = matches!(within, Within::Harvest);
        self.set_fault(if is_harvest { HARVESTING } else { MAKING });
        if let (Some(recorder), Some(twin)) = (&self.recorder, &self.graphs[graph].twin) {
            match within {
                Within::Nothing => {}
                Within::Harvest => _ = recorder.harvest(),
                Within::Renew => twin.renew(),
                Within::Retire => twin.retire(),
                Within::Make(is_told) => self.make(graph, is_told),
            }
        }
        control::clear_faults();
    }

    pub(super) fn order(&mut self, first: u64, second: u64) {
        let recorded = cu!("cuEventRecord", self.event => u64, first => u64);
        self.see("cuEventRecord", recorded);
        let waits = cu!("cuStreamWaitEvent", second => u64, self.event => u64, 0 => u32);
        self.see("cuStreamWaitEvent", waits);
    }

    pub(super) fn end_capture(&mut self, on: u64) -> u64 {
        let mut graph = 0u64;
        let ended = cu!("cuStreamEndCapture", on => u64, &raw mut graph => *mut u64);
        self.see("cuStreamEndCapture", ended);
        graph
    }

    fn end(mut self) -> (Outcome, TwinLedger) {
        control::advance_ns(LATER_NS);
        let mut ledger = TwinLedger::default();
        if let Some(recorder) = &self.recorder {
            (0..4).for_each(|_| _ = recorder.harvest());
            ledger = recorder.twin_ledger();
        }
        let spin = self.app.spin;
        let ran = graphs::kernel_runs().into_iter();
        let mut memory = vec![0; BYTES * self.buffers.len()];
        for (part, buffer) in memory.chunks_exact_mut(BYTES).zip(&self.buffers) {
            let read = cu!("cuMemcpyDtoH_v2", part.as_mut_ptr() => *mut u8, *buffer => u64,
                BYTES => usize);
            assert!(read.is_success());
        }
        // Half of the twins go first, the others after their recorder.
        self.graphs.drain(..self.graphs.len() / 2);
        drop(self.recorder.take());
        self.graphs.clear();
        let outcome = Outcome {
            ran: ran.map(|run| (run.function == spin, run.arguments, run.count)).collect(),
            seen: self.seen,
            memory,
            now_ns: control::now_ns(),
            mode: self.app.thread_mode(),
            mistakes: graphs::mistakes(),
            stale_handles: control::stale_handle_uses(),
        };
        (outcome, ledger)
    }
}
