// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rule `quiet`: the library crates run in somebody else's process, so outside of
//! test code they neither print nor panic.
//!
//! A place that must says so, on its line or the line before:
//! `// tidy: allow(panic): reason`, with the name of what is allowed.

use std::collections::BTreeSet;

use super::{
    Violation,
    tokens::{reads, test_only},
    tree::File,
};

/// The sources that this holds for.
const SOURCES: &[&str] = &[
    "crates/gpu-sys/src/",
    "crates/telemetry/src/",
    "crates/gpu-runtime/src/",
];

const MACROS: &[&str] = &[
    "print",
    "println",
    "eprint",
    "eprintln",
    "panic",
    "unreachable",
];
const METHODS: &[&str] = &["unwrap", "expect"];

/// Checks all files at once: a module's `#[cfg(test)]` may stand in another file.
pub(super) fn check(files: &[File]) -> Vec<Violation> {
    let ours = |file: &&File| SOURCES.iter().any(|source| file.path.starts_with(source));
    let tests: BTreeSet<String> = files.iter().filter(ours).flat_map(test_modules).collect();
    let in_tests = |file: &&File| {
        let stem = file.path.trim_end_matches(".rs");
        tests
            .iter()
            .any(|module| stem == module || stem.starts_with(&format!("{module}/")))
    };
    let sources = files.iter().filter(ours).filter(|file| !in_tests(file));
    sources.flat_map(check_file).collect()
}

/// Where the modules are that `file` declares for tests alone, without `.rs`.
fn test_modules(file: &File) -> Vec<String> {
    let tokens = file.tokens();
    let only = test_only(tokens);
    let (folder, name) = file.path.rsplit_once('/').unwrap_or(("", &file.path));
    let under = match name {
        "lib.rs" | "main.rs" | "mod.rs" => folder.to_owned(),
        other => format!("{folder}/{}", other.trim_end_matches(".rs")),
    };
    let declared = (0..tokens.len())
        .filter(|at| only[*at] && tokens[*at].text == "mod" && reads(tokens, at + 2, &[";"]));
    declared
        .map(|at| format!("{under}/{}", tokens[at + 1].text))
        .collect()
}

fn check_file(file: &File) -> Vec<Violation> {
    let tokens = file.tokens();
    let only = test_only(tokens);
    let lines: Vec<&str> = file.text.lines().collect();
    let mut found = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let name = token.text.as_str();
        let is_macro = MACROS.contains(&name) && reads(tokens, at + 1, &["!"]);
        let is_method =
            METHODS.contains(&name) && at > 0 && matches!(tokens[at - 1].text.as_str(), "." | ":");
        if only[at] || !token.word || !(is_macro || is_method) || allowed(&lines, token.line, name)
        {
            continue;
        }
        let message = format!(
            "`{name}` in a library: return a typed error or count it, or say `// tidy: allow({name}): reason`"
        );
        found.push(file.at(token.line, "quiet", message));
    }
    found
}

/// Whether the line or the one before allows `name`, with a reason.
fn allowed(lines: &[&str], line: usize, name: &str) -> bool {
    let mark = format!("// tidy: allow({name}):");
    lines[line.saturating_sub(2)..line.min(lines.len())]
        .iter()
        .filter_map(|text| text.split_once(&mark))
        .any(|(_, reason)| !reason.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIB: &str = "crates/telemetry/src/lib.rs";

    fn count(text: &str) -> usize {
        check(&[File::new(LIB, text)]).len()
    }

    #[test]
    fn fires_on_what_prints_or_panics() {
        for name in MACROS {
            assert_eq!(count(&format!("fn f() {{ {name}!(\"\"); }}")), 1, "{name}");
        }
        for name in METHODS {
            assert_eq!(count(&format!("fn f() {{ a.{name}(b) }}")), 1, "{name}");
            assert_eq!(
                count(&format!("fn f() {{ a.map(Result::{name}) }}")),
                1,
                "{name}"
            );
        }
        let text = "fn f() { panic!() }";
        assert_eq!(check(&[File::new("crates/replay/src/main.rs", text)]), []);
        assert_eq!(check(&[File::new("crates/telemetry/tests/a.rs", text)]), []);
    }

    #[test]
    fn leaves_tests_docs_and_lints_alone() {
        assert_eq!(
            count("#[cfg(test)]\nmod tests { fn f() { a.unwrap() } }"),
            0
        );
        assert_eq!(
            count("/// `a.unwrap()`\n// panic!()\nfn f() { a.unwrap_or(b) }"),
            0
        );
        assert_eq!(count("#[expect(dead_code)]\nfn expect() {}"), 0);
    }

    #[test]
    fn an_allowance_needs_the_name_and_a_reason() {
        let text = |comment: &str| format!("fn f() {{\n    {comment}\n    panic!()\n}}");
        assert_eq!(
            count(&text("// tidy: allow(panic): the contract says so")),
            0
        );
        assert_eq!(count(&text("// tidy: allow(panic):")), 1);
        assert_eq!(count(&text("// tidy: allow(unwrap): wrong name")), 1);
        assert_eq!(count("fn f() { panic!() } // tidy: allow(panic): here"), 0);
    }

    #[test]
    fn a_test_module_may_be_a_file_of_its_own() {
        let panics = "fn f() { panic!() }";
        let files = |declaration: &str| {
            [
                File::new(LIB, declaration),
                File::new("crates/telemetry/src/ring.rs", "#[cfg(test)] mod cases;"),
                File::new("crates/telemetry/src/checks.rs", panics),
                File::new("crates/telemetry/src/checks/deep.rs", panics),
                File::new("crates/telemetry/src/ring/cases.rs", panics),
            ]
        };
        assert_eq!(check(&files("#[cfg(test)] mod checks;")), []);
        assert_eq!(check(&files("mod checks;")).len(), 2);
    }
}
