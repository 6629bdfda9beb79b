// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events that cost nothing, so that what is measured is the ring.

use metrale_telemetry::kernel::{Edge, EventOps, Place, SpanPoll};
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// GPU time that every pair reads, ns.
pub const SPAN_NS: u64 = 12_345;

/// GPU time between two launches, ns.
pub const GAP_NS: u64 = 678;

/// Every record works, and every pair is done at once.
#[derive(Clone, Copy, Debug)]
pub struct Done;

impl EventOps for Done {
    fn record(&self, slot: usize, _: Edge, stream: u64) -> bool {
        black_box((slot, stream));
        true
    }

    fn poll(&self, slot: usize) -> SpanPoll {
        black_box(slot);
        SpanPoll::Ready(SPAN_NS)
    }
}

/// As [`Done`], of spans that follow each other in steps of so many.
#[derive(Debug)]
pub struct Placed {
    to_step: u64,
    span_ns: u64,
    /// Spans of the step that were placed.
    placed: AtomicU64,
}

impl Placed {
    /// Steps of `launches` launches, and the lanes that these are in: those of
    /// the lane's ring, and of the launches'.
    #[must_use]
    pub fn steps(launches: usize) -> (Self, Self) {
        let of = |to_step, span_ns| Self {
            to_step,
            span_ns,
            placed: AtomicU64::new(0),
        };
        let launches = launches as u64;
        (of(1, launches * (SPAN_NS + GAP_NS)), of(launches, SPAN_NS))
    }
}

impl EventOps for Placed {
    fn record(&self, slot: usize, _: Edge, stream: u64) -> bool {
        black_box((slot, stream));
        true
    }

    fn poll(&self, slot: usize) -> SpanPoll {
        black_box(slot);
        SpanPoll::Ready(self.span_ns)
    }

    /// Passes take turns: no read-modify-write is needed.
    fn place(&self, track: u32, slot: usize) -> Place {
        black_box((track, slot));
        let nth = self.placed.load(Relaxed);
        let next = if nth + 1 == self.to_step { 0 } else { nth + 1 };
        self.placed.store(next, Relaxed);
        Place::At((nth * (SPAN_NS + GAP_NS)) as i64)
    }
}

/// Every record works, and no pair is ever done. A poll is one store, so that a
/// scan that polls each slot pays for little but its scan.
#[derive(Clone, Copy, Debug)]
pub struct Waiting;

impl EventOps for Waiting {
    fn record(&self, slot: usize, _: Edge, stream: u64) -> bool {
        black_box((slot, stream));
        true
    }

    fn poll(&self, slot: usize) -> SpanPoll {
        black_box(slot);
        SpanPoll::Pending
    }
}
