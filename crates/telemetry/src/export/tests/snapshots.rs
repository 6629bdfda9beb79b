// SPDX-License-Identifier: MIT OR Apache-2.0
//! Several snapshots behind one page.

use super::{full, is_the_same, open, openmetrics, samples, strict, telemetry};
use crate::export::{MetraleCollector, RegisterError, text};
use crate::kernel::SpanKey;
use crate::snapshot::{KernelSeries, Snapshot};
use prometheus_client::registry::Registry;

#[test]
fn several_gpus_have_series_each_and_what_has_the_same_labels_is_merged() {
    let (one, other) = (telemetry(), telemetry());
    for (telemetry, ns) in [(one, 1_000_000_000), (other, 2_000_000_000)] {
        let kernel = SpanKey::Kernel(64);
        telemetry.expose_kernels(1);
        telemetry.instruments().record(kernel, 5);
        telemetry.promote_kernels(|_| Some("gemm".into()), str::to_owned);
        telemetry.instruments().record(kernel, ns);
    }
    one.step_begin();
    for telemetry in [other, other] {
        telemetry.step_begin();
    }
    // The first one again: it is there already.
    let both = MetraleCollector::new(one).and(other).and(one);
    let both = both.label("gpu", "unknown").unwrap();
    let page = text(&both);
    assert_eq!(page.matches("# TYPE metrale_steps_total").count(), 1);
    let merged = samples(&page);
    assert_eq!(merged["metrale_steps_total{gpu=\"unknown\"}"], 3.0);
    let kernel = |name| {
        format!(
            "metrale_gpu_kernel_sampled_seconds_total{{gpu=\"unknown\",kernel=\"{name}\",kind=\"kernel\"}}"
        )
    };
    assert_eq!((merged[&kernel("gemm")], merged[&kernel("other")]), (3.0, 1e-8));

    assert_eq!(states(&page), [1, 1, 0, 0, 0]);
}

/// By what became of them: shown, added, repeated, of another version, no GPU.
fn states(page: &str) -> [u64; 5] {
    ["shown", "added", "repeated", "other_version", "no_gpu"].map(|state| {
        let end = format!("state=\"{state}\"}} ");
        let mut lines = page.lines();
        let count = lines.find_map(|line| line.split_once(&end)).expect("a state");
        count.1.parse().expect("a count")
    })
}

fn process(labels: &[(&str, &str)], steps: u64) -> Snapshot {
    let mut snapshot = full();
    snapshot.steps = steps;
    let labels = labels.iter();
    snapshot.labels =
        labels.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    snapshot
}

/// What a process gathered of its workers, among them what should not be there.
fn gathered() -> Vec<Snapshot> {
    let of = |gpu, rank, steps| process(&[("gpu", gpu), ("rank", rank)], steps);
    let mut other_version = of("GPU-1", "4", 1_000);
    other_version.version += 1;
    let mut restarted = of("GPU-1", "0", 10);
    restarted.start_unix_ns = Some(1_800_000_000_000_000_000);
    let mut twice = of("GPU-2", "3", 100_000);
    twice.lanes.extend(twice.lanes.clone());
    twice.kernels.extend(twice.kernels.clone());
    vec![
        of("GPU-1", "0", 1),
        of("GPU-1", "1", 2),
        of("GPU-2", "1", 3),
        // The same one again, another with the same labels, and more that is
        // not shown.
        of("GPU-1", "0", 1),
        restarted,
        other_version,
        process(&[("rank", "5")], 10_000),
        // A worker that names its lanes twice.
        twice,
    ]
}

#[test]
fn workers_have_series_each_and_no_page_has_one_twice() {
    let collector = || MetraleCollector::from_fn(gathered);
    let page = text(&collector());
    assert_eq!(states(&page), [4, 1, 1, 1, 1]);
    let samples = samples(&page);
    for (gpu, rank, steps) in
        [("GPU-1", "0", 11.0), ("GPU-1", "1", 2.0), ("GPU-2", "1", 3.0), ("GPU-2", "3", 100_000.0)]
    {
        let series = format!("metrale_steps_total{{gpu=\"{gpu}\",rank=\"{rank}\"}}");
        assert_eq!(samples[&series], steps, "{series}");
    }
    let start = "metrale_start_time_seconds{gpu=\"GPU-1\",rank=\"0\"}";
    assert_eq!(samples[start], 1.8e9, "the latest");
    is_the_same(&open(collector()), &samples);
}

#[test]
fn a_registry_takes_one_collector() {
    let collector = || MetraleCollector::from_fn(gathered);
    let mut registry = Registry::default();
    collector().register(&mut registry).unwrap();
    let refused = collector().label("pod", "other").unwrap();
    assert_eq!(refused.register(&mut registry), Err(RegisterError::Twice));
    let mut page = String::new();
    openmetrics::encode(&mut page, &registry).unwrap();
    strict::read(&page).unwrap();

    // Below another registry, and under another name.
    let mut registry = Registry::default();
    let below = registry.sub_registry_with_prefix("app");
    collector().register(below).unwrap();
    assert_eq!(collector().register(&mut registry), Err(RegisterError::Twice));
}

#[test]
fn a_scrape_has_no_side_effect() {
    let telemetry = telemetry();
    let collector = MetraleCollector::new(telemetry).top_kernels(1);
    let collector = collector.label("gpu", "unknown").unwrap();
    telemetry.instruments().record(SpanKey::Kernel(64), 10);
    let name_of = |func: u64| Some(func.to_string().into());
    telemetry.promote_kernels(name_of, str::to_owned);
    telemetry.instruments().record(SpanKey::Kernel(64), 1);
    let before = text(&collector);
    assert_eq!(text(&collector), before);
    let KernelSeries { label, total_ns, samples, .. } = &telemetry.snapshot().kernel_series[0];
    assert_eq!((label.as_str(), *total_ns, *samples), ("64", 1, 1));
    assert!(
        before.contains("kernel_samples_total{gpu=\"unknown\",kernel=\"64\",kind=\"kernel\"} 1\n"),
        "{before}"
    );
    assert!(
        before
            .contains("kernel_samples_total{gpu=\"unknown\",kernel=\"other\",kind=\"kernel\"} 1\n")
    );
}
