// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rules `words` and `length`: nothing unfinished or skipped, and no source file
//! that has outgrown one subject.

use super::{Violation, tree::File};

/// Words that no text holds, put together here so that this file may name them.
const WORDS: &[&str] = &[concat!("FIX", "ME"), concat!("X", "XX")];

/// The most lines of a Rust source.
const LINES: usize = 440;

pub(super) fn check(file: &File) -> Vec<Violation> {
    let mut found = Vec::new();
    for (line, text) in file.lines() {
        if file.is_rust() && text.trim_start().starts_with("#[ignore") {
            let message = "an ignored test never fails: fix it or delete it";
            found.push(file.at(line, "words", message));
        }
        let mut words = text.split(|c: char| !c.is_alphanumeric());
        if let Some(word) = words.find(|word| WORDS.contains(word)) {
            found.push(file.at(line, "words", format!("`{word}`: do it or file an issue")));
        }
    }
    let count = file.text.lines().count();
    if file.is_rust() && count > LINES {
        let message = format!("{count} lines, at most {LINES}: split it by subject");
        found.push(file.at(0, "length", message));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(path: &str, text: &str) -> usize {
        check(&File::new(path, text)).len()
    }

    #[test]
    fn fires_on_what_is_unfinished() {
        assert_eq!(count("a.rs", "#[test]\n    #[ignore = \"slow\"]\nfn f() {}"), 1);
        for word in WORDS {
            assert_eq!(count("a.rs", &format!("// {word}: later\n")), 1, "{word}");
            assert_eq!(count("a.md", &format!("a {word} b\n")), 1, "{word}");
            assert_eq!(count("a.md", &format!("a{word}b\n")), 0, "{word}");
        }
    }

    #[test]
    fn fires_on_long_sources() {
        assert_eq!(count("a.rs", &"\n".repeat(LINES)), 0);
        assert_eq!(count("a.rs", &"\n".repeat(LINES + 1)), 1);
        assert_eq!(count("a.md", &"\n".repeat(LINES + 1)), 0);
    }
}
