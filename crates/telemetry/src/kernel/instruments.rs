// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where landed spans are counted: a histogram for each lane, a row for each
//! kernel, and counters for what could not be timed.

use super::LANES;
use super::estimates::{EstimateLosses, Estimates, KernelEstimate, LaneEstimate};
use super::sink::{Landed, SpanKey, SpanSink, SpanTag};
use super::table::{KERNEL_TABLE_SLOTS, KernelTable};
use crate::instrument::{Counter, NanosHistogram};
use crate::sampling::Sampling;
use crate::sync::{array_of, const_fn};
use std::fmt;

/// Places of the kernel table.
pub(super) const PLACES: usize = 2 * KERNEL_TABLE_SLOTS;

/// GPU time by lane and by kernel. `const`, fixed size (about 310 KiB), no
/// allocation but for reading.
pub struct KernelInstruments {
    /// GPU time of each lane's spans.
    pub lane: [NanosHistogram; 3],
    /// GPU time from the end of a lane's span to the start of the next on the
    /// same stream, filed under the lane that starts.
    pub lane_gap: [NanosHistogram; 3],
    /// Lane spans whose gap is not known: the first of a stream, or one whose
    /// predecessor was lost or used again before it could be read.
    pub lane_gap_unknown: Counter,
    /// GPU time from the end of a launch's span to the start of the next on the
    /// same stream, filed under the lane that the later one was launched in.
    /// Only of armed steps, and only where nothing between the two was lost.
    pub kernel_gap: [NanosHistogram; 3],
    /// Launches on armed steps whose gap is not known: the first of a step on a
    /// stream, and those whose predecessor was lost.
    pub kernel_gap_unknown: Counter,
    /// GPU nanoseconds of each lane's spans on armed steps.
    pub lane_armed_ns: [Counter; 3],
    /// GPU nanoseconds of the kernel spans launched in each lane.
    pub lane_kernel_ns: [Counter; 3],
    /// Samples of kernels that have no row: handle 0, or a full table.
    pub table_full: Counter,
    /// Spans that found their slot in use.
    pub spans_dropped: Counter,
    /// Spans begun whose start, end or reading failed.
    pub span_failures: Counter,
    kernels: KernelTable<PLACES>,
    estimates: Estimates<PLACES>,
}

/// GPU time of one kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelTime {
    /// The function handle.
    pub func: u64,
    /// GPU nanoseconds of its timed launches.
    pub total_ns: u64,
    /// How many launches were timed.
    pub samples: u64,
}

impl KernelInstruments {
    const_fn! {
        /// Instruments with nothing in them.
        #[must_use]
        pub const fn new() -> Self {
            Self {
                lane: array_of!(NanosHistogram::new()),
                lane_gap: array_of!(NanosHistogram::new()),
                lane_gap_unknown: Counter::new(),
                kernel_gap: array_of!(NanosHistogram::new()),
                kernel_gap_unknown: Counter::new(),
                lane_armed_ns: array_of!(Counter::new()),
                lane_kernel_ns: array_of!(Counter::new()),
                table_full: Counter::new(),
                spans_dropped: Counter::new(),
                span_failures: Counter::new(),
                kernels: KernelTable::new(),
                estimates: Estimates::new(),
            }
        }
    }

    /// Counts GPU time of `ns` nanoseconds. A lane outside [`LANES`] is
    /// ignored; a kernel that has no row counts `table_full`.
    #[inline]
    pub fn record(&self, key: SpanKey, ns: u64) {
        match key {
            SpanKey::Lane(lane) => {
                if let Some(histogram) = self.lane.get(lane) {
                    histogram.observe(ns);
                }
            }
            SpanKey::Kernel(func) => {
                if !self.kernels.record(func, ns) {
                    self.table_full.add(1);
                }
            }
        }
    }

    /// Every kernel with at least one sample, in no order.
    #[must_use]
    pub fn kernels(&self) -> Vec<KernelTime> {
        let mut rows = Vec::new();
        self.each_kernel(|row| rows.push(row));
        rows
    }

    /// As [`kernels`](Self::kernels), one by one: it allocates nothing.
    pub fn each_kernel(&self, mut visit: impl FnMut(KernelTime)) {
        self.kernels.each_row(|_, func, total_ns, samples| {
            visit(KernelTime {
                func,
                total_ns,
                samples,
            });
        });
    }

    /// Begins estimates anew at step `step`: the sampling is another one.
    pub(crate) fn restart_estimates(&self, step: u64) {
        self.estimates.restart(step);
    }

    pub(crate) fn lane_estimate(
        &self,
        lane: usize,
        sampling: Sampling,
        every: u64,
    ) -> LaneEstimate {
        self.estimates.lane(lane, sampling, every)
    }

    pub(crate) fn kernel_estimates(&self, sampling: Sampling, every: u64) -> Vec<KernelEstimate> {
        let placed = self.kernels.placed().into_iter();
        let places: Vec<_> = placed.map(|(place, func, ..)| (place, func)).collect();
        let of_lane = |lane| self.estimates.kernels(lane, sampling, every, &places);
        (0..LANES.len()).flat_map(of_lane).collect()
    }

    pub(crate) fn estimate_losses(&self) -> EstimateLosses {
        self.estimates.losses()
    }
}

impl KernelInstruments {
    #[inline]
    fn landed_lane(&self, lane: usize, span: &Landed) {
        self.record(span.key, span.ns);
        if span.tag.armed
            && let Some(armed_ns) = self.lane_armed_ns.get(lane)
        {
            armed_ns.add(span.ns);
        }
        match (span.gap_ns, self.lane_gap.get(lane)) {
            (Some(gap_ns), Some(histogram)) => histogram.observe(gap_ns),
            (None, Some(_)) => self.lane_gap_unknown.add(1),
            (_, None) => {}
        }
        self.estimates
            .land_lane(lane, span.tag.step, span.tag.armed, span.ns);
    }

    fn landed_kernel(&self, func: u64, span: &Landed) {
        self.add_to_kernel(self.place_of(func), &span.tag, 1, span.ns);
        self.add_to_lane(&span.tag, 1, span.ns);
        self.add_kernel_gap(span.tag, span.gap_ns);
    }

    /// The place of the kernel's row, if it has one.
    #[inline]
    pub(super) fn place_of(&self, func: u64) -> Option<usize> {
        self.kernels.place(func)
    }

    /// As [`place_of`](Self::place_of), where a first look finds it.
    #[inline]
    pub(super) fn first_place_of(&self, func: u64) -> Option<usize> {
        self.kernels.first_place(func)
    }

    /// Counts `count` launches of the kernel at `place`, which took `ns`: as
    /// many, and as long, as [`KernelTable::add`] takes at once.
    pub(super) fn add_to_kernel(&self, place: Option<usize>, tag: &SpanTag, count: u64, ns: u64) {
        match place {
            Some(place) => self.kernels.add(place, count, ns),
            None => self.table_full.add(count),
        }
        self.estimates.land_kernel(place, tag, count, ns);
    }

    /// Counts `count` launches, which took `ns`, for their lane.
    pub(super) fn add_to_lane(&self, tag: &SpanTag, count: u64, ns: u64) {
        if let Some(kernel_ns) = tag.lane.and_then(|lane| self.lane_kernel_ns.get(lane)) {
            kernel_ns.add(ns);
        }
        self.estimates.land_covered(tag, count, ns);
    }

    /// Counts the gap before a launch; one that is not known, on armed steps.
    #[inline]
    pub(super) fn add_kernel_gap(&self, tag: SpanTag, gap_ns: Option<u64>) {
        if gap_ns.is_some() || tag.armed {
            self.add_gap_in_lane(tag.lane, gap_ns);
        }
    }

    #[inline(never)]
    fn add_gap_in_lane(&self, lane: Option<usize>, gap_ns: Option<u64>) {
        match (gap_ns, lane.and_then(|lane| self.kernel_gap.get(lane))) {
            (Some(gap_ns), Some(histogram)) => histogram.observe(gap_ns),
            (None, Some(_)) => self.kernel_gap_unknown.add(1),
            (_, None) => {}
        }
    }
}

impl SpanSink for KernelInstruments {
    #[inline]
    fn landed(&self, span: Landed) {
        match span.key {
            SpanKey::Lane(lane) => self.landed_lane(lane, &span),
            SpanKey::Kernel(func) => self.landed_kernel(func, &span),
        }
    }

    #[inline]
    fn dropped(&self) {
        self.spans_dropped.add(1);
    }

    #[inline]
    fn failed(&self) {
        self.span_failures.add(1);
    }
}

impl Default for KernelInstruments {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for KernelInstruments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("KernelInstruments");
        for (name, histogram) in LANES.iter().zip(&self.lane) {
            out.field(name, histogram);
        }
        out.field("kernels", &self.kernels().len())
            .field("table_full", &self.table_full)
            .field("spans_dropped", &self.spans_dropped)
            .field("span_failures", &self.span_failures)
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(metrale_loom)))]
mod tests {
    use super::{KernelInstruments, KernelTime};
    use crate::kernel::{KERNEL_TABLE_SLOTS, SpanKey};

    static INSTRUMENTS: KernelInstruments = KernelInstruments::new();

    #[test]
    fn counts_by_lane_and_kernel() {
        INSTRUMENTS.record(SpanKey::Lane(1), 500);
        INSTRUMENTS.record(SpanKey::Lane(3), 500);
        INSTRUMENTS.record(SpanKey::Lane(usize::MAX), 500);
        INSTRUMENTS.record(SpanKey::Kernel(u64::MAX - 1), 70);
        assert_eq!(
            INSTRUMENTS.lane.each_ref().map(|lane| lane.count()),
            [0, 1, 0]
        );
        let row = KernelTime {
            func: u64::MAX - 1,
            total_ns: 70,
            samples: 1,
        };
        assert_eq!(INSTRUMENTS.kernels(), [row]);
    }

    #[test]
    fn the_513th_kernel_and_handle_0_are_counted() {
        let instruments = Box::new(KernelInstruments::new());
        for func in 1..=KERNEL_TABLE_SLOTS as u64 {
            instruments.record(SpanKey::Kernel(func << 9), 1);
        }
        assert_eq!(instruments.table_full.get(), 0);
        instruments.record(SpanKey::Kernel(7), 1);
        instruments.record(SpanKey::Kernel(0), 1);
        assert_eq!(instruments.table_full.get(), 2);
        assert_eq!(instruments.kernels().len(), KERNEL_TABLE_SLOTS);
    }
}
