// SPDX-License-Identifier: MIT OR Apache-2.0
//! Steps with regions.

use super::rig::{Rig, Work, lane, launch};
use super::{losses, steps};
use crate::kernel::{LANE_DECODE, Place, SpanPoll, StepLosses};
use crate::runtime::FIRST_REGION;

fn region(start_ns: i64, ns: u64) -> Work {
    launch(FIRST_REGION, LANE_DECODE, start_ns, ns)
}

/// A lane of 100 ns, in it a region of 50 ns with a launch of 20 ns, and a launch
/// after it.
fn step(rig: &Rig, track: u32) {
    rig.number();
    rig.span(track, lane(LANE_DECODE, 0, 100));
    rig.span(track, region(10, 50));
    rig.span(track, launch(7, LANE_DECODE, 30, 20));
    rig.span(track, launch(8, LANE_DECODE, 70, 5));
    rig.table.close(track);
}

#[test]
fn what_is_in_a_region_is_busy_once_and_a_row_of_its_own() {
    let mut rig = Rig::new(64);
    for track in 0..3 {
        step(&rig, track);
    }
    rig.newest = 2;
    rig.pass();
    let figures = rig.folded().lane(LANE_DECODE).unwrap();
    assert_eq!((figures.steps, figures.time_ns), (3, 300));
    assert_eq!((figures.busy_ns, figures.overlap_ns), (165, 0));
    let rows = rig.into.kernels();
    let row = |func| rows.iter().find(|row| row.func == func).unwrap();
    assert_eq!((row(FIRST_REGION).total_ns, row(7).total_ns), (150, 60));
    let own = |func| rig.folded().row(func).own_ns;
    assert_eq!((own(FIRST_REGION), own(7), own(8)), (90, 0, 0));
    let timeline = &rig.into.timelines()[0];
    assert_eq!((timeline.launches.len(), timeline.regions.len()), (2, 1));
    assert_eq!(timeline.regions[0].func, Some(FIRST_REGION));
    assert_eq!(losses(&rig), StepLosses::default());
}

#[test]
fn a_step_waits_for_its_regions_and_has_no_places_without_theirs() {
    let mut rig = Rig::new(64);
    rig.number();
    rig.span(0, lane(LANE_DECODE, 0, 100));
    let token = rig.begin(0, region(10, 50)).unwrap();
    rig.span(0, launch(7, LANE_DECODE, 30, 20));
    rig.table.close(0);
    rig.pass();
    assert_eq!(steps(&rig), 0, "the region is open");
    rig.end(token, region(10, 50));
    rig.answer(token, SpanPoll::Ready(50));
    rig.place(token, Place::Unknown);
    rig.pass();
    assert_eq!((steps(&rig), losses(&rig).unplaced_steps), (0, 1));
    assert_eq!(rig.folded().lane_estimate(LANE_DECODE).armed_steps, 1);
    assert!(rig.table.is_idle());
}
