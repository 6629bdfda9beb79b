// SPDX-License-Identifier: MIT OR Apache-2.0
//! GPU spans: who times them ([`EventOps`]), where they wait until the GPU is
//! done ([`SpanRing`]), where they are counted ([`KernelInstruments`]), and what
//! a step's spans say together ([`LaneFigures`], [`LaneEstimate`]).
//!
//! The ring knows no CUDA: a slot number stands for a pair of events, and the
//! [`EventOps`] behind it records and reads them. It knows no kernels either: it
//! lands spans, and others add them up.

pub(crate) mod estimates;
pub(crate) mod fold;
mod folded;
mod folded_copy;
mod gaps;
mod instruments;
mod landing;
#[cfg(feature = "nvtx")]
mod lane_ranges;
mod laps;
mod ledger;
mod oldest;
mod ops;
mod pass;
pub(crate) mod records;
mod ring;
mod slot;
pub(crate) mod span;
pub(crate) mod steps;
mod streams;
pub(crate) mod table;
#[cfg(all(test, not(metrale_loom)))]
mod tests;
mod timeline;
mod token;

pub use estimates::{ENOUGH_STEPS, Estimate, KernelEstimate, LaneEstimate, StandardError};
pub use folded::{Incomplete, RowFigures, StepLosses};
pub(crate) use folded_copy::FoldedCopy;
pub use instruments::{KernelInstruments, KernelTime};
#[cfg(feature = "nvtx")]
pub use lane_ranges::{nvtx_pop, nvtx_push_lane};
pub use ledger::Ledger;
pub use oldest::{OldestSpan, OldestSpans};
pub use ops::{Edge, EventOps, Place, SpanPoll};
pub use records::{
    KEPT_TIMELINES, LaneRecord, MAX_RECORDED_STEPS, RECENT_STEPS, RecentSteps, Recording,
    SHAPE_BUCKETS, SLOWEST_STEPS, ShapeTimes, SlowMinute, SlowStep, StepCursor, StepRecord,
    StepShape, Timeline, TimelinePart, TimelineSpan, TooManyStepsError,
};
pub use ring::{SpanRing, SpanRingBuilder};
pub use span::{Harvested, Landed, Lost, NotBegun, NotEnded, SpanKey, SpanTag, StepId};
pub use table::KERNEL_TABLE_SLOTS;
pub use timeline::LaneFigures;
pub use token::SpanToken;

/// The lanes of a serving step, in the scheduler's order.
pub const LANES: [&str; 3] = ["admit", "prefill", "decode"];
/// Index of the admit lane in [`LANES`].
pub const LANE_ADMIT: usize = 0;
/// Index of the prefill lane in [`LANES`].
pub const LANE_PREFILL: usize = 1;
/// Index of the decode lane in [`LANES`].
pub const LANE_DECODE: usize = 2;
/// Lanes that there can be: those of [`LANES`], and the ones that
/// [`Telemetry::name_lanes`](crate::Telemetry::name_lanes) adds.
pub const MAX_LANES: usize = if cfg!(metrale_loom) { 4 } else { 16 };
