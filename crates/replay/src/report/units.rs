// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers for people.
//!
//! Invariant: at most eight characters up to a thousand seconds, and never
//! more digits than are meaningful to compare by eye.

use std::fmt::Display;

/// A time with its unit: `999 ns`, `12.35 µs`, `156.5 ms`, `1.89 s`.
pub fn time(ns: u64) -> String {
    if ns < 1_000 {
        return format!("{ns} ns");
    }
    let value = ns as f64;
    // The next unit begins where rounding would show a thousand of this one.
    let (value, unit) = if value < 999.95e3 {
        (value / 1e3, "µs")
    } else if value < 999.95e6 {
        (value / 1e6, "ms")
    } else {
        (value / 1e9, "s")
    };
    let decimals = if value < 99.995 { 2 } else { 1 };
    format!("{value:.decimals$} {unit}")
}

/// A whole number in groups of three: `79,380`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// So many of a thing: `1 row`, `2 rows`.
pub fn number(n: u64, thing: &str) -> String {
    let s = if n == 1 { "" } else { "s" };
    format!("{} {thing}{s}", count(n))
}

/// The parts of a sum that are not 0, in words: `3 begun, 1 dropped`.
pub(super) fn listed(
    parts: impl IntoIterator<Item = (u64, impl Display)>,
    told: fn(u64) -> String,
    between: &str,
) -> String {
    let parts = parts.into_iter().filter(|(amount, _)| *amount > 0);
    let words: Vec<String> =
        parts.map(|(amount, what)| format!("{} {what}", told(amount))).collect();
    words.join(between)
}

/// A part of a whole: `12.3 %`; `-` of nothing.
pub fn share(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "-".to_owned();
    }
    format!("{:.1} %", part as f64 * 100.0 / whole as f64)
}

/// A share of 1 in percent: `12.3 %`.
pub fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_counts() {
        for (ns, text) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_000, "1.00 µs"),
            (99_994, "99.99 µs"),
            (99_996, "100.0 µs"),
            (999_949, "999.9 µs"),
            (999_951, "1.00 ms"),
            (156_466_417, "156.5 ms"),
            (1_893_200_007, "1.89 s"),
        ] {
            assert_eq!(time(ns), text);
        }
        assert_eq!([0, 999, 1_000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([0, 1, 1_000].map(|n| number(n, "row")), ["0 rows", "1 row", "1,000 rows"]);
        assert_eq!(share(1, 8), "12.5 %");
        assert_eq!(share(0, 0), "-");
    }
}
