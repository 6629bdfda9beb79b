// SPDX-License-Identifier: MIT OR Apache-2.0
//! GPU spans: who times them ([`EventOps`]), where they wait until the GPU is
//! done ([`SpanRing`]), and where they land ([`KernelInstruments`]).
//!
//! The ring knows no CUDA: a slot number stands for a pair of events, and the
//! [`EventOps`] behind it records and reads them.

mod batch;
mod estimates;
mod exposed;
mod gaps;
mod instruments;
#[cfg(feature = "nvtx")]
mod lane_ranges;
mod ledger;
mod ops;
mod pass;
mod ring;
mod sink;
mod slot;
mod streams;
mod table;
#[cfg(all(test, not(metrale_loom)))]
mod tests;
mod token;
mod turns;

pub use estimates::{
    ENOUGH_STEPS, Estimate, EstimateLosses, KernelEstimate, LaneEstimate, StandardError, Together,
};
pub(crate) use exposed::ExposedKernels;
pub use exposed::{KERNEL_SERIES_MOST, KERNEL_SERIES_OTHER, KernelSeries};
pub use gaps::Gaps;
pub use instruments::{KernelInstruments, KernelTime};
#[cfg(feature = "nvtx")]
pub use lane_ranges::{nvtx_pop, nvtx_push_lane};
pub use ledger::Ledger;
pub use ops::{Edge, EventOps, SpanPoll};
pub use ring::{SpanRing, SpanRingBuilder};
pub use sink::{Landed, SpanKey, SpanSink, SpanTag};
pub use table::{KERNEL_TABLE_SLOTS, KernelTable};
pub use token::SpanToken;

/// The lanes of a serving step, in the scheduler's order.
pub const LANES: [&str; 3] = ["admit", "prefill", "decode"];
/// Index of the admit lane in [`LANES`].
pub const LANE_ADMIT: usize = 0;
/// Index of the prefill lane in [`LANES`].
pub const LANE_PREFILL: usize = 1;
/// Index of the decode lane in [`LANES`].
pub const LANE_DECODE: usize = 2;
