// SPDX-License-Identifier: MIT OR Apache-2.0
//! Steps and lanes that are open: what borrowed guards and owned ones share.
//!
//! Who holds one gives it the recorder's part at each call; `None` is a recorder
//! that measures nothing. Such a step is unmeasured and has no time of its begin,
//! so that nothing below asks again.

use super::guards::LaunchGuard;
use super::handles::{KernelRef, StreamRef};
use super::shared::{LANE, Shared};
use metrale_telemetry::Step;
use metrale_telemetry::kernel::{SpanToken, StepShape};
use metrale_telemetry::snapshot::RowKind;
use std::cell::Cell;

/// A step that is open.
pub(super) struct OpenStep {
    pub(super) step: Step,
    /// Host time of its begin, where it is measured.
    began_ns: Option<u64>,
}

impl OpenStep {
    #[inline]
    pub(super) fn begin(shared: Option<&Shared>) -> Self {
        let step = shared.map_or(Step::UNMEASURED, |shared| shared.telemetry.step_begin());
        let measured = shared.filter(|_| step.number().is_some());
        Self { step, began_ns: measured.map(|shared| shared.telemetry.now_ns()) }
    }

    pub(super) fn shape(&self, shared: Option<&Shared>, shape: StepShape) {
        if let Some(shared) = shared {
            shared.telemetry.shape(self.step, shape);
        }
    }

    #[inline]
    pub(super) fn end(&self, shared: Option<&Shared>) {
        if let Some(shared) = shared {
            shared.end_step_since(self.step, self.began_ns);
        }
    }
}

/// A lane that is open.
pub(super) struct OpenLane<'a> {
    pub(super) step: Step,
    pub(super) stream: StreamRef<'a>,
    lane: usize,
    token: Option<SpanToken>,
    /// Host time of its begin, where it is measured.
    began_ns: Option<u64>,
    /// Launches are sampled one by one.
    spread: bool,
}

/// Launches of a lane so far: counted here, so that each costs no atomic write.
#[derive(Default)]
pub(super) struct Launches {
    kernels: Cell<u64>,
    graphs: Cell<u64>,
    /// No launches.
    regions: Cell<u64>,
}

impl Launches {
    #[inline]
    fn of(&self, kind: RowKind) -> &Cell<u64> {
        match kind {
            RowKind::Kernel => &self.kernels,
            RowKind::Graph => &self.graphs,
            _ => &self.regions,
        }
    }

    #[inline]
    pub(super) fn count(&self, shared: &Shared) {
        let host = shared.telemetry.host();
        host.launched(self.kernels.get(), self.graphs.get());
    }
}

impl<'a> OpenLane<'a> {
    #[inline]
    pub(super) fn begin(
        shared: Option<&Shared>,
        step: Step,
        lane: usize,
        stream: StreamRef<'a>,
    ) -> Self {
        let token = shared.and_then(|shared| shared.begin_lane(step, lane, stream));
        let measured = shared.filter(|_| step.number().is_some());
        Self {
            // The span's own begin is no part of the lane.
            began_ns: measured.map(|shared| shared.telemetry.now_ns()),
            spread: measured.is_some_and(|shared| shared.telemetry.spreads()),
            step,
            stream,
            lane,
            token,
        }
    }

    /// A launch or a region on `stream`, counted in `launches`.
    #[inline]
    pub(super) fn launch<'b>(
        &self,
        shared: Option<&'b Shared>,
        kernel: KernelRef<'_>,
        stream: StreamRef<'b>,
        launches: &'b Launches,
    ) -> LaunchGuard<'b> {
        let count = launches.of(kernel.kind());
        count.set(count.get() + 1);
        let sample = |shared: &Shared| shared.telemetry.sample_launch();
        let is_timed = self.step.is_armed() || (self.spread && shared.is_some_and(sample));
        let begin = |shared: &'b Shared| {
            let token = shared.begin_launch(kernel, self.step, self.lane, stream)?;
            Some((shared, token))
        };
        let span = if is_timed { shared.and_then(begin) } else { None };
        LaunchGuard::new(count, stream, span)
    }

    /// Ends the lane; whether its launches are to be counted.
    #[inline]
    pub(super) fn end(&self, shared: &Shared) -> bool {
        let took_ns = shared.since(self.began_ns);
        if let Some(token) = self.token {
            shared.end(LANE, token, self.stream);
        }
        if let Some(took_ns) = took_ns {
            shared.telemetry.host().lane_took(self.lane, took_ns);
        }
        took_ns.is_some()
    }
}
