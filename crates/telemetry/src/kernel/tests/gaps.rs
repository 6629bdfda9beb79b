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

/// As an async server has them: one long lane, and others that come and go
/// meanwhile. A gap is known again after whichever ended last.
#[test]
fn lanes_that_overlap_have_no_gap_until_the_last_of_them_is_over() {
    // Start and end of each, in the order of their begins; the gap before it.
    let lanes = [
        (0, 1_000, None),
        (50, 100, None),
        (200, 300, None),
        (900, 1_100, None),
        (1_000, 1_050, None),
        (1_150, 1_200, Some(50)),
        (1_150, 1_200, None),
        (1_207, 1_210, Some(7)),
    ];
    let bench = bench(16);
    let mut last_end = None;
    let mut found = Vec::new();
    for (start, end, _) in lanes {
        bench
            .script
            .gap(last_end.map_or(0, |last: i64| start - last));
        let before = gaps(&bench);
        let token = bench.begin(DECODE, 1).unwrap();
        let ns = u64::try_from(end - start).unwrap();
        bench.script.answer(token.slot(), SpanPoll::Ready(ns));
        bench.ring.end(token, 1, &bench.instruments);
        assert_eq!(bench.harvest(), 1);
        let after = gaps(&bench);
        assert_eq!(after.0 + after.2, before.0 + before.2 + 1);
        found.push((after.0 > before.0).then_some(after.1 - before.1));
        last_end = last_end.max(Some(end));
    }
    assert_eq!(found, lanes.map(|(_, _, gap)| gap));
    let asked = gaps_asked(&bench).into_iter().map(|call| match call {
        Call::Gap(prev, _) => prev,
        _ => unreachable!(),
    });
    // Each is asked about against the one that ended last.
    assert_eq!(asked.collect::<Vec<_>>(), [0, 0, 0, 3, 3, 5, 6]);
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
