// SPDX-License-Identifier: MIT OR Apache-2.0
//! The house rules that neither rustc nor clippy checks.
//!
//! Each rule is a pure function over text or metadata, so its test seeds a
//! violation and sees it reported. All violations of all rules are listed at once.
//! The project's own tree is also checked by a test here.

mod layers;
mod links;
mod text;
pub(crate) mod tree;

use std::fmt;

use crate::{
    cargo,
    error::{Result, failed},
};
use tree::Tree;

/// One broken rule at one place.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Violation {
    /// The file, from the project's root.
    path: String,
    /// From 1; 0 where the whole file or manifest is meant.
    line: usize,
    /// The rule's short name.
    rule: &'static str,
    /// What is wrong and what to do.
    message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        write!(f, ": [{}] {}", self.rule, self.message)
    }
}

/// Checks the project; lists every violation on stdout.
pub(crate) fn run() -> Result<()> {
    let (files, violations) = check()?;
    for violation in &violations {
        println!("{violation}");
    }
    if violations.is_empty() {
        println!("tidy: {files} files, no violations");
        Ok(())
    } else {
        failed(format!("{} violation(s) of the house rules, listed above", violations.len()))
    }
}

fn check() -> Result<(usize, Vec<Violation>)> {
    let members = cargo::metadata()?.workspace_packages().into_iter().cloned().collect::<Vec<_>>();
    let tree = Tree::read(cargo::root())?;
    let mut found = layers::check(&members);
    for file in &tree.files {
        found.extend(text::check(file));
        found.extend(links::check(file, cargo::root()));
    }
    found.sort();
    Ok((tree.files.len(), found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_project_is_tidy() {
        let (files, violations) = check().expect("the tree can be read");
        assert!(files > 20, "only {files} files seen");
        let lines: Vec<_> = violations.iter().map(Violation::to_string).collect();
        assert!(lines.is_empty(), "\n{}", lines.join("\n"));
    }

    #[test]
    fn a_violation_reads_like_a_compiler_message() {
        let mut violation =
            Violation { path: "a/b.rs".into(), line: 3, rule: "words", message: "bad".into() };
        assert_eq!(violation.to_string(), "a/b.rs:3: [words] bad");
        violation.line = 0;
        assert_eq!(violation.to_string(), "a/b.rs: [words] bad");
    }
}
