// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where landed spans are counted: a histogram for each lane, a row for each
//! kernel, and counters for what could not be timed.

use super::LANES;
use super::sink::{Landed, SpanKey, SpanSink};
use super::table::{KERNEL_TABLE_SLOTS, KernelTable};
use crate::instrument::{Counter, NanosHistogram};
use crate::sync::{array_of, const_fn};
use std::fmt;

/// GPU time by lane and by kernel. `const`, fixed size (about 190 KiB), no
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
    kernels: KernelTable<{ 2 * KERNEL_TABLE_SLOTS }>,
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
                lane_armed_ns: array_of!(Counter::new()),
                lane_kernel_ns: array_of!(Counter::new()),
                table_full: Counter::new(),
                spans_dropped: Counter::new(),
                span_failures: Counter::new(),
                kernels: KernelTable::new(),
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
        let row = |(func, total_ns, samples)| KernelTime {
            func,
            total_ns,
            samples,
        };
        self.kernels.rows().into_iter().map(row).collect()
    }
}

impl SpanSink for KernelInstruments {
    #[inline]
    fn landed(&self, span: Landed) {
        self.record(span.key, span.ns);
        let add = |counters: &[Counter; 3], lane: usize| {
            if let Some(counter) = counters.get(lane) {
                counter.add(span.ns);
            }
        };
        match (span.key, span.tag.lane) {
            (SpanKey::Lane(lane), _) => {
                if span.tag.armed {
                    add(&self.lane_armed_ns, lane);
                }
                match (span.gap_ns, self.lane_gap.get(lane)) {
                    (Some(gap_ns), Some(histogram)) => histogram.observe(gap_ns),
                    (None, Some(_)) => self.lane_gap_unknown.add(1),
                    (_, None) => {}
                }
            }
            (SpanKey::Kernel(_), Some(lane)) => add(&self.lane_kernel_ns, lane),
            (SpanKey::Kernel(_), None) => {}
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
