// SPDX-License-Identifier: MIT OR Apache-2.0
//! Samples by kernel: only of those that were promoted, and the sum of all
//! others.

use super::sample::{Sample, Value, sample};
use crate::kernel::{Estimate, RowFigures};
use crate::snapshot::{KernelSeries, Snapshot};
use std::collections::BTreeMap;

/// A counter of each series.
pub(super) fn series<'a>(
    snapshot: &'a Snapshot,
    value: impl Fn(&KernelSeries) -> Value<'static>,
) -> Vec<Sample<'a>> {
    let of = |series: &'a KernelSeries| sample([("kernel", series.label.as_str())], value(series));
    snapshot.kernel_series.iter().map(of).collect()
}

/// What the timelines say of each kernel that has a series.
pub(super) fn figures(
    snapshot: &Snapshot,
    value: impl Fn(&RowFigures) -> Value<'static>,
) -> Vec<Sample<'_>> {
    let mut sums: BTreeMap<&str, RowFigures> = BTreeMap::new();
    for kernel in &snapshot.kernels {
        if let Some(label) = &kernel.series {
            let sum = sums.entry(label).or_default();
            *sum = sum.plus(kernel.figures);
        }
    }
    let of = |(kernel, figures)| sample([("kernel", kernel)], value(&figures));
    sums.into_iter().map(of).collect()
}

/// A figure of the estimate of each kernel that has a series, by lane. Kernels
/// that share a series are estimated on the same steps: their errors add up.
pub(super) fn estimates(
    snapshot: &Snapshot,
    value: impl Fn(&Estimate) -> Option<f64>,
) -> Vec<Sample<'_>> {
    let mut sums: BTreeMap<(&str, &str), Estimate> = BTreeMap::new();
    for kernel in &snapshot.kernels {
        let Some(label) = &kernel.series else {
            continue;
        };
        for lane in &kernel.lanes {
            sums.entry((label, &lane.lane))
                .and_modify(|sum| *sum = sum.of_same_steps(lane.estimate))
                .or_insert(lane.estimate);
        }
    }
    let known = sums.into_iter().filter_map(|((kernel, lane), estimate)| {
        let labels = [("kernel", kernel), ("lane", lane)];
        Some(sample(labels, Value::Float(value(&estimate)?)))
    });
    known.collect()
}
