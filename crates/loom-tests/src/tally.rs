// SPDX-License-Identifier: MIT OR Apache-2.0
//! What became of a model's spans. It orders nothing: the lock is the standard
//! library's and never held across a step of the checker.

use metrale_telemetry::kernel::{
    Harvested, Landed, Ledger, NotBegun, NotEnded, SpanKey, SpanTag, StepId,
};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Keeps what it is told, and checks that each span arrives whole and is over
/// once.
#[derive(Debug, Default)]
pub struct Tally(Mutex<Told>);

#[derive(Debug, Default)]
struct Told {
    landed: Vec<Landed>,
    /// The names of spans that are over.
    over: Vec<u64>,
    /// How often what happened, as the ring should count it.
    counts: Ledger,
}

impl Tally {
    /// The tag of the span named `name`: key and tag that come from two spans
    /// are told apart.
    pub fn tag(name: u64) -> SpanTag {
        SpanTag { armed: name % 2 == 1, lane: Some(name as usize % 3), step: StepId::Number(name) }
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What landed, in that order.
    pub fn landed(&self) -> Vec<Landed> {
        self.told().landed.clone()
    }

    /// The names of what landed, sorted.
    pub fn names(&self) -> Vec<u64> {
        let mut names: Vec<u64> = self.landed().iter().map(name).collect();
        names.sort_unstable();
        names
    }

    pub(crate) fn counts(&self) -> Ledger {
        self.told().counts
    }

    /// Takes in what a pass found.
    pub(crate) fn take(&self, span: Harvested) {
        let mut told = self.told();
        match span {
            Harvested::Landed(span) => {
                let name = name(&span);
                assert_eq!(span.tag(), Self::tag(name), "key and tag of different spans");
                told.is_over(name);
                told.counts.landed += 1;
                told.landed.push(span);
            }
            Harvested::Failed(lost) => {
                told.counts.failed += 1;
                told.is_lost(lost.tag);
            }
            Harvested::Reclaimed(lost) => {
                told.counts.reclaimed += 1;
                told.is_lost(lost.tag);
            }
        }
    }

    /// Takes in an attempt that came to no span.
    pub(crate) fn not_begun(&self, why: NotBegun) {
        match why {
            NotBegun::Dropped => self.told().counts.dropped += 1,
            NotBegun::Failed => self.told().counts.failed += 1,
            why => panic!("no model's stream answers: {why}"),
        }
    }

    /// Takes in an end that was none.
    pub(crate) fn not_ended(&self, why: NotEnded) {
        if let NotEnded::Failed(lost) = why {
            self.take(Harvested::Failed(lost));
        }
    }

    /// Takes in a span that was cancelled.
    pub(crate) fn cancelled(&self, tag: SpanTag) {
        let mut told = self.told();
        told.counts.cancelled += 1;
        told.is_lost(tag);
    }
}

impl Told {
    fn is_lost(&mut self, tag: SpanTag) {
        let StepId::Number(name) = tag.step else {
            panic!("no model's span has {tag:?}");
        };
        self.is_over(name);
    }

    fn is_over(&mut self, name: u64) {
        assert!(!self.over.contains(&name), "span {name} is over twice");
        self.over.push(name);
    }
}

fn name(span: &Landed) -> u64 {
    match span.key {
        SpanKey::Kernel(name) => name,
        SpanKey::Lane(lane) => panic!("no model begins lane {lane}"),
    }
}
