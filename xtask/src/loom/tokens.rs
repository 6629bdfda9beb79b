// SPDX-License-Identifier: MIT OR Apache-2.0
//! A Rust source as a flat list of tokens with their lines.
//!
//! Comments are not tokens and a literal is one token, so a rule that looks at
//! tokens cannot be fooled by text. Doc comments become `#[doc = "…"]`.

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// A token.
#[derive(Debug, Clone)]
pub(crate) struct Token {
    /// As written; a delimiter is one of `( ) { } [ ]`. An operator of several
    /// characters is several tokens.
    pub(crate) text: String,
    /// From 1.
    pub(crate) line: usize,
    /// For an opening delimiter, the index of its partner; else its own index.
    pub(crate) close: usize,
    /// Whether it is an identifier or keyword.
    pub(crate) word: bool,
}

/// The tokens of a source, or `None` where it is not Rust.
pub(crate) fn read(source: &str) -> Option<Vec<Token>> {
    let mut tokens = Vec::new();
    flatten(source.parse().ok()?, &mut tokens);
    Some(tokens)
}

fn flatten(stream: TokenStream, tokens: &mut Vec<Token>) {
    for tree in stream {
        let word = matches!(tree, TokenTree::Ident(_));
        match tree {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::None => ("", ""),
                };
                let at = tokens.len();
                push(tokens, open.to_owned(), group.span_open(), false);
                flatten(group.stream(), tokens);
                tokens[at].close = tokens.len();
                push(tokens, close.to_owned(), group.span_close(), false);
            }
            leaf => push(tokens, leaf.to_string(), leaf.span(), word),
        }
    }
}

fn push(tokens: &mut Vec<Token>, text: String, span: proc_macro2::Span, word: bool) {
    tokens.push(Token {
        text,
        line: span.start().line,
        close: tokens.len(),
        word,
    });
}

/// Whether the tokens from `at` on read `pattern`.
pub(crate) fn reads(tokens: &[Token], at: usize, pattern: &[&str]) -> bool {
    tokens.get(at..at + pattern.len()).is_some_and(|found| {
        found
            .iter()
            .zip(pattern)
            .all(|(token, text)| token.text == *text)
    })
}

/// For each token, whether it is part of code that only tests build: an item under
/// `#[cfg(test)]` or `#[test]`, or a whole file under `#![cfg(test)]`.
pub(crate) fn test_only(tokens: &[Token]) -> Vec<bool> {
    let mut only = vec![false; tokens.len()];
    let mut at = 0;
    while at < tokens.len() {
        let inner = reads(tokens, at, &["#", "!", "["]);
        if !inner && !reads(tokens, at, &["#", "["]) {
            at += 1;
            continue;
        }
        let open = at + 1 + usize::from(inner);
        let end = tokens[open].close;
        if !is_test(&tokens[open + 1..end]) {
            at = end + 1;
            continue;
        }
        let last = if inner {
            tokens.len()
        } else {
            item_end(tokens, end + 1)
        };
        only[at..last].fill(true);
        at = last;
    }
    only
}

/// Whether an attribute's content says that only tests build its item.
fn is_test(attribute: &[Token]) -> bool {
    match attribute {
        [only] => only.text == "test",
        [cfg, open, predicate @ .., _] => {
            cfg.text == "cfg" && open.text == "(" && needs_test(predicate)
        }
        _ => false,
    }
}

/// Whether a cfg predicate can hold only in a test build.
fn needs_test(predicate: &[Token]) -> bool {
    let mut parts = match predicate {
        [word] => return word.text == "test",
        [_, open, inner @ .., _] if open.text == "(" => split_at_commas(inner).into_iter(),
        _ => return false,
    };
    match predicate[0].text.as_str() {
        "all" => parts.any(needs_test),
        "any" => parts.all(needs_test),
        _ => false,
    }
}

/// The parts between the commas that are in no inner group.
fn split_at_commas(tokens: &[Token]) -> Vec<&[Token]> {
    let mut depth = 0usize;
    let parts = tokens.split(|token| {
        match token.text.as_str() {
            "(" => depth += 1,
            ")" => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && token.text == ","
    });
    parts.filter(|part| !part.is_empty()).collect()
}

/// Where the item that starts at `at` ends (one past it). What is no item (a field, a
/// match arm, an expression) ends at the first comma or with its group.
fn item_end(tokens: &[Token], mut at: usize) -> usize {
    const ITEMS: &[&str] = &[
        "async",
        "const",
        "enum",
        "extern",
        "fn",
        "impl",
        "let",
        "macro_rules",
        "mod",
        "static",
        "struct",
        "trait",
        "type",
        "union",
        "unsafe",
        "use",
    ];
    while reads(tokens, at, &["#", "["]) {
        at = tokens[at + 1].close + 1;
    }
    if reads(tokens, at, &["pub"]) {
        at += 1;
        if reads(tokens, at, &["("]) {
            at = tokens[at].close + 1;
        }
    }
    let item = tokens
        .get(at)
        .is_some_and(|token| ITEMS.contains(&token.text.as_str()));
    let import = reads(tokens, at, &["use"]);
    while let Some(token) = tokens.get(at) {
        match token.text.as_str() {
            ";" => return at + 1,
            "," if !item => return at + 1,
            "{" if !import => return token.close + 1,
            "}" | ")" | "]" => return at,
            _ => at = token.close + 1,
        }
    }
    tokens.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words of `source` that are outside test code.
    fn kept(source: &str) -> String {
        let tokens = read(source).expect("Rust");
        let only = test_only(&tokens);
        let kept = tokens
            .iter()
            .zip(only)
            .filter(|(token, only)| token.word && !only);
        kept.map(|(token, _)| token.text.as_str())
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn comments_and_literals_are_not_words() {
        let tokens = read("/// unsafe\nfn a() { let _ = \"unsafe\"; /* unsafe */ }").expect("Rust");
        assert!(
            tokens
                .iter()
                .all(|token| !token.word || token.text != "unsafe")
        );
        let brace = tokens
            .iter()
            .find(|token| token.text == "{")
            .expect("a brace");
        assert_eq!(brace.line, 2);
        assert_eq!(tokens[brace.close].text, "}");
    }

    #[test]
    fn test_code_ends_where_its_item_ends() {
        for (source, expected) in [
            ("#[cfg(test)] mod t { a } fn b() {}", "fn b"),
            ("#[cfg(test)] mod t; fn b() {}", "fn b"),
            (
                "#[test] #[ignore] fn t(a: [u8; 2]) -> X { a } fn b() {}",
                "fn b",
            ),
            ("#[cfg(test)] pub(crate) use a::{b, c}; fn d() {}", "fn d"),
            ("#[cfg(all(test, unix))] impl A { x } struct B;", "struct B"),
            (
                "#[cfg(all(unix, any(test), not(x)))] mod t; fn b() {}",
                "fn b",
            ),
            ("#[cfg(not(test))] fn b() {}", "cfg not test fn b"),
            (
                "#[cfg(any(test, unix))] fn b() {}",
                "cfg any test unix fn b",
            ),
            ("struct S { #[cfg(test)] a: A, b: B }", "struct S b B"),
            ("match x { #[cfg(test)] A => {} B => c }", "match x B c"),
            ("#![cfg(test)] fn a() {}", ""),
        ] {
            assert_eq!(kept(source), expected, "{source}");
        }
    }
}
