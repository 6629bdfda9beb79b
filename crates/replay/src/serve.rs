// SPDX-License-Identifier: MIT OR Apache-2.0
//! The serving loop: does what a plan says, with the guards that a server
//! would use.
//!
//! Invariant: guards go in the reverse order of their begins, as their ranges in
//! a profiler must. Where steps overlap, as recorded ones may, the one that
//! begins inside another has no guard, and a lane around whose marks another step
//! begins or ends is a token.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;
use std::slice::Iter;

use cudarc::driver::DriverError;
use metrale_gpu_runtime::timing::{KernelRef, StepGuard};
use metrale_telemetry::Step;
use metrale_telemetry::kernel::SpanToken;

use crate::device::Device;
use crate::pace::Pace;
use crate::plan::{LaneSpan, Launched, Op, Plan, What};
use crate::play::{PlayError, Player};
use crate::progress::Progress;
use crate::simulator::Simulator;

/// Operations between two harvests inside a step.
const HARVEST_EVERY: usize = 1_000;
/// Lanes open at once that are guards; a guard is a frame of the stack.
const MAX_DEPTH: usize = 8;

/// What a run asked to be timed.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    /// Launches of armed steps, by device.
    pub(crate) launches: BTreeMap<(u32, Launched), u64>,
    /// How long the kernels with a span ran by the plan, nanoseconds.
    pub(crate) planned_ns: u64,
}

/// Performs the player's plan; on a simulator at its times from `start_ns` on,
/// and in real time at `pace`, if there is one.
pub(crate) fn run(
    player: &Player<'_>,
    simulator: Option<&Simulator>,
    start_ns: u64,
    pace: Option<Pace>,
) -> Result<Asked, PlayError> {
    let mut serving = ServingLoop {
        player,
        simulator,
        start_ns,
        pace,
        ops: player.plan.ops.iter(),
        progress: Progress::new("replaying"),
        guarded: guarded(player.plan),
        of: None,
        steps: Vec::new(),
        open: HashMap::new(),
        launched: HashSet::new(),
        asked: Asked::default(),
    };
    while let Some(what) = serving.next() {
        serving.perform(what)?;
    }
    Ok(serving.asked)
}

/// The lane spans that begin and end within one step and around each other, on
/// the first device: those that can be guards.
fn guarded(plan: &Plan) -> HashSet<u32> {
    let mut guarded = HashSet::new();
    let mut open: Vec<u32> = Vec::new();
    let mut in_step = false;
    for op in &plan.ops {
        match op.what {
            What::StepBegin { .. } | What::StepEnd => {
                in_step = matches!(op.what, What::StepBegin { .. });
                open.clear();
            }
            What::LaneBegin { span } => {
                let planned = plan.spans.get(span as usize);
                let is_first = planned.is_some_and(|planned| plan.device(planned.stream) == 0);
                if in_step && open.len() < MAX_DEPTH && is_first {
                    open.push(span);
                }
            }
            What::LaneEnd { span } => {
                if open.last() == Some(&span) {
                    guarded.insert(span);
                }
                open.retain(|other| *other != span);
            }
            _ => {}
        }
    }
    guarded
}

/// A step that is open.
struct OpenStep<'p> {
    /// The plan's number of it.
    of: Option<u32>,
    /// The first device's; none where it began while another was open.
    guard: Option<Rc<StepGuard<'p>>>,
    /// Every device's own.
    each: Vec<Step>,
}

struct ServingLoop<'p> {
    player: &'p Player<'p>,
    simulator: Option<&'p Simulator>,
    start_ns: u64,
    pace: Option<Pace>,
    ops: Iter<'p, Op>,
    progress: Progress,
    guarded: HashSet<u32>,
    /// The plan's step of the operation.
    of: Option<u32>,
    /// The open steps, the one begun last at the end.
    steps: Vec<OpenStep<'p>>,
    /// Open lane spans that are tokens, by index into [`Plan::spans`].
    open: HashMap<u32, Option<SpanToken>>,
    /// The graphs that were launched.
    launched: HashSet<u32>,
    asked: Asked,
}

impl<'p> ServingLoop<'p> {
    /// The next operation, at its time.
    fn next(&mut self) -> Option<What> {
        let op = self.ops.next()?;
        if self.pace.is_some_and(|pace| !self.wait(pace, op.at_ns)) {
            self.ops = [].iter();
            return None;
        }
        if let Some(simulator) = self.simulator {
            simulator.advance_to_ns(self.start_ns + op.at_ns);
        }
        if self.ops.len().is_multiple_of(HARVEST_EVERY) {
            self.player.harvest();
            let all = self.player.plan.ops.len();
            if self.pace.is_none() {
                self.progress.at((all - self.ops.len()) as u64, all as u64);
            }
        }
        self.of = op.step;
        Some(op.what)
    }

    /// Waits in real time until the plan is `at_ns` old, and harvests meanwhile;
    /// `false` where the run has to end.
    fn wait(&self, pace: Pace, at_ns: u64) -> bool {
        while let Some(now_ns) = pace.sleep_towards(at_ns) {
            if let Some(simulator) = self.simulator {
                simulator.advance_to_ns(self.start_ns + now_ns);
            }
            self.player.harvest();
        }
        !pace.is_over()
    }

    fn begin_step(&mut self) {
        self.player.harvest();
        self.player.devices.iter().for_each(Device::renew);
        let planned = self.of.and_then(|of| self.player.plan.steps.get(of as usize));
        let shape = planned.and_then(|planned| planned.shape);
        // One scheduler drives all devices: all count the same steps, and arm the same.
        let first = self.player.devices.first().filter(|_| self.steps.is_empty());
        let guard = first.map(|first| Rc::new(first.recorder.step()));
        let mut begun = guard.iter().map(|guard| guard.step()).collect::<Vec<_>>();
        for device in &self.player.devices[begun.len()..] {
            begun.push(device.recorder.telemetry().step_begin());
        }
        for (device, step) in self.player.devices.iter().zip(&begun) {
            if let Some(shape) = shape {
                device.recorder.telemetry().shape(*step, shape);
            }
        }
        self.steps.push(OpenStep { of: self.of, guard, each: begun });
    }

    /// Lets go of the operation's step.
    fn end_step(&mut self) {
        let of = self.of;
        for ended in self.steps.extract_if(.., |open| open.of == of) {
            for (device, step) in self.player.devices.iter().zip(ended.each) {
                device.recorder.end_step(step);
            }
        }
    }

    /// The recorder's step of the operation; work outside every step belongs to
    /// the one begun last.
    fn open_step(&self) -> Option<&OpenStep<'p>> {
        let own = self.steps.iter().find(|open| open.of == self.of);
        own.or(self.steps.last())
    }

    /// The same, of the device of a stream.
    fn step(&self, on: u32) -> Step {
        let device = self.player.plan.device(on) as usize;
        let step = self.open_step().and_then(|open| open.each.get(device));
        step.copied().unwrap_or(Step::UNMEASURED)
    }

    /// A lane from its begin to its end, as a guard.
    fn lane(&mut self, span: u32) -> Result<(), PlayError> {
        let planned = self.span(span)?;
        let lane = planned.lane.index();
        let Some(step) = self.open_step().and_then(|open| open.guard.clone()) else {
            return self.begin_lane(span);
        };
        let device = self.player.device(planned.stream)?;
        let stream = device.stream(planned.stream)?;
        let guard = step.lane(lane, stream);
        while let Some(what) = self.next() {
            match what {
                What::LaneEnd { span: ended } if ended == span => break,
                What::Kernel { kernel, stream: on, duration_ns }
                    if on == planned.stream && self.of == planned.step =>
                {
                    let function = device.function(Some(kernel))?;
                    let launch = guard.launch_guard(function);
                    if let Err(error) = device.launch(stream, function, duration_ns) {
                        launch.cancel();
                        return Err(error.into());
                    }
                    let is_timed = launch.is_timed();
                    drop(launch);
                    self.asked_for(on, Launched::Kernel(kernel));
                    self.asked.planned_ns += if is_timed { duration_ns } else { 0 };
                }
                What::Graph { graph }
                    if self.graph_stream(graph)? == planned.stream && self.of == planned.step =>
                {
                    self.before(graph);
                    guard.replay(device.graph(graph)?)?;
                    self.asked_for(planned.stream, Launched::Graph(graph));
                }
                other => self.perform(other)?,
            }
        }
        Ok(())
    }

    fn span(&self, span: u32) -> Result<LaneSpan, PlayError> {
        let planned = self.player.plan.spans.get(span as usize);
        planned.copied().ok_or(PlayError::Plan("a span that it does not hold"))
    }

    /// An operation, and what it encloses where it is a lane's guard.
    fn perform(&mut self, what: What) -> Result<(), PlayError> {
        match what {
            What::StepBegin { .. } => self.begin_step(),
            What::StepEnd => self.end_step(),
            What::LaneBegin { span } if self.guarded.contains(&span) => self.lane(span)?,
            What::LaneBegin { span } => self.begin_lane(span)?,
            What::LaneEnd { span } => {
                let on = self.span(span)?.stream;
                if let Some(token) = self.open.remove(&span).flatten() {
                    let device = self.player.device(on)?;
                    device.recorder.end_lane(token, device.stream(on)?);
                }
            }
            What::Kernel { kernel, stream, duration_ns } => {
                let device = self.player.device(stream)?;
                let (on, function) = (device.stream(stream)?, device.function(Some(kernel))?);
                let launch = || device.launch(on, function, duration_ns);
                if self.launch(stream, Launched::Kernel(kernel), function, launch)? {
                    self.asked.planned_ns += duration_ns;
                }
            }
            What::Copy { copy, stream, duration_ns } => {
                let device = self.player.device(stream)?;
                let (on, function) = (device.stream(stream)?, device.function(None)?);
                let row = device.copy(copy)?;
                let lane = self.player.plan.lane(self.of).index();
                let token = device.recorder.begin_region(self.step(stream), lane, row, on);
                let copied = device.launch(on, function, duration_ns);
                self.launched(stream, Launched::Copy(copy), token, copied)?;
            }
            What::Graph { graph } => {
                let on = self.graph_stream(graph)?;
                let device = self.player.device(on)?;
                self.before(graph);
                let (twin, stream) = (device.graph(graph)?, device.stream(on)?);
                let lane = self.player.plan.lane(self.of).index();
                device.recorder.replay(self.step(on), lane, twin, stream)?;
                self.asked_for(on, Launched::Graph(graph));
            }
        }
        Ok(())
    }

    /// A lane from its begin on, as a token.
    fn begin_lane(&mut self, span: u32) -> Result<(), PlayError> {
        let planned = self.span(span)?;
        let device = self.player.device(planned.stream)?;
        let (lane, stream) = (planned.lane.index(), device.stream(planned.stream)?);
        let token = device.recorder.begin_lane(self.step(planned.stream), lane, stream);
        self.open.insert(span, token);
        Ok(())
    }

    /// Before a graph is launched: where every launch is to be seen, its last one is
    /// read, as far as it is over.
    fn before(&mut self, graph: u32) {
        if self.launched.insert(graph) {
            return;
        }
        for _ in 0..self.player.between_launches {
            if self.player.is_read() {
                break;
            }
            self.player.harvest();
        }
    }

    fn graph_stream(&self, graph: u32) -> Result<u32, PlayError> {
        let planned = self.player.plan.graphs.get(graph as usize);
        let planned = planned.ok_or(PlayError::Plan("a graph that it does not hold"))?;
        Ok(planned.stream)
    }

    /// Notes a launch that an armed step asked to be timed.
    fn asked_for(&mut self, on: u32, launched: Launched) {
        if self.step(on).is_armed() {
            let of = (self.player.plan.device(on), launched);
            *self.asked.launches.entry(of).or_default() += 1;
        }
    }

    /// A launch between the two ends of a token; whether it is timed.
    fn launch<'f>(
        &mut self,
        on: u32,
        launched: Launched,
        kernel: impl Into<KernelRef<'f>>,
        launch: impl FnOnce() -> Result<(), DriverError>,
    ) -> Result<bool, PlayError> {
        let lane = self.player.plan.lane(self.of).index();
        let device = self.player.device(on)?;
        let stream = device.stream(on)?;
        let token = (device.recorder).begin_launch(self.step(on), lane, kernel, stream);
        let result = launch();
        self.launched(on, launched, token, result)
    }

    /// Ends the token of a launch or a copy.
    fn launched(
        &mut self,
        on: u32,
        launched: Launched,
        token: Option<SpanToken>,
        result: Result<(), DriverError>,
    ) -> Result<bool, PlayError> {
        let device = self.player.device(on)?;
        match (token, &result) {
            (Some(token), Ok(())) => device.recorder.end_launch(token, device.stream(on)?),
            (Some(token), Err(_)) => device.recorder.cancel_launch(token),
            (None, _) => {}
        }
        result?;
        self.asked_for(on, launched);
        Ok(token.is_some())
    }
}
