// SPDX-License-Identifier: MIT OR Apache-2.0
//! Samples by row of the kernel table: only of those that were promoted, and the sum of all
//! others.

use super::sample::{Sample, Value, sample};
use crate::kernel::{Estimate, RowFigures};
use crate::snapshot::{KernelSeries, RowKind, Snapshot};
use std::collections::BTreeMap;

/// A counter of each series.
pub(super) fn series<'a>(
    snapshot: &'a Snapshot,
    value: impl Fn(&KernelSeries) -> Value<'static>,
) -> Vec<Sample<'a>> {
    let of = |series: &'a KernelSeries| {
        let labels = [("kernel", series.label.as_str()), ("kind", series.kind.as_str())];
        sample(labels, value(series))
    };
    snapshot.kernel_series.iter().map(of).collect()
}

/// What the timelines say of each row that has a series.
pub(super) fn figures(
    snapshot: &Snapshot,
    value: impl Fn(&RowFigures) -> Value<'static>,
) -> Vec<Sample<'_>> {
    let mut sums: BTreeMap<(&str, RowKind), RowFigures> = BTreeMap::new();
    for kernel in &snapshot.kernels {
        if let Some(label) = &kernel.series {
            let sum = sums.entry((label, kernel.kind)).or_default();
            *sum = sum.plus(kernel.figures);
        }
    }
    let of = |((kernel, kind), figures): ((_, RowKind), _)| {
        let labels = [("kernel", kernel), ("kind", kind.as_str())];
        sample(labels, value(&figures))
    };
    sums.into_iter().map(of).collect()
}

/// The own time of each region that has a series.
pub(super) fn own(snapshot: &Snapshot) -> Vec<Sample<'_>> {
    let mut samples = figures(snapshot, |row| Value::Nanos(row.own_ns));
    samples.retain(|sample| sample.labels.contains(&("kind", RowKind::Region.as_str())));
    samples
}

/// A figure of the estimate of each kernel that has a series, by lane. Kernels
/// that share a series are estimated on the same steps: their errors add up.
pub(super) fn estimates(
    snapshot: &Snapshot,
    value: impl Fn(&Estimate) -> Option<f64>,
) -> Vec<Sample<'_>> {
    let mut sums: BTreeMap<(&str, RowKind, &str), Estimate> = BTreeMap::new();
    for kernel in &snapshot.kernels {
        let Some(label) = &kernel.series else {
            continue;
        };
        for lane in &kernel.lanes {
            sums.entry((label, kernel.kind, &lane.lane))
                .and_modify(|sum| *sum = sum.of_same_steps(lane.estimate))
                .or_insert(lane.estimate);
        }
    }
    let known = sums.into_iter().filter_map(|((kernel, kind, lane), estimate)| {
        let labels = [("kernel", kernel), ("kind", kind.as_str()), ("lane", lane)];
        Some(sample(labels, Value::Float(value(&estimate)?)))
    });
    known.collect()
}
