// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a bare word and an escape mean.

/// Adds a UTF-16 unit. Half a surrogate pair is kept in three bytes, as UTF-8
/// would have it, so that names which differ stay different.
pub(super) fn push_unit(text: &mut Vec<u8>, unit: u32) {
    let mut character = char::from_u32(unit);
    if let (0xdc00..0xe000, Some(&[0xed, high @ 0xa0..0xb0, low])) = (unit, text.last_chunk()) {
        let high = u32::from(high & 0x0f) << 6 | u32::from(low & 0x3f);
        text.truncate(text.len() - 3);
        character = char::from_u32(0x1_0000 + (high << 10) + (unit - 0xdc00));
    }
    match character {
        Some(character) => text.extend(character.encode_utf8(&mut [0; 4]).as_bytes()),
        None => text.extend([
            0xe0 | (unit >> 12) as u8,
            0x80 | (unit >> 6 & 0x3f) as u8,
            0x80 | (unit & 0x3f) as u8,
        ]),
    }
}

/// Whether a bare word is JSON.
pub(super) fn is_scalar(word: &[u8]) -> bool {
    if matches!(word, b"true" | b"false" | b"null") {
        return true;
    }
    // The digits at the begin of a text, and what follows them.
    let digits =
        |text: &'_ [u8]| -> usize { text.iter().take_while(|b| b.is_ascii_digit()).count() };
    let word = word.strip_prefix(b"-").unwrap_or(word);
    let whole = digits(word);
    if whole == 0 || (whole > 1 && word[0] == b'0') {
        return false;
    }
    let mut rest = &word[whole..];
    if let Some(fraction) = rest.strip_prefix(b".") {
        let count = digits(fraction);
        if count == 0 {
            return false;
        }
        rest = &fraction[count..];
    }
    if let Some((b'e' | b'E', exponent)) = rest.split_first() {
        let exponent =
            exponent.strip_prefix(b"+").or(exponent.strip_prefix(b"-")).unwrap_or(exponent);
        let count = digits(exponent);
        return count > 0 && count == exponent.len();
    }
    rest.is_empty()
}
