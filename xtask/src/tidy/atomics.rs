// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rule `atomics`: in the telemetry crate only `src/sync.rs` names the standard
//! library's atomics or loom. What goes around that door is not seen by a model.
//! A lint on the types would also see them behind the door.

use super::{Violation, tree::File};

const CRATE: &str = "crates/telemetry/src/";
const DOOR: &str = "crates/telemetry/src/sync.rs";

pub(super) fn check(file: &File) -> Vec<Violation> {
    if !file.path.starts_with(CRATE) || file.path == DOOR {
        return Vec::new();
    }
    let names = |text: &str| {
        let code = text.split("//").next().unwrap_or_default();
        let mut words = code.split(|c: char| !c.is_alphanumeric() && c != '_');
        words.any(|word| matches!(word, "atomic" | "loom"))
    };
    let around = file.lines().filter(|(_, text)| names(text));
    let message = "only src/sync.rs names std::sync::atomic or loom; use crate::sync";
    around.map(|(line, _)| file.at(line, "atomics", message)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fires_on_every_way_around_the_door() {
        let fires = |path: &str, text: &str| !check(&File::new(path, text)).is_empty();
        let ring = "crates/telemetry/src/kernel/ring.rs";
        for text in [
            "use std::sync::atomic::AtomicU64;",
            "use core::sync::atomic;",
            "use std::{fmt, sync::{Arc,\n atomic::{AtomicU64, Ordering}}};",
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
            "use crate::sync::AtomicU64;",
            "use std::{sync::Arc, fmt};",
            "#[cfg(metrale_loom)] // loom\nfn f() {}",
        ] {
            assert!(!fires(ring, text), "{text}");
        }
    }
}
