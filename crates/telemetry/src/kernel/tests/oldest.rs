// SPDX-License-Identifier: MIT OR Apache-2.0
//! The age of what does not land: seen from beside a pass, and from inside one
//! that hangs.

use super::scripted::{Bench, Scripted};
use crate::kernel::{
    Edge, EventOps, Harvested, LANE_DECODE, OldestSpan, OldestSpans, SpanKey, SpanPoll, SpanRing,
    SpanTag,
};
use std::cell::Cell;
use std::sync::{Arc, Mutex, OnceLock, Weak};

const DECODE: SpanKey = SpanKey::Lane(LANE_DECODE);
const GEMM: SpanKey = SpanKey::Kernel(7);
const SECOND: u64 = 1_000_000_000;

thread_local! {
    static NOW_NS: Cell<u64> = const { Cell::new(0) };
}

fn clock() -> u64 {
    NOW_NS.get()
}

fn bench(slots: usize) -> Bench {
    NOW_NS.set(0);
    let script = Scripted::default();
    let ring = SpanRing::builder(script.clone(), slots).clock(clock);
    Bench::with(ring.build(), script)
}

/// A pass at a time, and what waits then.
fn pass_at(bench: &Bench, seconds: u64) -> OldestSpans {
    NOW_NS.set(seconds * SECOND);
    bench.harvest();
    bench.ring.oldest(clock())
}

fn age(span: Option<OldestSpan>) -> Option<u64> {
    span.unwrap().age_ns.map(|age_ns| age_ns / SECOND)
}

#[test]
fn a_kernel_that_never_ends_grows_old_with_its_key_and_stream() {
    let bench = bench(4);
    assert_eq!(bench.ring.oldest(5), OldestSpans::default());
    bench.span(GEMM, 3);
    bench.span(DECODE, 4);
    let unseen = OldestSpan { key: GEMM, stream: Some(3), age_ns: None };
    let closed = |found: OldestSpans| found.closed.unwrap();
    assert_eq!(closed(bench.ring.oldest(99)), unseen);
    for (seconds, old) in [(10, 0), (11, 1), (41, 31)] {
        let found = pass_at(&bench, seconds);
        assert_eq!(age(found.closed), Some(old));
        assert_eq!((closed(found).key, closed(found).stream), (GEMM, Some(3)));
        assert_eq!(found.open, None);
    }
    // Between passes too, and by the clock of who asks.
    assert_eq!(age(bench.ring.oldest(50 * SECOND).closed), Some(40));
    bench.script.answer(0, SpanPoll::Ready(1));
    let found = pass_at(&bench, 60);
    assert_eq!((closed(found).key, age(found.closed)), (DECODE, Some(0)));
    bench.script.answer(1, SpanPoll::Ready(1));
    assert_eq!(pass_at(&bench, 61), OldestSpans::default());
}

#[test]
fn open_spans_are_told_apart_and_an_end_begins_their_age_anew() {
    let bench = bench(4);
    let token = bench.begin(DECODE, 1).unwrap();
    pass_at(&bench, 0);
    let found = pass_at(&bench, 59);
    assert_eq!((found.closed, age(found.open)), (None, Some(59)));
    assert_eq!(found.open.unwrap().stream, None);
    bench.ring.end(token, 1, &bench.instruments);
    let found = bench.ring.oldest(60 * SECOND);
    assert_eq!((found.open, age(found.closed)), (None, None), "not seen yet");
    assert_eq!(age(pass_at(&bench, 61).closed), Some(0));
    assert_eq!(age(pass_at(&bench, 65).closed), Some(4));
}

#[test]
fn where_polls_are_not_allowed_closed_spans_grow_old() {
    let bench = bench(4);
    bench.span(GEMM, 1);
    bench.script.allow_polls(false);
    pass_at(&bench, 2);
    assert_eq!(age(pass_at(&bench, 40).closed), Some(38));
}

#[test]
fn after_drops_the_oldest_is_the_one_begun_first() {
    let bench = bench(2);
    let first = bench.begin(GEMM, 1).unwrap();
    for _ in 0..3 {
        // The other slot goes on, the first one's turns are dropped.
        let slot = bench.span(DECODE, 2);
        bench.script.answer(slot, SpanPoll::Ready(1));
        bench.harvest();
        assert_eq!(bench.begin(DECODE, 2), None);
    }
    bench.span(DECODE, 2);
    bench.ring.end(first, 1, &bench.instruments);
    bench.script.answer(1, SpanPoll::Pending);
    assert_eq!(bench.ring.oldest(0).closed.map(|span| span.key), Some(GEMM));
}

/// A source whose polls take 40 seconds; a reader looks meanwhile.
#[derive(Default)]
struct Hanging {
    ring: OnceLock<Weak<SpanRing<Hanging>>>,
    seen: Mutex<Vec<OldestSpans>>,
    answer: Mutex<Option<SpanPoll>>,
}

impl EventOps for Hanging {
    fn record(&self, _: usize, _: Edge, _: u64) -> bool {
        true
    }
    fn poll(&self, _: usize) -> SpanPoll {
        let ring = self.ring.get().and_then(Weak::upgrade).unwrap();
        for _ in 0..2 {
            NOW_NS.set(clock() + 20 * SECOND);
            self.seen.lock().unwrap().push(ring.oldest(clock()));
        }
        self.answer.lock().unwrap().unwrap_or(SpanPoll::Pending)
    }
}

#[test]
fn a_poll_that_hangs_shows_before_its_pass_has_ended() {
    NOW_NS.set(0);
    let ring = SpanRing::builder(Hanging::default(), 2).clock(clock).build();
    let ring = Arc::new(ring);
    let ops = ring.ops();
    ops.ring.set(Arc::downgrade(&ring)).unwrap();
    let token = ring.begin_tagged(GEMM, SpanTag::default(), 5).unwrap();
    ring.end_span(token, 5).unwrap();
    NOW_NS.set(100 * SECOND);
    let seen = || {
        let seen = std::mem::take(&mut *ops.seen.lock().unwrap());
        let ages = seen.iter().map(|found| age(found.closed).unwrap());
        ages.collect::<Vec<_>>()
    };
    assert_eq!(ring.harvest_with(|_| ()), 0);
    assert_eq!(seen(), [20, 40], "since the pass began to ask");
    // Known from the first pass on, and not from the second.
    NOW_NS.set(200 * SECOND);
    assert_eq!(ring.harvest_with(|_| ()), 0);
    assert_eq!(seen(), [120, 140]);
    *ops.answer.lock().unwrap() = Some(SpanPoll::Failed);
    let mut over = Vec::new();
    ring.harvest_with(|span| over.push(span));
    assert!(matches!(over[..], [Harvested::Failed(_)]), "{over:?}");
    assert_eq!(ring.oldest(clock()), OldestSpans::default());
}
