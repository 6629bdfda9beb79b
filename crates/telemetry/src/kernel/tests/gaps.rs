// SPDX-License-Identifier: MIT OR Apache-2.0
//! When the gap between two spans is read, and when it is unknown.

use super::scripted::{Bench, Call, Scripted};
use crate::kernel::{Edge, Harvested, LANE_DECODE, SpanKey, SpanPoll, SpanRing};

const DECODE: SpanKey = SpanKey::Lane(LANE_DECODE);

fn bench(slots: usize) -> Bench {
    let script = Scripted::default();
    (0..slots).for_each(|slot| script.answer(slot, SpanPoll::Ready(1)));
    script.gap(700);
    Bench::with(
        SpanRing::builder(script.clone(), slots).gaps().build(),
        script,
    )
}

fn gaps(bench: &Bench) -> (u64, u64, u64) {
    let gaps = bench.instruments.lane_gap[LANE_DECODE].snapshot();
    (
        gaps.count(),
        gaps.sum_ns(),
        bench.instruments.lane_gap_unknown.get(),
    )
}

fn gaps_asked(bench: &Bench) -> Vec<Call> {
    let calls = bench.script.calls().into_iter();
    calls.filter(|call| matches!(call, Call::Gap(..))).collect()
}

#[test]
fn neighbours_of_one_stream_have_a_gap_within_and_across_passes() {
    let bench = bench(8);
    bench.span(DECODE, 1);
    bench.span(DECODE, 1);
    bench.harvest();
    bench.span(DECODE, 1);
    bench.span(DECODE, 2);
    bench.harvest();
    assert_eq!(
        gaps(&bench),
        (2, 1400, 2),
        "the first of each stream is unknown"
    );
    assert_eq!(gaps_asked(&bench), [Call::Gap(0, 1), Call::Gap(1, 2)]);
}

#[test]
fn a_predecessor_whose_events_are_in_use_again_gives_no_gap() {
    let bench = bench(1);
    bench.span(DECODE, 1);
    bench.harvest();
    bench.span(DECODE, 1);
    bench.harvest();
    assert_eq!(gaps(&bench), (0, 0, 2));
    assert_eq!(gaps_asked(&bench), []);
}

#[test]
fn a_lost_span_in_between_makes_the_gap_unknown() {
    let lose: [fn(&Bench); 3] = [
        |bench| assert!(bench.ring.cancel(bench.begin(DECODE, 1).unwrap()).is_some()),
        |bench| {
            bench.script.fail(Edge::Start, true);
            assert_eq!(bench.begin(DECODE, 1), None);
            bench.script.fail(Edge::Start, false);
        },
        |bench| {
            let slot = bench.span(DECODE, 1);
            bench.script.answer(slot, SpanPoll::Failed);
            bench.harvest();
            bench.script.answer(slot, SpanPoll::Ready(1));
        },
    ];
    for lose in lose {
        let bench = bench(8);
        bench.span(DECODE, 1);
        lose(&bench);
        bench.span(DECODE, 1);
        bench.harvest();
        assert_eq!(gaps(&bench), (0, 0, 2));
        bench.span(DECODE, 1);
        bench.harvest();
        assert_eq!(gaps(&bench), (1, 700, 2), "and the next one is known again");
    }
}

#[test]
fn a_dropped_span_in_between_makes_the_gap_unknown() {
    let bench = bench(2);
    bench.span(DECODE, 1);
    bench.span(DECODE, 1);
    assert_eq!(bench.begin(DECODE, 1), None);
    bench.harvest();
    assert_eq!(gaps(&bench), (1, 700, 1));
    bench.span(DECODE, 1);
    bench.harvest();
    assert_eq!(gaps(&bench), (1, 700, 2));
}

#[test]
fn a_ring_reads_no_gap_unless_asked() {
    let bench = Bench::new(8);
    (0..8).for_each(|slot| bench.script.answer(slot, SpanPoll::Ready(1)));
    for slot in 0..3 {
        assert_eq!(bench.span(DECODE, 1), slot);
    }
    let mut read = Vec::new();
    bench.ring.harvest_with(|span| match span {
        Harvested::Landed(landed) => read.push(landed.gap_ns),
        other => panic!("{other:?}"),
    });
    assert_eq!(read, [None; 3]);
    assert_eq!(gaps_asked(&bench), []);
}
