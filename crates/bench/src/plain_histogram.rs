// SPDX-License-Identifier: MIT OR Apache-2.0
//! The histogram that a programmer would write first, to compare with: a
//! bucket for each power of two, a count and a sum, three read-modify-writes.

use std::sync::atomic::{AtomicU64, Ordering};

/// Durations by the power of two that they are under. A snapshot may be torn.
#[derive(Debug)]
pub struct PlainHistogram {
    buckets: [AtomicU64; 65],
    count: AtomicU64,
    sum: AtomicU64,
}

impl PlainHistogram {
    /// An empty histogram.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            buckets: [const { AtomicU64::new(0) }; 65],
            count: AtomicU64::new(0),
            sum: AtomicU64::new(0),
        }
    }

    /// Adds one duration.
    #[inline]
    pub fn observe(&self, ns: u64) {
        let bucket = (u64::BITS - ns.leading_zeros()) as usize;
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.count.fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(ns, Ordering::Relaxed);
    }

    /// The buckets, the count and the sum.
    #[must_use]
    pub fn read(&self) -> (Vec<u64>, u64, u64) {
        let load = |cell: &AtomicU64| cell.load(Ordering::Relaxed);
        (self.buckets.iter().map(load).collect(), load(&self.count), load(&self.sum))
    }
}

impl Default for PlainHistogram {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::PlainHistogram;

    #[test]
    fn counts_under_powers_of_two() {
        let histogram = PlainHistogram::new();
        for ns in [0, 1, 2, 3, 4, u64::MAX - 10] {
            histogram.observe(ns);
        }
        let (buckets, count, sum) = histogram.read();
        assert_eq!((count, sum), (6, u64::MAX));
        assert_eq!((&buckets[..4], buckets[64]), (&[1, 1, 2, 1][..], 1));
    }
}
