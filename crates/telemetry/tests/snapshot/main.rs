// SPDX-License-Identifier: MIT OR Apache-2.0
//! A snapshot holds what was measured, survives JSON, and merges.

#![cfg(not(metrale_loom))]

mod files;
mod losses;
mod merges;
#[path = "../served/mod.rs"]
mod served;

use metrale_telemetry::kernel::{Incomplete, LANE_ADMIT, LANE_DECODE, SpanKey, SpanPoll};
use metrale_telemetry::runtime::{KernelName, RecorderSource};
use metrale_telemetry::snapshot::{
    OldestSpanSnapshot, RecorderSnapshot, RowKind, SNAPSHOT_VERSION,
};
use metrale_telemetry::{Floor, Sampling, Snapshot, Telemetry, TelemetryConfig};
use served::Served;
use std::sync::{Arc, Weak};
use std::time::{Duration, UNIX_EPOCH};

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
            kind: if func == 3 { RowKind::Graph } else { RowKind::Kernel },
        })
    }
}

fn source(gpu: &'static str, landed: u64) -> Arc<dyn RecorderSource> {
    Arc::new(Recorder { gpu, landed })
}

fn attach(telemetry: &Telemetry, source: &Arc<dyn RecorderSource>) {
    let weak: Weak<dyn RecorderSource> = Arc::downgrade(source);
    telemetry.attach(weak).expect("the same GPU");
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
    let config =
        TelemetryConfig { every, sampling: Sampling::EveryNth, ..TelemetryConfig::default() };
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
    assert_eq!((figures.lead_ns, figures.waited_ns, figures.tail_ns), (100_000, 100_000, 150_000));
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
    served.telemetry.set_floor(Floor { pair_ns: Some(7_001), ..Floor::default() });
    serve(&mut served, 5, 1);
    // Nobody named them: one row.
    let figures = served.telemetry.snapshot().kernels[0].figures;
    // The second of the stream follows at once; before the last one it stood
    // empty for 3,500 ns, just less than half of the floor; the first has none
    // before it on its stream.
    assert_eq!(figures.busy_start_samples, 2 * 5);
    assert_eq!(figures.busy_start_ns, 5 * (2_000 + 1_000));
    served.telemetry.set_floor(Floor { pair_ns: Some(7_000), ..Floor::default() });
    serve(&mut served, 1, 1);
    let figures = served.telemetry.snapshot().kernels[0].figures;
    assert_eq!(figures.busy_start_samples, 2 * 5 + 1);
    assert_eq!((figures.idle_start_samples, figures.idle_start_ns), (1, 1_000));
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
    let labels = telemetry.snapshot().labels;
    assert_eq!(labels["gpu"], "GPU-1");
    // A third is of another: it is none, and no label changes.
    for other in ["GPU-2", "unknown"] {
        let refused = source(other, 1);
        let error = telemetry.attach(Arc::downgrade(&refused)).unwrap_err();
        assert_eq!((error.ours.as_str(), error.theirs.as_str()), ("GPU-1", other));
        assert_eq!(telemetry.admits(other), Err(error));
    }
    let after = telemetry.snapshot();
    assert_eq!((after.labels, after.recorders.len()), (labels, 2));
}

#[test]
fn labels_and_start_are_those_of_the_first_recorder_for_good() {
    let telemetry = Telemetry::new();
    let before = telemetry.snapshot();
    assert_eq!((before.labels.len(), before.start_unix_ns), (0, None));
    let recorders = [source("unknown", 1), source("unknown", 2)];
    attach(&telemetry, &recorders[0]);
    let first = telemetry.snapshot();
    assert_eq!(first.labels["gpu"], "unknown");
    let began = UNIX_EPOCH + Duration::from_nanos(first.start_unix_ns.unwrap());
    assert!(began.elapsed().unwrap() < Duration::from_secs(60));
    attach(&telemetry, &recorders[1]);
    telemetry.detach(&recorders[0]);
    let later = telemetry.snapshot();
    assert_eq!((later.labels, later.recorders.len()), (first.labels, 2));
    assert_eq!(later.start_unix_ns, first.start_unix_ns);

    // Of merged ones the latest, in either order.
    let (mut one, mut other) = (telemetry.snapshot(), before);
    other.start_unix_ns = Some(7);
    let (ours, theirs) = (one.clone(), other.clone());
    one.merge(&theirs).unwrap();
    other.merge(&ours).unwrap();
    assert_eq!(one.start_unix_ns, first.start_unix_ns);
    assert_eq!(other.start_unix_ns, first.start_unix_ns);
}

#[test]
fn an_empty_name_is_no_name_and_an_empty_gpu_no_label() {
    struct Empty;
    impl RecorderSource for Empty {
        fn recorder(&self) -> RecorderSnapshot {
            RecorderSnapshot::default()
        }
        fn name(&self, _: u64) -> Option<KernelName> {
            Some(KernelName { text: "".into(), kind: RowKind::Kernel })
        }
    }
    let telemetry = served(4, 4);
    let recorder: Arc<dyn RecorderSource> = Arc::new(Empty);
    attach(&telemetry, &recorder);
    telemetry.expose_kernels(9);
    telemetry.promote_kernels(|_| Some("".into()), str::to_owned);
    let mut taken = telemetry.snapshot();
    assert_eq!(taken.labels.len(), 0);
    assert_eq!(taken.kernels.len(), 1);
    assert_eq!((&taken.kernels[0].name, &taken.kernels[0].series), (&None, &None));
    assert_eq!(taken.kernel_series.len(), 1, "only that of all others");
    // One that a file tells is none either.
    let mut other = taken.clone();
    other.kernels[0].name = Some(String::new());
    taken.merge(&other).unwrap();
    assert_eq!((taken.kernels.len(), &taken.kernels[0].name), (1, &None));
}
