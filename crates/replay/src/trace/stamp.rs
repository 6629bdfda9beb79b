// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decimal microseconds, as text, to whole nanoseconds.
//!
//! Invariant: the text is never a float on the way. An `f64` steps by a quarter
//! of a microsecond at the size of an epoch stamp. Digits below one nanosecond
//! are rounded half away from zero and reported as inexact.

/// A stamp or duration read from text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nanos {
    /// Whole nanoseconds.
    pub ns: i64,
    /// False where digits below one nanosecond were rounded away.
    pub exact: bool,
}

/// Why a text is not a stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadStamp {
    /// Not a decimal number.
    NotANumber,
    /// A number whose nanoseconds do not fit in an `i64`.
    OutOfRange,
}

/// Reads decimal microseconds (`12.345`, `1.2e3`, or either in quotes).
///
/// # Errors
///
/// [`BadStamp`] where the text is no decimal number or its nanoseconds pass
/// the range of an `i64`.
pub fn parse_us(text: &str) -> Result<Nanos, BadStamp> {
    let text = unquote(text).trim();
    let (negative, body) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (mantissa, exponent) = match body.find(['e', 'E']) {
        Some(at) => (&body[..at], parse_exponent(&body[at + 1..])?),
        None => (body, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all_digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    if whole.len() + fraction.len() == 0 || !all_digits(whole) || !all_digits(fraction) {
        return Err(BadStamp::NotANumber);
    }
    let digits = whole.bytes().chain(fraction.bytes());
    let zeros = digits.clone().take_while(|&b| b == b'0').count();
    let digits = digits.skip(zeros);
    // How many of the digits (zeros appended where they run out) stand before
    // the point once the number is in nanoseconds.
    let keep = exponent
        .saturating_add(3)
        .saturating_add_unsigned(whole.len() as u64)
        .saturating_sub_unsigned(zeros as u64);
    let significant = whole.len() + fraction.len() - zeros;
    if significant == 0 {
        return Ok(Nanos { ns: 0, exact: true });
    }
    if keep > 19 {
        return Err(BadStamp::OutOfRange);
    }
    if keep < 0 {
        return Ok(Nanos { ns: 0, exact: false });
    }
    let keep = keep as usize;
    let mut value: u64 = 0;
    for digit in digits.clone().chain(std::iter::repeat(b'0')).take(keep) {
        // Nineteen digits stay below 10^19, which fits.
        value = value * 10 + u64::from(digit - b'0');
    }
    let mut rest = digits.skip(keep);
    let first = rest.next().unwrap_or(b'0');
    value += u64::from(first >= b'5');
    let exact = first == b'0' && rest.all(|b| b == b'0');
    let value = i64::try_from(value).map_err(|_| BadStamp::OutOfRange)?;
    Ok(Nanos { ns: if negative { -value } else { value }, exact })
}

fn parse_exponent(text: &str) -> Result<i64, BadStamp> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(BadStamp::NotANumber);
    }
    // Saturates far beyond any length of mantissa a file can hold.
    let value = digits.bytes().fold(0i64, |sum, b| {
        sum.saturating_mul(10).saturating_add(i64::from(b - b'0')).min(i64::MAX / 4)
    });
    Ok(if negative { -value } else { value })
}

/// The text without one pair of double quotes around it.
pub(crate) fn unquote(text: &str) -> &str {
    text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ns(text: &str) -> Result<(i64, bool), BadStamp> {
        parse_us(text).map(|n| (n.ns, n.exact))
    }

    #[test]
    fn decimals_are_exact() {
        assert_eq!(ns("1712195495520883.217"), Ok((1_712_195_495_520_883_217, true)));
        assert_eq!(ns("0.001"), Ok((1, true)));
        assert_eq!(ns("-1.5"), Ok((-1500, true)));
        assert_eq!(ns("\"12.25\""), Ok((12_250, true)));
        assert_eq!(ns("1.2345"), Ok((1235, false)));
        assert_eq!(ns("0.0004"), Ok((0, false)));
        assert_eq!(ns("0.0005"), Ok((1, false)));
        assert_eq!(ns("000012.500000000000"), Ok((12_500, true)));
    }

    #[test]
    fn exponents_are_exact() {
        assert_eq!(ns("1.712195495520883217e15"), Ok((1_712_195_495_520_883_217, true)));
        assert_eq!(ns("25E-1"), Ok((2500, true)));
        assert_eq!(ns("1e-3"), Ok((1, true)));
        assert_eq!(ns("1e-99999999999999999999"), Ok((0, false)));
        assert_eq!(ns("0e99999999999999999999"), Ok((0, true)));
        assert_eq!(ns("1e99999999999999999999"), Err(BadStamp::OutOfRange));
    }

    #[test]
    fn the_edges_are_refused() {
        assert_eq!(ns("9223372036854775.807"), Ok((i64::MAX, true)));
        assert_eq!(ns("9223372036854775.808"), Err(BadStamp::OutOfRange));
        assert_eq!(ns("9223372036854775808"), Err(BadStamp::OutOfRange));
        for text in ["", "-", ".", "NaN", "inf", "1.2.3", "1e", "0x10", "null", "\""] {
            assert_eq!(ns(text), Err(BadStamp::NotANumber), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn three_decimals_round_trip(value in -i64::MAX..i64::MAX, shift in 0i32..12) {
            let sign = if value < 0 { "-" } else { "" };
            let abs = value.unsigned_abs();
            let plain = format!("{sign}{}.{:03}", abs / 1000, abs % 1000);
            prop_assert_eq!(ns(&plain), Ok((value, true)));
            let exponent = format!("{sign}{abs}{}e-{}", "0".repeat(shift as usize), shift + 3);
            prop_assert_eq!(ns(&exponent), Ok((value, true)));
        }

        #[test]
        fn no_text_panics(text in "\\PC*") {
            let _ = parse_us(&text);
        }
    }
}
