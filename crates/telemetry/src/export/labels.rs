// SPDX-License-Identifier: MIT OR Apache-2.0
//! The labels that all series have: `gpu`, and what the user adds.

use super::families::FAMILIES;
use std::collections::BTreeMap;

/// What is written for a GPU that nobody named: without it a series would have
/// no label `gpu`.
const UNKNOWN_GPU: &str = "unknown";

/// A label that cannot be added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LabelError {
    /// It is no name of a label.
    #[error(
        "{0:?} is no label: use letters, digits and `_`, not a digit first and not `__`, which Prometheus keeps"
    )]
    Name(String),
    /// A metric has it already.
    #[error("{0:?} is a label of the metrics themselves: choose another name")]
    Taken(String),
    /// It was added before.
    #[error("{0:?} was added before: a label has one value")]
    Twice(String),
}

/// Names and values, sorted by name; each name once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Labels(BTreeMap<String, String>);

impl Labels {
    pub(super) fn add(&mut self, name: &str, value: &str) -> Result<(), LabelError> {
        check(name)?;
        if self.0.contains_key(name) {
            return Err(LabelError::Twice(name.to_owned()));
        }
        self.0.insert(name.to_owned(), clean(value));
        Ok(())
    }

    /// These, and those of a snapshot that can be labels and are not among them.
    pub(super) fn over(&self, others: &BTreeMap<String, String>) -> Self {
        let mut all = BTreeMap::from([("gpu".to_owned(), UNKNOWN_GPU.to_owned())]);
        let valid = others.iter().filter(|(name, _)| check(name).is_ok());
        all.extend(valid.map(|(name, value)| (name.clone(), clean(value))));
        all.extend(self.0.clone());
        Self(all)
    }

    pub(super) fn pairs(&self) -> Vec<(&str, &str)> {
        let labels = self.0.iter();
        labels
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect()
    }
}

fn check(name: &str) -> Result<(), LabelError> {
    let is_letter = |c: char| c.is_ascii_alphabetic() || c == '_';
    let mut chars = name.chars();
    let is_name = chars.next().is_some_and(is_letter)
        && chars.all(|c| is_letter(c) || c.is_ascii_digit())
        && !name.starts_with("__");
    if !is_name {
        return Err(LabelError::Name(name.to_owned()));
    }
    let mut own = FAMILIES.iter().flat_map(|family| family.labels);
    // `le` marks buckets; the server adds `job` and `instance` by itself.
    if own.any(|own| *own == name) || name == "le" {
        return Err(LabelError::Taken(name.to_owned()));
    }
    Ok(())
}

/// A value without control characters, some of which end a line for some reader
/// and not for another.
fn clean(value: &str) -> String {
    let clean = |c: char| if c.is_control() { '?' } else { c };
    value.chars().map(clean).collect()
}
