// SPDX-License-Identifier: MIT OR Apache-2.0
//! The labels that all series of a snapshot have: `gpu`, and what the user adds.

use super::families::FAMILIES;
use std::collections::BTreeMap;

/// A label that cannot be added.
///
/// ```
/// use metrale_telemetry::export::{LabelError, MetraleCollector};
///
/// let collector = MetraleCollector::new(metrale_telemetry::global());
/// let error = collector.label("lane", "left").unwrap_err();
/// assert_eq!(error, LabelError::Taken("lane".to_owned()));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
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

/// As they are written.
pub(super) type Pairs<'a> = Vec<(&'a str, &'a str)>;

/// Names and values, sorted by name; each name once. An empty value is none, as
/// it is for Prometheus.
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
        let valid = others.iter().filter(|(name, _)| check(name).is_ok());
        let mut all: BTreeMap<String, String> =
            valid.map(|(name, value)| (name.clone(), clean(value))).collect();
        all.extend(self.0.clone());
        all.retain(|_, value| !value.is_empty());
        Self(all)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    pub(super) fn pairs(&self) -> Pairs<'_> {
        let labels = self.0.iter();
        labels.map(|(name, value)| (name.as_str(), value.as_str())).collect()
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
