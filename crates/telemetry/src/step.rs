// SPDX-License-Identifier: MIT OR Apache-2.0
//! A serving step.

use crate::kernel::StepId;

/// A serving step, as [`Telemetry::step_begin`](crate::Telemetry::step_begin) numbered it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    pub(crate) number: Option<u64>,
    pub(crate) is_armed: bool,
    pub(crate) track: Option<u32>,
}

impl Step {
    /// A step of which nothing is measured.
    pub const UNMEASURED: Self = Self {
        number: None,
        is_armed: false,
        track: None,
    };

    /// A step that the caller numbers, and of which only lanes are timed.
    #[must_use]
    pub const fn numbered(number: u64) -> Self {
        Self {
            number: Some(number),
            ..Self::UNMEASURED
        }
    }

    /// An armed step that the caller numbers; tracks grow by one from armed step
    /// to armed step.
    #[must_use]
    pub const fn armed(number: u64, track: u32) -> Self {
        Self {
            number: Some(number),
            is_armed: true,
            track: Some(track),
        }
    }

    /// How many steps came before it; `None` at level `Off`, which counts none.
    #[must_use]
    #[inline]
    pub const fn number(self) -> Option<u64> {
        self.number
    }

    /// Whether all of its launches are timed, and laid out in time.
    #[must_use]
    #[inline]
    pub const fn is_armed(self) -> bool {
        self.is_armed
    }

    /// Its track, where its spans are put together; see
    /// [`StepTable`](crate::kernel::StepTable).
    #[must_use]
    #[inline]
    pub const fn track(self) -> Option<u32> {
        self.track
    }

    /// All of it as two words, for a caller that parks it in atomics.
    #[must_use]
    pub const fn to_words(self) -> [u64; 2] {
        let number = match self.number {
            Some(number) => number,
            None => u64::MAX,
        };
        let track = match self.track {
            Some(track) => 2 | (track as u64) << 32,
            None => 0,
        };
        [number, track | self.is_armed as u64]
    }

    /// The step that [`to_words`](Self::to_words) gave.
    #[must_use]
    pub const fn from_words([number, rest]: [u64; 2]) -> Self {
        Self {
            number: if number == u64::MAX {
                None
            } else {
                Some(number)
            },
            is_armed: rest & 1 == 1,
            track: if rest & 2 == 2 {
                Some((rest >> 32) as u32)
            } else {
                None
            },
        }
    }

    /// How a span that is not followed names it.
    #[must_use]
    #[inline]
    pub fn id(self) -> StepId {
        self.number.map_or(StepId::Unknown, StepId::Number)
    }
}
