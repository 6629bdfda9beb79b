// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs a plan as a serving loop would, with a recorder at work, and reports
//! what the recorder saw.

use std::collections::HashMap;

use cudarc::driver::{DriverError, result};
use metrale_gpu_runtime::timing::InstallError;
use metrale_telemetry::kernel::{LANE_ADMIT, Ledger, SpanToken};
use metrale_telemetry::{ConfigError, Step, Telemetry, TelemetryConfig};

use crate::device::Device;
use crate::driver::Running;
use crate::options::Stamps;
use crate::plan::{Plan, What};
use crate::progress::Progress;
use crate::report::Report;
use crate::simulator::Simulator;
use crate::steps::Lane;

/// Launches between two harvests inside a step.
const HARVEST_EVERY: usize = 1_000;
/// Devices of one machine, with room to spare.
const MAX_DEVICES: usize = 64;
/// Harvests after the last work is done; the first lands all of it.
const LAST_HARVESTS: usize = 100;

/// Why a replay came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum PlayError {
    /// The driver failed the application.
    #[error("the driver failed: {0:?}")]
    Driver(#[from] DriverError),
    /// The recorder could not be made.
    #[error(transparent)]
    Install(#[from] InstallError),
    /// The sampling cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The plan is for more devices than a machine has.
    #[error("the trace names {0} devices; at most {MAX_DEVICES} are replayed")]
    Devices(usize),
    /// The plan names what it does not hold.
    #[error("the plan is broken: it has {0}")]
    Plan(&'static str),
}

/// What is asked of a replay besides its plan.
#[derive(Clone, Debug)]
pub struct Settings {
    /// One step in so many is armed.
    pub every: u32,
    /// On the simulated driver: when the host launches.
    pub stamps: Stamps,
    /// The trace's path; none for the built-in workload.
    pub trace: Option<String>,
}

/// Runs `plan` on `running` and reports.
///
/// # Errors
/// [`PlayError`] where the driver or the recorder fails.
pub fn play(plan: &Plan, running: &Running, settings: Settings) -> Result<Report, PlayError> {
    let devices = plan.devices.len().max(1);
    if devices > MAX_DEVICES {
        return Err(PlayError::Devices(devices));
    }
    if let Some(simulator) = &running.simulator {
        simulator.set_device_count(devices as u32);
    }
    let mut player = Player::new(plan, devices as u32, &settings)?;
    let simulator = running.simulator.as_ref();
    let start_ns = simulator.map_or(0, Simulator::now_ns);
    if let (Some(simulator), Stamps::Honest) = (simulator, settings.stamps) {
        simulator.cost_as_a_real_driver();
    }
    let mut progress = Progress::new("replaying");
    for (number, op) in plan.ops.iter().enumerate() {
        if let Some(simulator) = simulator {
            simulator.advance_to_ns(start_ns + op.at_ns);
        }
        player.perform(op.what)?;
        if number % HARVEST_EVERY == 0 {
            player.harvest();
            progress.at(number as u64, plan.ops.len() as u64);
        }
    }
    drop(progress);
    player.finish()?;
    Ok(player.report(running, settings))
}

/// A plan under way.
pub(crate) struct Player<'p> {
    pub(crate) plan: &'p Plan,
    pub(crate) devices: Vec<Device>,
    pub(crate) telemetry: Vec<&'static Telemetry>,
    step: Step,
    /// Open lane spans, by index into [`Plan::spans`].
    open: HashMap<u32, Option<SpanToken>>,
    /// The lane that a launch on a stream belongs to: that of the span open
    /// there, else of the span begun last.
    lane_of: HashMap<u32, usize>,
    lane: usize,
    /// How long the kernels with a span ran by the plan, nanoseconds.
    pub(crate) planned_ns: u64,
}

impl<'p> Player<'p> {
    fn new(plan: &'p Plan, devices: u32, settings: &Settings) -> Result<Self, PlayError> {
        let config = TelemetryConfig {
            every: u64::from(settings.every),
            ..TelemetryConfig::DEFAULT
        };
        result::init()?;
        // On a machine with fewer devices than the plan some share one.
        let there = u32::try_from(result::device::get_count()?)
            .unwrap_or(1)
            .max(1);
        let mut made = Vec::new();
        let mut telemetry: Vec<&'static Telemetry> = Vec::new();
        for number in 0..devices {
            // A recorder wants its telemetry for ever; a replay ends with the
            // process.
            let own: &'static Telemetry = Box::leak(Box::default());
            own.configure(config)?;
            made.push(Device::new(plan, number, (number % there) as usize, own)?);
            telemetry.push(own);
        }
        Ok(Self {
            plan,
            devices: made,
            telemetry,
            step: Step::UNMEASURED,
            open: HashMap::new(),
            lane_of: HashMap::new(),
            lane: LANE_ADMIT,
            planned_ns: 0,
        })
    }

    fn device(&self, stream: u32) -> Result<&Device, PlayError> {
        let device = self
            .plan
            .streams
            .get(stream as usize)
            .map(|stream| stream.device);
        let device = device.and_then(|device| self.devices.get(device as usize));
        device.ok_or(PlayError::Plan("a stream of no device"))
    }

    fn perform(&mut self, what: What) -> Result<(), PlayError> {
        match what {
            What::StepBegin { .. } => {
                self.harvest();
                // One scheduler drives all devices: one decides for all.
                self.step = self
                    .telemetry
                    .first()
                    .map_or(Step::UNMEASURED, |it| it.step_begin());
            }
            What::StepEnd => self.step = Step::UNMEASURED,
            What::LaneBegin { span } => self.lane_begin(span)?,
            What::LaneEnd { span } => self.lane_end(span)?,
            What::Kernel {
                kernel,
                stream,
                duration_ns,
            } => {
                self.kernel(kernel, stream, duration_ns)?;
            }
            What::Copy {
                stream,
                duration_ns,
            }
            | What::Set {
                stream,
                duration_ns,
            } => {
                let device = self.device(stream)?;
                device.launch(device.stream(stream)?, device.function(None)?, duration_ns)?;
            }
            What::Graph { graph } => {
                let planned = self.plan.graphs.get(graph as usize);
                let planned = planned.ok_or(PlayError::Plan("a graph that it does not hold"))?;
                self.device(planned.stream())?.launch_graph(graph)?;
            }
        }
        Ok(())
    }

    fn lane_begin(&mut self, span: u32) -> Result<(), PlayError> {
        let planned = self.plan.spans.get(span as usize);
        let planned = *planned.ok_or(PlayError::Plan("a span that it does not hold"))?;
        self.lane = number(planned.lane);
        self.lane_of.insert(planned.stream, self.lane);
        let device = self.device(planned.stream)?;
        let token =
            device
                .recorder
                .begin_lane(self.step, self.lane, device.stream(planned.stream)?);
        self.open.insert(span, token);
        Ok(())
    }

    fn lane_end(&mut self, span: u32) -> Result<(), PlayError> {
        let planned = self.plan.spans.get(span as usize);
        let stream = planned
            .ok_or(PlayError::Plan("a span that it does not hold"))?
            .stream;
        if let Some(token) = self.open.remove(&span).flatten() {
            let device = self.device(stream)?;
            device.recorder.end_lane(token, device.stream(stream)?);
        }
        self.lane_of.remove(&stream);
        Ok(())
    }

    fn kernel(&mut self, kernel: u32, stream: u32, duration_ns: u64) -> Result<(), PlayError> {
        let lane = self.lane_of.get(&stream).copied().unwrap_or(self.lane);
        let device = self.device(stream)?;
        let (on, function) = (device.stream(stream)?, device.function(Some(kernel))?);
        let token = device.recorder.begin_launch(self.step, lane, function, on);
        let launched = device.launch(on, function, duration_ns);
        match (token, &launched) {
            (Some(token), Ok(())) => {
                device.recorder.end_launch(token, on);
                self.planned_ns += duration_ns;
            }
            (Some(token), Err(_)) => device.recorder.cancel_launch(token),
            (None, _) => {}
        }
        Ok(launched?)
    }

    fn harvest(&self) {
        for device in &self.devices {
            device.recorder.harvest();
        }
    }

    /// Waits for the GPU, as an application may, and lands the rest.
    fn finish(&mut self) -> Result<(), PlayError> {
        self.devices.iter().try_for_each(Device::synchronize)?;
        for _ in 0..LAST_HARVESTS {
            self.harvest();
            if self.ledger().in_flight == 0 {
                break;
            }
        }
        Ok(())
    }

    /// What became of every span so far.
    pub(crate) fn ledger(&self) -> Ledger {
        let both = |device: &Device| {
            device
                .recorder
                .lane_ledger()
                .plus(device.recorder.kernel_ledger())
        };
        self.devices
            .iter()
            .map(both)
            .fold(Ledger::default(), Ledger::plus)
    }
}

/// The lane's index among the recorder's.
pub(crate) fn number(lane: Lane) -> usize {
    match lane {
        Lane::Admit => metrale_telemetry::kernel::LANE_ADMIT,
        Lane::Prefill => metrale_telemetry::kernel::LANE_PREFILL,
        Lane::Decode => metrale_telemetry::kernel::LANE_DECODE,
    }
}
