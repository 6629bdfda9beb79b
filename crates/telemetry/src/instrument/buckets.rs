// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where a nanosecond value belongs among buckets that end exactly on
//! 2^(k/32) seconds, found from the whole number without a logarithm.
//!
//! The bounds are those of Prometheus native histograms at schema 5 and of
//! OpenTelemetry exponential histograms at scale 5 (upper bound inclusive).
//! In nanoseconds a bound is 10^9 * 2^(k/32), so only 32 mantissas occur. The
//! top six bits of a value's mantissa select a cell that holds at most one of
//! them: one add and one shift then give exponent and rank together.

/// Prometheus native-histogram schema of the buckets: 2^5 to an octave.
pub const SCHEMA: u32 = 5;

/// Number of buckets: one for all that is at most 2^-22 s (238.4 ns), 29
/// octaves of 32 up to 2^7 s (128 s), and one for all above.
pub const BUCKETS: usize = 1 + 29 * 32 + 1;

/// floor(10^9 * 2^(j/32) * 2^m), scaled by a power of two into [2^63, 2^64),
/// in ascending order: j = 4..=31 (m = 33), then j = 0..=3 (m = 34). Integer
/// arithmetic of any width gives them; a test repeats it.
const MANTISSAS: [u64; 32] = [
    0x81ff_a7a9_549c_a6e3,
    0x84d8_626d_3118_d396,
    0x87c1_1235_836d_16a3,
    0x8aba_1075_8e1e_a3cf,
    0x8dc3_b896_0164_a7d9,
    0x90de_67ff_f600_044c,
    0x940a_7e28_259f_b382,
    0x9748_5c9a_622a_db60,
    0x9a98_6705_4d51_2391,
    0x9dfb_0346_51c9_9c68,
    0xa170_9975_dfb0_6757,
    0xa4f9_93f3_ed7b_61ca,
    0xa896_5f74_bf06_5071,
    0xac47_6b0d_f43f_745f,
    0xb00d_2843_e106_0dc2,
    0xb3e8_0b17_2fd5_1af7,
    0xb7d8_8a12_d0dd_9ea0,
    0xbbdf_1e5a_373c_e5c6,
    0xbffc_43b7_e604_a922,
    0xc430_78ac_4ed4_7ae7,
    0xc87c_3e7d_03cd_bec3,
    0xcce0_1944_3eb5_6ce4,
    0xd15c_9000_bf21_1c1f,
    0xd5f2_2ca6_0197_43e0,
    0xdaa1_7c2c_d195_55db,
    0xdf6b_0ea4_3879_3a89,
    0xe44f_7742_cb56_e3dd,
    0xe94f_4c78_59ce_1066,
    0xee6b_2800_0000_0000,
    0xf3a3_a6f2_9dd0_c333,
    0xf8f9_69d9_b5ab_f948,
    0xfe6d_14c2_b511_4024,
];

/// Bits of an f64 mantissa below the bucket's rank.
const RANK_SHIFT: u32 = 52 - SCHEMA;
/// What turns exponent and rank into a bucket: exponent bias, and the 252
/// ranks between 1 ns and the end of the first bucket (see `bucket_index`).
const ORIGIN: u64 = (1023 << SCHEMA) + 252;
/// Values under this are in the first bucket, whatever their rank.
const FIRST_NS: u64 = 239;

/// Per cell of the mantissa: an addend that carries into the rank exactly when
/// the mantissa lies above the cell's bound.
const ADDENDS: [u64; 64] = addends();

const fn addends() -> [u64; 64] {
    let mut out = [0; 64];
    let width = 52 - (SCHEMA + 1);
    let mut cell = 0;
    let mut below = 0;
    while cell < 64 {
        // The largest 52-bit mantissa that still belongs below the bound; the
        // cell's own last value where no bound falls into it.
        let mut last = ((cell as u64 + 1) << width) - 1;
        let mut passed = below;
        if below < 32 {
            let bound = (MANTISSAS[below] << 1) >> 12;
            if bound >> width == cell as u64 {
                last = bound;
                passed += 1;
            }
        }
        out[cell] = ((below as u64 + 1) << RANK_SHIFT).wrapping_sub(last + 1);
        below = passed;
        cell += 1;
    }
    out
}

/// The bucket of a value in nanoseconds: 0 for the first (at most 238 ns),
/// `BUCKETS - 1` for values above 128 s.
#[inline]
#[must_use]
pub fn bucket_index(ns: u64) -> usize {
    match inner_index(ns) {
        Some(index) => index,
        None if ns < FIRST_NS => 0,
        None => BUCKETS - 1,
    }
}

/// The bucket of a value, where that is neither the last one nor the first for
/// a value so small that its rank is below the origin. One comparison covers
/// both ends, and the bound of an array of `BUCKETS`.
#[inline]
pub(super) fn inner_index(ns: u64) -> Option<usize> {
    // Values of 2^53 and more would round here; they are far above 128 s. From
    // 2^63 on the sign is set, which makes the rank greater than any bound.
    let bits = (ns as i64 as f64).to_bits();
    let cell = (bits >> (RANK_SHIFT - 1)) & 63;
    let rank = bits.wrapping_add(ADDENDS[cell as usize]) >> RANK_SHIFT;
    // Below the origin (0 to 233 ns) the difference wraps.
    let index = rank.wrapping_sub(ORIGIN);
    (index < BUCKETS as u64 - 1).then_some(index as usize)
}

/// Upper bound of a bucket in nanoseconds, rounded down to a whole one: the
/// largest value that belongs to it. `None` for the last bucket and beyond.
#[must_use]
pub fn bucket_upper_ns(index: usize) -> Option<u64> {
    if index >= BUCKETS - 1 {
        return None;
    }
    // Bucket i ends at rank i + 252: 32 ranks to a binade, counted from 1 ns.
    let rank = index + 252;
    let (exponent, place) = (rank / 32, rank % 32);
    Some(MANTISSAS[place] >> (63 - exponent))
}

#[cfg(test)]
mod tests {
    use super::{BUCKETS, MANTISSAS, bucket_index, bucket_upper_ns};
    use num_bigint::BigUint;

    /// Whether `ns <= 10^9 * 2^(k/32)`, decided with whole numbers:
    /// ns^32 <= 10^(9*32) * 2^k.
    fn at_most_bound(ns: u64, k: i64) -> bool {
        let left = BigUint::from(ns).pow(32);
        let right = BigUint::from(1_000_000_000u64).pow(32);
        if k >= 0 { left <= right << k } else { (left << -k) <= right }
    }

    #[test]
    fn mantissas_are_exact() {
        for (place, &mantissa) in MANTISSAS.iter().enumerate() {
            let (j, m) = if place < 28 { (place + 4, 33) } else { (place - 28, 34) };
            let bound = BigUint::from(1_000_000_000u64).pow(32) << (j + 32 * m);
            assert!(BigUint::from(mantissa).pow(32) <= bound, "place {place}");
            assert!(BigUint::from(mantissa as u128 + 1).pow(32) > bound, "place {place}");
        }
        assert!(MANTISSAS.is_sorted());
    }

    #[test]
    fn every_bound_is_where_exact_arithmetic_puts_it() {
        for index in 0..BUCKETS - 1 {
            let upper = bucket_upper_ns(index).unwrap();
            let k = index as i64 - 22 * 32;
            assert!(at_most_bound(upper, k), "bucket {index}");
            assert!(!at_most_bound(upper + 1, k), "bucket {index}");
            assert_eq!(bucket_index(upper), index);
            assert_eq!(bucket_index(upper + 1), index + 1);
        }
        assert_eq!(bucket_upper_ns(BUCKETS - 2), Some(128_000_000_000));
        assert_eq!(bucket_upper_ns(BUCKETS - 1), None);
    }

    #[test]
    fn ends_of_the_range() {
        for ns in [0, 1, 2, 100, 238] {
            assert_eq!(bucket_index(ns), 0, "{ns}");
        }
        assert_eq!(bucket_index(239), 1);
        for ns in [128_000_000_001, (1 << 53) + 1, u64::MAX / 2, u64::MAX] {
            assert_eq!(bucket_index(ns), BUCKETS - 1, "{ns}");
        }
    }
}
