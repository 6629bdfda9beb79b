// SPDX-License-Identifier: MIT OR Apache-2.0
//! A snapshot holds what was measured, survives JSON, and merges.

#![cfg(not(metrale_loom))]

mod served;

use metrale_telemetry::kernel::{
    Incomplete, LANE_ADMIT, LANE_DECODE, SpanKey, SpanPoll, StandardError,
};
use metrale_telemetry::runtime::{KernelName, RecorderSource};
use metrale_telemetry::snapshot::{
    MergeError, OldestSpanSnapshot, RecorderSnapshot, RowKind, SNAPSHOT_VERSION,
};
use metrale_telemetry::{Floor, Sampling, Snapshot, Step, Telemetry, TelemetryConfig};
use served::Served;
use std::sync::{Arc, Weak};

struct Recorder {
    gpu: &'static str,
    landed: u64,
}

impl RecorderSource for Recorder {
    fn recorder(&self) -> RecorderSnapshot {
        let mut oldest = OldestSpanSnapshot::default();
        oldest.ring = "lanes".to_owned();
        oldest.name = Some("decode".to_owned());
        oldest.stream = Some(7);
        oldest.age_ns = Some(5);
        let mut recorder = RecorderSnapshot::default();
        recorder.gpu = self.gpu.to_owned();
        recorder.oldest = vec![oldest];
        let ledger = &mut recorder.lane_ledger;
        (ledger.attempts, ledger.begun, ledger.landed) = (self.landed, self.landed, self.landed);
        recorder
    }

    /// 1 and 2 are handles of one kernel, 3 is a graph of the same name, the
    /// others have none.
    fn name(&self, func: u64) -> Option<KernelName> {
        (func <= 3).then(|| KernelName {
            text: "gemm".into(),
            kind: if func == 3 {
                RowKind::Graph
            } else {
                RowKind::Kernel
            },
        })
    }
}

fn source(gpu: &'static str, landed: u64) -> Arc<dyn RecorderSource> {
    Arc::new(Recorder { gpu, landed })
}

fn attach(telemetry: &Telemetry, source: &Arc<dyn RecorderSource>) {
    let weak: Weak<dyn RecorderSource> = Arc::downgrade(source);
    telemetry.attach(weak);
}

const LANE: (SpanKey, usize, u64) = (SpanKey::Lane(LANE_DECODE), LANE_DECODE, 1);

fn kernel(func: u64, stream: u64) -> (SpanKey, usize, u64) {
    (SpanKey::Kernel(func), LANE_DECODE, stream)
}

/// Serves `steps` steps, every `every`th armed: a lane of 10 µs, in which
///
/// ```text
/// stream 1   1 µs nothing, kernels of 1 and 2 µs,        then 3.5 µs later one of 1 µs
/// stream 2                    half a µs before their end one of 3 µs
/// ```
fn serve(served: &mut Served, steps: u64, every: u64) {
    let config = TelemetryConfig {
        every,
        sampling: Sampling::EveryNth,
        ..TelemetryConfig::default()
    };
    served.telemetry.configure(config).unwrap();
    for _ in 0..steps {
        let step = served.telemetry.step_begin();
        served.span(step, LANE, 0, SpanPoll::Ready(10_000));
        if step.is_armed() {
            let launches = [
                (kernel(1, 1), 1_000, 1_000),
                (kernel(2, 1), 2_000, 2_000),
                (kernel(3, 2), 3_500, 3_000),
                (kernel(9, 1), 7_500, 1_000),
            ];
            for (kernel, start_ns, ns) in launches {
                served.telemetry.count_sampled_launch();
                served.span(step, kernel, start_ns, SpanPoll::Ready(ns));
            }
        }
        served.close(step);
    }
    served.harvest();
}

fn served(steps: u64, every: u64) -> Box<Telemetry> {
    let mut served = Served::new();
    serve(&mut served, steps, every);
    served.telemetry
}

#[test]
fn it_holds_what_was_measured() {
    let telemetry = served(400, 4);
    let recorder = source("GPU-1", 800);
    attach(&telemetry, &recorder);
    let taken = telemetry.snapshot();
    assert_eq!(taken.version, SNAPSHOT_VERSION);
    assert_eq!(taken.labels["gpu"], "GPU-1");
    assert_eq!((taken.steps, taken.armed_steps), (400, 100));
    assert_eq!(taken.sampled_launches, 400);
    assert_eq!(taken.ledgers().0.landed, 800);

    let lane = &taken.lanes[LANE_DECODE];
    assert_eq!((lane.gpu.count(), lane.gpu.sum_ns()), (400, 4_000_000));
    assert_eq!(lane.gap.sum_ns(), 399 * 40_000);
    let covered = lane.estimate.covered.unwrap();
    assert_eq!((covered.steps, covered.total_ns), (100, 2_600_000.0));

    // Two handles of one name are one kernel; a graph and the nameless are not.
    let rows: Vec<_> = (taken.kernels.iter())
        .map(|row| (row.name.as_deref(), row.kind, row.total_ns, row.samples))
        .collect();
    assert_eq!(
        rows,
        [
            (Some("gemm"), RowKind::Kernel, 300_000, 200),
            (Some("gemm"), RowKind::Graph, 300_000, 100),
            (None, RowKind::Kernel, 100_000, 100),
        ]
    );
    let gemm = &taken.kernels[0].lanes[0];
    assert_eq!((gemm.lane.as_str(), gemm.estimate.steps), ("decode", 100));
    assert!((gemm.estimate.share - 0.3).abs() < 1e-12);
    assert_eq!(gemm.estimate.total_ns, 1_200_000.0);
}

#[test]
fn a_lanes_figures_are_those_of_its_armed_steps() {
    let taken = served(400, 4).snapshot();
    assert_eq!(taken.lanes[LANE_ADMIT].figures, None);
    let figures = taken.lanes[LANE_DECODE].figures.unwrap();
    assert_eq!((figures.steps, figures.time_ns), (100, 1_000_000));
    assert_eq!((figures.busy_ns, figures.overlap_ns), (650_000, 50_000));
    assert_eq!(
        (figures.lead_ns, figures.waited_ns, figures.tail_ns),
        (100_000, 100_000, 150_000)
    );
    assert_eq!(figures.idle_ns(), 350_000);
    assert_eq!((figures.waits, figures.outside_ns), (100, 0));
    assert_eq!(taken.device, Some(figures), "it has one lane");
    assert_eq!(taken.lanes[LANE_DECODE].incomplete, Incomplete::default());
    assert_eq!(taken.losses, Default::default());
}

#[test]
fn rows_tell_samples_that_found_their_stream_busy_from_others() {
    let mut served = Served::new();
    serve(&mut served, 3, 1);
    let before = served.telemetry.snapshot().kernels[0].figures;
    assert_eq!(
        (before.busy_start_samples, before.idle_start_samples),
        (0, 0),
        "unknown while what an empty pair reads is"
    );
    assert_eq!((before.waits, before.waited_ns), (3, 3_000));
    served.telemetry.set_floor(Floor {
        pair_ns: Some(7_001),
        ..Floor::default()
    });
    serve(&mut served, 5, 1);
    // Nobody named them: one row.
    let figures = served.telemetry.snapshot().kernels[0].figures;
    // The second of the stream follows at once; before the last one it stood
    // empty for 3,500 ns, just less than half of the floor; the first has none
    // before it on its stream.
    assert_eq!(figures.busy_start_samples, 2 * 5);
    assert_eq!(figures.busy_start_ns, 5 * (2_000 + 1_000));
    served.telemetry.set_floor(Floor {
        pair_ns: Some(7_000),
        ..Floor::default()
    });
    serve(&mut served, 1, 1);
    let figures = served.telemetry.snapshot().kernels[0].figures;
    assert_eq!(figures.busy_start_samples, 2 * 5 + 1);
    assert_eq!(
        (figures.idle_start_samples, figures.idle_start_ns),
        (1, 1_000)
    );
}

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
    assert_eq!(
        (lane.incomplete.ns, taken.losses.unplaced_steps),
        (1_000, 1)
    );
    assert_eq!(
        lane.figures.unwrap().time_ns + lane.incomplete.ns,
        lane.gpu.sum_ns()
    );
}

#[test]
fn it_survives_json() {
    let telemetry = served(400, 4);
    let recorder = source("GPU-\"1\"\n", 800);
    attach(&telemetry, &recorder);
    let taken = telemetry.snapshot();
    let json = serde_json::to_string(&taken).unwrap();
    assert!(json.contains("\"pair_ns\":null"), "{json}");
    assert_eq!(serde_json::from_str::<Snapshot>(&json).unwrap(), taken);
}

#[test]
fn a_closed_recorder_leaves_its_counts_and_names() {
    let telemetry = served(40, 4);
    let recorder = source("GPU-1", 80);
    attach(&telemetry, &recorder);
    let before = telemetry.snapshot();
    telemetry.detach(&recorder);
    drop(recorder);
    assert_eq!(telemetry.snapshot(), before);
    // A second one of the same GPU adds to it.
    let recorder = source("GPU-1", 20);
    attach(&telemetry, &recorder);
    assert_eq!(telemetry.snapshot().ledgers().0.landed, 100);
    assert_eq!(telemetry.snapshot().labels["gpu"], "GPU-1");
}

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
    let (ours, theirs) = (
        merged.lanes[LANE_DECODE].estimate,
        whole.lanes[LANE_DECODE].estimate,
    );
    assert_eq!(
        (ours.total_ns, ours.steps, ours.armed_steps, ours.armed_ns),
        (
            theirs.total_ns,
            theirs.steps,
            theirs.armed_steps,
            theirs.armed_ns
        )
    );
    let covered = (ours.covered.unwrap(), theirs.covered.unwrap());
    assert_eq!(covered.0.steps, covered.1.steps);
    assert!((covered.0.total_ns - covered.1.total_ns).abs() < 1.0);
    let gemm = merged.kernels[0].lanes[0].estimate;
    assert!((gemm.share - 0.3).abs() < 1e-12);
    assert_eq!(gemm.steps, 300);
}

#[test]
fn errors_of_separate_processes_add_by_their_squares() {
    let telemetry = served(400, 4);
    let mut left = telemetry.snapshot();
    let mut right = left.clone();
    let set = |taken: &mut Snapshot, total_ns: f64| {
        let mut error = StandardError::default();
        (error.total_ns, error.share) = (total_ns, total_ns / 4e6);
        taken.kernels[0].lanes[0].estimate.error = Some(error);
    };
    set(&mut left, 30_000.0);
    set(&mut right, 40_000.0);
    left.merge(&right).unwrap();
    let estimate = left.kernels[0].lanes[0].estimate;
    let error = estimate.error.unwrap();
    assert_eq!((error.total_ns, error.share), (50_000.0, 50_000.0 / 8e6));

    // Of one that claims none nothing is known together either.
    right.kernels[0].lanes[0].estimate.error = None;
    left.merge(&right).unwrap();
    assert_eq!(left.kernels[0].lanes[0].estimate.error, None);
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

/// Written by the release whose snapshots were of version 1.
const VERSION_1: &str = include_str!("data/snapshot-version-1.json");

#[test]
fn a_snapshot_of_version_1_is_read_and_what_it_does_not_tell_is_null() {
    let mut read: Snapshot = serde_json::from_str(VERSION_1).unwrap();
    assert_eq!(read.version, SNAPSHOT_VERSION);
    assert_eq!((read.steps, read.armed_steps), (400, 100));
    let lane = &read.lanes[LANE_DECODE];
    assert_eq!((lane.gpu.sum_ns(), lane.gap.count()), (4_000_000, 400));
    assert_eq!((lane.figures, read.device), (None, None));
    let rows: Vec<_> = (read.kernels.iter())
        .map(|row| (row.name.as_deref(), row.kind, row.total_ns))
        .collect();
    assert_eq!(
        rows,
        [
            (Some("gemm"), RowKind::Kernel, 300_000),
            (Some("gemm"), RowKind::Graph, 300_000),
            (None, RowKind::Kernel, 100_000),
        ]
    );
    assert_eq!(read.kernels[0].lanes[0].estimate.total_ns, 1_200_000.0);
    assert_eq!(read.recorders[0].lane_ledger.landed, 800);
    assert_eq!(read.recorders[0].oldest, []);
    // It merges with one of today: figures are of those that tell them.
    let today = served(40, 4).snapshot();
    read.merge(&today).unwrap();
    assert_eq!((read.steps, read.device), (440, today.device));
}

#[test]
fn a_later_version_says_so_whatever_else_changed() {
    let later = r#"{"version":7,"sources":"many","lanes":{"new":"shape"}}"#;
    let error = serde_json::from_str::<Snapshot>(later).unwrap_err();
    let told = error.to_string();
    assert!(
        told.contains("of version 7: this reader knows versions up to 2"),
        "{told}"
    );
}
