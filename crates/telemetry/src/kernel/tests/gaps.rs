// SPDX-License-Identifier: MIT OR Apache-2.0
//! When the gap between two spans is read, and when it is unknown.

use super::scripted::{Bench, Call, Scripted};
use crate::kernel::{Edge, LANE_DECODE, SpanKey, SpanPoll, SpanRing};

const DECODE: SpanKey = SpanKey::Lane(LANE_DECODE);

fn bench(slots: usize) -> Bench {
    let script = Scripted::default();
    (0..slots).for_each(|slot| script.answer(slot, SpanPoll::Ready(1)));
    script.gap(700);
    Bench::with(
        SpanRing::builder(script.clone(), slots).gaps(true).build(),
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
    let read: Vec<_> = bench
        .script
        .calls()
        .into_iter()
        .filter(|call| matches!(call, Call::Gap(..)))
        .collect();
    assert_eq!(read, [Call::Gap(0, 1), Call::Gap(1, 2)]);
}

#[test]
fn a_predecessor_whose_events_are_in_use_again_gives_no_gap() {
    let bench = bench(1);
    bench.span(DECODE, 1);
    bench.harvest();
    bench.span(DECODE, 1);
    bench.harvest();
    assert_eq!(gaps(&bench), (0, 0, 2));
    assert!(
        !bench
            .script
            .calls()
            .iter()
            .any(|call| matches!(call, Call::Gap(..)))
    );
}

#[test]
fn a_lost_span_in_between_makes_the_gap_unknown() {
    let lose: [fn(&Bench); 3] = [
        |bench| bench.ring.cancel(bench.begin(DECODE, 1).unwrap()),
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
