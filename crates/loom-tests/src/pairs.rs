// SPDX-License-Identifier: MIT OR Apache-2.0
//! Event pairs as a model sees them: who touches one, in which order, and what
//! was in it.
//!
//! The stream number says what happens to a span (see the constants). An end
//! event holds a stamp that no other has; a poll answers with it as the span's
//! time, and a gap with what the end event before holds at that moment, so
//! that a gap read from a later span's event is told from the right one.

use crate::engine::{Shared, Tracked};
use metrale_telemetry::kernel::{Edge, EventOps, SpanPoll};
use std::sync::atomic::{AtomicU64, Ordering};

/// A stream on which a start event cannot be recorded.
pub const FAILS_START: u64 = 90;
/// A stream on which an end event cannot be recorded.
pub const FAILS_END: u64 = 91;
/// A stream whose pairs can never be read.
pub const FAILS_POLL: u64 = 92;
/// A stream whose pairs stay pending.
pub const NEVER_DONE: u64 = 93;
/// A stream on which no end may reach the events: that of a stale token.
pub const NEVER_ENDS: u64 = 94;

#[derive(Debug, Default, PartialEq, Eq)]
enum Pair {
    #[default]
    Empty,
    Started,
    Ended {
        stream: u64,
        stamp: u64,
    },
}

/// Pairs that are errors to touch by two threads at once or in a wrong order.
#[derive(Debug)]
pub struct Pairs {
    pairs: Vec<Tracked<Pair>>,
    /// What a gap reads: like an event, at any moment and by anybody.
    end_stamps: Vec<Shared>,
    stamps: AtomicU64,
}

impl Pairs {
    /// Pairs for a ring of `slots` slots.
    pub fn new(slots: usize) -> Self {
        Self {
            pairs: (0..slots).map(|_| Tracked::default()).collect(),
            end_stamps: (0..slots).map(|_| Shared::default()).collect(),
            stamps: AtomicU64::new(1),
        }
    }
}

impl EventOps for Pairs {
    fn record(&self, slot: usize, edge: Edge, stream: u64) -> bool {
        let fails = match edge {
            Edge::Start => FAILS_START,
            Edge::End => FAILS_END,
        };
        self.pairs[slot].touch(|pair| match edge {
            _ if stream == fails => {}
            Edge::Start => *pair = Pair::Started,
            Edge::End => {
                assert_ne!(stream, NEVER_ENDS, "a stale end reached an event");
                assert_eq!(*pair, Pair::Started, "an end without its start");
                let stamp = self.stamps.fetch_add(1, Ordering::Relaxed);
                *pair = Pair::Ended { stream, stamp };
                self.end_stamps[slot].set(stamp);
            }
        });
        stream != fails
    }

    fn poll(&self, slot: usize) -> SpanPoll {
        self.pairs[slot].touch(|pair| match *pair {
            Pair::Ended { stream: FAILS_POLL, .. } => SpanPoll::Failed,
            Pair::Ended { stream: NEVER_DONE, .. } => SpanPoll::Pending,
            Pair::Ended { stamp, .. } => SpanPoll::Ready(stamp),
            _ => panic!("a poll of {pair:?}: no end was recorded"),
        })
    }

    fn gap(&self, prev: usize, slot: usize) -> Option<i64> {
        self.pairs[slot].touch(|pair| assert!(matches!(pair, Pair::Ended { .. })));
        i64::try_from(self.end_stamps[prev].get()).ok()
    }
}
