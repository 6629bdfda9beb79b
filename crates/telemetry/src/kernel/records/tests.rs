// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the log keeps, and what it says of what it did not.

use super::{LaneRecord, OPEN_STEPS, OpenSteps, RECENT_STEPS, SLOWEST_STEPS, StepLog};
use super::{StepCursor, StepRecord, StepShape};
use crate::kernel::{LANE_DECODE, MAX_LANES};

const MINUTE_NS: u64 = 60_000_000_000;

fn record(number: u64, ns: u64, ended_ns: Option<u64>) -> StepRecord {
    let mut lanes = [LaneRecord::NONE; MAX_LANES];
    lanes[LANE_DECODE].add(ns, None);
    StepRecord {
        number,
        armed: false,
        marked: false,
        incomplete: false,
        shape: None,
        wall_ns: None,
        ended_ns,
        lanes,
    }
}

fn log(records: impl IntoIterator<Item = StepRecord>) -> StepLog {
    let mut log = StepLog::new();
    log.take_memory();
    records.into_iter().for_each(|record| log.push(&record));
    log
}

#[test]
fn the_last_records_are_kept_and_what_nobody_read_is_counted() {
    let records = |numbers: std::ops::Range<u64>| numbers.map(|number| record(number, 1, None));
    let mut log = log(records(0..10));
    assert_eq!(log.read().steps, records(0..10).collect::<Vec<_>>());
    let more = RECENT_STEPS as u64 + 15;
    records(10..more).for_each(|record| log.push(&record));
    let found = log.read();
    assert_eq!(found.overwritten, 5, "10 of the 15 were read before");
    assert_eq!(found.steps, records(15..more).collect::<Vec<_>>());
    assert_eq!(log.read(), found, "to read changes nothing");
}

#[test]
fn each_reader_has_a_place_of_its_own() {
    let mut log = log((0..3).map(|number| record(number, 1, None)));
    let (mut fast, mut slow) = (StepCursor::default(), StepCursor::default());
    let next = |log: &StepLog, at: &mut StepCursor| log.next(at).map(|step| step.number);
    assert_eq!(next(&log, &mut slow), Some(0));
    assert_eq!([(); 4].map(|()| next(&log, &mut fast)), [Some(0), Some(1), Some(2), None]);
    (3..RECENT_STEPS as u64 + 7).for_each(|number| log.push(&record(number, 1, None)));
    assert_eq!((next(&log, &mut fast), fast.missed()), (Some(7), 4));
    assert_eq!((next(&log, &mut slow), slow.missed()), (Some(7), 6));
}

#[test]
fn the_slowest_of_each_minute_are_kept_for_ten_minutes() {
    let many = SLOWEST_STEPS as u64 + 20;
    // In an order that is neither that of time nor of slowness.
    let of_minute = |minute: u64| {
        (0..many).map(move |at| {
            let ns = 1 + at * 31 % many;
            record(minute * 100 + ns, ns, Some(minute * MINUTE_NS + at))
        })
    };
    let log = log((0..12).flat_map(of_minute));
    let now_ns = 11 * MINUTE_NS + 5;
    let found = log.slowest(now_ns);
    let minutes: Vec<_> = found.iter().map(|minute| minute.began_ns / MINUTE_NS).collect();
    assert_eq!(minutes, (2..12).rev().collect::<Vec<_>>());
    for minute in &found {
        let slowest: Vec<_> = minute.steps.iter().map(StepRecord::gpu_ns).collect();
        let expected = (many - SLOWEST_STEPS as u64 + 1..=many).rev();
        assert_eq!(slowest, expected.collect::<Vec<_>>());
    }
    assert_eq!(log.slowest(now_ns + 9 * MINUTE_NS).len(), 1);
    assert_eq!(log.slowest(now_ns + 10 * MINUTE_NS), []);
}

#[test]
fn steps_that_ran_a_twin_are_slow_behind_all_others() {
    let marked = |number, ns| StepRecord { marked: true, ..record(number, ns, Some(0)) };
    let steps = [marked(0, 8), record(1, 1, Some(0)), marked(2, 9), record(3, 2, Some(0))];
    let numbers = |log: &StepLog| -> Vec<_> {
        log.slowest(0)[0].steps.iter().map(|step| step.number).collect()
    };
    let mut log = log(steps);
    assert_eq!(numbers(&log), [3, 1, 2, 0]);
    (10..42).for_each(|number| log.push(&record(number, 1, Some(0))));
    assert!(!numbers(&log).iter().any(|number| [0, 2].contains(number)));
}

#[test]
fn a_step_of_unknown_end_is_of_the_last_known_minute() {
    let log = log([record(0, 1, Some(3 * MINUTE_NS)), record(1, 9, None)]);
    let found = log.slowest(3 * MINUTE_NS);
    let numbers: Vec<_> = found[0].steps.iter().map(|step| step.number).collect();
    assert_eq!(numbers, [1, 0]);
}

#[test]
fn the_last_shape_before_the_close_counts() {
    let open = OpenSteps::new();
    let shape = |tokens| StepShape::new().prompt_tokens(tokens).decode_tokens(7).requests(3);
    assert!(open.begin(0, true));
    let stated = || open.read(open.standing(0).unwrap());
    assert_eq!(stated(), (None, None));
    open.shape(0, shape(1));
    open.shape(0, shape(u32::MAX));
    open.close(0, Some(5..9));
    open.shape(0, shape(2));
    open.close(0, Some(5..11));
    assert_eq!(stated(), (Some(shape(u32::MAX)), Some(5..9)));
    assert!(open.standing(0).unwrap().is_closed());
}

#[test]
fn who_comes_late_changes_no_later_step() {
    let open = OpenSteps::new();
    let later = OPEN_STEPS as u64;
    assert!(open.begin(0, false));
    assert!(!open.begin(later, false), "its place is taken");
    assert_eq!(open.unrecorded(), 1);
    assert!(open.free(open.standing(0).unwrap()));
    assert!(open.begin(later, false));
    open.shape(0, StepShape::new().requests(1));
    open.enter(0);
    open.leave(0, true);
    open.close(0, None);
    let standing = open.standing(later).unwrap();
    assert_eq!((standing.number(), standing.spans()), (later, 0));
    assert!(!standing.is_closed() && !standing.is_lost());
    assert_eq!(open.read(standing), (None, None));
    // One that changed since it was seen is not freed.
    open.enter(later);
    assert!(!open.free(standing));
    assert_eq!(open.standing(later).unwrap().spans(), 1);
}
