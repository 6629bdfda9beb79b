// SPDX-License-Identifier: MIT OR Apache-2.0
//! When a step leaves its record, and what it tells.

use super::rig::{Rig, lane, launch};
use crate::kernel::records::GIVEN_UP;
use crate::kernel::{
    LANE_DECODE, LANE_PREFILL, SpanKey, SpanPoll, SpanTag, StepId, StepRecord, StepShape,
};
use crate::runtime::{OPEN_STEPS, StepTable};
use crate::sync::relaxed::lock;

fn rig(armed: bool) -> Rig {
    let mut rig = Rig::new(2_048);
    rig.armed = armed;
    rig
}

fn records(rig: &Rig) -> Vec<StepRecord> {
    rig.into.recent_steps(true).steps
}

fn numbers(rig: &Rig) -> Vec<u64> {
    records(rig).iter().map(|step| step.number).collect()
}

/// Closes a step on the host, and for the fold.
fn close(rig: &Rig, number: u64) {
    rig.table.close(number as u32);
    rig.into.open_steps.close(number, Some(1_000..1_500));
}

/// A span of a step that is not followed: only its number is known.
fn unarmed_span(rig: &Rig, number: u64, at: usize, ns: u64) {
    rig.into.open_steps.enter(number);
    let tag = SpanTag { lane: Some(at), armed: false, step: StepId::Number(number) };
    let key = SpanKey::Lane(at);
    let token = rig.ring.begin_tagged(key, tag, 1).unwrap();
    rig.ring.end_span(token, 1).unwrap();
    rig.answer(token, SpanPoll::Ready(ns));
}

#[test]
fn a_step_tells_what_its_lanes_took_armed_or_not() {
    for armed in [false, true] {
        let mut rig = rig(armed);
        let number = rig.number();
        if armed {
            rig.span(0, lane(LANE_PREFILL, 0, 40));
            rig.span(0, launch(7, LANE_PREFILL, 5, 30));
            rig.span(0, lane(LANE_PREFILL, 50, 60));
            rig.span(0, lane(4, 120, 3));
        } else {
            unarmed_span(&rig, 0, LANE_PREFILL, 40);
            unarmed_span(&rig, 0, LANE_PREFILL, 60);
            unarmed_span(&rig, 0, 4, 3);
        }
        rig.pass();
        assert_eq!(records(&rig), [], "it is open");
        close(&rig, number);
        rig.pass();
        let [record] = records(&rig)[..] else {
            panic!("one record, once");
        };
        assert_eq!((record.number, record.armed, record.incomplete), (0, armed, false));
        assert_eq!((record.wall_ns, record.ended_ns), (Some(500), Some(1_500)));
        assert_eq!(record.shape, Some(StepShape::new()));
        let prefill = record.lanes[LANE_PREFILL];
        assert_eq!((prefill.spans, prefill.gpu_ns), (2, 100));
        assert_eq!((record.lanes[4].spans, record.lanes[4].gpu_ns), (1, 3));
        assert_eq!(record.gpu_ns(), 103);
    }
}

#[test]
fn a_step_waits_for_the_lanes_that_it_counted() {
    let mut rig = rig(true);
    rig.number();
    let slow = rig.begin(0, lane(LANE_DECODE, 0, 9)).unwrap();
    rig.end(slow, lane(LANE_DECODE, 0, 9));
    close(&rig, 0);
    rig.number();
    close(&rig, 1);
    rig.pass();
    assert_eq!(numbers(&rig), [1], "a later one may be over before");
    rig.answer(slow, SpanPoll::Ready(9));
    rig.pass();
    assert_eq!(numbers(&rig), [1, 0]);
    assert_eq!(records(&rig)[1].lanes[LANE_DECODE].gpu_ns, 9);
}

#[test]
fn a_step_that_nobody_closes_is_closed_by_later_ones() {
    let mut rig = rig(false);
    rig.number();
    unarmed_span(&rig, 0, LANE_DECODE, 8);
    for _ in 1..64 {
        rig.number();
    }
    rig.pass();
    assert!(numbers(&rig).is_empty());
    rig.number();
    rig.pass();
    assert_eq!(numbers(&rig), [0]);
    assert!(!records(&rig)[0].incomplete);
}

#[test]
fn a_step_is_given_up_before_a_later_one_wants_its_place() {
    let mut rig = rig(false);
    rig.number();
    rig.into.open_steps.enter(0);
    for _ in 1..GIVEN_UP {
        let number = rig.number();
        close(&rig, number);
        rig.pass();
    }
    assert_eq!(records(&rig).len() as u64, GIVEN_UP - 1);
    let number = rig.number();
    close(&rig, number);
    rig.pass();
    let last = records(&rig);
    let given_up = last.iter().find(|step| step.number == 0).unwrap();
    assert!(given_up.incomplete);
    // What lands of it now changes no other.
    unarmed_span(&rig, 0, LANE_DECODE, 8);
    let open = OPEN_STEPS as u64;
    for _ in GIVEN_UP + 1..=open {
        let number = rig.number();
        close(&rig, number);
    }
    rig.pass();
    let last = records(&rig);
    assert_eq!(last.last().unwrap().number, open);
    assert_eq!(last.last().unwrap().gpu_ns(), 0);
    assert_eq!(rig.into.open_steps.unrecorded(), 0);
}

#[test]
fn where_nobody_harvests_steps_leave_no_record_and_are_counted() {
    let mut rig = rig(false);
    let open = &rig.into.open_steps;
    for _ in 0..OPEN_STEPS + 5 {
        let number = open.number();
        open.begin(number, false);
        open.close(number, None);
    }
    assert_eq!(open.unrecorded(), 5);
    rig.pass();
    // The first five were there when the last ones wanted their places.
    let mut found = numbers(&rig);
    found.sort_unstable();
    assert_eq!(found, (0..OPEN_STEPS as u64).collect::<Vec<_>>());
    let number = rig.number();
    close(&rig, number);
    rig.pass();
    assert_eq!(records(&rig).last().unwrap().number, OPEN_STEPS as u64 + 5);
}

/// Numbered, and suspended before it could say so.
#[test]
fn a_step_that_begins_very_late_holds_its_place_for_no_longer_than_others() {
    let mut rig = rig(false);
    let open = &rig.into.open_steps;
    let late = open.number();
    let begin = |number| assert!(open.begin(number, false));
    for _ in 1..OPEN_STEPS - 1 {
        let number = open.number();
        begin(number);
        open.close(number, None);
    }
    rig.pass();
    let open = &rig.into.open_steps;
    assert!(open.begin(late, false));
    for _ in 0..2 {
        let number = open.number();
        open.begin(number, false);
        open.close(number, None);
    }
    assert_eq!(rig.into.open_steps.unrecorded(), 1);
    rig.pass();
    rig.pass();
    let last = *records(&rig).last().unwrap();
    assert_eq!((last.number, last.incomplete), (late, false));
}

#[test]
fn a_pass_that_finds_the_log_taken_leaves_records_to_the_next() {
    let mut rig = rig(false);
    let number = rig.number();
    close(&rig, number);
    let into = std::mem::take(&mut rig.into);
    let reader = lock(&into.log);
    let mut folding = rig.fold.harvest(&rig.table, &into);
    rig.ring.harvest_with(|span| folding.take(span));
    folding.finish(rig.newest, None);
    drop(reader);
    rig.into = into;
    assert!(numbers(&rig).is_empty());
    rig.pass();
    assert_eq!(numbers(&rig), [0]);
}

#[test]
fn a_fold_that_ends_leaves_the_records_of_all() {
    let mut rig = rig(false);
    rig.number();
    unarmed_span(&rig, 0, LANE_DECODE, 8);
    rig.pass();
    rig.fold.harvest(&StepTable::new(), &rig.into).give_up();
    let [record] = records(&rig)[..] else {
        panic!("one record");
    };
    assert!(record.incomplete);
    assert_eq!(record.gpu_ns(), 8);
}

#[test]
fn times_by_shape_are_of_what_was_recorded() {
    let mut rig = rig(false);
    for tokens in [1, 3, 4] {
        let number = rig.number();
        let shape = StepShape::new().decode_tokens(tokens);
        rig.into.open_steps.shape(number, shape);
        unarmed_span(&rig, number, LANE_DECODE, 100);
        close(&rig, number);
    }
    rig.pass();
    let found = rig.folded().shapes(LANE_DECODE);
    let of = |most, steps| {
        let times = found.iter().find(|times| times.most_tokens == most);
        times.map(|times| (times.steps, times.ns)) == Some((steps, 100 * steps))
    };
    assert!(found.len() == 2 && of(1, 1) && of(4, 2), "{found:?}");
}
