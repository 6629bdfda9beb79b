// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which timelines are kept, and what they tell.

use super::rig::{Rig, Work, lane, launch};
use crate::kernel::{
    LANE_DECODE, MAX_LANES, MAX_RECORDED_STEPS, SlowStep, SpanKey, StepShape, Timeline,
    TimelineSpan,
};

fn rig() -> Rig {
    let mut rig = Rig::new(2_048);
    rig.armed = true;
    rig
}

fn work(track: u32) -> [Work; 3] {
    let at = i64::from(track);
    [lane(LANE_DECODE, at, 100), launch(7, LANE_DECODE, at + 20, 30), launch(0, 77, 200, 5)]
}

fn begin(rig: &mut Rig, track: u32) {
    rig.number();
    for work in work(track) {
        rig.span(track, work);
    }
    rig.newest = track;
}

fn end(rig: &mut Rig, track: u32) {
    rig.table.close(track);
    rig.pass();
}

fn step(rig: &mut Rig, track: u32) {
    begin(rig, track);
    end(rig, track);
}

fn steps(timelines: &[Timeline]) -> Vec<u64> {
    timelines.iter().map(|timeline| timeline.step).collect()
}

#[test]
fn the_last_complete_timelines_are_kept() {
    let mut rig = rig();
    for track in 0..6 {
        begin(&mut rig, track);
        if track == 4 {
            rig.table.lose(track, None);
        }
        end(&mut rig, track);
    }
    let told = |span: &TimelineSpan, work: Work| {
        let func = match work.key {
            SpanKey::Kernel(func) if func != 0 => Some(func),
            _ => None,
        };
        let lane = Some(work.lane).filter(|lane| *lane < MAX_LANES);
        let expected = (work.start_ns, work.ns, work.stream, lane, func);
        assert_eq!((span.start_ns, span.ns, span.stream, span.lane, span.func), expected);
    };
    let found = rig.into.timelines();
    assert_eq!(steps(&found), [1, 2, 3, 5], "4 is incomplete");
    for timeline in &found {
        let spans = timeline.lanes.iter().chain(&timeline.launches);
        assert_eq!((timeline.lanes.len(), timeline.launches.len()), (1, 2));
        for (span, work) in spans.zip(work(timeline.step as u32)) {
            told(span, work);
        }
        let decode = timeline.figures[LANE_DECODE];
        assert_eq!((decode.time_ns, decode.busy_ns), (100, 30));
        assert_eq!((decode.lead_ns, decode.tail_ns), (20, 50));
        // One launch of no lane, after the lane: not in the device's time.
        assert_eq!((timeline.device.time_ns, timeline.device.busy_ns), (100, 30));
        assert_eq!(timeline.record, None, "it is open on the host");
    }
}

/// A step's record may be left before its timeline is kept, or after.
#[test]
fn a_timeline_has_the_record_of_its_step() {
    for is_left_first in [true, false] {
        let mut rig = rig();
        rig.into.record_steps(8, None).unwrap();
        let close = |rig: &Rig, number: u64| {
            let shape = StepShape::new().requests(number as u32);
            rig.into.open_steps.shape(number, shape);
            rig.into.open_steps.close(number, Some(1_000..1_500));
        };
        for track in 0..3 {
            begin(&mut rig, track);
            if is_left_first {
                close(&rig, u64::from(track));
                rig.pass();
                assert_eq!(steps(&rig.into.timelines()).len(), track as usize);
                rig.table.close(track);
            } else {
                rig.table.close(track);
                rig.pass();
                assert_eq!(rig.into.timelines()[track as usize].record, None);
                close(&rig, u64::from(track));
            }
            rig.pass();
        }
        let recording = rig.into.recording().unwrap();
        for timelines in [rig.into.timelines(), recording.timelines] {
            assert_eq!(steps(&timelines), [0, 1, 2]);
            for timeline in timelines {
                let record = timeline.record.expect("it left one");
                assert_eq!((record.number, record.ended_ns), (timeline.step, Some(1_500)));
                assert_eq!(record.shape.unwrap().requests, timeline.step as u32);
            }
        }
    }
}

#[test]
fn a_recording_has_the_next_steps_and_no_later_one() {
    let mut rig = rig();
    assert_eq!(rig.into.recording(), None, "nobody asked for one");
    step(&mut rig, 0);
    rig.into.record_steps(6, None).unwrap();
    for track in 1..4 {
        step(&mut rig, track);
    }
    let recording = rig.into.recording().unwrap();
    assert_eq!((recording.steps, recording.is_complete()), (6, false));
    assert_eq!(steps(&recording.timelines), [1, 2, 3]);
    for track in 4..10 {
        step(&mut rig, track);
    }
    let recording = rig.into.recording().unwrap();
    assert!(recording.is_complete());
    assert_eq!(steps(&recording.timelines), [1, 2, 3, 4, 5, 6]);
    assert_eq!(recording.timelines[5].launches.len(), 2);
    assert_eq!(steps(&rig.into.timelines()), [6, 7, 8, 9], "kept as ever");

    let error = rig.into.record_steps(MAX_RECORDED_STEPS + 1, None).unwrap_err();
    assert_eq!(error.asked, MAX_RECORDED_STEPS + 1);
    assert!(rig.into.recording().unwrap().is_complete(), "as it was");
    rig.into.record_steps(1, None).unwrap();
    assert_eq!(rig.into.recording().unwrap().timelines, []);
    rig.into.record_steps(0, None).unwrap();
    assert_eq!(rig.into.recording(), None);
}

/// A step whose decode lane takes so long, and that ends at `ended_ns`.
fn slow_step(rig: &mut Rig, track: u32, ns: u64, ended_ns: u64) {
    rig.number();
    rig.span(track, lane(LANE_DECODE, 0, ns));
    rig.newest = track;
    rig.into.open_steps.close(u64::from(track), Some(0..ended_ns));
    rig.table.close(track);
    rig.pass();
}

const MINUTE_NS: u64 = 60_000_000_000;

#[test]
fn a_slow_step_begins_a_recording_at_most_once_a_minute() {
    let mut rig = rig();
    let slow = SlowStep::LongerThan { lane: LANE_DECODE, ns: 100 };
    rig.into.record_steps(2, Some(slow)).unwrap();
    let recorded = |rig: &Rig| {
        let recording = rig.into.recording().unwrap();
        let number = recording.slow.map(|step| step.number);
        (number, steps(&recording.timelines))
    };
    for track in 0..3 {
        slow_step(&mut rig, track, 100, 1_000);
    }
    assert_eq!(recorded(&rig), (None, vec![]), "not longer");
    slow_step(&mut rig, 3, 101, 1_000);
    assert_eq!(recorded(&rig), (Some(3), vec![]));
    // The next ones, and none for later slow steps of that minute.
    for track in 4..8 {
        slow_step(&mut rig, track, 500, MINUTE_NS);
    }
    assert_eq!(recorded(&rig), (Some(3), vec![4, 5]));
    slow_step(&mut rig, 8, 100, 1_000 + MINUTE_NS);
    assert_eq!(recorded(&rig).0, Some(3), "it is not slow");
    slow_step(&mut rig, 9, 101, 1_000 + MINUTE_NS);
    assert_eq!(recorded(&rig), (Some(9), vec![]));
    slow_step(&mut rig, 10, 1, 2 * MINUTE_NS);
    assert_eq!(recorded(&rig), (Some(9), vec![10]));
    let recording = rig.into.recording().unwrap();
    assert_eq!(recording.slow.unwrap().lanes[LANE_DECODE].gpu_ns, 101);
}

/// Of 100 steps of 1 to 100 ns, 99 take at most 99.
#[test]
fn a_step_is_slow_by_the_percentile_of_the_last_ones() {
    let mut rig = rig();
    let slow = SlowStep::LongerThanP99 { lane: LANE_DECODE };
    rig.into.record_steps(1, Some(slow)).unwrap();
    let fired = |rig: &Rig| {
        let slow = rig.into.recording().unwrap().slow;
        slow.map(|step| step.number)
    };
    for track in 0..100 {
        // In no order of time: 37 and 100 share no divisor.
        let ns = 1 + u64::from(track) * 37 % 100;
        slow_step(&mut rig, track, ns, 1_000);
    }
    assert_eq!(fired(&rig), None, "there were too few before");
    slow_step(&mut rig, 100, 99, 1_000);
    assert_eq!(fired(&rig), None);
    // A step without the lane says nothing.
    rig.number();
    rig.span(101, lane(0, 0, 1_000_000));
    rig.newest = 101;
    rig.into.open_steps.close(101, Some(0..1_000));
    end(&mut rig, 101);
    assert_eq!(fired(&rig), None);
    // A step that ran a twin took longer by its marks.
    rig.number();
    rig.into.open_steps.mark(102);
    rig.span(102, lane(LANE_DECODE, 0, 100));
    rig.newest = 102;
    rig.into.open_steps.close(102, Some(0..1_000));
    end(&mut rig, 102);
    assert_eq!(fired(&rig), None);
    slow_step(&mut rig, 103, 100, 1_000);
    assert_eq!(fired(&rig), Some(103));
}
