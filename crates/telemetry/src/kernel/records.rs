// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a step was: its shape, and the record that it leaves when it is closed
//! and the spans of its lanes are over, armed or not.
//!
//! The serving thread notes what it knows in [`OpenSteps`]: atomics, no lock. The
//! fold adds what lanes took, and hands whole records on to the log, which
//! only harvests and readers lock.

mod insides;
mod log;
mod open;
mod shapes;
mod timelines;
mod trigger;

pub use insides::{GraphPart, TimelinePart, TwinLaunch};
pub(super) use log::StepLog;
pub use log::{RECENT_STEPS, RecentSteps, SLOWEST_STEPS, SlowMinute, StepCursor};
pub(super) use open::GIVEN_UP;
pub use open::{OPEN_STEPS, OpenStep, OpenSteps};
pub(super) use shapes::ShapeSums;
pub use shapes::{SHAPE_BUCKETS, ShapeTimes};
pub use timelines::{
    KEPT_TIMELINES, MAX_RECORDED_STEPS, Recording, Timeline, TimelineSpan, TooManyStepsError,
};
pub(super) use timelines::{LaidOut, RecordedSteps};
pub use trigger::SlowStep;

use super::MAX_LANES;
use serde::{Deserialize, Serialize};

/// What a step is made of. All of it is optional: what is not stated is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct StepShape {
    /// Tokens of prompts that it works through (prefill).
    pub prompt_tokens: u32,
    /// Tokens that it generates or verifies (decode).
    pub decode_tokens: u32,
    /// Requests that it serves.
    pub requests: u32,
}

impl StepShape {
    /// A shape that states nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self { prompt_tokens: 0, decode_tokens: 0, requests: 0 }
    }

    /// With so many tokens of prompts.
    #[must_use]
    pub const fn prompt_tokens(self, prompt_tokens: u32) -> Self {
        Self { prompt_tokens, ..self }
    }

    /// With so many tokens that are generated or verified.
    #[must_use]
    pub const fn decode_tokens(self, decode_tokens: u32) -> Self {
        Self { decode_tokens, ..self }
    }

    /// With so many requests.
    #[must_use]
    pub const fn requests(self, requests: u32) -> Self {
        Self { requests, ..self }
    }
}

/// A lane's part of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LaneRecord {
    /// Spans of the lane whose time was read.
    pub spans: u32,
    /// Spans among them whose gap is known.
    pub gaps: u32,
    /// GPU nanoseconds of the spans.
    pub gpu_ns: u64,
    /// GPU nanoseconds of the gaps before them.
    pub gap_ns: u64,
}

impl LaneRecord {
    pub(super) const NONE: Self = Self { spans: 0, gaps: 0, gpu_ns: 0, gap_ns: 0 };

    pub(super) fn add(&mut self, ns: u64, gap_ns: Option<u64>) {
        self.spans += 1;
        self.gpu_ns = self.gpu_ns.saturating_add(ns);
        if let Some(gap_ns) = gap_ns {
            self.gaps += 1;
            self.gap_ns = self.gap_ns.saturating_add(gap_ns);
        }
    }
}

/// What is known of a step once it is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StepRecord {
    /// How many steps came before it.
    pub number: u64,
    /// Its launches were timed too.
    pub armed: bool,
    /// A twin ran in it: what its marks took of the GPU is in the lanes' time. Of
    /// the slowest steps it stands behind all others, and it begins no recording.
    pub marked: bool,
    /// A lane's span was lost, or began after the close: the lanes took more
    /// than is told here.
    pub incomplete: bool,
    /// What it was made of, where that was stated.
    pub shape: Option<StepShape>,
    /// Host nanoseconds from its begin to its end, where they were measured.
    pub wall_ns: Option<u64>,
    /// When it ended, by the telemetry's clock, where that was measured.
    pub ended_ns: Option<u64>,
    /// Its lanes, by index; those that it did not have are empty.
    pub lanes: [LaneRecord; MAX_LANES],
}

impl StepRecord {
    /// GPU nanoseconds of all lanes.
    #[must_use]
    pub fn gpu_ns(&self) -> u64 {
        let lanes = self.lanes.iter();
        lanes.fold(0, |sum, lane| lane.gpu_ns.saturating_add(sum))
    }
}

#[cfg(all(test, not(metrale_loom)))]
mod tests;
