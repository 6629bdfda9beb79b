// SPDX-License-Identifier: MIT OR Apache-2.0
//! Histograms of two processes in PromQL, against what was measured.

use super::{lane, server::Prometheus};
use metrale_telemetry::Snapshot;

const LANES: [&str; 3] = ["admit", "decode", "prefill"];
const QUANTILES: [f64; 3] = [0.5, 0.9, 0.99];

/// Two numbers that are the same but for the last digits of a float.
fn same(read: f64, exact: f64, what: &str) {
    assert!((read - exact).abs() <= 1e-9 * exact.abs(), "{what}: {read} is not {exact}");
}

/// Counts and sums by lane are those of the snapshot.
fn sums(server: &Prometheus, count: &str, sum: &str, exact: &Snapshot) {
    let (counts, sums) = (server.values(count, "lane"), server.values(sum, "lane"));
    assert_eq!(counts.len(), LANES.len(), "{count}");
    for (at, name) in LANES.into_iter().enumerate() {
        let gpu = &lane(exact, name).gpu;
        assert_eq!((counts[at].0.as_str(), counts[at].1), (name, gpu.count() as f64));
        same(sums[at].1, gpu.sum_ns() as f64 / 1e9, name);
    }
}

/// Quantiles by lane are in the bucket of the exact one, whose upper bound is a
/// power of `base`.
fn quantiles(server: &Prometheus, histogram: &str, base: f64, exact: &Snapshot) {
    for q in QUANTILES {
        let read = server.values(&format!("histogram_quantile({q}, {histogram})"), "lane");
        for (name, read) in read {
            let Some(ns) = lane(exact, &name).gpu.quantile(q) else {
                assert!(read.is_nan(), "{name}");
                continue;
            };
            let exact = ns as f64 / 1e9;
            let upper = base.powf((exact.ln() / base.ln() - 1e-9).ceil());
            assert!(
                read <= upper * (1.0 + 1e-9) && read >= upper / base * (1.0 - 1e-9),
                "{name}, p{}: {read} is not in the bucket up to {upper} of {exact}",
                100.0 * q
            );
        }
    }
}

pub(crate) fn classic(server: &Prometheus, exact: &Snapshot) {
    let name = "metrale_gpu_lane_seconds";
    sums(
        server,
        &format!("sum by (lane) ({name}_count)"),
        &format!("sum by (lane) ({name}_sum)"),
        exact,
    );
    quantiles(server, &format!("sum by (lane, le) ({name}_bucket)"), 2.0, exact);
    let infinite = format!("sum by (lane) ({name}_bucket{{le=\"+Inf\"}})");
    sums(server, &infinite, &format!("sum by (lane) ({name}_sum)"), exact);
    assert!(server.query(name).is_empty(), "native buckets were not asked for");
}

pub(crate) fn native(server: &Prometheus, exact: &Snapshot) {
    let name = "metrale_gpu_lane_seconds";
    let all = format!("sum by (lane) ({name})");
    sums(server, &format!("histogram_count({all})"), &format!("histogram_sum({all})"), exact);
    quantiles(server, &all, 2f64.powf(1.0 / 8.0), exact);
    assert!(server.query(&format!("{name}_bucket")).is_empty());
}

/// Kernels have their names as labels, and lose nothing.
pub(crate) fn kernels(server: &Prometheus, exact: &Snapshot) {
    let samples = server.values("sum by (kernel) (metrale_gpu_kernel_samples_total)", "kernel");
    let names: Vec<&str> = samples.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["attention<\"a\", 1>", "gemm", "norm", "other", "sample"]);
    let read: f64 = samples.iter().map(|(_, count)| count).sum();
    let measured: u64 = exact.kernels.iter().map(|kernel| kernel.samples).sum();
    assert_eq!(read, measured as f64);
    let seconds = server.values("sum(metrale_gpu_kernel_sampled_seconds_total)", "");
    let measured: u64 = exact.kernels.iter().map(|kernel| kernel.total_ns).sum();
    same(seconds[0].1, measured as f64 / 1e9, "kernels");
}
