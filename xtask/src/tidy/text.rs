// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rules that need the text of one file and nothing else.

use super::{Violation, tree::File};

/// What no line of certain files is: the rule, the files, the line, and what to do.
type Rule = (&'static str, fn(path: &str) -> bool, fn(line: &str) -> bool, &'static str);

const RULES: &[Rule] = &[
    ("words", |_| true, |line| holds(line, UNFINISHED), "unfinished: do it or file an issue"),
    ("words", is_rust, is_ignored_test, "an ignored test never fails: fix it or delete it"),
    ("paths", |_| true, names_folder, "a path of one machine; write it from the root"),
    ("paths", |path| path.ends_with(".toml"), chooses_source, MIRROR),
    ("paths", |path| path.ends_with("Cargo.lock"), is_other_source, MIRROR),
    // What goes around that door is not seen by a model. A lint on the types would
    // also see them behind the door.
    ("atomics", is_before_door, |line| holds(code(line), ATOMICS), "use crate::sync"),
];

// Words and folders are put together here, so that this file may name them.
const UNFINISHED: &[&str] = &[concat!("FIX", "ME"), concat!("X", "XX")];
const FOLDERS: &[&str] = &["work", "home", "tmp", "root", "Users"];
const MIRROR: &str = "packages come from crates.io; a mirror is one machine's own affair";
const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";
/// Tables of cargo's configuration that choose where packages come from.
const SOURCES: &[&str] = &["[source", "[registries", "[registry", "registry ="];
/// In the telemetry crate only its `sync.rs` names the standard library's atomics or loom.
const ATOMICS: &[&str] = &["atomic", "loom"];
const DOOR: &str = "crates/telemetry/src/sync.rs";

const LICENCE: &str = "SPDX-License-Identifier: MIT OR Apache-2.0";
/// The most lines of a Rust source.
const LINES: usize = 440;

pub(super) fn check(file: &File) -> Vec<Violation> {
    let mut found: Vec<Violation> = licence(file).into_iter().collect();
    let count = file.text.lines().count();
    if is_rust(&file.path) && count > LINES {
        let message = format!("{count} lines, at most {LINES}: split it by subject");
        found.push(file.at(0, "length", message));
    }
    for (rule, _, is_wrong, message) in RULES.iter().filter(|rule| rule.1(&file.path)) {
        let wrong = (1..).zip(file.text.lines()).filter(|(_, line)| is_wrong(line));
        found.extend(wrong.map(|(line, _)| file.at(line, rule, *message)));
    }
    found
}

/// Every source file says its licence in its first line, a script in its second, after
/// the `#!`.
fn licence(file: &File) -> Option<Violation> {
    let is_script = file.text.starts_with("#!") && !is_rust(&file.path);
    let hash = [".toml", ".sh", ".yml", ".yaml", ".py"];
    let mark = match is_rust(&file.path) {
        true => "//",
        false if is_script || hash.iter().any(|ending| file.path.ends_with(ending)) => "#",
        false => return None,
    };
    let (expected, before) = (format!("{mark} {LICENCE}"), usize::from(is_script));
    let is_there = file.text.lines().nth(before).is_some_and(|line| line == expected);
    let message = || format!("this line must be `{expected}`");
    (!is_there).then(|| file.at(before + 1, "spdx", message()))
}

fn is_rust(path: &str) -> bool {
    path.ends_with(".rs")
}

fn is_before_door(path: &str) -> bool {
    path.starts_with("crates/telemetry/src/") && path != DOOR
}

fn code(line: &str) -> &str {
    line.split("//").next().unwrap_or_default()
}

fn holds(line: &str, words: &[&str]) -> bool {
    line.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| words.contains(&word))
}

fn is_ignored_test(line: &str) -> bool {
    line.trim_start().starts_with("#[ignore")
}

/// Whether the line has such a folder where an absolute path starts.
fn names_folder(line: &str) -> bool {
    line.match_indices('/').any(|(at, _)| {
        let first = line[at + 1..].split_once('/').is_some_and(|(name, _)| FOLDERS.contains(&name));
        let before = line[..at].chars().next_back();
        first && before.is_none_or(|c| !(c.is_alphanumeric() || "._-/~}$".contains(c)))
    })
}

fn chooses_source(line: &str) -> bool {
    SOURCES.iter().any(|table| line.trim_start().starts_with(table))
}

fn is_other_source(line: &str) -> bool {
    line.starts_with("source = ") && !line.contains(CRATES_IO)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fires(rule: &str, path: &str, text: &str) -> bool {
        check(&File::new(path, text)).iter().any(|violation| violation.rule == rule)
    }

    #[test]
    fn words_fires_on_what_is_unfinished() {
        assert!(fires("words", "a.rs", "#[test]\n    #[ignore = \"slow\"]\nfn f() {}"));
        for word in UNFINISHED {
            assert!(fires("words", "a.rs", &format!("// {word}: later\n")), "{word}");
            assert!(fires("words", "a.md", &format!("a {word} b\n")), "{word}");
            assert!(!fires("words", "a.md", &format!("a{word}b\n")), "{word}");
        }
    }

    #[test]
    fn length_fires_on_long_sources() {
        assert!(!fires("length", "a.rs", &"\n".repeat(LINES)));
        assert!(fires("length", "a.rs", &"\n".repeat(LINES + 1)));
        assert!(!fires("length", "a.md", &"\n".repeat(LINES + 1)));
    }

    #[test]
    fn paths_fires_on_folders_of_one_machine_and_other_sources() {
        for folder in FOLDERS {
            assert!(fires("paths", "a.md", &format!("see /{folder}/x")), "{folder}");
            assert!(fires("paths", "a.toml", &format!("a = \"/{folder}/x\"")), "{folder}");
            assert!(!fires("paths", "a.md", &format!("see ../{folder}/x")), "{folder}");
            assert!(!fires("paths", "a.md", &format!("https://a.org/{folder}/x")), "{folder}");
        }
        assert!(!fires("paths", "Cargo.lock", &format!("source = \"{CRATES_IO}\"")));
        assert!(fires("paths", "Cargo.lock", "source = \"registry+https://a.org/index\""));
        assert!(fires("paths", "Cargo.lock", "source = \"git+https://a.org/b#1\""));
        assert!(fires("paths", ".cargo/config.toml", "[source.crates-io]"));
        assert!(fires("paths", ".cargo/config.toml", "[registries.other]"));
        assert!(!fires("paths", "a.md", "[source](a.md)"));
    }

    #[test]
    fn atomics_fires_on_every_way_around_the_door() {
        let ring = "crates/telemetry/src/kernel/ring.rs";
        for text in [
            "use std::sync::atomic::AtomicU64;",
            "use core::sync::atomic;",
            "use std::{fmt, sync::{Arc,\n atomic::{AtomicU64, Ordering}}};",
            "fn f() { loom::model(|| {}) }",
        ] {
            assert!(fires("atomics", ring, text), "{text}");
            for path in [DOOR, "crates/telemetry/tests/a.rs", "crates/gpu-runtime/src/lib.rs"] {
                assert!(!fires("atomics", path, text), "{path}: {text}");
            }
        }
        let behind = "use crate::sync::AtomicU64;\n#[cfg(metrale_loom)] // loom\nfn f() {}";
        assert!(!fires("atomics", ring, behind));
    }

    #[test]
    fn spdx_fires_where_the_line_is_not_first() {
        let (rust, hash) = (format!("// {LICENCE}\nfn a() {{}}\n"), format!("# {LICENCE}\n"));
        assert!(!fires("spdx", "a.rs", &rust));
        for text in [&format!("\n{rust}"), &hash, "// SPDX-License-Identifier: MIT\n", ""] {
            assert!(fires("spdx", "a.rs", text), "{text}");
        }
        for path in ["a.toml", "a.sh", ".github/workflows/a.yml"] {
            assert!(!fires("spdx", path, &hash), "{path}");
            assert!(fires("spdx", path, "key = 1\n"), "{path}");
        }
        assert!(!fires("spdx", ".ci/run", &format!("#!/bin/sh\n{hash}")));
        assert!(fires("spdx", ".ci/run", "#!/bin/sh\nset -e\n"));
        assert!(!fires("spdx", "Cargo.lock", "version = 4\n"));
    }
}
