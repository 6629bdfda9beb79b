// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events that cost nothing, so that what is measured is the ring.

use metrale_telemetry::kernel::{Edge, EventOps, SpanPoll};
use std::hint::black_box;

/// GPU time that every pair reads, ns.
pub const SPAN_NS: u64 = 12_345;

/// GPU time between two pairs, ns.
const GAP_NS: u64 = 678;

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

    fn gap(&self, prev: usize, slot: usize) -> Option<u64> {
        black_box((prev, slot));
        Some(GAP_NS)
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
