// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is measured and how often.

use crate::level::Level;
use crate::sampling::Sampling;
use serde::{Deserialize, Serialize};

/// What is measured and how often. The default is level `Kernel`, one step in
/// 64, hashed.
///
/// ```
/// use metrale_telemetry::{Telemetry, TelemetryConfig};
///
/// let telemetry = Telemetry::new();
/// telemetry.configure(TelemetryConfig { every: 16, ..TelemetryConfig::DEFAULT })?;
/// assert_eq!(telemetry.config().every, 16);
/// # Ok::<(), metrale_telemetry::ConfigError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TelemetryConfig {
    /// How much is measured.
    pub level: Level,
    /// One step in this many is armed, under [`Sampling::Spread`] one launch
    /// in this many timed; at least 1.
    pub every: u64,
    /// How it is chosen.
    pub sampling: Sampling,
    /// Seed of the hash.
    pub seed: u64,
}

impl TelemetryConfig {
    /// The default, as a constant.
    pub const DEFAULT: Self =
        Self { level: Level::Kernel, every: 64, sampling: Sampling::Hashed, seed: 0 };

    /// Checks the values.
    ///
    /// # Errors
    /// Where one is out of its range.
    pub const fn validate(&self) -> Result<(), ConfigError> {
        if self.every == 0 { Err(ConfigError::EveryZero) } else { Ok(()) }
    }
}

impl Default for TelemetryConfig {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// A configuration that cannot be used.
///
/// ```
/// use metrale_telemetry::{ConfigError, TelemetryConfig};
///
/// let config = TelemetryConfig { every: 0, ..TelemetryConfig::DEFAULT };
/// assert_eq!(config.validate(), Err(ConfigError::EveryZero));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// `every` is 0.
    #[error("one step in 0 cannot be armed; `every` starts at 1, which arms every step")]
    EveryZero,
}
