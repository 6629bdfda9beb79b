// SPDX-License-Identifier: MIT OR Apache-2.0
//! What was folded at one moment, for readers: they ask a copy of their own, and
//! hold up no pass.

use super::estimates::{KernelEstimate, LaneEstimate};
use super::folded::{Folded, Incomplete, RowFigures, StepLosses};
use super::records::ShapeTimes;
use super::timeline::LaneFigures;
use crate::sampling::Sampling;

/// See the module.
pub(crate) struct FoldedCopy {
    pub(super) folded: Box<Folded>,
    /// Place and handle of each kernel.
    pub(super) places: Vec<(usize, u64)>,
    /// Steps that left no record.
    pub(super) unrecorded: u64,
}

impl FoldedCopy {
    pub(crate) fn lane_estimate(&self, lane: usize) -> LaneEstimate {
        self.folded.estimates.lane(lane)
    }

    pub(crate) fn kernel_estimates(&self, sampling: Sampling, every: u64) -> Vec<KernelEstimate> {
        self.folded.estimates.kernels(sampling, every, &self.places)
    }

    /// How a lane's time was spent; `None` before a step of it was laid out.
    pub(crate) fn lane(&self, lane: usize) -> Option<LaneFigures> {
        let figures = self.folded.lanes.get(lane);
        figures.copied().filter(|figures| figures.steps > 0)
    }

    pub(crate) fn incomplete(&self, lane: usize) -> Incomplete {
        self.folded.incomplete.get(lane).copied().unwrap_or_default()
    }

    /// As [`lane`](Self::lane), of all lanes together.
    pub(crate) fn device(&self) -> Option<LaneFigures> {
        Some(self.folded.device).filter(|figures| figures.steps > 0)
    }

    /// What the timelines say of a kernel.
    pub(crate) fn row(&self, func: u64) -> RowFigures {
        let place = self.places.iter().find(|(_, known)| *known == func);
        let row = place.and_then(|(place, _)| self.folded.rows.get(*place));
        row.copied().unwrap_or_default()
    }

    pub(crate) fn losses(&self) -> StepLosses {
        StepLosses { unrecorded_steps: self.unrecorded, ..self.folded.losses() }
    }

    pub(crate) fn shapes(&self, lane: usize) -> Vec<ShapeTimes> {
        self.folded.shapes.of(lane).collect()
    }
}
