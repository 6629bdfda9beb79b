// SPDX-License-Identifier: MIT OR Apache-2.0
//! The driver's elapsed time in whole nanoseconds, where it can be one.
//!
//! Nothing on the GPU takes longer than the host's clock saw pass since before it
//! began, but for what the two clocks differ by. A tick that wrapped reads as 584
//! years.

/// The longest span that is believed: an hour.
const LONGEST_SPAN_NS: u64 = 3_600_000_000_000;
/// The longest place: up to here f32 milliseconds keep it to 0.25 µs.
const FARTHEST_NS: i64 = 4_000_000_000;

/// Whole nanoseconds of the driver's f32 milliseconds, rounded in f64; `None` for
/// what is infinite or no number.
fn nanoseconds(milliseconds: f32) -> Option<i64> {
    // What is too large becomes the largest integer.
    let is_time = milliseconds.is_finite();
    is_time.then(|| (f64::from(milliseconds) * 1e6).round() as i64)
}

/// The most that the GPU's clock may say where the host's says `host_ns`.
fn longest_ns(host_ns: u64) -> u64 {
    let slack_ns = 1_000_000_000 + host_ns / 10;
    host_ns.saturating_add(slack_ns)
}

/// A span that began no longer than `host_ns` ago. Below zero is no duration.
pub(super) fn span_ns(milliseconds: f32, host_ns: u64) -> Option<u64> {
    let ns = nanoseconds(milliseconds).filter(|_| milliseconds >= 0.0)?;
    let ns = ns.unsigned_abs();
    (ns <= LONGEST_SPAN_NS.min(longest_ns(host_ns))).then_some(ns)
}

/// The time between two spans of which none began longer than `host_ns` ago; it
/// is below zero where they overlap. A server may be idle for days.
pub(super) fn gap_ns(milliseconds: f32, host_ns: u64) -> Option<i64> {
    nanoseconds(milliseconds).filter(|ns| ns.unsigned_abs() <= longest_ns(host_ns))
}

/// The way from an anchor: it may be below zero, and is at most 4 s.
pub(super) fn place_ns(milliseconds: f32) -> Option<i64> {
    nanoseconds(milliseconds).filter(|ns| (-FARTHEST_NS..=FARTHEST_NS).contains(ns))
}

#[cfg(test)]
mod tests {
    use super::{gap_ns, place_ns, span_ns};

    const SECOND: u64 = 1_000_000_000;
    const HOUR: u64 = 3_600 * SECOND;

    #[test]
    fn a_place_has_a_sign_and_an_end() {
        assert_eq!(place_ns(-0.25), Some(-250_000));
        assert_eq!(place_ns(4_000.0), Some(4_000_000_000));
        for invalid in [f32::NAN, f32::INFINITY, f32::MAX, -4_000.1, 4_000.1, 1.8e13] {
            assert_eq!(place_ns(invalid), None, "{invalid}");
        }
    }

    #[test]
    fn milliseconds_become_whole_nanoseconds_or_nothing() {
        let span_ns = |ms| span_ns(ms, u64::MAX);
        assert_eq!(span_ns(0.0), Some(0));
        assert_eq!(span_ns(0.055_709), Some(55_709));
        assert_eq!(span_ns(-0.0), Some(0));
        let hour_ms = 3.6e6_f32;
        for invalid in [
            -133.07,
            f32::NAN,
            f32::INFINITY,
            f32::NEG_INFINITY,
            f32::MAX,
            hour_ms.next_up(),
            -f32::MIN_POSITIVE,
        ] {
            assert_eq!(span_ns(invalid), None, "{invalid}");
        }
        assert_eq!(span_ns(hour_ms), Some(HOUR));
    }

    #[test]
    fn nothing_takes_longer_than_the_host_waited() {
        for (host_s, longest_s) in [(0, 1_u8), (10, 12), (100, 111)] {
            let (host_ns, longest_ns) = (host_s * SECOND, u64::from(longest_s) * SECOND);
            let longest_ms = f32::from(longest_s) * 1e3;
            assert_eq!(span_ns(longest_ms, host_ns), Some(longest_ns));
            assert_eq!(span_ns(longest_ms.next_up(), host_ns), None);
            let gap = i64::try_from(longest_ns).ok();
            assert_eq!(gap_ns(longest_ms, host_ns), gap);
            assert_eq!(gap_ns(-longest_ms, host_ns), gap.map(|ns| -ns));
            assert_eq!(gap_ns(longest_ms.next_up(), host_ns), None);
            assert_eq!(gap_ns(-longest_ms.next_up(), host_ns), None);
        }
        let month = 720 * HOUR;
        assert_eq!(gap_ns(2.592e9, month), i64::try_from(month).ok());
        for impossible in [f32::NAN, f32::INFINITY, f32::MAX, f32::MIN, 1.8e13] {
            assert_eq!(gap_ns(impossible, month), None, "{impossible}");
        }
    }

    #[test]
    fn spans_under_8_ms_keep_every_nanosecond() {
        for ns in (0..8_000_000u32).step_by(997) {
            let ms = (f64::from(ns) / 1e6) as f32;
            assert_eq!(span_ns(ms, 0), Some(u64::from(ns)));
        }
    }
}
