// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where a model's spans land. It orders nothing: the lock is the standard
//! library's and never held across a step of the checker.

use metrale_telemetry::kernel::{Landed, SpanKey, SpanSink, SpanTag};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// A sink that keeps what it is told and checks that each span arrives whole.
#[derive(Debug, Default)]
pub struct Tally {
    landed: Mutex<Vec<Landed>>,
    dropped: AtomicU64,
    failed: AtomicU64,
}

impl Tally {
    /// The tag of the span named `name`: key and tag that come from two spans
    /// are told apart.
    #[must_use]
    pub fn tag(name: u64) -> SpanTag {
        SpanTag {
            armed: name % 2 == 1,
            lane: Some(name as usize % 3),
            step: Some(name),
        }
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

    /// How many attempts were dropped, and how many spans failed.
    #[must_use]
    pub fn lost(&self) -> (u64, u64) {
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (get(&self.dropped), get(&self.failed))
    }
}

impl SpanSink for Tally {
    fn landed(&self, span: Landed) {
        let SpanKey::Kernel(name) = span.key else {
            panic!("no model begins {:?}", span.key);
        };
        assert_eq!(span.tag, Self::tag(name), "key and tag of different spans");
        let mut landed = self.landed.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(
            landed.iter().all(|other| other.key != span.key),
            "span {name} landed twice"
        );
        landed.push(span);
    }

    fn dropped(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }

    fn failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }
}
