// SPDX-License-Identifier: MIT OR Apache-2.0
//! Steps with regions: what is in one on its stream covers nothing twice.

use super::settle::{Settled, by_stream};
use super::{AnySpan, figures, is_in, lane, lanes_and_device, launch, of, region};
use super::{sets, step, walk};
use proptest::prelude::*;

/// A step of [`step`], some of whose launches are regions.
fn step_with_regions(size: i64) -> impl Strategy<Value = Vec<AnySpan>> {
    let kinds = prop::collection::vec(any::<bool>(), 16);
    (step(size), kinds).prop_map(|(mut spans, kinds)| {
        let launches = spans.iter_mut().filter(|span| !span.is_lane);
        for (span, is_region) in launches.zip(kinds) {
            span.is_region = is_region;
            span.ns *= 1 + u64::from(is_region);
        }
        spans
    })
}

/// What of each launch and region counts in the figures of one lane, or of all:
/// nothing of what regions on its stream cover; with its place among them.
fn counted(settled: &[Settled], lane: Option<u8>) -> (Vec<Settled>, Vec<usize>) {
    let launches: Vec<_> = settled.iter().filter(|span| !span.span.is_lane).collect();
    let (mut counted, mut places) = (Vec::new(), Vec::new());
    for (place, span) in launches.iter().enumerate() {
        let around = span.within.iter().map(|at| launches[*at]);
        let around =
            around.filter(|region| lane.is_none_or(|_| region.span.lane == span.span.lane));
        let until_ns = around.map(|region| region.end_ns);
        let until_ns = until_ns.max().unwrap_or(i64::MIN);
        if until_ns <= span.start_ns || until_ns < span.end_ns {
            places.push(place);
            counted.push(Settled { start_ns: span.start_ns.max(until_ns), ..(*span).clone() });
        }
    }
    counted.extend(settled.iter().filter(|span| span.span.is_lane).cloned());
    (counted, places)
}

/// A region's nanoseconds in which nothing ran that began in it, one by one.
fn own_ns(settled: &[Settled], region: usize) -> u64 {
    let launches: Vec<_> = settled.iter().filter(|span| !span.span.is_lane).collect();
    let is_child = |span: &&&Settled| span.within.last() == Some(&region);
    let children: Vec<_> = launches.iter().filter(is_child).collect();
    let runs = |at: &i64| children.iter().any(|span| (span.start_ns..span.end_ns).contains(at));
    let of = launches[region];
    (of.start_ns..of.end_ns).filter(|at| !runs(at)).count() as u64
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn figures_are_what_a_walk_counts(spans in step_with_regions(28)) {
        let (found, told) = figures(&spans);
        let settled = by_stream(&spans);
        for lane in lanes_and_device() {
            let (counted, places) = counted(&settled, lane);
            let (expected, waited) = walk::figures(&counted, lane);
            prop_assert_eq!(of(&found, lane), expected, "{:?}", lane);
            for (place, (settled, waited_ns)) in places.into_iter().zip(waited) {
                if lane.is_some_and(|lane| lane == settled.span.lane) {
                    prop_assert_eq!(told[place].waited_ns, waited_ns);
                }
            }
        }
        let spans = settled.iter().filter(|settled| !settled.span.is_lane);
        let expected: Vec<_> = spans
            .enumerate()
            .map(|(at, own)| {
                let own_ns = if own.span.is_region { own_ns(&settled, at) } else { 0 };
                (own.span.row, own.span.ns, own.gap_ns, own_ns)
            })
            .collect();
        let told: Vec<_> =
            told.iter().map(|told| (told.row, told.ns, told.gap_ns, told.own_ns)).collect();
        prop_assert_eq!(told, expected);
    }

    #[test]
    fn figures_are_what_sets_of_ranges_hold(
        spans in prop_oneof![step_with_regions(200), step_with_regions(1_000_000)],
    ) {
        let (found, _) = figures(&spans);
        let settled = by_stream(&spans);
        for lane in lanes_and_device() {
            let (counted, _) = counted(&settled, lane);
            prop_assert_eq!(of(&found, lane), sets::figures(&counted, lane), "{:?}", lane);
        }
    }

    #[test]
    fn the_identities_hold(spans in step_with_regions(5_000)) {
        let (found, told) = figures(&spans);
        for lane in lanes_and_device() {
            let f = of(&found, lane);
            prop_assert_eq!(f.time_ns, f.busy_ns + f.lead_ns + f.waited_ns + f.tail_ns);
            let own = spans.iter().filter(|span| !span.is_lane && is_in(span, lane));
            let lengths: u64 = own.map(|span| span.ns).sum();
            prop_assert!(f.busy_ns + f.overlap_ns + f.outside_ns <= lengths);
        }
        prop_assert!(told.iter().all(|told| told.own_ns <= told.ns));
    }
}

#[test]
fn a_launch_in_a_region_is_counted_once() {
    let (found, told) = figures(&[
        lane(2, 1, 0, 200),
        region(2, 1, 10, 100),
        launch(2, 1, 30, 20),
        launch(2, 1, 60, 20),
        // On another stream it overlaps.
        launch(2, 2, 40, 30),
        launch(2, 1, 115, 15),
    ]);
    let decode = found.lanes[2];
    assert_eq!((decode.busy_ns, decode.overlap_ns), (115, 30));
    assert_eq!((decode.lead_ns, decode.waited_ns, decode.tail_ns), (10, 5, 70));
    assert_eq!(found.device, decode);
    let told: Vec<_> = told.iter().map(|told| (told.ns, told.gap_ns, told.own_ns)).collect();
    let expected = [
        (100, None, 60),
        // Work of the region may be before it.
        (20, None, 0),
        (30, None, 0),
        (20, Some(10), 0),
        (15, Some(5), 0),
    ];
    assert_eq!(told, expected);
}

#[test]
fn what_reaches_beyond_a_region_counts_from_there() {
    let (found, told) =
        figures(&[lane(0, 1, 0, 3_000), region(0, 1, 100, 1_000), launch(0, 1, 600, 1_500)]);
    let admit = found.lanes[0];
    assert_eq!((admit.busy_ns, admit.overlap_ns, admit.tail_ns), (2_000, 0, 900));
    assert_eq!(told[0].own_ns, 500);
}

#[test]
fn regions_in_regions_leave_each_its_own_time() {
    let (found, told) = figures(&[
        lane(0, 1, 0, 100),
        region(0, 1, 0, 100),
        region(0, 1, 20, 50),
        launch(0, 1, 30, 10),
    ]);
    assert_eq!(found.lanes[0].busy_ns, 100);
    assert_eq!(found.lanes[0].overlap_ns, 0);
    let own: Vec<_> = told.iter().map(|told| told.own_ns).collect();
    assert_eq!(own, [50, 40, 0]);
}

#[test]
fn a_launch_of_another_lane_in_a_region_is_that_lanes_own() {
    let (found, _) = figures(&[
        lane(0, 1, 0, 100),
        lane(1, 1, 0, 100),
        region(0, 1, 0, 80),
        launch(1, 1, 10, 20),
    ]);
    assert_eq!((found.lanes[0].busy_ns, found.lanes[1].busy_ns), (80, 20));
    assert_eq!((found.device.busy_ns, found.device.overlap_ns), (80, 0));
}
