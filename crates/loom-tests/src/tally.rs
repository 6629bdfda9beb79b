// SPDX-License-Identifier: MIT OR Apache-2.0
//! What became of a model's spans. It orders nothing: the lock is the standard
//! library's and never held across a step of the checker.

use metrale_telemetry::kernel::{Harvested, Landed, NotBegun, NotEnded, SpanKey, SpanTag, StepId};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Keeps what it is told, and checks that each span arrives whole and is over
/// once.
#[derive(Debug, Default)]
pub struct Tally {
    landed: Mutex<Vec<Landed>>,
    /// The names of spans that are over.
    over: Mutex<Vec<u64>>,
    dropped: AtomicU64,
    failed: AtomicU64,
    cancelled: AtomicU64,
    reclaimed: AtomicU64,
}

impl Tally {
    /// The tag of the span named `name`: key and tag that come from two spans
    /// are told apart.
    #[must_use]
    pub fn tag(name: u64) -> SpanTag {
        SpanTag { armed: name % 2 == 1, lane: Some(name as usize % 3), step: StepId::Number(name) }
    }

    /// What landed, in that order.
    #[must_use]
    pub fn landed(&self) -> Vec<Landed> {
        let landed = self.landed.lock().unwrap_or_else(PoisonError::into_inner);
        landed.clone()
    }

    /// The names of what landed, sorted.
    #[must_use]
    pub fn names(&self) -> Vec<u64> {
        let name = |span: Landed| match span.key {
            SpanKey::Kernel(name) => name,
            SpanKey::Lane(lane) => panic!("no model begins lane {lane}"),
        };
        let mut names: Vec<u64> = self.landed().into_iter().map(name).collect();
        names.sort_unstable();
        names
    }

    /// How many attempts were dropped, and how many spans failed, were
    /// cancelled, were reclaimed.
    #[must_use]
    pub fn lost(&self) -> [u64; 4] {
        let counts = [&self.dropped, &self.failed, &self.cancelled, &self.reclaimed];
        counts.map(|count| count.load(Ordering::Relaxed))
    }

    /// Takes in what a pass found.
    pub fn take(&self, span: Harvested) {
        match span {
            Harvested::Landed(span) => self.land(span),
            Harvested::Failed(lost) => self.lose(&self.failed, lost.tag),
            Harvested::Reclaimed(lost) => self.lose(&self.reclaimed, lost.tag),
        }
    }

    /// Takes in an attempt that came to no span.
    pub fn not_begun(&self, why: NotBegun) {
        match why {
            NotBegun::Dropped => &self.dropped,
            NotBegun::Failed => &self.failed,
            why => panic!("no model's stream answers: {why}"),
        }
        .fetch_add(1, Ordering::Relaxed);
    }

    /// Takes in an end that was none.
    pub fn not_ended(&self, why: NotEnded) {
        if let NotEnded::Failed(lost) = why {
            self.lose(&self.failed, lost.tag);
        }
    }

    /// Takes in a span that was cancelled.
    pub fn cancelled(&self, tag: SpanTag) {
        self.lose(&self.cancelled, tag);
    }

    fn land(&self, span: Landed) {
        let SpanKey::Kernel(name) = span.key else {
            panic!("no model begins {:?}", span.key);
        };
        assert_eq!(span.tag(), Self::tag(name), "key and tag of different spans");
        self.is_over(name);
        let mut landed = self.landed.lock().unwrap_or_else(PoisonError::into_inner);
        landed.push(span);
    }

    fn lose(&self, count: &AtomicU64, tag: SpanTag) {
        let StepId::Number(name) = tag.step else {
            panic!("no model's span has {tag:?}");
        };
        self.is_over(name);
        count.fetch_add(1, Ordering::Relaxed);
    }

    fn is_over(&self, name: u64) {
        let mut over = self.over.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(!over.contains(&name), "span {name} is over twice");
        over.push(name);
    }
}
