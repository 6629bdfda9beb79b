// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counters and histograms that a serving thread may touch on its hot path:
//! one relaxed read-modify-write each, no lock, no allocation, `const`, fixed
//! size.

pub(crate) mod buckets;
mod histogram;
pub(crate) mod packed;
mod wider;

pub use buckets::SCHEMA;
pub use histogram::{Bucket, HistogramSnapshot, NanosHistogram};
pub(crate) use packed::{MAX_ADD, TOO_LONG_NS};
pub use wider::{CLASSIC_BOUNDS, NativeBuckets, ZERO_THRESHOLD};

use crate::sync::Ordering;
use crate::sync::relaxed::AtomicU64;

/// A count of events since the process started. It wraps at 2^64.
///
/// ```
/// use metrale_telemetry::instrument::Counter;
///
/// static DROPPED: Counter = Counter::new();
/// DROPPED.add(2);
/// assert_eq!(DROPPED.get(), 2);
/// ```
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// A counter at zero.
    #[must_use]
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Adds `n`.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// The count now.
    #[must_use]
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
