// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is told of many readings of one figure.

use super::page::figure;
use serde_json::Value;

/// The reading that at least the share `q` of `sorted` is at or below (the
/// nearest rank); `None` of nothing.
pub(crate) fn quantile(sorted: &[f64], q: f64) -> Option<f64> {
    let rank = (q * sorted.len() as f64).ceil().max(1.0) as usize;
    sorted.get(rank - 1).or(sorted.last()).copied()
}

/// Readings in short.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Summary {
    pub(crate) count: usize,
    pub(crate) least: f64,
    pub(crate) median: f64,
    pub(crate) p99: f64,
    pub(crate) most: f64,
}

impl Summary {
    /// Least, median, 99th percentile and most, in whole numbers.
    pub(crate) fn spread(&self) -> [Value; 4] {
        [self.least, self.median, self.p99, self.most].map(|reading| figure(reading, 0))
    }
}

/// `None` of nothing. Readings are numbers.
pub(crate) fn summary(mut readings: Vec<f64>) -> Option<Summary> {
    readings.sort_by(f64::total_cmp);
    let count = readings.len();
    Some(Summary {
        count,
        least: *readings.first()?,
        median: quantile(&readings, 0.5)?,
        p99: quantile(&readings, 0.99)?,
        most: *readings.last()?,
    })
}

/// The least difference between two readings that differ, whole nanoseconds:
/// the tick of the clock behind them, if there were enough of them. `None`
/// where all are equal.
pub(crate) fn tick(readings: &[f64]) -> Option<f64> {
    let mut whole: Vec<i64> = readings.iter().map(|ns| ns.round() as i64).collect();
    whole.sort_unstable();
    whole.dedup();
    let steps = whole.windows(2).map(|pair| pair[1] - pair[0]);
    steps.min().map(|ns| ns as f64)
}

#[cfg(test)]
mod tests {
    use super::{quantile, summary, tick};

    #[test]
    fn quantiles_are_nearest_ranks() {
        let hundred: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(quantile(&hundred, 0.5), Some(50.0));
        assert_eq!(quantile(&hundred, 0.99), Some(99.0));
        assert_eq!(quantile(&hundred, 1.0), Some(100.0));
        assert_eq!(quantile(&hundred, 0.0), Some(1.0));
        assert_eq!(quantile(&[7.0], 0.99), Some(7.0));
        assert_eq!(quantile(&[1.0, 2.0, 3.0], 0.5), Some(2.0));
        assert_eq!(quantile(&[], 0.5), None);
    }

    #[test]
    fn a_summary_sorts_for_itself() {
        let found = summary(vec![4.0, -1.0, 3.0, 2.0]).expect("readings");
        assert_eq!((found.count, found.least, found.median), (4, -1.0, 2.0));
        assert_eq!((found.p99, found.most), (4.0, 4.0));
        assert_eq!(summary(Vec::new()), None);
    }

    #[test]
    fn the_tick_is_the_least_step() {
        assert_eq!(tick(&[2048.0, 1024.0, 1024.0, 4096.4]), Some(1024.0));
        assert_eq!(tick(&[96.0, 32.0, 64.0, 192.0]), Some(32.0));
        assert_eq!(tick(&[5.0, 5.2]), None);
        assert_eq!(tick(&[]), None);
    }
}
