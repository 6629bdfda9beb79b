// SPDX-License-Identifier: MIT OR Apache-2.0
//! `docs/memory-ordering.md`: the state table and a row for every ordering of the
//! telemetry sources. Tests here compare it with the sources, so that it cannot
//! drift; `loom --weaken` tries the model that a row names.

use super::sites::Site;
use crate::tidy::tree::File;

/// The document, from the project's root.
pub(super) const PATH: &str = "docs/memory-ordering.md";

/// A row of the document's table of accesses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    /// From the project's root.
    pub(super) path: String,
    /// The function around the access.
    pub(super) function: String,
    /// As [`Site::access`].
    pub(super) access: String,
    /// As [`Site::ordering`].
    pub(super) ordering: String,
    /// The model that fails without it; `None` for a relaxed access.
    pub(super) model: Option<String>,
}

impl Row {
    /// Whether this row describes `site`.
    pub(super) fn is(&self, site: &Site) -> bool {
        self.path == site.path
            && self.function == site.function
            && self.access == site.access
            && self.ordering == site.ordering
    }
}

/// The rows under the headings that name a source file: `### crates/….rs`.
pub(super) fn rows(text: &str) -> Vec<Row> {
    let mut path = String::new();
    let mut rows = Vec::new();
    for line in text.lines() {
        if let Some(heading) = line.strip_prefix("##") {
            path = heading.trim_start_matches('#').trim().replace('`', "");
        }
        let Some(cells) = line.strip_prefix('|').filter(|_| path.ends_with(".rs")) else {
            continue;
        };
        let cells: Vec<String> = cells
            .split('|')
            .map(|cell| cell.replace('`', "").trim().to_owned())
            .collect();
        let [function, access, ordering, _, model, _] = cells.as_slice() else {
            continue;
        };
        if function == "function" || function.starts_with("--") {
            continue;
        }
        rows.push(Row {
            path: path.clone(),
            function: function.clone(),
            access: access.clone(),
            ordering: ordering.clone(),
            model: (!model.is_empty()).then(|| model.clone()),
        });
    }
    rows
}

/// The model that the document names for `site`.
pub(super) fn model(files: &[File], site: &Site) -> Option<String> {
    let text = &files.iter().find(|file| file.path == PATH)?.text;
    rows(text).into_iter().find(|row| row.is(site))?.model
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{cargo, loom::mistakes, loom::sites, tidy::tree::Tree};

    const SLOT: &str = "crates/telemetry/src/kernel/slot.rs";

    fn files() -> Vec<File> {
        Tree::read(cargo::root()).expect("the tree").files
    }

    fn text<'a>(files: &'a [File], path: &str) -> &'a str {
        let file = files.iter().find(|file| file.path == path);
        &file.unwrap_or_else(|| panic!("no {path}")).text
    }

    /// Every model's name, as the test runner gives it.
    fn models(files: &[File]) -> Vec<String> {
        let mut models = Vec::new();
        for file in files {
            let Some(name) = file.path.strip_prefix("crates/loom-tests/tests/models/") else {
                continue;
            };
            let module = name.trim_end_matches(".rs");
            let mut test = false;
            for (_, line) in file.lines() {
                if let (true, Some(rest)) = (test, line.strip_prefix("fn ")) {
                    let end = rest.find('(').unwrap_or(rest.len());
                    models.push(format!("{module}::{}", &rest[..end]));
                }
                test = line == "#[test]";
            }
        }
        models
    }

    #[test]
    fn the_document_lists_the_accesses_of_the_sources_and_no_others() {
        let files = files();
        let key = |path: &str, function: &str, access: &str, ordering: &str| {
            format!("{path}: {function}: {access} {ordering}")
        };
        let mut documented: Vec<_> = rows(text(&files, PATH))
            .iter()
            .map(|row| key(&row.path, &row.function, &row.access, &row.ordering))
            .collect();
        let mut written: Vec<_> = sites::all(&files)
            .iter()
            .map(|site| key(&site.path, &site.function, &site.access, &site.ordering))
            .collect();
        assert!(written.len() > 40, "only {} accesses seen", written.len());
        documented.sort();
        written.sort();
        let not_in = |other: &[String], one: &[String]| -> Vec<String> {
            let mut other = other.to_vec();
            let mut rest = one.to_vec();
            rest.retain(|item| match other.iter().position(|o| o == item) {
                Some(at) => {
                    other.swap_remove(at);
                    false
                }
                None => true,
            });
            rest
        };
        let (missing, stale) = (not_in(&documented, &written), not_in(&written, &documented));
        assert!(
            missing.is_empty() && stale.is_empty(),
            "{PATH} lacks:\n{}\nand has but should not:\n{}",
            missing.join("\n"),
            stale.join("\n")
        );
    }

    #[test]
    fn every_ordering_but_relaxed_names_a_model_that_exists() {
        let files = files();
        let models = models(&files);
        assert!(models.len() > 20, "{models:?}");
        for row in rows(text(&files, PATH)) {
            match (row.ordering.as_str(), &row.model) {
                ("Relaxed", None) => {}
                ("Acquire" | "Release" | "AcqRel", Some(model)) => {
                    assert!(models.contains(model), "{row:?}: no such model");
                }
                _ => panic!("{row:?}: a model for each ordering but Relaxed"),
            }
        }
        for mistake in mistakes::ALL {
            assert!(
                models.iter().any(|model| model == mistake.model),
                "{}",
                mistake.name
            );
        }
    }

    #[test]
    fn the_state_table_is_that_of_the_slot() {
        let files = files();
        let states: Vec<_> = text(&files, SLOT)
            .lines()
            .filter_map(|line| line.strip_prefix("//! "))
            .filter(|line| line.starts_with('|'))
            .collect();
        assert!(states.len() > 5, "{states:?}");
        let table = states.join("\n");
        assert!(
            text(&files, PATH).contains(&table),
            "{PATH} lacks:\n{table}"
        );
    }

    #[test]
    fn mistakes_fit_the_sources() {
        let files = files();
        for mistake in mistakes::ALL {
            for edit in mistake.edits {
                edit.apply(text(&files, edit.path))
                    .unwrap_or_else(|err| panic!("{}: {err}", mistake.name));
            }
        }
    }
}
