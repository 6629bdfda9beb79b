// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rule `atomics`: in the telemetry crate only `src/sync.rs` names the standard
//! library's atomics or loom. What goes around that door is not seen by a model.

use super::{
    Violation,
    tokens::{Token, reads},
    tree::File,
};

const CRATE: &str = "crates/telemetry/src/";
const DOOR: &str = "crates/telemetry/src/sync.rs";

pub(super) fn check(file: &File) -> Vec<Violation> {
    let tokens = file.tokens();
    if !file.path.starts_with(CRATE) || file.path == DOOR {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let atomics = matches!(token.text.as_str(), "std" | "core")
            && leads_to(tokens, at + 1, &["sync", "atomic"]);
        if token.word && (token.text == "loom" || atomics) {
            let message = "only src/sync.rs names std::sync::atomic or loom; use crate::sync";
            found.push(file.at(token.line, "atomics", message));
        }
    }
    found
}

/// Whether the path that goes on at `at` with `::` names `path`, in braces or not.
fn leads_to(tokens: &[Token], at: usize, path: &[&str]) -> bool {
    let Some((first, rest)) = path.split_first() else {
        return true;
    };
    if !reads(tokens, at, &[":", ":"]) {
        return false;
    }
    let start = at + 2;
    if reads(tokens, start, &["{"]) {
        let mut each = start + 1;
        let end = tokens[start].close;
        let mut fresh = true;
        while each < end {
            if fresh && tokens[each].text == *first && leads_to(tokens, each + 1, rest) {
                return true;
            }
            fresh = tokens[each].text == ",";
            each = tokens[each].close + 1;
        }
        return false;
    }
    reads(tokens, start, &[first]) && leads_to(tokens, start + 1, rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fires(path: &str, text: &str) -> bool {
        !check(&File::new(path, text)).is_empty()
    }

    #[test]
    fn fires_on_every_way_around_the_door() {
        let ring = "crates/telemetry/src/kernel/ring.rs";
        for text in [
            "use std::sync::atomic::AtomicU64;",
            "use core::sync::atomic;",
            "use std::{fmt, sync::{Arc, atomic::{AtomicU64, Ordering}}};",
            "fn f(a: &std::sync::atomic::AtomicBool) {}",
            "#[cfg(test)] mod tests { use std::sync::atomic::AtomicU64; }",
            "fn f() { loom::model(|| {}) }",
        ] {
            assert!(fires(ring, text), "{text}");
            assert!(!fires(DOOR, text), "{text}");
            assert!(!fires("crates/telemetry/tests/a.rs", text), "{text}");
            assert!(!fires("crates/gpu-runtime/src/lib.rs", text), "{text}");
        }
        for text in [
            "use crate::sync::atomic::AtomicU64;",
            "use std::sync::Arc;",
            "use std::{sync::Arc, fmt};",
            "#[cfg(metrale_loom)] // loom\nfn f() {}",
        ] {
            assert!(!fires(ring, text), "{text}");
        }
    }
}
