// SPDX-License-Identifier: MIT OR Apache-2.0
//! What of a trace is not taken, counted by reason.

/// Why an event is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropReason {
    /// An entry of the event list that is not an object.
    NotAnEvent,
    /// A key that decides something stands twice in one event.
    DuplicateKey,
    /// No name, stamp or duration.
    MissingField,
    /// A phase other than a complete event.
    NotComplete,
    /// A value that is used is not JSON.
    NotJson,
    /// A stamp or duration that is no number or does not fit.
    BadStamp,
    /// GPU work with a stamp of zero: the recorder never collected it.
    ZeroStamp,
    /// A duration below zero.
    Negative,
    /// A duration of more than an hour, or a stamp a day from the others.
    Absurd,
}

/// In words, in the order of the reasons.
const WORDS: [&str; 9] = [
    "not an object",
    "a key given twice",
    "no name, stamp or duration",
    "not a complete event",
    "a value in use that is not JSON",
    "a stamp that is no number or does not fit",
    "stamp 0 (never collected)",
    "a negative duration",
    "longer than an hour or a day from the rest",
];

/// GPU events and annotations that were not taken, and what was read otherwise than it
/// stands there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drops {
    counts: [u64; WORDS.len()],
    /// Not dropped: digits below one nanosecond were rounded.
    pub rounded: u64,
    /// Not dropped: values that are not JSON (`NaN`, `inf`, a raw control byte
    /// or a bad escape in a string), and names and categories that are no
    /// strings, where they are not used.
    pub read_over: u64,
}

impl Drops {
    /// So many were dropped for this reason.
    pub fn of(&self, reason: DropReason) -> u64 {
        self.counts[reason as usize]
    }

    pub(super) fn add(&mut self, reason: DropReason, count: usize) {
        self.counts[reason as usize] += count as u64;
    }

    /// Every reason with its count, in words, the zero ones left out.
    pub fn reasons(&self) -> Vec<String> {
        let told = self.counts.iter().zip(WORDS).filter(|(count, _)| **count > 0);
        told.map(|(count, reason)| format!("{count} {reason}")).collect()
    }

    /// How many were dropped in all.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }
}
