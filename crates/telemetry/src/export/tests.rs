// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a page shows, read back line by line.

mod document;
mod graphs;
mod labels;
mod snapshots;
mod strict;

use super::families::{FAMILIES, PAGE_FAMILY};
use super::{MetraleCollector, text};
use crate::Telemetry;
use crate::kernel::{Incomplete, LaneFigures, RowFigures, ShapeTimes, SpanKey, StepLosses};
use crate::snapshot::{OldestSpanSnapshot, RecorderHealth, RecorderSnapshot, RowKind, Snapshot};
use prometheus_client::encoding::text as openmetrics;
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use std::collections::{BTreeMap, BTreeSet};

/// The page in OpenMetrics' format.
fn open(collector: MetraleCollector) -> String {
    let mut registry = Registry::default();
    collector.register(&mut registry).expect("the first");
    let mut page = String::new();
    openmetrics::encode(&mut page, &registry).expect("a page");
    page
}

/// Series and value of each line; no series twice.
fn samples(page: &str) -> BTreeMap<String, f64> {
    let mut samples = BTreeMap::new();
    for line in page.lines().filter(|line| !line.starts_with('#')) {
        let (series, value) = line.rsplit_once(' ').expect("a series and a value");
        let before = samples.insert(series.to_owned(), value.parse().expect("a number"));
        assert_eq!(before, None, "{series} is there twice");
    }
    samples
}

/// The page has these samples and no others, in OpenMetrics' format.
fn is_the_same(open: &str, samples: &BTreeMap<String, f64>) {
    let read = strict::read(open).expect("a page that is well formed");
    let of = |(series, value): (&String, &f64)| (strict::series(series).expect("one"), *value);
    let expected: BTreeMap<_, _> = samples.iter().map(of).collect();
    assert!(read == expected, "the formats differ: {open}\n{samples:#?}");
}

fn telemetry() -> &'static Telemetry {
    Telemetry::new().leak()
}

/// A snapshot with something in every family.
fn full() -> Snapshot {
    let telemetry = telemetry();
    telemetry.instruments().record(SpanKey::Lane(1), 5_000);
    telemetry.set_floor(crate::Floor {
        pair_ns: Some(1_500),
        begin_ns: Some(1),
        end_ns: Some(2),
        harvest_ns: Some(3),
        poll_ns: Some(4),
    });
    let mut snapshot = telemetry.snapshot();
    snapshot.labels.insert("gpu".to_owned(), "unknown".to_owned());
    snapshot.start_unix_ns = Some(1_700_000_000_500_000_000);
    let oldest = |ring: &str, is_open, age_ns| OldestSpanSnapshot {
        ring: ring.to_owned(),
        is_open,
        age_ns,
        ..Default::default()
    };
    for age_ns in [Some(31_000_000_000), Some(4), None] {
        snapshot.recorders.push(RecorderSnapshot {
            health: RecorderHealth {
                records_missed: 1,
                slow_callbacks: 2,
                callback_panics: 3,
                ..RecorderHealth::default()
            },
            replays: graphs::ledger(),
            oldest: vec![
                oldest("kernels", false, age_ns),
                oldest("lanes", true, Some(500_000_000)),
            ],
            ..RecorderSnapshot::default()
        });
    }
    let figures = LaneFigures {
        steps: 9,
        time_ns: 1_000_000_000,
        busy_ns: 400_000_000,
        lead_ns: 300_000_000,
        waited_ns: 200_000_000,
        tail_ns: 100_000_000,
        overlap_ns: 50_000_000,
        outside_ns: 25_000_000,
        waits: 7,
    };
    snapshot.lanes[1].figures = Some(figures);
    snapshot.lanes[1].incomplete = Incomplete { steps: 2, ns: 3_000_000_000 };
    for (mixed, most_tokens, ns) in [
        (false, 128, 3_000_000_000),
        (true, 65_536, 500_000_000),
        // Of nobody's buckets.
        (false, 100, 1),
    ] {
        snapshot.lanes[1].shapes.push(ShapeTimes { mixed, most_tokens, steps: 4, ns, tokens: 400 });
    }
    snapshot.device = Some(figures.plus(figures));
    snapshot.losses = StepLosses {
        incomplete_steps: 11,
        unplaced_steps: 12,
        late_spans: 13,
        unpaired_steps: 14,
        rowless_spans: 15,
        unrecorded_steps: 0,
    };
    let error = crate::kernel::StandardError { total_ns: 1e6, share: 0.01 };
    let estimate =
        crate::kernel::Estimate { steps: 40, total_ns: 2e9, share: 0.25, error: Some(error) };
    snapshot.lanes[1].estimate.covered = Some(estimate);
    let lane = "decode".to_owned();
    snapshot.kernels.push(crate::snapshot::KernelSnapshot {
        series: Some("gemm".to_owned()),
        figures: RowFigures {
            busy_start_samples: 5,
            busy_start_ns: 250_000_000,
            ..RowFigures::default()
        },
        lanes: vec![crate::snapshot::KernelLane { lane, estimate }],
        ..Default::default()
    });
    snapshot.kernels.push(snapshot.kernels[0].clone());
    snapshot.kernels.push(crate::snapshot::KernelSnapshot {
        kind: RowKind::Region,
        series: Some("all-reduce".to_owned()),
        figures: RowFigures { own_ns: 125_000_000, ..RowFigures::default() },
        ..Default::default()
    });
    graphs::add(&mut snapshot);
    snapshot
}

#[test]
fn every_family_is_on_the_page_with_help_and_type_and_nothing_else_is() {
    let page = text(&MetraleCollector::from_fn(|| [full()]));
    let names: BTreeSet<String> = FAMILIES.iter().map(|family| family.full_name()).collect();
    assert_eq!(names.len(), FAMILIES.len());
    for word in ["# HELP ", "# TYPE "] {
        let told: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix(word)).collect();
        let told: Vec<&str> = told.iter().filter_map(|line| line.split(' ').next()).collect();
        assert_eq!(told.len(), FAMILIES.len(), "{word}");
        assert_eq!(told.iter().map(|name| name.to_string()).collect::<BTreeSet<_>>(), names);
    }
    let samples = samples(&page);
    for family in FAMILIES {
        assert!(!family.help.ends_with('.') && !family.help.contains(['\n', '\\']));
        let name = family.full_name();
        let own = |series: &&String| {
            let rest = series.strip_prefix(name.as_str()).unwrap_or("-");
            let histogram = ["_bucket{", "_sum{", "_count{"];
            match family.metric_type {
                MetricType::Histogram => histogram.iter().any(|suffix| rest.starts_with(suffix)),
                _ => rest.starts_with('{'),
            }
        };
        let series: Vec<&String> = samples.keys().filter(own).collect();
        assert!(!series.is_empty(), "{name} has no series");
        for series in series {
            let common = (family.name != PAGE_FAMILY).then_some(&"gpu");
            for label in family.labels.iter().chain(common) {
                assert!(series.contains(&format!("{label}=\"")), "{series}");
            }
        }
    }
    assert!(!page.contains("_created"));
    let open = open(MetraleCollector::from_fn(|| [full()]));
    assert!(!open.contains("_created"));
    is_the_same(&open, &samples);
}

#[test]
fn figures_are_those_of_the_snapshot_in_base_units() {
    let samples = samples(&text(&MetraleCollector::from_fn(|| [full()])));
    for (series, value) in [
        ("gpu_lane_seconds_sum{GPU,lane=prefill}", 5e-6),
        ("gpu_lane_seconds_count{GPU,lane=prefill}", 1.0),
        ("gpu_lane_seconds_bucket{GPU,lane=prefill,le=3.814697265625e-06}", 0.0),
        ("gpu_lane_seconds_bucket{GPU,lane=prefill,le=7.62939453125e-06}", 1.0),
        ("gpu_floor_seconds{GPU}", 1.5e-6),
        ("start_time_seconds{GPU}", 1_700_000_000.5),
        ("own_cost_seconds{GPU,operation=end}", 2e-9),
        ("sampling_every{GPU}", 64.0),
        ("sampling_info{GPU,level=kernel,mode=hashed}", 1.0),
        // Two kernels of one series: estimates and errors add up.
        ("gpu_kernel_estimated_seconds{GPU,kernel=gemm,kind=kernel,lane=decode}", 4.0),
        ("gpu_kernel_share_error_ratio{GPU,kernel=gemm,kind=kernel,lane=decode}", 0.02),
        ("gpu_lane_armed_seconds_total{GPU,lane=prefill}", 1.0),
        ("gpu_lane_armed_seconds_total{GPU,lane=decode}", 0.0),
        ("gpu_lane_busy_seconds_total{GPU,lane=prefill}", 0.4),
        ("gpu_lane_idle_seconds_total{GPU,lane=prefill,cause=lead}", 0.3),
        ("gpu_lane_idle_seconds_total{GPU,lane=prefill,cause=waited}", 0.2),
        ("gpu_lane_idle_seconds_total{GPU,lane=prefill,cause=tail}", 0.1),
        ("gpu_lane_overlap_seconds_total{GPU,lane=prefill}", 0.05),
        ("gpu_lane_outside_seconds_total{GPU,lane=prefill}", 0.025),
        ("gpu_lane_waits_total{GPU,lane=prefill}", 7.0),
        ("gpu_lane_incomplete_seconds_total{GPU,lane=prefill}", 3.0),
        ("gpu_steps_armed_seconds_total{GPU}", 2.0),
        ("gpu_lane_tokens_total{GPU,lane=prefill}", 1_200.0),
        ("gpu_lane_tokens_total{GPU,lane=decode}", 0.0),
        ("gpu_lane_shape_seconds_total{GPU,lane=prefill,mixed=false,most_tokens=128}", 3.0),
        ("gpu_lane_shape_seconds_total{GPU,lane=prefill,mixed=true,most_tokens=65536}", 0.5),
        ("gpu_lane_shape_steps_total{GPU,lane=prefill,mixed=true,most_tokens=65536}", 4.0),
        ("gpu_lane_shape_tokens_total{GPU,lane=prefill,mixed=false,most_tokens=128}", 400.0),
        ("step_callback_problems_total{GPU,problem=missed}", 3.0),
        ("step_callback_problems_total{GPU,problem=slow}", 6.0),
        ("step_callback_problems_total{GPU,problem=panicked}", 9.0),
        ("gpu_steps_busy_seconds_total{GPU}", 0.8),
        // Two kernels of one series.
        ("gpu_kernel_busy_start_samples{GPU,kernel=gemm,kind=kernel}", 10.0),
        ("gpu_region_own_seconds{GPU,kernel=all-reduce,kind=region}", 0.125),
        ("gpu_kernel_busy_start_seconds{GPU,kernel=gemm,kind=kernel}", 0.5),
        ("step_losses_total{GPU,reason=incomplete_steps}", 11.0),
        ("step_losses_total{GPU,reason=unplaced_steps}", 12.0),
        ("step_losses_total{GPU,reason=late_spans}", 13.0),
        ("step_losses_total{GPU,reason=unpaired_steps}", 14.0),
        ("step_losses_total{GPU,reason=rowless_spans}", 15.0),
        // The oldest of all recorders.
        ("gpu_oldest_span_seconds{GPU,ring=kernels,state=closed}", 31.0),
        ("gpu_oldest_span_seconds{GPU,ring=lanes,state=open}", 0.5),
        ("gpu_oldest_span_seconds{GPU,ring=lanes,state=closed}", 0.0),
    ]
    .into_iter()
    .chain(graphs::EXPECTED)
    {
        let quoted = |label: &str| match label.split_once('=') {
            Some((name, value)) => format!("{name}=\"{value}\""),
            None => "gpu=\"unknown\"".to_owned(),
        };
        let (name, labels) = series.split_once('{').unwrap();
        let labels = labels.trim_end_matches('}').split(',').map(quoted);
        let series = format!("metrale_{name}{{{}}}", labels.collect::<Vec<_>>().join(","));
        assert_eq!(samples.get(&series), Some(&value), "{series}");
    }
    let shapes = samples.keys().filter(|series| series.contains("lane_shape_seconds"));
    assert_eq!(shapes.count(), 2, "a bucket of nobody's has no series");
}

#[test]
fn what_is_not_known_has_no_series() {
    let named = MetraleCollector::new(telemetry()).label("gpu", "GPU-1");
    let page = text(&named.unwrap());
    assert!(page.contains("metrale_steps_total"));
    for name in [
        "metrale_start_time",
        "metrale_gpu_floor",
        "metrale_own_cost",
        "coverage_ratio",
        "busy_start",
        "metrale_gpu_graph",
    ] {
        assert!(!page.contains(name), "{name}");
    }
}
