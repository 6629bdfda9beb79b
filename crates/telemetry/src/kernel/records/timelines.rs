// SPDX-License-Identifier: MIT OR Apache-2.0
//! The timelines of the last complete steps, as they landed. Memory is taken
//! once; a step overwrites the oldest.

use crate::kernel::fold::MAX_STEP_SPANS;
use crate::kernel::timeline::{Interval, Laid};

/// Timelines that are kept.
pub const KEPT_TIMELINES: usize = 4;

/// An armed step, laid out in time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Timeline {
    /// How many steps came before it.
    pub step: u64,
    /// The spans of its lanes.
    pub lanes: Vec<TimelineSpan>,
    /// Its launches, on each stream in the order of their begins.
    pub launches: Vec<TimelineSpan>,
    /// Its regions, on each stream in the order of their begins.
    pub regions: Vec<TimelineSpan>,
}

/// A span of a timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TimelineSpan {
    /// GPU nanoseconds from the step's anchor to its start.
    pub start_ns: i64,
    /// GPU nanoseconds that it took.
    pub ns: u64,
    /// The stream of its end.
    pub stream: u64,
    /// The lane itself, or the one that a launch or a region is of.
    pub lane: Option<usize>,
    /// The row of a launch or a region, as
    /// [`KernelTime::func`](crate::kernel::KernelTime); `None`: a lane, or one that
    /// found the table full.
    pub func: Option<u64>,
}

#[derive(Default)]
struct Kept {
    step: u64,
    /// First its lanes, then its launches, then its regions.
    spans: Vec<Interval>,
    lanes: usize,
    launches: usize,
}

/// See the module.
pub(in crate::kernel) struct Timelines {
    kept: Vec<Kept>,
    /// Steps so far; the next one has the place of this number.
    total: usize,
}

impl Timelines {
    pub(super) const fn new() -> Self {
        Self {
            kept: Vec::new(),
            total: 0,
        }
    }

    pub(super) fn take_memory(&mut self) {
        self.kept.resize_with(KEPT_TIMELINES, || Kept {
            spans: Vec::with_capacity(MAX_STEP_SPANS),
            ..Kept::default()
        });
    }

    /// Keeps a step of at most [`MAX_STEP_SPANS`]; after
    /// [`take_memory`](Self::take_memory) without allocating.
    pub(in crate::kernel) fn keep(&mut self, step: u64, spans: &Laid<'_>) {
        if let Some(kept) = self.kept.get_mut(self.total % KEPT_TIMELINES) {
            kept.step = step;
            kept.lanes = spans.lanes.len();
            kept.launches = spans.launches.len();
            kept.spans.clear();
            kept.spans.extend_from_slice(spans.lanes);
            kept.spans.extend_from_slice(spans.launches);
            kept.spans.extend_from_slice(spans.regions);
            self.total += 1;
        }
    }

    /// What is kept, the oldest first; `func` tells the handle of a row.
    pub(in crate::kernel) fn read(&self, func: impl Fn(u16) -> Option<u64>) -> Vec<Timeline> {
        let span = |span: &Interval| TimelineSpan {
            start_ns: span.start_ns,
            ns: span.ns,
            stream: span.stream,
            lane: span.lane(),
            func: func(span.row),
        };
        let steps = self.total.saturating_sub(KEPT_TIMELINES)..self.total;
        let kept = steps.filter_map(|at| self.kept.get(at % KEPT_TIMELINES));
        let timelines = kept.map(|kept| {
            let (lanes, others) = kept.spans.split_at(kept.lanes);
            let (launches, regions) = others.split_at(kept.launches);
            Timeline {
                step: kept.step,
                lanes: lanes.iter().map(span).collect(),
                launches: launches.iter().map(span).collect(),
                regions: regions.iter().map(span).collect(),
            }
        });
        timelines.collect()
    }
}
