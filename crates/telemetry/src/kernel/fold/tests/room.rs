// SPDX-License-Identifier: MIT OR Apache-2.0
//! More spans, or rows, than there is room for.

use super::rig::{Rig, lane, launch};
use crate::kernel::fold::MAX_ROWS;
use crate::kernel::{KERNEL_TABLE_SLOTS, LANE_DECODE, LANES};
use crate::runtime::{MAX_SPANS, MAX_STEP_SPANS};
use crate::sampling::Sampling;

/// A step of so many spans: a lane's, and launches of 1 ns in it.
fn step(rig: &Rig, track: u32, spans: usize) {
    rig.span(track, lane(LANE_DECODE, 0, 3 * spans as u64));
    for at in 1..spans as i64 {
        rig.span(track, launch(7, LANE_DECODE, 2 * at, 1));
    }
    rig.table.close(track);
}

fn sums_of_all_steps(rig: &Rig) {
    let (time_ns, incomplete_ns) = rig.lane_ns(LANE_DECODE);
    let total_ns = rig.into.lane[LANE_DECODE].snapshot().sum_ns();
    assert_eq!(time_ns + incomplete_ns, total_ns);
}

#[test]
fn a_step_with_more_spans_than_can_be_laid_out_keeps_its_sums() {
    let mut rig = Rig::new(2 * MAX_STEP_SPANS + 1);
    step(&rig, 0, MAX_STEP_SPANS);
    step(&rig, 1, MAX_STEP_SPANS + 1);
    rig.pass();
    let folded = rig.folded();
    assert_eq!(folded.losses().unplaced_steps, 1);
    assert_eq!(folded.lane(LANE_DECODE).unwrap().steps, 1);
    let estimate = folded.lane_estimate(LANE_DECODE);
    assert_eq!((estimate.steps, estimate.armed_steps), (2, 2));
    let kernels = folded.kernel_estimates(Sampling::Hashed, 1);
    let launches = 2 * MAX_STEP_SPANS as u64 - 1;
    assert_eq!(kernels[0].estimate.total_ns.round(), launches as f64);
    sums_of_all_steps(&rig);
}

#[test]
fn steps_beyond_the_room_for_all_that_wait_keep_their_sums() {
    let steps = (MAX_SPANS / MAX_STEP_SPANS) as u32 + 1;
    let mut rig = Rig::new(MAX_SPANS + 2 * MAX_STEP_SPANS);
    for track in 0..steps {
        step(&rig, track, MAX_STEP_SPANS);
    }
    rig.pass();
    let folded = rig.folded();
    assert_eq!(folded.losses().unplaced_steps, 1);
    assert_eq!(folded.lane(LANE_DECODE).unwrap().steps, u64::from(steps) - 1);
    assert_eq!(folded.lane_estimate(LANE_DECODE).armed_steps, u64::from(steps));
    sums_of_all_steps(&rig);
    // There is room again.
    rig.newest = steps;
    step(&rig, steps, MAX_STEP_SPANS);
    rig.pass();
    assert_eq!(rig.folded().losses().unplaced_steps, 1);
    sums_of_all_steps(&rig);
}

#[test]
fn steps_with_more_rows_than_there_is_room_for_are_incomplete() {
    // Every kernel in every lane: as many rows as a step can have.
    let rows = LANES.len() * KERNEL_TABLE_SLOTS;
    let steps = MAX_ROWS.div_ceil(rows) as u32;
    let spans = rows + LANES.len();
    let mut rig = Rig::new(steps as usize * spans);
    for track in 0..steps {
        for at in 0..LANES.len() {
            rig.span(track, lane(at, 0, 10_000));
        }
        for func in 1..=KERNEL_TABLE_SLOTS as u64 {
            for at in 0..LANES.len() {
                rig.span(track, launch(func << 8, at, 10 * func as i64, 2));
            }
        }
        rig.table.close(track);
    }
    assert_eq!(rig.pass(), steps as usize * spans);
    let folded = rig.folded();
    assert_eq!(folded.losses().incomplete_steps, 1);
    assert_eq!(folded.lane(LANE_DECODE).unwrap().steps, u64::from(steps) - 1);
    sums_of_all_steps(&rig);
    let kernels = rig.into.kernels();
    assert_eq!(kernels.len(), KERNEL_TABLE_SLOTS);
    let each = 2 * LANES.len() as u64 * u64::from(steps);
    assert!(kernels.iter().all(|row| row.total_ns == each), "raw sums");
    assert_eq!(rig.fold.rows.len() + rig.fold.spans.launches(), 0);
}
