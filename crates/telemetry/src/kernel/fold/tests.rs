// SPDX-License-Identifier: MIT OR Apache-2.0
//! When a step is folded, and as what.

mod programs;
mod records;
mod regions;
mod rig;
mod room;

use super::StepTable;
use crate::kernel::steps::FOLLOWED_STEPS;
use crate::kernel::{
    Estimate, KernelEstimate, LANE_DECODE, LANE_PREFILL, MAX_LANES, Place, SpanKey, SpanPoll,
    StepLosses,
};
use crate::sampling::Sampling;
use crate::sync::relaxed::lock;
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
    assert_eq!(
        (figures.steps, figures.time_ns, figures.busy_ns),
        (1, 100, 35)
    );
    assert_eq!(
        (figures.lead_ns, figures.waited_ns, figures.tail_ns),
        (20, 10, 35)
    );
    assert_eq!(losses(&rig), StepLosses::default());
}

#[test]
fn an_open_step_is_not_folded_until_four_later_ones_were_begun() {
    let mut rig = Rig::new(16);
    step(&rig, 0);
    rig.newest = 3;
    rig.pass();
    assert_eq!(steps(&rig), 0);
    rig.newest = 4;
    rig.pass();
    assert_eq!(steps(&rig), 1);
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
fn what_is_lost_makes_a_step_incomplete_and_keeps_its_lane_time() {
    let lose: [fn(&Rig); 5] = [
        // A poll, a start and an end that fail.
        |rig| {
            let token = rig.span(0, launch(7, LANE_DECODE, 50, 1));
            rig.answer(token, SpanPoll::Failed);
        },
        |rig| {
            rig.fails(true);
            assert!(rig.begin(0, launch(7, LANE_DECODE, 50, 1)).is_err());
            rig.fails(false);
        },
        |rig| {
            let token = rig.begin(0, launch(7, LANE_DECODE, 50, 1)).unwrap();
            rig.fails(true);
            assert!(rig.ring.end_span(token, 1).is_err());
            rig.fails(false);
            rig.table.lose(0);
        },
        // A full ring, and a span that was refused.
        |rig| {
            let fill = |_| rig.ring.begin(SpanKey::Kernel(1), 1, &rig.into);
            assert!((0..14).all(|at| fill(at).is_some()));
            assert!(rig.begin(0, launch(7, LANE_DECODE, 50, 1)).is_err());
        },
        |rig| rig.table.miss(0),
    ];
    for lose in lose {
        let mut rig = Rig::new(16);
        step(&rig, 0);
        lose(&rig);
        rig.table.close(0);
        rig.pass();
        assert_eq!(rig.lane_ns(LANE_DECODE), (0, 100));
        let lost = StepLosses {
            incomplete_steps: 1,
            ..StepLosses::default()
        };
        assert_eq!(losses(&rig), lost);
        let estimate = rig.folded().lane_estimate(LANE_DECODE);
        assert_eq!((estimate.steps, estimate.armed_steps), (1, 0));
        assert_eq!((estimate.total_ns, estimate.covered), (100, None));
        assert_eq!(rig.folded().kernel_estimates(Sampling::Hashed, 1), []);
        assert!(rig.table.is_idle());
    }
}

#[test]
fn a_launch_that_was_cancelled_costs_its_step_nothing() {
    let mut rig = Rig::new(16);
    step(&rig, 0);
    let token = rig.begin(0, launch(7, LANE_DECODE, 50, 1)).unwrap();
    assert!(rig.ring.cancel(token).is_some());
    rig.table.withdraw(0);
    rig.table.close(0);
    rig.pass();
    assert_eq!(rig.lane_ns(LANE_DECODE), (100, 0));
    assert_eq!(losses(&rig), StepLosses::default());
}

#[test]
fn a_late_span_is_counted_and_its_lane_time_is_kept() {
    let mut rig = Rig::new(16);
    step(&rig, 0);
    rig.table.close(0);
    rig.span(0, lane(LANE_DECODE, 200, 11));
    rig.span(0, launch(7, LANE_DECODE, 200, 3));
    rig.pass();
    assert_eq!(rig.lane_ns(LANE_DECODE), (100, 11));
    assert_eq!(losses(&rig).late_spans, 2);
    let estimate = rig.folded().lane_estimate(LANE_DECODE);
    assert_eq!((estimate.total_ns, estimate.armed_ns), (111, 100));
    let row = rig.into.kernels()[0];
    assert_eq!((row.total_ns, row.samples), (33, 2), "raw sums have it");
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
fn while_a_reader_holds_what_was_folded_steps_wait_and_nothing_is_lost() {
    let mut rig = Rig::new(64);
    for track in 0..5 {
        rig.newest = track;
        step(&rig, track);
        rig.table.close(track);
        let into = std::mem::take(&mut rig.into);
        let reader = lock(&into.folded);
        let mut folding = rig.fold.harvest(&rig.table, &into);
        assert_eq!(rig.ring.harvest_with(|span| folding.take(span)), 2);
        folding.finish(rig.newest, None);
        drop(reader);
        rig.into = into;
        assert_eq!(steps(&rig), 0);
    }
    rig.pass();
    assert_eq!((steps(&rig), rig.lane_ns(LANE_DECODE)), (5, (500, 0)));
    assert_eq!(losses(&rig), StepLosses::default());
    assert!(rig.table.is_idle());
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
        estimate: Estimate {
            steps: 2,
            total_ns: 60.0,
            share: 0.3,
            error: None,
        },
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
fn a_step_whose_kernels_lane_has_no_span_counts_once() {
    let mut rig = Rig::new(16);
    rig.span(0, lane(LANE_DECODE, 0, 100));
    for func in 1..4 {
        rig.span(0, launch(func, LANE_PREFILL, 0, 10));
    }
    rig.table.close(0);
    rig.pass();
    assert_eq!(losses(&rig).unpaired_steps, 1);
    assert_eq!(steps(&rig), 1);
}

#[test]
fn a_fold_and_its_table_say_what_they_hold() {
    let rig = Rig::new(4);
    step(&rig, 0);
    assert!(format!("{:?}", rig.table).contains("used: 1"));
    assert!(format!("{:?}", StepTable::default()).contains("used: 0"));
}
