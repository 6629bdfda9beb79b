// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the telemetry sources name a memory ordering, tests aside.

use super::tokens::{self, Token, reads, test_only};
use crate::tidy::tree::File;

/// The sources that the models run.
const SOURCES: &str = "crates/telemetry/src/";

/// One ordering of one atomic access.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Site {
    /// From the project's root.
    pub(super) path: String,
    /// The function around it.
    pub(super) function: String,
    /// What is accessed and how, `word.load`; or `fence`.
    pub(super) access: String,
    /// The ordering's name.
    pub(super) ordering: String,
    /// From 1.
    pub(super) line: usize,
    /// How many orderings its line names before it.
    pub(super) nth: usize,
}

/// Whether `path` is a source that ships.
fn ships(path: &str) -> bool {
    path.starts_with(SOURCES) && !path.contains("/tests/") && !path.ends_with("/tests.rs")
}

/// The sites of all files, by path and line.
pub(super) fn all(files: &[File]) -> Vec<Site> {
    let shipped = files.iter().filter(|file| ships(&file.path));
    shipped.flat_map(of_file).collect()
}

fn of_file(file: &File) -> Vec<Site> {
    let tokens = &tokens::read(&file.text).unwrap_or_default();
    let tests = test_only(tokens);
    let mut sites: Vec<Site> = Vec::new();
    for at in 0..tokens.len() {
        if tests[at] || !reads(tokens, at, &["Ordering", ":", ":"]) {
            continue;
        }
        // An import or a type, not an access.
        let (Some(name), Some(access)) = (tokens.get(at + 3), access(tokens, at)) else {
            continue;
        };
        let line = tokens[at].line;
        let before = |site: &&Site| site.line == line;
        sites.push(Site {
            path: file.path.clone(),
            function: function(tokens, at),
            access,
            ordering: name.text.clone(),
            line,
            nth: sites.iter().filter(before).count(),
        });
    }
    sites
}

/// The call whose argument the token at `at` is.
fn access(tokens: &[Token], at: usize) -> Option<String> {
    let open = (0..at)
        .rev()
        .find(|&open| tokens[open].text == "(" && tokens[open].close > at)?;
    let method = open.checked_sub(1).filter(|&method| tokens[method].word)?;
    let call = &tokens[method].text;
    if method < 2 || tokens[method - 1].text != "." {
        return Some(call.clone());
    }
    let mut object = method - 2;
    if tokens[object].text == "]" {
        object = (0..object)
            .rev()
            .find(|&open| tokens[open].close == object)?;
        object = object.checked_sub(1)?;
    }
    match tokens[object].text.as_str() {
        "self" => Some(call.clone()),
        name if tokens[object].word => Some(format!("{name}.{call}")),
        field => Some(format!("self.{field}.{call}")),
    }
}

/// The innermost function around the token at `at`.
fn function(tokens: &[Token], at: usize) -> String {
    let mut inside = "";
    for start in 0..at {
        if !reads(tokens, start, &["fn"]) || !tokens[start + 1].word {
            continue;
        }
        let mut body = start;
        while body < at && !matches!(tokens[body].text.as_str(), "{" | ";") {
            body = tokens[body].close + 1;
        }
        if body < at && tokens[body].close > at {
            inside = &tokens[start + 1].text;
        }
    }
    inside.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<(String, String, String, usize)> {
        let file = File::new("crates/telemetry/src/a.rs", text);
        let parts = |site: Site| (site.function, site.access, site.ordering, site.nth);
        all(&[file]).into_iter().map(parts).collect()
    }

    #[test]
    fn names_function_access_and_ordering() {
        let text = "
            use std::sync::atomic::Ordering::Relaxed;
            impl A {
                fn one(&self, x: &mut [u64; N]) -> u64 { self.keys[self.at(0)].load(Ordering::Acquire) }
                fn two(&self, a: Ordering) {
                    fence(Ordering::Release); // Ordering::SeqCst
                    self.0.fetch_add(1, Ordering::Relaxed);
                    self.exchange(x, f(y), Ordering::AcqRel);
                    self.w.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Acquire);
                }
            }
            #[cfg(test)] mod tests { fn t() { a.load(Ordering::Acquire); } }";
        let of = |f: &str, a: &str, o: &str, nth| (f.into(), a.into(), o.into(), nth);
        assert_eq!(
            found(text),
            [
                of("one", "keys.load", "Acquire", 0),
                of("two", "fence", "Release", 0),
                of("two", "self.0.fetch_add", "Relaxed", 0),
                of("two", "exchange", "AcqRel", 0),
                of("two", "w.compare_exchange", "AcqRel", 0),
                of("two", "w.compare_exchange", "Acquire", 1),
            ]
        );
    }

    #[test]
    fn tests_and_other_crates_have_no_sites() {
        let text = "fn f() { a.load(Ordering::Acquire); }";
        for path in [
            "crates/telemetry/src/kernel/tests/a.rs",
            "crates/telemetry/src/kernel/tests.rs",
            "crates/telemetry/tests/a.rs",
            "crates/gpu-runtime/src/a.rs",
        ] {
            assert_eq!(all(&[File::new(path, text)]), []);
        }
    }
}
