// SPDX-License-Identifier: MIT OR Apache-2.0
//! A step's figures against two other ways to come by them: a walk from
//! nanosecond to nanosecond, and sets of ranges of another author's making.

mod regions;
mod sets;
mod settle;
mod walk;

use super::{Before, Figures, Laid, LaneFigures, NO_LANE, Scratch};
use proptest::prelude::*;

/// A span of a lane, a launch, or a region.
#[derive(Clone, Copy, Debug)]
struct AnySpan {
    start_ns: i64,
    ns: u64,
    stream: u64,
    row: u16,
    lane: u8,
    is_lane: bool,
    is_region: bool,
}

impl AnySpan {
    fn placed(&self) -> super::Interval {
        super::Interval {
            start_ns: self.start_ns,
            ns: self.ns,
            stream: self.stream,
            row: self.row,
            lane: self.lane,
            entry: 0,
        }
    }
}

/// Lanes that have names; a launch of the next index is in none.
const LANES: usize = 5;

fn figures(spans: &[AnySpan]) -> (Figures, Vec<Before>) {
    let mut scratch = Scratch::default();
    // What a step before left is forgotten.
    let (before, mut told) = (lane(0, 1, -50, 1_000).placed(), Vec::new());
    let mut step = Laid { lanes: &mut [before], launches: &mut [before], regions: &[before] };
    scratch.figures(LANES, &mut step, |_| ());
    let placed = |is_lane, is_region| {
        let own = |span: &&AnySpan| span.is_lane == is_lane && span.is_region == is_region;
        let own = spans.iter().filter(own);
        own.map(AnySpan::placed).collect::<Vec<_>>()
    };
    let mut step = Laid {
        lanes: &mut placed(true, false),
        launches: &mut placed(false, false),
        regions: &placed(false, true),
    };
    let figures = scratch.figures(LANES, &mut step, |launch| told.push(launch));
    (figures, told)
}

fn lane(lane: u8, stream: u64, start_ns: i64, ns: u64) -> AnySpan {
    AnySpan { start_ns, ns, stream, row: super::NO_ROW, lane, is_lane: true, is_region: false }
}

fn launch(lane: u8, stream: u64, start_ns: i64, ns: u64) -> AnySpan {
    AnySpan { row: 0, is_lane: false, ..self::lane(lane, stream, start_ns, ns) }
}

fn region(lane: u8, stream: u64, start_ns: i64, ns: u64) -> AnySpan {
    AnySpan { is_region: true, ..launch(lane, stream, start_ns, ns) }
}

/// Spans of a step, whose places are less than `size` apart.
fn step(size: i64) -> impl Strategy<Value = Vec<AnySpan>> {
    let ns = prop_oneof![1 => Just(0u64), 9 => 0..size as u64 / 2];
    let part = (-size / 4..size, ns, 0..3u64, 0..=LANES as u8, 0..4u16);
    let lanes = prop::collection::vec(part.clone(), 0..4);
    let launches = prop::collection::vec(part, 0..12);
    (lanes, launches).prop_map(|(lanes, launches)| {
        let lanes = lanes.into_iter().map(|(start_ns, ns, stream, lane, _)| {
            self::lane(lane.min(LANES as u8 - 1), stream, start_ns, ns)
        });
        let launches = launches.into_iter().map(|(start_ns, ns, stream, lane, row)| {
            let launch = launch(lane, stream, start_ns, ns);
            AnySpan { row, ..launch }
        });
        lanes.chain(launches).collect()
    })
}

/// The figures of one lane, or of all.
fn of(figures: &Figures, lane: Option<u8>) -> LaneFigures {
    lane.map_or(figures.device, |lane| figures.lanes[usize::from(lane)])
}

fn lanes_and_device() -> impl Iterator<Item = Option<u8>> {
    (0..LANES as u8).map(Some).chain([None])
}

/// Whether a span, or launch, counts in the figures of one lane, or of all.
fn is_in(span: &AnySpan, lane: Option<u8>) -> bool {
    lane.is_none_or(|lane| span.lane == lane)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn figures_are_what_a_walk_counts(spans in step(28)) {
        let (found, launches) = figures(&spans);
        let settled = settle::by_stream(&spans);
        for lane in lanes_and_device() {
            let (expected, waited) = walk::figures(&settled, lane);
            prop_assert_eq!(of(&found, lane), expected, "{:?}", lane);
            for (told, (settled, waited_ns)) in launches.iter().zip(waited) {
                if lane.is_some_and(|lane| lane == settled.span.lane) {
                    prop_assert_eq!(told.waited_ns, waited_ns);
                }
            }
        }
        let expected = settled.iter().filter(|settled| !settled.span.is_lane);
        let expected: Vec<_> = expected
            .map(|settled| (settled.span.row, settled.span.ns, settled.gap_ns))
            .collect();
        let told: Vec<_> = launches.iter().map(|told| (told.row, told.ns, told.gap_ns)).collect();
        prop_assert_eq!(told, expected);
    }

    #[test]
    fn figures_are_what_sets_of_ranges_hold(
        spans in prop_oneof![step(200), step(1_000_000), step(1_000_000_000_000)],
    ) {
        let (found, _) = figures(&spans);
        let settled = settle::by_stream(&spans);
        for lane in lanes_and_device() {
            prop_assert_eq!(of(&found, lane), sets::figures(&settled, lane), "{:?}", lane);
        }
    }

    #[test]
    fn the_identities_hold_and_the_order_says_nothing(
        (spans, shuffled) in step(5_000)
            .prop_flat_map(|spans| (Just(spans.clone()), Just(spans).prop_shuffle())),
    ) {
        let (found, _) = figures(&spans);
        for lane in lanes_and_device() {
            let f = of(&found, lane);
            prop_assert_eq!(f.time_ns, f.busy_ns + f.lead_ns + f.waited_ns + f.tail_ns);
            prop_assert_eq!(f.idle_ns(), f.lead_ns + f.waited_ns + f.tail_ns);
            let own = spans.iter().filter(|span| !span.is_lane && is_in(span, lane));
            let lengths: u64 = own.map(|span| span.ns).sum();
            prop_assert_eq!(f.busy_ns + f.overlap_ns + f.outside_ns, lengths);
        }
        let mut starts: Vec<_> = spans.iter().map(|span| (span.is_lane, span.start_ns)).collect();
        starts.sort_unstable();
        starts.dedup();
        if starts.len() == spans.len() {
            prop_assert_eq!(figures(&shuffled).0, found);
        }
    }
}

#[test]
fn idle_time_is_booked_to_the_launch_whose_start_ends_it() {
    let spans = [
        lane(2, 1, 0, 100),
        launch(2, 1, 10, 20),
        // Of two that start at once the one begun first.
        launch(2, 2, 50, 5),
        launch(2, 1, 50, 40),
    ];
    let (found, launches) = figures(&spans);
    let waited: Vec<_> = launches.iter().map(|told| told.waited_ns).collect();
    assert_eq!(waited, [0, 20, 0]);
    let decode = found.lanes[2];
    assert_eq!((decode.lead_ns, decode.waited_ns, decode.tail_ns), (10, 20, 10));
    assert_eq!((decode.busy_ns, decode.overlap_ns, decode.waits), (60, 5, 1));
    assert_eq!(found.device, decode);
}

#[test]
fn what_another_lane_did_is_idle_of_this_one_and_busy_of_the_device() {
    let spans = [
        lane(1, 1, 0, 100),
        lane(2, 2, 0, 100),
        launch(1, 1, 0, 50),
        launch(2, 2, 50, 50),
        // In no lane: of the device alone.
        launch(NO_LANE, 3, 20, 10),
    ];
    let (found, _) = figures(&spans);
    assert_eq!((found.lanes[1].busy_ns, found.lanes[1].tail_ns), (50, 50));
    assert_eq!((found.lanes[2].busy_ns, found.lanes[2].lead_ns), (50, 50));
    let device = found.device;
    assert_eq!((device.busy_ns, device.idle_ns(), device.overlap_ns), (100, 0, 10));
}

#[test]
fn a_lane_without_launches_is_all_lead_and_one_without_spans_is_no_step() {
    let (found, _) = figures(&[lane(0, 1, 5, 40), launch(0, 1, 200, 7), launch(1, 1, 10, 3)]);
    let admit = found.lanes[0];
    assert_eq!((admit.steps, admit.lead_ns, admit.tail_ns), (1, 40, 0));
    assert_eq!((admit.busy_ns, admit.outside_ns), (0, 7));
    let prefill = found.lanes[1];
    assert_eq!((prefill.steps, prefill.time_ns, prefill.outside_ns), (0, 0, 3));
}

#[test]
fn a_span_of_a_lane_that_nobody_named_is_nobodys_time() {
    let (found, launches) = figures(&[lane(NO_LANE, 1, 0, 9), launch(NO_LANE, 1, 0, 9)]);
    assert_eq!(found.device.time_ns, 0);
    assert_eq!(launches.len(), 1);
}

#[test]
fn places_at_the_ends_of_time_do_not_overflow() {
    let spans = [
        lane(0, 1, i64::MIN, u64::MAX),
        launch(0, 1, i64::MAX, u64::MAX),
        launch(0, 2, i64::MIN, u64::MAX),
        launch(0, 3, i64::MIN, u64::MAX),
    ];
    let (found, _) = figures(&spans);
    assert_eq!(found.lanes[0].busy_ns, u64::MAX);
}
