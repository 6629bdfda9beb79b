// SPDX-License-Identifier: MIT OR Apache-2.0
//! A snapshot in wider buckets: what goes over the wire.
//!
//! Bounds of a lower schema are among those of a higher one, so neighbours add
//! up exactly: 4 buckets make one of schema 3, 32 make one of schema 0, whose
//! bounds are the classic `le` = 2^k seconds.

use super::buckets::{BUCKETS, SCHEMA};
use super::histogram::HistogramSnapshot;

/// The power of two seconds that the first bucket ends at: 2^-22 s, 238.4 ns.
const FIRST_POWER: i32 = -22;
/// Bounds of the classic form: 2^-22 s to 2^7 s, and infinity.
pub const CLASSIC_BOUNDS: usize = 31;
/// Upper bound in seconds of the first bucket: durations up to it are not told
/// apart. A power of two, so exact.
pub const ZERO_THRESHOLD: f64 = 1.0 / 4_194_304.0;

/// A histogram in the buckets of a Prometheus native histogram.
///
/// ```
/// use metrale_telemetry::instrument::NanosHistogram;
///
/// let steps = NanosHistogram::new();
/// steps.observe(900_000_000);
/// // Schema 0: bucket 0 holds what is above half a second, to a second.
/// assert_eq!(steps.snapshot().native(0).buckets, [(0, 1)]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NativeBuckets {
    /// The schema: bucket `i` ends at 2^(i / 2^schema) seconds, inclusive.
    pub schema: u32,
    /// Durations up to [`ZERO_THRESHOLD`].
    pub zero_count: u64,
    /// Index and count of the buckets that are not empty, by ascending index.
    /// Durations above 128 s, which are not told apart either, are all in the
    /// bucket that begins there.
    pub buckets: Vec<(i32, u64)>,
}

impl HistogramSnapshot {
    /// The same counts in buckets of `schema`, exactly; a schema above 5 is
    /// taken as 5, which is how they are kept.
    #[must_use]
    pub fn native(&self, schema: u32) -> NativeBuckets {
        let schema = schema.min(SCHEMA);
        let mut native = NativeBuckets { schema, ..NativeBuckets::default() };
        for bucket in &self.buckets {
            let inner = bucket.index.min(BUCKETS - 1) as i32;
            if inner == 0 {
                native.zero_count = native.zero_count.saturating_add(bucket.count);
                continue;
            }
            let own = inner + (FIRST_POWER << SCHEMA);
            // Rounds up: a bucket is named by its upper bound.
            let merged = -(-own >> (SCHEMA - schema));
            match native.buckets.last_mut() {
                Some((index, count)) if *index == merged => {
                    *count = count.saturating_add(bucket.count);
                }
                _ => native.buckets.push((merged, bucket.count)),
            }
        }
        native
    }

    /// The same counts in classic buckets, exactly: upper bound in seconds and
    /// count, not cumulative. The bounds are always the same.
    #[must_use]
    pub fn classic(&self) -> [(f64, u64); CLASSIC_BOUNDS] {
        let native = self.native(0);
        let mut classic = std::array::from_fn(|at| {
            let power = at as i32 + FIRST_POWER;
            let last = at + 1 == CLASSIC_BOUNDS;
            (if last { f64::INFINITY } else { 2f64.powi(power) }, 0)
        });
        let zero = std::iter::once((FIRST_POWER, native.zero_count));
        for (power, count) in zero.chain(native.buckets) {
            if let Some((_, sum)) = classic.get_mut((power - FIRST_POWER) as usize) {
                *sum = count;
            }
        }
        classic
    }
}

#[cfg(all(test, not(metrale_loom)))]
mod tests {
    use super::{CLASSIC_BOUNDS, ZERO_THRESHOLD};
    use crate::instrument::{Bucket, HistogramSnapshot, NanosHistogram, SCHEMA};
    use crate::runtime::{BUCKETS, bucket_upper_ns};
    use num_bigint::BigUint;
    use proptest::prelude::*;

    /// Whether `ns <= 10^9 * 2^(index / 2^schema)`, by whole numbers.
    fn is_within(ns: u64, index: i32, schema: u32) -> bool {
        let root = 1u32 << schema;
        let (left, right) =
            (BigUint::from(ns).pow(root), BigUint::from(1_000_000_000u64).pow(root));
        if index >= 0 { left <= right << index } else { (left << -index) <= right }
    }

    fn of(ns: impl IntoIterator<Item = u64>) -> HistogramSnapshot {
        let histogram = NanosHistogram::new();
        ns.into_iter().for_each(|ns| histogram.observe(ns));
        histogram.snapshot()
    }

    #[test]
    fn each_value_is_within_the_bounds_of_its_bucket_at_every_schema() {
        let uppers = (0..BUCKETS - 1).filter_map(bucket_upper_ns);
        for ns in uppers.flat_map(|upper| [upper, upper + 1]) {
            for schema in 0..=SCHEMA {
                let native = of([ns]).native(schema);
                if native.zero_count == 1 {
                    assert!(is_within(ns, -22, 0), "{ns}");
                    continue;
                }
                let [(index, 1)] = native.buckets[..] else { panic!("{native:?}") };
                let is_over = !is_within(ns, 7, 0);
                assert!(is_over || is_within(ns, index, schema), "{ns}");
                assert!(!is_within(ns, index - 1, schema), "{ns}");
            }
        }
    }

    #[test]
    fn what_is_not_told_apart_stays_in_one_bucket_at_each_end() {
        let native = of([0, 1, 238, 239, 128_000_000_000, 128_000_000_001, u64::MAX]).native(3);
        assert_eq!(native.zero_count, 3);
        assert_eq!(native.buckets, [(-175, 1), (56, 1), (57, 2)]);
        assert_eq!(ZERO_THRESHOLD, 2f64.powi(-22));
    }

    #[test]
    fn an_index_beyond_the_last_counts_as_the_last() {
        let strange = HistogramSnapshot {
            exact: true,
            buckets: vec![Bucket { index: usize::MAX, count: 2, sum_ns: 1 }],
        };
        assert_eq!(strange.native(9).buckets, [(7 * 32 + 1, 2)]);
        assert_eq!(strange.classic()[CLASSIC_BOUNDS - 1], (f64::INFINITY, 2));
    }

    proptest! {
        #[test]
        fn classic_counts_are_those_of_the_values(
            values in prop::collection::vec(prop_oneof![0..2_000u64, any::<u64>(), 0..1u64 << 37], 0..100),
        ) {
            let classic = of(values.iter().copied()).classic();
            let mut sum = 0;
            for (at, (bound, count)) in classic.into_iter().enumerate() {
                sum += count;
                let within = |ns: &&u64| at == 30 || is_within(**ns, at as i32 - 22, 0);
                prop_assert_eq!(sum, values.iter().filter(within).count() as u64, "le {}", bound);
            }
            prop_assert_eq!((classic[0].0, classic[29].0), (ZERO_THRESHOLD, 128.0));
        }
    }
}
