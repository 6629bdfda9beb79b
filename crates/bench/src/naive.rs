// SPDX-License-Identifier: MIT OR Apache-2.0
//! The design that a programmer would write first, to compare with: three
//! arrays, the next slot by one exchange, and a harvest that looks at every
//! slot and asks about every closed one.
//!
//! It is correct for one harvesting thread and callers that end each span once.
//! It has no generations, no ledger, no order of streams and no oldest span.

use crate::spans::Spans;
use metrale_telemetry::kernel::{Edge, EventOps, KernelInstruments, SpanKey, SpanPoll};
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};

const FREE: u8 = 0;
const TAKEN: u8 = 1;
const CLOSED: u8 = 2;

/// A bit of a packed key that no function handle of a benchmark has.
const LANE: u64 = 1 << 63;

fn pack(key: SpanKey) -> u64 {
    match key {
        SpanKey::Lane(lane) => LANE | lane as u64,
        SpanKey::Kernel(func) => func,
    }
}

fn unpack(bits: u64) -> SpanKey {
    if bits & LANE == 0 { SpanKey::Kernel(bits) } else { SpanKey::Lane((bits & !LANE) as usize) }
}

/// The plain ring.
#[derive(Debug)]
pub struct NaiveRing<E> {
    ops: E,
    next: AtomicUsize,
    key: Box<[AtomicU64]>,
    state: Box<[AtomicU8]>,
    stream: Box<[AtomicU64]>,
}

impl<E: EventOps> Spans<E> for NaiveRing<E> {
    const NAME: &'static str = "naive";
    type Token = usize;

    fn make(ops: E, slots: usize) -> Self {
        Self {
            ops,
            next: AtomicUsize::new(0),
            key: (0..slots).map(|_| AtomicU64::new(0)).collect(),
            state: (0..slots).map(|_| AtomicU8::new(FREE)).collect(),
            stream: (0..slots).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    #[inline]
    fn begin(&self, key: SpanKey, stream: u64, instruments: &KernelInstruments) -> Option<usize> {
        let slot = self.next.fetch_add(1, Ordering::Relaxed) % self.state.len();
        let taken =
            self.state[slot].compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed);
        if taken.is_err() {
            instruments.spans_dropped.add(1);
            return None;
        }
        self.key[slot].store(pack(key), Ordering::Relaxed);
        if self.ops.record(slot, Edge::Start, stream) {
            Some(slot)
        } else {
            self.state[slot].store(FREE, Ordering::Release);
            instruments.span_failures.add(1);
            None
        }
    }

    #[inline]
    fn end(&self, slot: usize, stream: u64, instruments: &KernelInstruments) {
        if self.ops.record(slot, Edge::End, stream) {
            self.stream[slot].store(stream, Ordering::Relaxed);
            self.state[slot].store(CLOSED, Ordering::Release);
        } else {
            self.state[slot].store(FREE, Ordering::Release);
            instruments.span_failures.add(1);
        }
    }

    /// By one thread at a time.
    #[inline]
    fn harvest(&self, instruments: &KernelInstruments) -> usize {
        let mut landed = 0;
        for (slot, state) in self.state.iter().enumerate() {
            if state.load(Ordering::Acquire) != CLOSED {
                continue;
            }
            match self.ops.poll(slot) {
                SpanPoll::Pending => continue,
                SpanPoll::Ready(ns) => {
                    instruments.record(unpack(self.key[slot].load(Ordering::Relaxed)), ns);
                    landed += 1;
                }
                SpanPoll::Failed => instruments.span_failures.add(1),
            }
            state.store(FREE, Ordering::Release);
        }
        landed
    }
}
