// SPDX-License-Identifier: MIT OR Apache-2.0
//! A histogram of durations in nanoseconds, for a static: fixed size, `const`,
//! one relaxed read-modify-write to an observation, and snapshots that are
//! never torn (count = sum of the buckets, sum = sum of the values).

use super::buckets::{BUCKETS, bucket_index, bucket_upper_ns, inner_index};
use super::packed::PackedCells;
use crate::sums::Adding;
use crate::sync::const_fn;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The checker, which follows every word, gets one cell for all buckets.
const CELLS: usize = if cfg!(metrale_loom) { 1 } else { BUCKETS };

/// Durations in whole nanoseconds, in buckets that end on 2^(k/32) seconds
/// from 2^-22 s to 2^7 s. About 22 KiB.
///
/// ```
/// use metrale_telemetry::instrument::NanosHistogram;
///
/// static STEP: NanosHistogram = NanosHistogram::new();
/// for ms in [7, 8, 9] {
///     STEP.observe(ms * 1_000_000);
/// }
/// let taken = STEP.snapshot();
/// assert_eq!((taken.count(), taken.sum_ns()), (3, 24_000_000));
/// assert_eq!(taken.quantile(0.5), Some(8_000_000));
/// ```
pub struct NanosHistogram {
    cells: PackedCells<CELLS>,
}

impl NanosHistogram {
    const_fn! {
        /// An empty histogram.
        #[must_use]
        pub const fn new() -> Self {
            Self { cells: PackedCells::new() }
        }
    }

    /// Adds one duration in nanoseconds. Never allocates, waits or locks.
    #[inline]
    pub fn observe(&self, ns: u64) {
        match inner_index(ns) {
            Some(index) => self.cells.add(if CELLS == 1 { 0 } else { index }, ns),
            None if bucket_index(ns) == 0 => self.cells.add(0, ns),
            None => self.cells.add_wide(CELLS - 1, ns),
        }
    }

    /// How many durations were observed.
    #[must_use]
    pub fn count(&self) -> u64 {
        let mut total = 0u64;
        self.cells.read(|_, count, _| total = total.wrapping_add(count));
        total
    }

    /// A copy of the contents at one moment. It allocates; observers go on
    /// undisturbed.
    #[must_use]
    pub fn snapshot(&self) -> HistogramSnapshot {
        let mut buckets = Vec::new();
        let exact = self.cells.read(|index, count, sum_ns| {
            if count > 0 {
                buckets.push(Bucket { index, count, sum_ns });
            }
        });
        HistogramSnapshot { exact, buckets }
    }
}

impl Default for NanosHistogram {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for NanosHistogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let snapshot = self.snapshot();
        f.debug_struct("NanosHistogram")
            .field("count", &snapshot.count())
            .field("sum_ns", &snapshot.sum_ns())
            .finish_non_exhaustive()
    }
}

/// One bucket that holds something.
///
/// ```
/// use metrale_telemetry::instrument::NanosHistogram;
///
/// let steps = NanosHistogram::new();
/// steps.observe(1_000);
/// let bucket = steps.snapshot().buckets[0];
/// assert_eq!((bucket.count, bucket.sum_ns), (1, 1_000));
/// assert!(bucket.upper_ns() >= Some(1_000));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bucket {
    /// Which bucket, from 0; see [`bucket_upper_ns`].
    pub index: usize,
    /// How many durations.
    pub count: u64,
    /// Their sum in nanoseconds.
    pub sum_ns: u64,
}

/// What a histogram held at one moment. Snapshots of several histograms or
/// processes merge without loss.
///
/// ```
/// use metrale_telemetry::instrument::NanosHistogram;
///
/// let (here, there) = (NanosHistogram::new(), NanosHistogram::new());
/// here.observe(1_000);
/// there.observe(3_000);
/// let mut both = here.snapshot();
/// both.merge(&there.snapshot());
/// assert_eq!((both.count(), both.sum_ns()), (2, 4_000));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct HistogramSnapshot {
    /// `false` only where a thread stayed suspended inside an observation for
    /// the half second a snapshot tries: a few observations may be missing.
    pub exact: bool,
    /// The buckets that are not empty, by ascending index.
    pub buckets: Vec<Bucket>,
}

impl Default for HistogramSnapshot {
    fn default() -> Self {
        Self { exact: true, buckets: Vec::new() }
    }
}

impl HistogramSnapshot {
    /// How many durations.
    #[must_use]
    pub fn count(&self) -> u64 {
        let counts = self.buckets.iter().map(|bucket| bucket.count);
        counts.fold(0, u64::saturating_add)
    }

    /// Sum of the durations in nanoseconds.
    #[must_use]
    pub fn sum_ns(&self) -> u64 {
        self.buckets.iter().map(|bucket| bucket.sum_ns).fold(0, u64::saturating_add)
    }

    /// The duration below which a share `q` (0 to 1) of the durations lie, in
    /// nanoseconds: the mean of the bucket that holds it, which is within the
    /// bucket's 2.2 %. `None` for an empty histogram or a `q` outside 0 to 1.
    #[must_use]
    pub fn quantile(&self, q: f64) -> Option<u64> {
        if !(0.0..=1.0).contains(&q) {
            return None;
        }
        // Wide enough for any snapshot that somebody may have written by hand.
        let rank = (q * self.count() as f64).ceil().max(1.0) as u128;
        let mut seen = 0u128;
        for bucket in &self.buckets {
            seen += u128::from(bucket.count);
            if seen >= rank {
                let half = u128::from(bucket.count) / 2;
                let mean = (u128::from(bucket.sum_ns) + half) / u128::from(bucket.count);
                return u64::try_from(mean).ok();
            }
        }
        None
    }

    /// Adds the contents of `other`. Sums saturate.
    pub fn merge(&mut self, other: &Self) {
        self.add_all(other, &mut Adding::default());
    }

    pub(crate) fn add_all(&mut self, other: &Self, adding: &mut Adding) {
        self.exact &= other.exact;
        for theirs in &other.buckets {
            match self.buckets.binary_search_by_key(&theirs.index, |ours| ours.index) {
                Ok(at) => {
                    let ours = &mut self.buckets[at];
                    adding.add(&mut ours.count, theirs.count);
                    adding.add(&mut ours.sum_ns, theirs.sum_ns);
                }
                Err(at) => self.buckets.insert(at, *theirs),
            }
        }
    }
}

impl Bucket {
    /// Largest duration that belongs to the bucket, in nanoseconds; `None` for
    /// the last one, which has no bound.
    #[must_use]
    pub fn upper_ns(&self) -> Option<u64> {
        bucket_upper_ns(self.index)
    }
}

#[cfg(all(test, not(metrale_loom)))]
mod tests {
    use super::{HistogramSnapshot, NanosHistogram};
    use proptest::prelude::*;

    #[test]
    fn an_empty_histogram_has_no_quantile() {
        assert_eq!(NanosHistogram::new().snapshot().quantile(0.5), None);
        assert_eq!(HistogramSnapshot::default().quantile(f64::NAN), None);
    }

    proptest! {
        #[test]
        fn sums_quantiles_and_merges_agree_with_the_sorted_values(
            left in proptest::collection::vec(0u64..200_000_000_000, 1..200),
            right in proptest::collection::vec(300u64..50_000_000, 0..200),
            q in 0.0f64..=1.0,
        ) {
            let (a, b) = (NanosHistogram::new(), NanosHistogram::new());
            left.iter().for_each(|&ns| a.observe(ns));
            right.iter().for_each(|&ns| b.observe(ns));
            let mut merged = a.snapshot();
            merged.merge(&b.snapshot());

            let mut all: Vec<u64> = left.iter().chain(&right).copied().collect();
            all.sort_unstable();
            prop_assert_eq!(merged.count(), all.len() as u64);
            prop_assert_eq!(merged.sum_ns(), all.iter().sum::<u64>());

            let rank = ((q * all.len() as f64).ceil() as usize).clamp(1, all.len());
            let (exact, read) = (all[rank - 1], merged.quantile(q).unwrap());
            // Below 238 ns and above 128 s one bucket holds everything.
            if (239..128_000_000_000).contains(&exact) {
                prop_assert!((read as f64 / exact as f64 - 1.0).abs() < 0.022, "{read} for {exact}");
            }
        }
    }
}
