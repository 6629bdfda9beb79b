// SPDX-License-Identifier: MIT OR Apache-2.0
//! The project's files as the rules see them: path from the root and text.
//!
//! The tree is walked rather than asked from git, so that a source archive is
//! checked too. Build outputs are told by the tag that cargo leaves in a target
//! folder.

use std::{fs, path::Path};

use super::Violation;
use crate::error::{Context, Result};

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

    /// Whether this is a Rust source.
    pub(crate) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// The lines with their numbers from 1.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.text.lines())
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
        let mut files = Vec::new();
        walk(root, "", &mut files)?;
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Self { files })
    }
}

fn walk(root: &Path, under: &str, files: &mut Vec<File>) -> Result<()> {
    let folder = root.join(under);
    let what = || format!("read {}", folder.display());
    if folder.join("CACHEDIR.TAG").exists() {
        return Ok(());
    }
    for entry in fs::read_dir(&folder).context(what)? {
        let entry = entry.context(what)?;
        let (name, kind) = (entry.file_name(), entry.file_type().context(what)?);
        let name = name.to_string_lossy();
        let path = if under.is_empty() { name.to_string() } else { format!("{under}/{name}") };
        // A folder, or a file in a worktree: it is git's, not the project's.
        if name == ".git" {
            continue;
        }
        if kind.is_dir() && path != "target" {
            walk(root, &path, files)?;
        } else if kind.is_file()
            && let Ok(text) = String::from_utf8(fs::read(entry.path()).context(what)?)
        {
            files.push(File::new(&path, &text));
        }
    }
    Ok(())
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
