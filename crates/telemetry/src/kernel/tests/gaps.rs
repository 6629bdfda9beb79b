// SPDX-License-Identifier: MIT OR Apache-2.0
//! When the gap between two spans is read, and when it is unknown.

use super::scripted::{Bench, Call, Scripted};
use crate::kernel::{
    Edge, Gaps, LANE_DECODE, Landed, SpanKey, SpanPoll, SpanRing, SpanSink, SpanTag,
};
use std::sync::Mutex;

const DECODE: SpanKey = SpanKey::Lane(LANE_DECODE);

fn bench(slots: usize) -> Bench {
    with(slots, Gaps::EverySpan)
}

fn with(slots: usize, gaps: Gaps) -> Bench {
    let script = Scripted::default();
    (0..slots).for_each(|slot| script.answer(slot, SpanPoll::Ready(1)));
    script.gap(700);
    Bench::with(
        SpanRing::builder(script.clone(), slots).gaps(gaps).build(),
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

/// A sink that keeps the gaps of what lands.
#[derive(Default)]
struct Read(Mutex<Vec<Option<u64>>>);

impl SpanSink for Read {
    fn landed(&self, span: Landed) {
        self.0.lock().unwrap().push(span.gap_ns);
    }
    fn dropped(&self) {}
    fn failed(&self) {}
}

/// A kernel launch: armed or not, of a step or of none, on a stream.
type Launch = (bool, Option<u64>, u64);

/// The gaps of launches that land in one pass; `between` runs after the first.
fn gaps_of(rule: Gaps, launches: &[Launch], between: impl Fn(&Bench)) -> Vec<Option<u64>> {
    let (bench, read) = (with(8, rule), Read::default());
    for (at, &(armed, step, stream)) in launches.iter().enumerate() {
        let tag = SpanTag {
            armed,
            lane: Some(LANE_DECODE),
            step,
        };
        let token = bench
            .ring
            .begin_into(SpanKey::Kernel(7), tag, stream, &read)
            .expect("a free slot");
        bench.ring.end_into(token, stream, &read);
        if at == 0 {
            between(&bench);
        }
    }
    bench.ring.harvest_into(&read);
    let asked = bench.script.calls();
    let asked = asked.iter().filter(|call| matches!(call, Call::Gap(..)));
    let read = read.0.into_inner().unwrap();
    assert_eq!(asked.count(), read.iter().flatten().count());
    read
}

#[test]
fn within_a_step_neighbours_of_one_armed_step_and_stream_have_a_gap() {
    let within = |launches: &[Launch]| gaps_of(Gaps::WithinStep, launches, |_| ());
    let (none, read) = (None, Some(700));
    let step = |step| (true, Some(step), 1);
    assert_eq!(within(&[step(3), step(3), step(3)]), [none, read, read]);
    assert_eq!(within(&[step(0), step(0)]), [none, read], "step 0 is one");
    assert_eq!(
        within(&[step(3), step(4), step(4), step(3)]),
        [none, none, read, none],
        "of different steps"
    );
    assert_eq!(
        within(&[step(3), (true, Some(3), 2), step(3)]),
        [none, none, read],
        "of different streams"
    );
    assert_eq!(within(&[(true, None, 1); 2]), [none; 2], "of no step");
    assert_eq!(
        within(&[(false, Some(3), 1); 2]),
        [none; 2],
        "of a step that is not armed, as under Spread"
    );
    assert_eq!(
        within(&[step(3), (false, Some(3), 1), step(3)]),
        [none; 3],
        "one of the two is not armed"
    );
}

#[test]
fn a_lost_span_in_between_makes_a_gap_within_a_step_unknown() {
    let launches = [(true, Some(3), 1); 3];
    let cancel = |bench: &Bench| bench.ring.cancel(bench.begin(DECODE, 1).unwrap());
    assert_eq!(
        gaps_of(Gaps::WithinStep, &launches, cancel),
        [None, None, Some(700)]
    );
    let fail = |bench: &Bench| {
        bench.script.fail(Edge::Start, true);
        assert_eq!(bench.begin(DECODE, 1), None);
        bench.script.fail(Edge::Start, false);
    };
    assert_eq!(
        gaps_of(Gaps::WithinStep, &launches, fail),
        [None, None, Some(700)]
    );
}

#[test]
fn a_ring_reads_no_gap_unless_asked() {
    let launches = [(true, Some(3), 1); 3];
    assert_eq!(gaps_of(Gaps::Off, &launches, |_| ()), [None; 3]);
    assert_eq!(Gaps::default(), Gaps::Off);
}
