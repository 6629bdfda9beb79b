// SPDX-License-Identifier: MIT OR Apache-2.0
//! When a step is folded, and as what.

mod programs;
mod records;
mod regions;
mod rig;
mod room;
mod timelines;

use super::StepTable;
use crate::kernel::steps::FOLLOWED_STEPS;
use crate::kernel::{
    Estimate, KernelEstimate, LANE_DECODE, LANE_PREFILL, MAX_LANES, Place, SpanPoll, StepLosses,
};
use crate::sampling::Sampling;
use rig::{LANES, Rig, lane, launch};

const LATER: u32 = FOLLOWED_STEPS as u32;

/// A lane of 100 ns with a launch of 30 ns in it.
fn step(rig: &Rig, track: u32) {
    rig.span(track, lane(LANE_DECODE, 0, 100));
    rig.span(track, launch(7, LANE_DECODE, 20, 30));
}

fn steps(rig: &Rig) -> u64 {
    rig.folded().lane(LANE_DECODE).map_or(0, |lane| lane.steps)
}

fn losses(rig: &Rig) -> StepLosses {
    rig.folded().losses()
}

#[test]
fn a_step_is_folded_once_when_it_is_closed_and_all_its_spans_are_over() {
    let mut rig = Rig::new(16);
    step(&rig, 0);
    let slow = rig.begin(0, launch(7, LANE_DECODE, 60, 5)).unwrap();
    rig.end(slow, launch(7, LANE_DECODE, 60, 5));
    rig.table.close(0);
    assert_eq!(rig.pass(), 2);
    assert_eq!(steps(&rig), 0, "one is on the GPU");
    rig.answer(slow, SpanPoll::Ready(5));
    assert_eq!((rig.pass(), steps(&rig)), (1, 1));
    assert!(rig.table.is_idle());
    rig.pass();
    let figures = rig.folded().lane(LANE_DECODE).unwrap();
    assert_eq!((figures.steps, figures.time_ns, figures.busy_ns), (1, 100, 35));
    assert_eq!((figures.lead_ns, figures.waited_ns, figures.tail_ns), (20, 10, 35));
    assert_eq!(losses(&rig), StepLosses::default());
}

#[test]
fn a_span_that_its_anchor_is_not_done_for_waits_and_holds_its_step() {
    let mut rig = Rig::new(16);
    let token = rig.span(0, lane(LANE_DECODE, 0, 100));
    rig.place(token, Place::Pending);
    rig.table.close(0);
    assert_eq!((rig.pass(), steps(&rig)), (0, 0));
    rig.place(token, Place::At(-5));
    assert_eq!((rig.pass(), steps(&rig)), (1, 1));
}

#[test]
fn a_step_that_waits_for_a_span_is_given_up_after_64_later_ones() {
    let mut rig = Rig::new(16);
    step(&rig, 0);
    let open = rig.begin(0, lane(LANE_PREFILL, 0, 9)).unwrap();
    rig.table.close(0);
    rig.newest = LATER - 1;
    rig.pass();
    assert_eq!(losses(&rig).incomplete_steps, 0);
    rig.newest = LATER;
    rig.pass();
    assert_eq!(losses(&rig).incomplete_steps, 1);
    assert_eq!(rig.lane_ns(LANE_DECODE), (0, 100));
    // What comes of it later is late, and no part of the entry's next step.
    step(&rig, LATER);
    rig.end(open, lane(LANE_PREFILL, 0, 9));
    rig.answer(open, SpanPoll::Ready(9));
    rig.table.close(LATER);
    rig.pass();
    assert_eq!(rig.lane_ns(LANE_PREFILL), (0, 9));
    assert_eq!(rig.lane_ns(LANE_DECODE), (100, 100));
    assert_eq!(losses(&rig).late_spans, 1);
}

#[test]
fn steps_are_followed_closed_and_given_up_across_the_wrap_of_tracks() {
    let mut rig = Rig::new(16);
    // A track is later than another if it is by less than half of all.
    let before = [1, 2, 3].map(|quarter| quarter << 30 | 61);
    for track in before {
        rig.newest = track;
        step(&rig, track);
        rig.table.close(track);
        rig.pass();
    }
    assert_eq!(steps(&rig), 3);
    let last = u32::MAX - 2;
    step(&rig, last);
    rig.newest = last.wrapping_add(3);
    rig.pass();
    assert_eq!(steps(&rig), 3);
    rig.newest = last.wrapping_add(4);
    rig.pass();
    assert_eq!(steps(&rig), 4);
    // Its entry's next one, of which a span never ends.
    let next = last.wrapping_add(LATER);
    step(&rig, next);
    rig.begin(next, launch(7, LANE_DECODE, 60, 5)).unwrap();
    rig.newest = next + LATER - 1;
    rig.pass();
    assert_eq!(losses(&rig).incomplete_steps, 0);
    rig.newest = next + LATER;
    rig.pass();
    assert_eq!((steps(&rig), losses(&rig).incomplete_steps), (4, 1));
    assert_eq!(losses(&rig).late_spans, 0);
}

#[test]
fn a_step_that_found_its_entry_in_use_is_timed_and_not_placed() {
    let mut rig = Rig::new(16);
    step(&rig, 0);
    step(&rig, LATER);
    rig.pass();
    assert_eq!(losses(&rig).unplaced_steps, 1);
    assert_eq!(rig.lane_ns(LANE_DECODE), (0, 100));
}

#[test]
fn under_spread_a_step_folds_sums_without_places() {
    let mut rig = Rig::new(16);
    rig.armed = false;
    for track in 0..2 {
        step(&rig, track);
        rig.table.close(track);
        rig.pass();
    }
    assert_eq!(rig.folded().lane(LANE_DECODE), None);
    assert_eq!(rig.lane_ns(LANE_DECODE), (0, 0));
    assert_eq!(losses(&rig), StepLosses::default());
    let expected = KernelEstimate {
        func: 7,
        lane: LANE_DECODE,
        estimate: Estimate { steps: 2, total_ns: 60.0, share: 0.3, error: None },
    };
    let found = rig.folded().kernel_estimates(Sampling::Spread, 1);
    assert_eq!(found, [expected]);
}

#[test]
fn what_waits_when_a_recorder_ends_is_given_up() {
    let mut rig = Rig::new(16);
    for track in [1, 2] {
        step(&rig, track);
    }
    rig.begin(2, launch(7, LANE_DECODE, 70, 9)).unwrap();
    rig.table.close(1);
    let mut folding = rig.fold.harvest(&rig.table, &rig.into);
    rig.ring.harvest_with(|span| folding.take(span));
    folding.give_up();
    assert_eq!(rig.lane_ns(LANE_DECODE), (100, 100));
    assert_eq!(losses(&rig).incomplete_steps, 1);
    assert!(rig.table.is_idle());
}

#[test]
fn a_lane_that_nobody_named_is_no_part_of_its_step() {
    for unnamed in [LANES, MAX_LANES - 1, MAX_LANES, usize::MAX] {
        let mut rig = Rig::new(16);
        rig.span(0, lane(unnamed, 0, 100));
        rig.span(0, launch(7, unnamed, 20, 30));
        rig.table.close(0);
        rig.pass();
        assert_eq!(losses(&rig), StepLosses::default());
        assert_eq!(rig.folded().device(), None);
        assert_eq!(rig.into.kernels()[0].total_ns, 30);
    }
}

#[test]
fn a_fold_and_its_table_say_what_they_hold() {
    let rig = Rig::new(4);
    step(&rig, 0);
    assert!(format!("{:?}", rig.table).contains("used: 1"));
    assert!(format!("{:?}", StepTable::default()).contains("used: 0"));
}
