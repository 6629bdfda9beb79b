// SPDX-License-Identifier: MIT OR Apache-2.0
//! One device's telemetry: how much is measured, which steps are armed, and
//! the instruments that spans land in.

use crate::clock::{Clock, monotonic_ns};
use crate::config::{ConfigError, TelemetryConfig};
use crate::floor::{Floor, FloorCell};
use crate::host::HostInstruments;
use crate::kernel::{KernelEstimate, KernelInstruments, LaneEstimate, StepLosses};
use crate::level::Level;
use crate::sampling::Sampling;
use crate::series::ExposedKernels;
use crate::snapshot::recorders::Recorders;
use crate::step::Step;
use crate::sync::relaxed::{AtomicU8, AtomicU64};
use crate::sync::{Ordering, const_fn};

/// Telemetry of one device. `const`, so that it can be a static.
///
/// ```
/// use metrale_telemetry::Telemetry;
///
/// static FIRST_GPU: Telemetry = Telemetry::new();
/// assert_eq!(FIRST_GPU.steps(), 0);
/// ```
#[derive(Debug)]
pub struct Telemetry {
    level: AtomicU8,
    sampling: AtomicU8,
    every: AtomicU64,
    seed: AtomicU64,
    armed_steps: AtomicU64,
    /// Numbers the steps that are followed: the armed ones, under `Spread` all.
    pub(crate) tracks: AtomicU64,
    /// Numbers launches under `Spread`.
    pub(crate) launch_numbers: AtomicU64,
    pub(crate) sampled_launches: AtomicU64,
    clock: Clock,
    pub(crate) floor: FloorCell,
    host: HostInstruments,
    instruments: KernelInstruments,
    pub(crate) exposed: ExposedKernels,
    pub(crate) recorders: Recorders,
}

impl Telemetry {
    const_fn! {
        /// Telemetry with the default configuration, on the monotonic clock.
        #[must_use]
        pub const fn new() -> Self {
            Self::with_clock(monotonic_ns)
        }
    }

    const_fn! {
        /// Telemetry with the default configuration, whose wall times are by
        /// `clock`.
        #[must_use]
        pub const fn with_clock(clock: Clock) -> Self {
            let config = TelemetryConfig::DEFAULT;
            Self {
                level: AtomicU8::new(config.level as u8),
                sampling: AtomicU8::new(config.sampling as u8),
                every: AtomicU64::new(config.every),
                seed: AtomicU64::new(config.seed),
                armed_steps: AtomicU64::new(0),
                tracks: AtomicU64::new(0),
                launch_numbers: AtomicU64::new(0),
                sampled_launches: AtomicU64::new(0),
                clock,
                floor: FloorCell::new(),
                host: HostInstruments::new(),
                instruments: KernelInstruments::new(),
                exposed: ExposedKernels::new(),
                recorders: Recorders::new(),
            }
        }
    }

    /// Makes it live as long as the process, as a recorder asks: whoever reads it
    /// may come late.
    ///
    /// ```
    /// # fn main() -> Result<(), metrale_telemetry::ConfigError> {
    /// use metrale_telemetry::{Telemetry, TelemetryConfig};
    /// let telemetry: &'static Telemetry = Telemetry::new().leak();
    /// telemetry.configure(TelemetryConfig { every: 16, ..Default::default() })?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn leak(self) -> &'static Self {
        Box::leak(Box::new(self))
    }

    /// Takes on a configuration, at any moment; a step that begins meanwhile
    /// may see some of the old values. Where the sampling changes, estimates
    /// begin anew with the next step.
    ///
    /// # Errors
    /// Where a value is out of its range; nothing changes then.
    pub fn configure(&self, config: TelemetryConfig) -> Result<(), ConfigError> {
        config.validate()?;
        let sampling = |config: TelemetryConfig| (config.every, config.sampling, config.seed);
        let changes = sampling(self.config()) != sampling(config);
        self.every.store(config.every, Ordering::Relaxed);
        self.seed.store(config.seed, Ordering::Relaxed);
        self.sampling.store(config.sampling as u8, Ordering::Relaxed);
        self.set_level(config.level);
        if changes {
            self.instruments.restart_estimates(self.steps());
        }
        Ok(())
    }

    /// The configuration now.
    #[must_use]
    pub fn config(&self) -> TelemetryConfig {
        TelemetryConfig {
            level: self.level(),
            every: self.every.load(Ordering::Relaxed),
            sampling: self.sampling(),
            seed: self.seed.load(Ordering::Relaxed),
        }
    }

    #[inline]
    pub(crate) fn sampling(&self) -> Sampling {
        Sampling::from_u8(self.sampling.load(Ordering::Relaxed))
    }

    /// From now on the `top` kernels with the most time, at most
    /// [`MAX_KERNEL_SERIES`](crate::snapshot::MAX_KERNEL_SERIES), get a series
    /// of their own in an export. 0, the default: no more do.
    pub fn expose_kernels(&self, top: usize) {
        self.exposed.set_top(top);
    }

    /// How much is measured now.
    #[must_use]
    #[inline]
    pub fn level(&self) -> Level {
        Level::from_u8(self.level.load(Ordering::Relaxed))
    }

    /// Changes how much is measured, at any moment and from any thread. Spans
    /// open at that moment can still be ended and harvested.
    pub fn set_level(&self, level: Level) {
        self.level.store(level as u8, Ordering::Relaxed);
    }

    /// Numbers the next step and says whether it is armed. At `Off` it does
    /// nothing; at `Basic` it counts the step and arms none.
    pub fn step_begin(&self) -> Step {
        let level = self.level();
        if level == Level::Off {
            return Step::UNMEASURED;
        }
        let number = self.instruments.open_steps.number();
        let config = self.config();
        let is_armed =
            level == Level::Kernel && config.sampling.arms(number, config.every, config.seed);
        if level == Level::Kernel {
            self.instruments.open_steps.begin(number, is_armed);
        }
        if is_armed {
            self.armed_steps.fetch_add(1, Ordering::Relaxed);
        }
        let is_followed =
            is_armed || (level == Level::Kernel && config.sampling == Sampling::Spread);
        if is_followed {
            let track = self.tracks.fetch_add(1, Ordering::Relaxed) as u32;
            Step::followed(number, is_armed, track)
        } else {
            Step::numbered(number)
        }
    }

    /// How many launches were chosen to be timed; what became of their spans is
    /// in the ledger.
    #[must_use]
    pub fn sampled_launches(&self) -> u64 {
        self.sampled_launches.load(Ordering::Relaxed)
    }

    /// How many steps began.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.instruments.open_steps.begun()
    }

    /// How many of them were armed; none under [`Sampling::Spread`].
    #[must_use]
    pub fn armed_steps(&self) -> u64 {
        self.armed_steps.load(Ordering::Relaxed)
    }

    /// What a lane took since the sampling last changed, and how much of it
    /// launches covered. It allocates.
    #[must_use]
    pub fn lane_estimate(&self, lane: usize) -> LaneEstimate {
        self.instruments.copy_folded().lane_estimate(lane)
    }

    /// What each kernel took in each lane since the sampling last changed, timed
    /// or not. It allocates.
    #[must_use]
    pub fn kernel_estimates(&self) -> Vec<KernelEstimate> {
        let config = self.config();
        let folded = self.instruments.copy_folded();
        folded.kernel_estimates(config.sampling, config.every)
    }

    /// What steps lost, and what estimates had to leave out. It allocates.
    #[must_use]
    pub fn step_losses(&self) -> StepLosses {
        self.instruments.copy_folded().losses()
    }

    /// The clock that wall times are by, in nanoseconds.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        (self.clock)()
    }

    /// What measuring costs here, as the recorder found it when it was made.
    #[must_use]
    pub fn floor(&self) -> Floor {
        self.floor.get()
    }

    /// What is measured on the host.
    #[must_use]
    pub fn host(&self) -> &HostInstruments {
        &self.host
    }

    /// Where spans land.
    #[must_use]
    #[inline]
    pub fn instruments(&self) -> &KernelInstruments {
        &self.instruments
    }
}

impl Default for Telemetry {
    fn default() -> Self {
        Self::new()
    }
}

/// The telemetry of a process that serves on one device.
///
/// ```
/// use metrale_telemetry::{Level, global};
///
/// global().set_level(Level::Basic);
/// let step = global().step_begin();
/// assert_eq!(step.number(), Some(0));
/// ```
#[cfg(not(metrale_loom))]
#[must_use]
pub fn global() -> &'static Telemetry {
    static GLOBAL: Telemetry = Telemetry::new();
    &GLOBAL
}

#[cfg(all(test, not(metrale_loom)))]
mod tests {
    use super::{ConfigError, Step, Telemetry, TelemetryConfig};
    use crate::level::Level;
    use crate::sampling::Sampling;

    #[test]
    fn the_default_is_kernel_64_hashed() {
        let telemetry = Telemetry::new();
        assert_eq!(telemetry.config(), TelemetryConfig::default());
        for _ in 0..640 {
            telemetry.step_begin();
        }
        assert_eq!((telemetry.steps(), telemetry.armed_steps()), (640, 10));
    }

    #[test]
    fn off_counts_nothing_and_basic_arms_nothing() {
        let telemetry = Telemetry::new();
        telemetry.set_level(Level::Off);
        assert_eq!(telemetry.step_begin(), Step::UNMEASURED);
        assert_eq!(telemetry.steps(), 0);
        let basic = TelemetryConfig { level: Level::Basic, every: 1, ..TelemetryConfig::DEFAULT };
        telemetry.configure(basic).unwrap();
        assert_eq!(telemetry.step_begin(), Step::numbered(0));
        assert_eq!((telemetry.steps(), telemetry.armed_steps()), (1, 0));
    }

    #[test]
    fn a_stride_of_zero_is_refused_and_changes_nothing() {
        let telemetry = Telemetry::new();
        let bad = TelemetryConfig { level: Level::Off, every: 0, ..TelemetryConfig::DEFAULT };
        assert_eq!(telemetry.configure(bad), Err(ConfigError::EveryZero));
        assert_eq!(telemetry.level(), Level::Kernel);
    }

    #[test]
    fn spread_samples_one_launch_in_each_block_and_arms_no_step() {
        let telemetry = Telemetry::new();
        assert!(!telemetry.spreads());
        let config =
            TelemetryConfig { sampling: Sampling::Spread, seed: 9, ..TelemetryConfig::DEFAULT };
        telemetry.configure(config).unwrap();
        assert_eq!(telemetry.config(), config);
        assert!(telemetry.spreads());
        for _ in 0..100 {
            assert!(!telemetry.step_begin().is_armed());
            let sampled = (0..64).filter(|_| telemetry.sample_launch()).count();
            assert_eq!(sampled, 1);
        }
        assert_eq!((telemetry.steps(), telemetry.armed_steps()), (100, 0));
        telemetry.set_level(Level::Basic);
        assert!(!telemetry.spreads());
    }

    #[test]
    fn a_fixed_stride_arms_the_first_of_each_block() {
        let telemetry = Telemetry::new();
        let config =
            TelemetryConfig { every: 3, sampling: Sampling::EveryNth, ..TelemetryConfig::DEFAULT };
        telemetry.configure(config).unwrap();
        let armed: Vec<bool> = (0..7).map(|_| telemetry.step_begin().is_armed()).collect();
        assert_eq!(armed, [true, false, false, true, false, false, true]);
    }
}
