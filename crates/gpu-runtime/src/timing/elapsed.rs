// SPDX-License-Identifier: MIT OR Apache-2.0
//! The driver's elapsed time in whole nanoseconds.

/// The longest span that is believed: an hour. A tick that wrapped reads as 584
/// years, and few such times overflow a sum.
pub(super) const LONGEST_SPAN_MS: f32 = 3.6e6;
/// The longest gap that is believed: 30 days. A server may be idle for long.
pub(super) const LONGEST_GAP_MS: f32 = 2.592e9;

/// Whole nanoseconds of the driver's f32 milliseconds, rounded in f64; `None`
/// for what is no duration, and for one that is longer than `longest_ms`.
pub(super) fn nanoseconds(milliseconds: f32, longest_ms: f32) -> Option<u64> {
    let valid = (0.0..=longest_ms).contains(&milliseconds);
    valid.then(|| (f64::from(milliseconds) * 1e6).round() as u64)
}

/// The longest place: up to here f32 milliseconds keep it to 0.25 µs.
const FARTHEST_NS: i64 = 4_000_000_000;

/// As [`nanoseconds`], for the way from an anchor: it may be negative, and is
/// at most 4 s.
pub(super) fn place_ns(milliseconds: f32) -> Option<i64> {
    // What is not a number becomes 0, what is too large the largest integer.
    let ns = (f64::from(milliseconds) * 1e6).round() as i64;
    let is_place = milliseconds.is_finite() && (-FARTHEST_NS..=FARTHEST_NS).contains(&ns);
    is_place.then_some(ns)
}

#[cfg(test)]
mod tests {
    use super::{LONGEST_GAP_MS, LONGEST_SPAN_MS, place_ns};

    #[test]
    fn a_place_has_a_sign_and_an_end() {
        assert_eq!(place_ns(-0.25), Some(-250_000));
        assert_eq!(place_ns(4_000.0), Some(4_000_000_000));
        for invalid in [f32::NAN, f32::INFINITY, f32::MAX, -4_000.1, 4_000.1, 1.8e13] {
            assert_eq!(place_ns(invalid), None, "{invalid}");
        }
    }

    fn nanoseconds(milliseconds: f32) -> Option<u64> {
        super::nanoseconds(milliseconds, LONGEST_SPAN_MS)
    }

    #[test]
    fn milliseconds_become_whole_nanoseconds_or_nothing() {
        assert_eq!(nanoseconds(0.0), Some(0));
        assert_eq!(nanoseconds(0.055_709), Some(55_709));
        assert_eq!(nanoseconds(-0.0), Some(0));
        for invalid in [
            -133.07,
            f32::NAN,
            f32::INFINITY,
            f32::NEG_INFINITY,
            f32::MAX,
            LONGEST_SPAN_MS.next_up(),
            -f32::MIN_POSITIVE,
        ] {
            assert_eq!(nanoseconds(invalid), None, "{invalid}");
        }
        assert_eq!(nanoseconds(LONGEST_SPAN_MS), Some(3_600_000_000_000));
        let days = super::nanoseconds(LONGEST_GAP_MS, LONGEST_GAP_MS);
        assert_eq!(days, Some(30 * 24 * 3_600_000_000_000));
    }

    #[test]
    fn spans_under_8_ms_keep_every_nanosecond() {
        for ns in (0..8_000_000u32).step_by(997) {
            assert_eq!(
                nanoseconds((f64::from(ns) / 1e6) as f32),
                Some(u64::from(ns))
            );
        }
    }
}
