// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rule `paths`: nothing names a folder of one machine or a package source other
//! than crates.io.

use super::{Violation, tree::File};

/// Folders that differ between machines, put together here so that this file may
/// name them.
const FOLDERS: &[&str] = &[
    concat!("/", "work/"),
    concat!("/", "home/"),
    concat!("/", "tmp/"),
    concat!("/", "root/"),
    concat!("/", "Users/"),
];

/// Tables of cargo's configuration that choose where packages come from.
const SOURCES: &[&str] = &["[source", "[registries", "[registry", "registry ="];

const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

pub(super) fn check(file: &File) -> Vec<Violation> {
    let mut found = Vec::new();
    for (line, text) in file.lines() {
        if let Some(folder) = FOLDERS.iter().find(|folder| names(text, folder)) {
            let message = format!("`{folder}` is a path of one machine; write it from the root");
            found.push(file.at(line, "paths", message));
        }
        let lock = file.path.ends_with("Cargo.lock") && text.starts_with("source = ");
        let toml = file.path.ends_with(".toml");
        if lock && !text.contains(CRATES_IO)
            || toml && SOURCES.iter().any(|table| text.trim_start().starts_with(table))
        {
            let message = "packages come from crates.io; a mirror is one machine's own affair";
            found.push(file.at(line, "paths", message));
        }
    }
    found
}

/// Whether `text` holds `folder` where an absolute path starts.
fn names(text: &str, folder: &str) -> bool {
    text.match_indices(folder).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        before.is_none_or(|c| !(c.is_alphanumeric() || "._-/~}$".contains(c)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fires(path: &str, text: &str) -> bool {
        !check(&File::new(path, text)).is_empty()
    }

    #[test]
    fn fires_on_folders_of_one_machine() {
        for folder in FOLDERS {
            assert!(fires("a.md", &format!("see {folder}x")), "{folder}");
            assert!(fires("a.toml", &format!("a = \"{folder}x\"")), "{folder}");
            assert!(!fires("a.md", &format!("see ..{folder}x")), "{folder}");
            assert!(!fires("a.md", &format!("https://a.org{folder}x")), "{folder}");
        }
    }

    #[test]
    fn fires_on_other_package_sources() {
        assert!(!fires("Cargo.lock", &format!("source = \"{CRATES_IO}\"")));
        assert!(fires("Cargo.lock", "source = \"registry+https://a.org/index\""));
        assert!(fires("Cargo.lock", "source = \"git+https://a.org/b#1\""));
        assert!(fires(".cargo/config.toml", "[source.crates-io]"));
        assert!(fires(".cargo/config.toml", "[registries.other]"));
        assert!(!fires("a.md", "[source](a.md)"));
    }
}
