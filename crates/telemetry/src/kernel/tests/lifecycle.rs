// SPDX-License-Identifier: MIT OR Apache-2.0
//! One span's way through the ring, and every way it can fail.

use super::scripted::{Bench, Call, Scripted};
use crate::kernel::{
    Edge, EventOps, KernelInstruments, LANE_DECODE, SpanKey, SpanPoll, SpanRing, SpanToken,
};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

const DECODE: SpanKey = SpanKey::Lane(LANE_DECODE);

#[test]
fn a_span_lands_once_with_its_time() {
    let bench = Bench::new(4);
    let slot = bench.span(DECODE, 9);
    assert_eq!(
        bench.script.calls(),
        [
            Call::Record(slot, Edge::Start, 9),
            Call::Record(slot, Edge::End, 9)
        ]
    );
    assert_eq!(bench.harvest(), 0, "the GPU is not done");
    bench.script.answer(slot, SpanPoll::Ready(1234));
    assert_eq!(bench.harvest(), 1);
    assert_eq!(bench.harvest(), 0);
    let lane = bench.instruments.lane[LANE_DECODE].snapshot();
    assert_eq!((lane.count(), lane.sum_ns()), (1, 1234));
    bench.assert_closes();
}

#[test]
fn an_idle_ring_asks_nothing() {
    let bench = Bench::new(64);
    assert_eq!(bench.harvest(), 0);
    let slot = bench.span(DECODE, 1);
    bench.script.answer(slot, SpanPoll::Ready(5));
    bench.harvest();
    bench.script.calls();
    assert_eq!(bench.harvest(), 0);
    assert_eq!(bench.script.calls(), []);
}

#[test]
fn polls_are_bracketed_and_may_be_forbidden() {
    let bench = Bench::new(4);
    let slot = bench.span(DECODE, 1);
    bench.script.answer(slot, SpanPoll::Ready(5));
    bench.script.allow_polls(false);
    bench.script.calls();
    assert_eq!(bench.harvest(), 0);
    assert_eq!(bench.script.calls(), [Call::PassBegin]);
    bench.script.allow_polls(true);
    assert_eq!(bench.harvest(), 1);
    assert_eq!(
        bench.script.calls(),
        [Call::PassBegin, Call::First(slot), Call::PassEnd]
    );
}

#[test]
fn a_start_that_cannot_be_recorded_frees_its_slot() {
    let bench = Bench::new(1);
    bench.script.fail(Edge::Start, true);
    assert_eq!(bench.begin(DECODE, 1), None);
    bench.script.fail(Edge::Start, false);
    assert!(bench.begin(DECODE, 1).is_some());
    let ledger = bench.ring.ledger();
    assert_eq!((ledger.begun, ledger.failed, ledger.in_flight), (2, 1, 1));
    assert_eq!(bench.instruments.span_failures.get(), 1);
    bench.assert_closes();
}

#[test]
fn an_end_that_cannot_be_recorded_frees_its_slot() {
    let bench = Bench::new(1);
    let token = bench.begin(DECODE, 1).unwrap();
    bench.script.fail(Edge::End, true);
    bench.ring.end(token, 1, &bench.instruments);
    assert_eq!(bench.instruments.span_failures.get(), 1);
    bench.script.answer(0, SpanPoll::Ready(1));
    assert_eq!(bench.harvest(), 0, "a failed span never lands");
    assert!(bench.begin(DECODE, 1).is_some());
    bench.assert_closes();
}

#[test]
fn a_failed_poll_frees_and_counts() {
    let bench = Bench::new(1);
    bench.span(DECODE, 1);
    bench.script.answer(0, SpanPoll::Failed);
    assert_eq!(bench.harvest(), 0);
    assert_eq!(bench.ring.ledger().failed, 1);
    assert_eq!(bench.instruments.span_failures.get(), 1);
    assert!(bench.begin(DECODE, 1).is_some());
    bench.assert_closes();
}

#[test]
fn a_refused_stream_takes_no_slot_and_makes_no_record() {
    let bench = Bench::new(1);
    bench.script.refuse(3);
    assert_eq!(bench.begin(DECODE, 3), None);
    assert_eq!(bench.script.calls(), []);
    assert_eq!(bench.begin(DECODE, 4).map(|token| token.slot()), Some(0));
    let ledger = bench.ring.ledger();
    assert_eq!((ledger.attempts, ledger.refused, ledger.begun), (2, 1, 1));
    bench.assert_closes();
}

#[test]
fn a_cancelled_span_never_lands() {
    let bench = Bench::new(1);
    let token = bench.begin(DECODE, 1).unwrap();
    bench.ring.cancel(token);
    bench.script.answer(0, SpanPoll::Ready(1));
    assert_eq!(bench.harvest(), 0);
    bench.ring.end(token, 1, &bench.instruments);
    bench.ring.cancel(token);
    let ledger = bench.ring.ledger();
    assert_eq!((ledger.cancelled, ledger.stale_ends), (1, 2));
    bench.assert_closes();
}

#[test]
fn a_lane_outside_the_lanes_lands_and_is_ignored() {
    let bench = Bench::new(2);
    for lane in [3, usize::MAX] {
        let slot = bench.span(SpanKey::Lane(lane), 1);
        bench.script.answer(slot, SpanPoll::Ready(1));
    }
    assert_eq!(bench.harvest(), 2);
    assert!(bench.instruments.lane.iter().all(|lane| lane.count() == 0));
}

fn test_clock() -> u64 {
    NOW_NS.with(std::cell::Cell::get)
}

thread_local! {
    static NOW_NS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

#[test]
fn a_span_left_open_is_reclaimed_by_age_and_its_end_is_stale() {
    let script = Scripted::default();
    let ring = SpanRing::builder(script.clone(), 1)
        .reclaim_after(Duration::from_secs(60))
        .clock(test_clock)
        .build();
    let bench = Bench::with(ring, script);
    let token = bench.begin(DECODE, 1).unwrap();
    bench.harvest();
    NOW_NS.set(59_999_999_999);
    bench.harvest();
    assert_eq!(bench.ring.ledger().in_flight, 1);
    NOW_NS.set(60_000_000_000);
    bench.harvest();
    assert_eq!(bench.ring.ledger().reclaimed, 1);
    bench.script.calls();
    bench.ring.end(token, 1, &bench.instruments);
    assert_eq!(bench.script.calls(), [], "a stale end touches no event");
    assert_eq!(bench.ring.ledger().stale_ends, 1);

    // The age of the slot's next span starts anew.
    bench.begin(DECODE, 1).unwrap();
    bench.harvest();
    assert_eq!(bench.ring.ledger().in_flight, 1);
    bench.assert_closes();
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
    let ring = SpanRing::builder(Interrupted::default(), 1)
        .reclaim_after(Duration::ZERO)
        .build();
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

#[test]
fn a_plain_ring_never_reclaims() {
    let bench = Bench::new(1);
    let token = bench.begin(DECODE, 1).unwrap();
    for _ in 0..1000 {
        bench.harvest();
    }
    bench.ring.end(token, 1, &bench.instruments);
    bench.script.answer(0, SpanPoll::Ready(2));
    assert_eq!(bench.harvest(), 1);
}
