// SPDX-License-Identifier: MIT OR Apache-2.0
//! A snapshot holds what was measured, survives JSON, and merges.

use metrale_telemetry::kernel::{
    LANE_DECODE, Landed, Ledger, SpanKey, SpanSink, SpanTag, StandardError,
};
use metrale_telemetry::snapshot::{KernelName, LaunchBound, MergeError, RecorderSnapshot, Source};
use metrale_telemetry::{Floor, Sampling, Snapshot, Telemetry, TelemetryConfig};
use std::sync::{Arc, Weak};

struct Recorder {
    gpu: &'static str,
    landed: u64,
}

impl Source for Recorder {
    fn recorder(&self) -> RecorderSnapshot {
        RecorderSnapshot {
            gpu: self.gpu.to_owned(),
            lane_ledger: Ledger {
                attempts: self.landed,
                begun: self.landed,
                landed: self.landed,
                ..Ledger::default()
            },
            ..RecorderSnapshot::default()
        }
    }

    /// 1 and 2 are handles of one kernel, 3 is a graph of the same name, the
    /// others have none.
    fn name(&self, func: u64) -> Option<KernelName> {
        (func <= 3).then(|| KernelName {
            text: "gemm".into(),
            is_graph: func == 3,
        })
    }
}

fn source(gpu: &'static str, landed: u64) -> Arc<dyn Source> {
    Arc::new(Recorder { gpu, landed })
}

fn attach(telemetry: &Telemetry, source: &Arc<dyn Source>) {
    let weak: Weak<dyn Source> = Arc::downgrade(source);
    telemetry.attach(weak);
}

/// A telemetry on which `steps` steps were served, every `every`th armed: a
/// lane of 10 µs, under kernels of 1, 2, 3 and 1 µs with a gap of 500 ns before
/// the last.
fn served(steps: u64, every: u64) -> Box<Telemetry> {
    let telemetry = Box::new(Telemetry::new());
    let config = TelemetryConfig {
        every,
        sampling: Sampling::EveryNth,
        ..TelemetryConfig::default()
    };
    telemetry.configure(config).unwrap();
    for _ in 0..steps {
        let step = telemetry.step_begin();
        let tag = SpanTag {
            armed: step.armed,
            lane: Some(LANE_DECODE),
            step: step.number,
        };
        let land = |key, ns, gap_ns| {
            telemetry.instruments().landed(Landed {
                key,
                tag,
                ns,
                gap_ns,
            });
        };
        land(SpanKey::Lane(LANE_DECODE), 10_000, Some(40_000));
        if step.armed {
            telemetry.launch_sampled();
            land(SpanKey::Kernel(1), 1_000, None);
            land(SpanKey::Kernel(2), 2_000, Some(0));
            land(SpanKey::Kernel(3), 3_000, Some(0));
            land(SpanKey::Kernel(9), 1_000, Some(500));
        }
    }
    telemetry
}

#[test]
fn it_holds_what_was_measured() {
    let telemetry = served(400, 4);
    let recorder = source("GPU-1", 800);
    attach(&telemetry, &recorder);
    let taken = telemetry.snapshot();
    assert_eq!(taken.labels["gpu"], "GPU-1");
    assert_eq!((taken.steps, taken.armed_steps), (400, 100));
    assert_eq!(taken.ledgers().0.landed, 800);

    let lane = &taken.lanes[LANE_DECODE];
    assert_eq!((lane.gpu.count(), lane.gpu.sum_ns()), (400, 4_000_000));
    assert_eq!(lane.gap.sum_ns(), 400 * 40_000);
    assert_eq!((lane.armed_ns, lane.kernel_ns), (1_000_000, 700_000));
    assert_eq!(lane.uncovered_ns(), 300_000);
    assert_eq!(lane.kernel_gap.sum_ns(), 100 * 500);
    assert_eq!(taken.kernel_gap_unknown, 100);
    let covered = lane.estimate.covered.unwrap();
    assert_eq!((covered.steps, covered.total_ns), (100, 2_800_000.0));

    // Two handles of one name are one kernel; a graph and the nameless are not.
    let rows: Vec<_> = (taken.kernels.iter())
        .map(|it| (it.name.as_deref(), it.is_graph, it.total_ns, it.samples))
        .collect();
    assert_eq!(
        rows,
        [
            (Some("gemm"), false, 300_000, 200),
            (Some("gemm"), true, 300_000, 100),
            (None, false, 100_000, 100),
        ]
    );
    let gemm = &taken.kernels[0].lanes[0];
    assert_eq!((gemm.lane.as_str(), gemm.estimate.steps), ("decode", 100));
    assert!((gemm.estimate.share - 0.3).abs() < 1e-12);
    assert_eq!(gemm.estimate.total_ns, 1_200_000.0);
}

#[test]
fn the_floor_marks_short_kernels_and_counts_launches_the_gpu_waited_for() {
    let telemetry = served(8, 1);
    let taken = telemetry.snapshot();
    assert!(taken.kernels.iter().all(|it| it.near_floor.is_none()));
    assert_eq!(taken.lanes[LANE_DECODE].launch_bound, None);
    telemetry.set_floor(Floor {
        pair_ns: Some(400),
        ..Floor::default()
    });
    let taken = telemetry.snapshot();
    let near: Vec<_> = taken.kernels.iter().map(|it| it.near_floor).collect();
    // Nobody named them: one row of 7 µs in four launches.
    assert_eq!(near, [Some(false)]);
    let bound = LaunchBound {
        launches: 8,
        gap_ns: 8 * 500,
    };
    assert_eq!(taken.lanes[LANE_DECODE].launch_bound, Some(bound));
    telemetry.set_floor(Floor {
        pair_ns: Some(600),
        ..Floor::default()
    });
    let taken = telemetry.snapshot();
    assert_eq!(taken.kernels[0].near_floor, Some(true));
    assert_eq!(
        taken.lanes[LANE_DECODE].launch_bound,
        Some(LaunchBound::default())
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
        kernels.map(|it| (it.total_ns, it.samples)).collect()
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
    let error = |taken: &mut Snapshot, total_ns: f64| {
        taken.kernels[0].lanes[0].estimate.error = Some(StandardError {
            total_ns,
            share: total_ns / 4e6,
        });
    };
    error(&mut left, 30_000.0);
    error(&mut right, 40_000.0);
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
    let theirs = other.version;
    let found = taken.merge(&other);
    assert_eq!(found, Err(MergeError::Version { ours: 1, theirs }));
    assert_eq!(taken, before);
}
