// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a snapshot says of steps and spans that were lost.

use crate::served::Served;
use crate::{LANE, attach, kernel, serve, source};
use metrale_telemetry::kernel::{LANE_DECODE, SpanKey, SpanPoll};
use metrale_telemetry::{Sampling, Step, TelemetryConfig};

#[test]
fn a_step_that_lost_a_span_is_incomplete() {
    let mut served = Served::new();
    serve(&mut served, 40, 1);
    let step = served.telemetry.step_begin();
    served.span(step, LANE, 0, SpanPoll::Ready(7_000));
    served.span(step, kernel(1, 1), 0, SpanPoll::Failed);
    served.close(step);
    served.harvest();
    let taken = served.telemetry.snapshot();
    let lane = &taken.lanes[LANE_DECODE];
    assert_eq!((lane.incomplete.steps, lane.incomplete.ns), (1, 7_000));
    assert_eq!(lane.figures.unwrap().time_ns, 400_000);
    assert_eq!(lane.gpu.sum_ns(), 407_000);
    assert_eq!(taken.losses.incomplete_steps, 1);
    // It is no sample, so something is left to chance.
    let gemm = taken.kernels[0].lanes[0].estimate;
    assert_eq!(gemm.steps, 40);
    assert!(lane.estimate.armed_steps == 40 && lane.estimate.steps == 41);
}

#[test]
fn a_step_without_places_keeps_its_sums() {
    let mut served = Served::new();
    serve(&mut served, 40, 1);
    // Its anchor's table entry is another's: a track 64 later than an open one.
    let held = served.telemetry.step_begin();
    served.span(held, LANE, 0, SpanPoll::Ready(1));
    let late = Step::armed(1_000, held.track().unwrap() + 64);
    served.span(late, LANE, 0, SpanPoll::Ready(500));
    served.span(late, LANE, 0, SpanPoll::Ready(500));
    served.close(held);
    served.harvest();
    let taken = served.telemetry.snapshot();
    let lane = &taken.lanes[LANE_DECODE];
    assert_eq!((lane.incomplete.ns, taken.losses.unplaced_steps), (1_000, 1));
    assert_eq!(lane.figures.unwrap().time_ns + lane.incomplete.ns, lane.gpu.sum_ns());
}

/// What the table has no place for may be of any row's name.
#[test]
fn where_the_table_is_full_an_error_knows_what_a_row_may_miss() {
    let mut served = Served::new();
    let config =
        TelemetryConfig { every: 1, sampling: Sampling::EveryNth, ..TelemetryConfig::default() };
    served.telemetry.configure(config).unwrap();
    let recorder = source("GPU-1", 0);
    attach(&served.telemetry, &recorder);
    for func in 4..515 {
        served.telemetry.instruments().record(SpanKey::Kernel(func), 1);
    }
    // Handle 1 finds a row, 2, of the same name, does not, nor does handle 0.
    for _ in 0..40 {
        let step = served.telemetry.step_begin();
        served.span(step, LANE, 0, SpanPoll::Ready(10_000));
        for (at, func) in [(0, 1), (3_000, 7), (4_000, 2), (6_000, 0)] {
            served.span(step, kernel(func, 1), at, SpanPoll::Ready(1_000));
        }
        served.close(step);
    }
    served.harvest();
    let taken = served.telemetry.snapshot();
    assert_eq!(taken.table_full, 80);
    let gemm = taken.kernels.iter().find(|row| row.name.is_some()).unwrap();
    let estimate = gemm.lanes[0].estimate;
    let error = estimate.error.unwrap().total_ns;
    assert!((estimate.total_ns - 80_000.0).abs() <= 2.0 * error, "{estimate:?}");
    assert_eq!(taken.lanes[LANE_DECODE].estimate.left_out, 80);
}

#[test]
fn a_span_that_finds_no_slot_is_missing_from_its_row_and_its_lane() {
    let mut served = Served::new();
    serve(&mut served, 40, 1);
    let step = served.telemetry.step_begin();
    served.drop_span(step, SpanKey::Lane(LANE_DECODE), LANE_DECODE);
    served.drop_span(step, SpanKey::Kernel(1), LANE_DECODE);
    served.close(step);
    served.harvest();
    let taken = served.telemetry.snapshot();
    let lane = &taken.lanes[LANE_DECODE];
    assert_eq!((lane.lost_spans, lane.estimate.lost_spans), (1, 1));
    assert_eq!(lane.estimate.covered.unwrap().error, None);
    let row = &taken.kernels[0];
    assert_eq!((row.lost_spans, row.lanes[0].estimate.error), (1, None));

    // The next window misses nothing.
    serve(&mut served, 80, 2);
    let taken = served.telemetry.snapshot();
    let lane = &taken.lanes[LANE_DECODE];
    assert_eq!((lane.lost_spans, lane.estimate.lost_spans), (1, 0));
    assert!(taken.kernels[0].lanes[0].estimate.error.is_some());
}
