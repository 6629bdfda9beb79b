// SPDX-License-Identifier: MIT OR Apache-2.0
//! What was run, so that a search that tried nothing cannot pass for one that found
//! nothing.

use metrale_telemetry::kernel::Ledger;
use std::collections::BTreeMap;
use std::fmt;

/// Counts by kind and name, over any number of sequences.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    counts: BTreeMap<(&'static str, String), u64>,
    /// The fate of all spans.
    pub ledger: Ledger,
}

impl Tally {
    pub(crate) fn count(&mut self, kind: &'static str, name: impl ToString, by: u64) {
        *self.counts.entry((kind, name.to_string())).or_default() += by;
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for ((kind, name), count) in &other.counts {
            self.count(kind, name, *count);
        }
        self.ledger = self.ledger.plus(other.ledger);
    }

    /// One count; 0 for what never happened.
    pub fn of(&self, kind: &'static str, name: &str) -> u64 {
        self.counts.get(&(kind, name.to_owned())).copied().unwrap_or(0)
    }

    /// The counts of a kind.
    pub fn all(&self, kind: &'static str) -> impl Iterator<Item = u64> {
        let of_kind = self.counts.iter().filter(move |((other, _), _)| *other == kind);
        of_kind.map(|(_, count)| *count)
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for ((kind, name), count) in &self.counts {
            writeln!(f, "  {kind:<26}{name:<36}{count:>10}")?;
        }
        write!(f, "  {:?}", self.ledger)
    }
}
