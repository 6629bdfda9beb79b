// SPDX-License-Identifier: MIT OR Apache-2.0
//! Snapshots of several processes as one.

use crate::served::Served;
use crate::{LANE, attach, served, source};
use metrale_telemetry::kernel::{LANE_DECODE, SpanPoll};
use metrale_telemetry::snapshot::{MergeError, SNAPSHOT_VERSION};
use metrale_telemetry::{Snapshot, TelemetryConfig};

#[test]
fn two_processes_merge_to_what_one_would_have_seen() {
    let (one, other) = (served(400, 4), served(800, 4));
    let recorders = [source("GPU-1", 1), source("GPU-2", 2)];
    attach(&one, &recorders[0]);
    attach(&other, &recorders[1]);
    let mut merged = one.snapshot();
    let second = other.snapshot();
    merged.merge(&second).unwrap();
    assert_eq!((merged.sources, merged.steps), (2, 1_200));
    assert!(!merged.saturated);
    assert_eq!(merged.labels.len(), 0, "they are of two GPUs");
    assert_eq!(merged.config, second.config);
    assert_eq!(merged.recorders.len(), 2);

    // Served by one process, every figure is the same.
    let whole = served(1_200, 4);
    attach(&whole, &recorders[0]);
    let whole = whole.snapshot();
    assert_eq!(merged.host, whole.host);
    assert_eq!(merged.lanes[LANE_DECODE].gpu, whole.lanes[LANE_DECODE].gpu);
    let totals = |taken: &Snapshot| -> Vec<_> {
        let kernels = taken.kernels.iter();
        kernels.map(|row| (row.total_ns, row.samples)).collect()
    };
    assert_eq!(totals(&merged), totals(&whole));
    let (ours, theirs) = (merged.lanes[LANE_DECODE].estimate, whole.lanes[LANE_DECODE].estimate);
    assert_eq!(
        (ours.total_ns, ours.steps, ours.armed_steps, ours.armed_ns),
        (theirs.total_ns, theirs.steps, theirs.armed_steps, theirs.armed_ns)
    );
    let covered = (ours.covered.unwrap(), theirs.covered.unwrap());
    assert_eq!(covered.0.steps, covered.1.steps);
    assert!((covered.0.total_ns - covered.1.total_ns).abs() < 1.0);
    let gemm = merged.kernels[0].lanes[0].estimate;
    assert!((gemm.share - 0.3).abs() < 1e-12);
    assert_eq!(gemm.steps, 300);
}

#[test]
fn another_version_is_refused_and_changes_nothing() {
    let telemetry = served(4, 4);
    let mut taken = telemetry.snapshot();
    let before = taken.clone();
    let mut other = taken.clone();
    other.version += 1;
    let found = taken.merge(&other);
    let (ours, theirs) = (SNAPSHOT_VERSION, SNAPSHOT_VERSION + 1);
    assert_eq!(found, Err(MergeError::Version { ours, theirs }));
    assert_eq!(taken, before);
}

#[test]
fn a_process_that_took_no_samples_dilutes_no_share_and_leaves_no_error() {
    // One samples every step, nine never come to their first armed one.
    let mut merged = served(100, 1).snapshot();
    let gemm = |taken: &Snapshot| taken.kernels[0].lanes[0].estimate;
    let alone = gemm(&merged);
    assert_eq!(alone.error.unwrap().total_ns, 0.0);
    for _ in 0..9 {
        let mut unsampled = Served::new();
        unsampled
            .telemetry
            .configure(TelemetryConfig { every: 1 << 40, seed: 1, ..TelemetryConfig::default() })
            .unwrap();
        for _ in 0..100 {
            let step = unsampled.telemetry.step_begin();
            assert!(!step.is_armed());
            unsampled.span(step, LANE, 0, SpanPoll::Ready(10_000));
        }
        unsampled.harvest();
        merged.merge(&unsampled.telemetry.snapshot()).unwrap();
    }
    let found = gemm(&merged);
    assert_eq!((found.total_ns, found.error), (alone.total_ns, None));
    assert!((found.share - alone.share).abs() < 1e-12, "{found:?}");
    let lane = merged.lanes[LANE_DECODE].estimate;
    assert_eq!((lane.total_ns, lane.unsampled_ns), (10_000_000, 9_000_000));
    assert_eq!(lane.covered, None, "nobody knows of the nine");
}
