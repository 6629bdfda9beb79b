// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a serving step is told apart from others.

use crate::kernel::StepId;
use std::fmt;

/// A serving step, as [`Telemetry::step_begin`](crate::Telemetry::step_begin) numbered it. Two words, so that
/// guards that are not measured cost little.
///
/// ```
/// use metrale_telemetry::{Telemetry, TelemetryConfig};
///
/// let telemetry = Telemetry::new();
/// telemetry.configure(TelemetryConfig { every: 1, ..TelemetryConfig::DEFAULT })?;
/// let step = telemetry.step_begin();
/// assert!(step.is_armed());
/// assert_eq!(step.number(), Some(0));
/// # Ok::<(), metrale_telemetry::ConfigError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// [`NO_NUMBER`]: it has none.
    number: u64,
    /// [`ARMED`], [`HAS_TRACK`], and the track in the upper half.
    rest: u64,
}

const NO_NUMBER: u64 = u64::MAX;
const ARMED: u64 = 1;
const HAS_TRACK: u64 = 2;
const TRACK_SHIFT: u32 = 32;

impl Step {
    /// A step of which nothing is measured.
    pub const UNMEASURED: Self = Self { number: NO_NUMBER, rest: 0 };

    /// A step that the caller numbers, and of which only lanes are timed.
    #[must_use]
    pub const fn numbered(number: u64) -> Self {
        Self { number, rest: 0 }
    }

    pub(crate) const fn followed(number: u64, is_armed: bool, track: u32) -> Self {
        Self { number, rest: is_armed as u64 | HAS_TRACK | (track as u64) << TRACK_SHIFT }
    }

    /// How many steps came before it; `None` at level `Off`, which counts none.
    #[must_use]
    #[inline]
    pub const fn number(self) -> Option<u64> {
        if self.number == NO_NUMBER { None } else { Some(self.number) }
    }

    /// Whether all of its launches are timed, and laid out in time.
    #[must_use]
    #[inline]
    pub const fn is_armed(self) -> bool {
        self.rest & ARMED != 0
    }
}

/// For [`runtime`](crate::runtime).
#[doc(hidden)]
impl Step {
    /// An armed step that the caller numbers; tracks grow by one from armed step
    /// to armed step.
    #[must_use]
    pub const fn armed(number: u64, track: u32) -> Self {
        Self::followed(number, true, track)
    }

    /// Its track, where its spans are put together; see
    /// [`StepTable`](crate::runtime::StepTable).
    #[must_use]
    #[inline]
    pub const fn track(self) -> Option<u32> {
        if self.rest & HAS_TRACK != 0 { Some((self.rest >> TRACK_SHIFT) as u32) } else { None }
    }

    /// All of it as two words, for a caller that parks it in atomics.
    #[must_use]
    pub const fn to_words(self) -> [u64; 2] {
        [self.number, self.rest]
    }

    /// The step that [`to_words`](Self::to_words) gave.
    #[must_use]
    pub const fn from_words([number, rest]: [u64; 2]) -> Self {
        Self { number, rest }
    }

    /// How a span that is not followed names it.
    #[must_use]
    #[inline]
    pub fn id(self) -> StepId {
        self.number().map_or(StepId::Unknown, StepId::Number)
    }
}

impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Step")
            .field("number", &self.number())
            .field("is_armed", &self.is_armed())
            .field("track", &self.track())
            .finish()
    }
}
