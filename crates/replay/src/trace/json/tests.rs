// SPDX-License-Identifier: MIT OR Apache-2.0
//! Held against another parser.

use super::*;
use proptest::prelude::*;
use serde::de::{Deserialize, Deserializer, IgnoredAny, Visitor};

/// Gives three bytes at a time, so that every value crosses a refill.
struct Drip<'b>(&'b [u8]);

impl Read for Drip<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.0.len().min(3);
        self.0.read(&mut buffer[..count])
    }
}

/// A string's bytes, as another parser has them.
struct Bytes(Vec<u8>);

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(d: D) -> std::result::Result<Self, D::Error> {
        struct AsBytes;
        impl Visitor<'_> for AsBytes {
            type Value = Bytes;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a string")
            }
            fn visit_bytes<E>(self, bytes: &[u8]) -> std::result::Result<Bytes, E> {
                Ok(Bytes(bytes.to_vec()))
            }
        }
        d.deserialize_bytes(AsBytes)
    }
}

fn is_json(text: &[u8]) -> bool {
    serde_json::from_slice::<IgnoredAny>(text).is_ok()
}

fn text_of(bytes: &[u8]) -> Text {
    let mut json = Json::new(Drip(bytes));
    let mut text = Text::default();
    json.text(&mut text).expect("a value");
    json.end().expect("one value");
    assert_eq!(json.odd, u64::from(text.odd));
    text
}

/// Any document, or a part of one.
fn value() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<f64>().prop_map(Into::into),
        ".*".prop_map(Into::into),
    ];
    leaf.prop_recursive(5, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Into::into),
            prop::collection::hash_map(".*", inner, 0..6)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn good_documents_are_passed_over_whole(value in value(), pretty in any::<bool>()) {
        let text = match pretty {
            true => serde_json::to_vec_pretty(&value),
            false => serde_json::to_vec(&value),
        };
        let text = text.expect("written");
        let mut json = Json::new(Drip(&text));
        prop_assert_eq!(json.skip().expect("good"), value.is_string());
        json.end().expect("at its end");
        prop_assert_eq!(json.odd, 0);
    }

    #[test]
    fn a_document_cut_short_is_told(value in value(), cut in any::<prop::sample::Index>()) {
        let text = serde_json::to_vec(&[&value]).expect("written");
        let cut = 1 + cut.index(text.len() - 1);
        let told = Json::new(Drip(&text[..cut])).skip();
        prop_assert!(matches!(told, Err(JsonError::Syntax(reason)) if reason.contains("EOF")));
    }

    #[test]
    fn strings_are_what_another_parser_makes_of_them(pieces in prop::collection::vec(
        prop::sample::select(vec![
            "a", "é", "\\n", "\\\"", "\\\\", "\\/", "\\u00e9", "\\u0041", "\\ud83d", "\\ude00",
            "\\q", "\\u12", "\\u12zz", "\u{1}", "\n", "\u{7f}",
        ]), 0..8))
    {
        let quoted = format!("\"{}\"", pieces.concat());
        let text = text_of(quoted.as_bytes());
        prop_assert_eq!(text.kind, ValueKind::String);
        prop_assert_eq!(!text.odd, is_json(quoted.as_bytes()), "{}", quoted);
        if !text.odd {
            let other: Bytes = serde_json::from_str(&quoted).expect("good");
            prop_assert_eq!(text.bytes, other.0, "{}", quoted);
        }
    }

    #[test]
    fn words_are_json_where_another_parser_says_so(word in "[-+.0-9eEx]{1,6}|-?[0-9]{1,3}(\\.[0-9]{1,2})?([eE][-+]?[0-9]{1,2})?|[a-zA-Z#]{1,5}") {
        let text = text_of(word.as_bytes());
        let good = is_json(word.as_bytes())
            // A number, though out of an f64's range.
            || serde_json::from_str::<IgnoredAny>(&word)
                .is_err_and(|error| error.to_string().contains("out of range"));
        prop_assert_eq!(!text.odd, good, "{}", word);
        prop_assert_eq!(text.bytes, word.as_bytes());
    }
}

#[test]
fn what_is_left_out_or_one_comma_too_many() {
    for (text, odd) in [("[1,2,]", 0), ("{\"a\":1,}", 0), ("{\"a\":,\"b\":}", 2), ("[,]", 1)] {
        let mut json = Json::new(text.as_bytes());
        json.skip().expect(text);
        json.end().expect(text);
        assert_eq!(json.odd, odd, "{text}");
    }
    for text in ["[1 2]", "{\"a\" 1}", "{a:1}", "[1}", "{\"a\":1]", "{,}", "[1,", "{\"a\"", "\"a"] {
        assert!(Json::new(text.as_bytes()).skip().is_err(), "{text}");
    }
}
