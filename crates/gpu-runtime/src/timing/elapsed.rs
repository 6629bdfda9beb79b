// SPDX-License-Identifier: MIT OR Apache-2.0
//! The driver's elapsed time in whole nanoseconds.

/// Whole nanoseconds of the driver's f32 milliseconds, rounded in f64; `None`
/// for what is no duration.
pub(super) fn nanoseconds(milliseconds: f32) -> Option<u64> {
    let valid = milliseconds.is_finite() && milliseconds >= 0.0;
    valid.then(|| (f64::from(milliseconds) * 1e6).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::nanoseconds;

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
            -f32::MIN_POSITIVE,
        ] {
            assert_eq!(nanoseconds(invalid), None, "{invalid}");
        }
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
