// SPDX-License-Identifier: MIT OR Apache-2.0
//! The project's files as the rules see them: path from the root and text.
//!
//! The tree is walked rather than asked from git, so that a source archive is
//! checked too. Build outputs are told by the tag that cargo leaves in a target
//! folder.

use std::{fs, path::Path};

use walkdir::{DirEntry, WalkDir};

use super::Violation;
use crate::error::{Context, Error, Result};

/// A text file of the project.
#[derive(Debug)]
pub(crate) struct File {
    /// From the project's root, with forward slashes.
    pub(crate) path: String,
    /// Its whole text.
    pub(crate) text: String,
}

impl File {
    /// A file with this path and text.
    pub(crate) fn new(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned() }
    }

    /// A violation at `line` of this file.
    pub(crate) fn at(
        &self,
        line: usize,
        rule: &'static str,
        message: impl Into<String>,
    ) -> Violation {
        Violation { path: self.path.clone(), line, rule, message: message.into() }
    }
}

/// Every text file of the project.
#[derive(Debug)]
pub(crate) struct Tree {
    /// Sorted by path.
    pub(crate) files: Vec<File>,
}

impl Tree {
    /// Reads the tree under `root`. Files that are not UTF-8 (recorded traces) are
    /// not text and are left out.
    pub(crate) fn read(root: &Path) -> Result<Self> {
        let is_ours = |entry: &DirEntry| {
            let (name, path) = (entry.file_name(), entry.path());
            // `.git` is a folder, or a file in a worktree.
            name != ".git" && path != root.join("target") && !path.join("CACHEDIR.TAG").exists()
        };
        let mut files = Vec::new();
        for entry in WalkDir::new(root).into_iter().filter_entry(is_ours) {
            let entry = entry.map_err(|error| Error::Failed(error.to_string()))?;
            let path = entry.path();
            if entry.file_type().is_file()
                && let bytes = fs::read(path).context(|| format!("read {}", path.display()))?
                && let Ok(text) = String::from_utf8(bytes)
            {
                let path = path.strip_prefix(root).unwrap_or(path).to_string_lossy();
                files.push(File::new(&path, &text));
            }
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Self { files })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_text_and_leaves_out_build_outputs() {
        let root = tempfile::tempdir().expect("a folder");
        for (path, content) in [
            ("a.rs", &b"fn a() {}"[..]),
            (".ci/run", b"#!/bin/sh"),
            ("src/trace.gz", b"\x1f\x8b\xff"),
            (".git/HEAD", b"x"),
            ("target/x.rs", b"x"),
            ("other-target/CACHEDIR.TAG", b"x"),
            ("other-target/debug/x.rs", b"x"),
        ] {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("parent")).expect("folder");
            fs::write(path, content).expect("file");
        }
        let tree = Tree::read(root.path()).expect("tree");
        let paths: Vec<_> = tree.files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(paths, [".ci/run", "a.rs"]);
    }
}
