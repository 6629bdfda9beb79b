// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events that cost nothing, so that what is measured is the ring.

use metrale_telemetry::kernel::{Edge, EventOps, Place, SpanPoll};
use std::hint::black_box;

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

/// As [`Done`], of spans that follow each other, one to a slot.
#[derive(Clone, Copy, Debug)]
pub struct Placed {
    span_ns: u64,
    /// From one start to the next.
    apart_ns: i64,
}

impl Placed {
    /// Lanes of `launches` launches each, and those.
    #[must_use]
    pub fn steps(launches: usize) -> (Self, Self) {
        let launch_ns = SPAN_NS + GAP_NS;
        let lane_ns = launches as u64 * launch_ns;
        let of = |span_ns, apart_ns| Self { span_ns, apart_ns: apart_ns as i64 };
        (of(lane_ns, lane_ns), of(SPAN_NS, launch_ns))
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

    fn place(&self, _: u32, slot: usize) -> Place {
        Place::At(slot as i64 * self.apart_ns)
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
