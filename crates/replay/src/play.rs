// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs a plan as a serving loop would, with a recorder at work, and reports
//! what the recorder saw.

use std::collections::BTreeMap;
use std::time::Instant;

use cudarc::driver::{DriverError, result};
use metrale_gpu_runtime::timing::{InstallError, Status, TwinsConfig};
use metrale_telemetry::kernel::Ledger;
use metrale_telemetry::{ConfigError, LaneNamesError, Telemetry, TelemetryConfig};

use crate::device::{self, Device};
use crate::driver::Running;
use crate::graphs;
use crate::pace::Pace;
use crate::plan::{Plan, Timing};
use crate::report::Report;
use crate::serve::{self, Asked};
use crate::simulator::Simulator;

/// Devices of one machine, with room to spare.
const MAX_DEVICES: usize = 64;
/// Harvests after the last work is done: the first lands all of it, the others read
/// marks in graphs.
const LAST_HARVESTS: usize = 1_000;

/// Why a replay came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum PlayError {
    /// The driver failed the application.
    #[error("the driver failed: {0:?}")]
    Driver(#[from] DriverError),
    /// The launch of a graph failed.
    #[error("the driver failed a graph: {0}")]
    Launch(#[from] Status),
    /// The recorder could not be made.
    #[error(transparent)]
    Install(#[from] InstallError),
    /// The sampling cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Its lanes cannot be named so.
    #[error(transparent)]
    Lanes(#[from] LaneNamesError),
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
    /// Graphs have twins, which tell what is in them.
    pub twins: bool,
    /// On the simulated driver: when the host launches.
    pub timing: Timing,
    /// The trace's path; none for the built-in workload.
    pub trace: Option<String>,
}

/// A plan that can be played, as often as is wanted.
pub struct Playing<'p> {
    player: Player<'p>,
    running: &'p Running,
    settings: Settings,
}

impl<'p> Playing<'p> {
    /// Makes ready to run `plan` on `running`.
    ///
    /// # Errors
    /// [`PlayError`] where the driver or the recorder fails.
    pub fn new(
        plan: &'p Plan,
        running: &'p Running,
        settings: Settings,
    ) -> Result<Self, PlayError> {
        let devices = plan.devices.len().max(1);
        if devices > MAX_DEVICES {
            return Err(PlayError::Devices(devices));
        }
        let simulator = running.simulator.as_ref();
        if let Some(simulator) = simulator {
            simulator.set_device_count(devices as u32);
        }
        if let (Some(simulator), Timing::Honest) = (simulator, settings.timing) {
            simulator.cost_as_a_real_driver();
        }
        let player = Player::new(plan, devices as u32, &settings, simulator)?;
        Ok(Self { player, running, settings })
    }

    /// What spans land in, by device.
    #[must_use]
    pub fn telemetry(&self) -> &[&'static Telemetry] {
        &self.player.telemetry
    }

    /// Runs the plan once, as fast as it goes, and reports what was measured.
    ///
    /// # Errors
    /// [`PlayError`] where the driver fails.
    pub fn once(&self) -> Result<Report, PlayError> {
        let asked = self.run(None)?;
        let settings = self.settings.clone();
        Ok(self.player.report(self.running, settings, asked))
    }

    /// Runs the plan over and over at its recorded pace, until the time is
    /// `until`, or for ever.
    ///
    /// # Errors
    /// [`PlayError`] where the driver fails.
    pub fn repeat(&self, until: Option<Instant>) -> Result<(), PlayError> {
        while until.is_none_or(|until| Instant::now() < until) {
            self.run(Some(Pace::new(until)))?;
        }
        Ok(())
    }

    fn run(&self, pace: Option<Pace>) -> Result<Asked, PlayError> {
        let simulator = self.running.simulator.as_ref();
        let start_ns = simulator.map_or(0, Simulator::now_ns);
        let asked = serve::run(&self.player, simulator, start_ns, pace)?;
        self.player.finish()?;
        Ok(asked)
    }
}

/// A plan, and what it runs on.
pub(crate) struct Player<'p> {
    pub(crate) plan: &'p Plan,
    pub(crate) devices: Vec<Device>,
    pub(crate) telemetry: Vec<&'static Telemetry>,
    /// Where every launch of a graph is to be seen: the harvests between two launches
    /// of one.
    pub(crate) between_launches: usize,
    /// The simulated driver's calls until the recorders were made.
    pub(crate) calls_before: BTreeMap<String, u64>,
}

impl<'p> Player<'p> {
    fn new(
        plan: &'p Plan,
        devices: u32,
        settings: &Settings,
        simulator: Option<&Simulator>,
    ) -> Result<Self, PlayError> {
        let config =
            TelemetryConfig { every: u64::from(settings.every), ..TelemetryConfig::DEFAULT };
        let lanes: Vec<&str> = plan.lanes.iter().map(String::as_str).collect();
        result::init()?;
        // On a machine with fewer devices than the plan some share one.
        let there = u32::try_from(result::device::get_count()?).unwrap_or(1).max(1);
        let mut installed = Vec::new();
        let mut between_launches = 0;
        let mut telemetry: Vec<&'static Telemetry> = Vec::new();
        for number in 0..devices {
            let own = Telemetry::new().leak();
            own.configure(config)?;
            own.name_lanes(&lanes)?;
            let twins = settings.twins.then(|| graphs::twins(plan, number, settings.every));
            let twins: Option<TwinsConfig> = twins.flatten();
            if settings.every == 1 {
                between_launches = between_launches.max(graphs::harvests(twins));
            }
            installed.push(device::install((number % there) as usize, own, twins)?);
            telemetry.push(own);
        }
        let calls_before = simulator.iter().flat_map(|sim| sim.calls()).collect();
        let made = (0..)
            .zip(installed)
            .map(|(number, installed)| Device::new(plan, number, installed))
            .collect::<Result<_, _>>()?;
        Ok(Self { plan, devices: made, telemetry, between_launches, calls_before })
    }

    /// The device of a stream of the plan.
    pub(crate) fn device(&self, stream: u32) -> Result<&Device, PlayError> {
        let device = self.devices.get(self.plan.device(stream) as usize);
        device.ok_or(PlayError::Plan("a stream of no device"))
    }

    /// Lands what the devices have finished.
    pub(crate) fn harvest(&self) {
        for device in &self.devices {
            device.recorder.harvest();
        }
    }

    /// Waits for the GPU, as an application may, and lands the rest.
    fn finish(&self) -> Result<(), PlayError> {
        self.devices.iter().try_for_each(Device::synchronize)?;
        for _ in 0..LAST_HARVESTS {
            self.harvest();
            if self.ledger().in_flight == 0 && self.is_read() {
                break;
            }
        }
        Ok(())
    }

    /// Whether the marks of every launch of a twin were read.
    pub(crate) fn is_read(&self) -> bool {
        self.devices.iter().all(|device| graphs::is_read(&device.recorder))
    }

    /// What became of every span so far.
    pub(crate) fn ledger(&self) -> Ledger {
        let both =
            |device: &Device| device.recorder.lane_ledger().plus(device.recorder.kernel_ledger());
        self.devices.iter().map(both).fold(Ledger::default(), Ledger::plus)
    }
}
