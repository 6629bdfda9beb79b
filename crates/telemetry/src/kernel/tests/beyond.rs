// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the plain model of `tests/properties` does not reach: tokens made up from
//! bits, more streams than a pass remembers, calls from inside a record, and
//! where gaps are counted.

use super::scripted::{Bench, Call, GAP_NS, Scripted};
use crate::kernel::{
    Edge, EventOps, KernelInstruments, LANE_DECODE, SpanKey, SpanPoll, SpanRing, SpanToken,
};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

const DECODE: SpanKey = SpanKey::Lane(LANE_DECODE);
const KERNEL: SpanKey = SpanKey::Kernel(5);

#[test]
#[should_panic(expected = "at least one slot")]
fn zero_slots_panic_as_documented() {
    let _ = SpanRing::new(Scripted::default(), 0);
}

#[test]
#[should_panic(expected = "at most 2^24 slots")]
fn more_slots_than_a_token_can_name_panic_as_documented() {
    let _ = SpanRing::new(Scripted::default(), (1 << 24) + 1);
}

#[test]
fn tokens_of_another_ring_and_out_of_range_slots_are_refused() {
    let (ours, theirs) = (Bench::new(4), Bench::new(4));
    let own = ours.begin(KERNEL, 1).unwrap();
    let foreign = theirs.begin(KERNEL, 1).unwrap();
    ours.script.calls();
    for token in [
        foreign,
        SpanToken::from_slot(4),
        SpanToken::from_slot(usize::MAX),
        SpanToken::from_bits(u64::MAX),
        // This ring and lap, a slot it does not have.
        SpanToken::from_bits(own.to_bits() | 4),
        // This ring and slot, another lap.
        SpanToken::from_bits(own.to_bits() ^ 1 << 24),
    ] {
        ours.ring.end(token, 1, &ours.instruments);
        ours.ring.cancel(token);
    }
    assert_eq!(ours.script.calls(), []);
    assert_eq!(ours.ring.ledger().stale_ends, 12);
    assert_eq!(ours.ring.ledger().in_flight, 1);
}

#[test]
fn with_more_waiting_streams_than_a_pass_remembers_each_gets_its_turn() {
    const STREAMS: u64 = 1_000;
    let bench = Bench::new(STREAMS as usize * 2);
    // Two spans on each stream: only the second may never be asked about.
    for stream in (0..STREAMS).chain(0..STREAMS) {
        bench.span(KERNEL, stream);
    }
    bench.script.calls();
    let mut asked = vec![0; STREAMS as usize];
    for _ in 0..8 {
        assert_eq!(bench.harvest(), 0);
        for call in bench.script.calls() {
            match call {
                Call::First(slot) => asked[slot] += 1,
                other => panic!("{other:?}: its stream waits"),
            }
        }
    }
    assert_eq!(asked[..64], [8; 64]);
    assert!(asked.iter().all(|times| *times >= 2), "{asked:?}");
    (0..STREAMS as usize * 2).for_each(|slot| bench.script.answer(slot, SpanPoll::Ready(1)));
    assert_eq!(bench.harvest(), STREAMS as usize * 2);
}

#[test]
fn gaps_are_counted_by_lane_and_unknown_ones_apart() {
    let script = Scripted::default();
    (0..8).for_each(|slot| script.answer(slot, SpanPoll::Ready(1)));
    let ring = SpanRing::builder(script.clone(), 8).gaps().build();
    let bench = Bench::with(ring, script);
    for pass in [&[1, 1][..], &[1, 2]] {
        pass.iter().for_each(|&stream| _ = bench.span(DECODE, stream));
        bench.harvest();
    }
    let gaps = bench.instruments.lane_gap[LANE_DECODE].snapshot();
    assert_eq!((gaps.count(), gaps.sum_ns()), (2, 2 * GAP_NS as u64));
    let unknown = bench.instruments.lane_gap_unknown.get();
    assert_eq!(unknown, 2, "the first of each stream");
    let calls = bench.script.calls().into_iter();
    let gaps: Vec<_> = calls.filter(|call| matches!(call, Call::Gap(..))).collect();
    assert_eq!(gaps, [Call::Gap(0, 1), Call::Gap(1, 2)]);
}

/// A source in whose records another thread's passes and ends come around.
#[derive(Default)]
struct Interrupted {
    ring: OnceLock<Weak<SpanRing<Interrupted>>>,
    instruments: KernelInstruments,
}

impl EventOps for Interrupted {
    fn record(&self, slot: usize, _: Edge, _: u64) -> bool {
        let ring = self.ring.get().and_then(Weak::upgrade).unwrap();
        for _ in 0..3 {
            assert_eq!(ring.harvest(&self.instruments), 0);
        }
        let other = SpanToken::from_slot(slot);
        ring.end(other, 1, &self.instruments);
        ring.cancel(other);
        assert_eq!(ring.ledger().in_flight, 1, "nobody else frees the span");
        true
    }
    fn poll(&self, _: usize) -> SpanPoll {
        SpanPoll::Ready(1)
    }
}

#[test]
fn a_span_whose_record_is_in_progress_is_nobody_elses() {
    // Every open span is too old at once.
    let ring = SpanRing::builder(Interrupted::default(), 1).reclaim_after(Duration::ZERO).build();
    let ring = Arc::new(ring);
    let ops = ring.ops();
    ops.ring.set(Arc::downgrade(&ring)).unwrap();
    let token = ring.begin(DECODE, 1, &ops.instruments).unwrap();
    ring.end(token, 1, &ops.instruments);
    assert_eq!(ring.harvest(&ops.instruments), 1);
    let ledger = ring.ledger();
    assert_eq!((ledger.reclaimed, ledger.cancelled), (0, 0));
    assert_eq!(ledger.stale_ends, 4, "two in each record");
    assert!(ledger.closes(), "{ledger:?}");
}
