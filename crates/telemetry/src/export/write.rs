// SPDX-License-Identifier: MIT OR Apache-2.0
//! A family's samples, in whatever format the registry is encoded.

use super::labels::Pairs;
use super::page::Page;
use super::sample::{Family, Read, Sample, Value, seconds};
use crate::instrument::{HistogramSnapshot, ZERO_THRESHOLD};
use prometheus_client::encoding::{
    DescriptorEncoder, MetricEncoder, NativeHistogram, NativeHistogramBuckets, NoLabelSet,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;
use std::collections::BTreeSet;
use std::fmt;

/// The schema of native buckets: 9 % wide, what the servers' own clients choose.
const NATIVE_SCHEMA: u32 = 3;

/// Writes the family's samples, each series once; nothing where there are none.
pub(super) fn family(
    family: &Family,
    page: &Page,
    encoder: &mut DescriptorEncoder<'_>,
) -> fmt::Result {
    let samples: Vec<(Pairs<'_>, Vec<Sample<'_>>)> = match family.read {
        Read::Snapshot(read) => {
            let snapshots = page.snapshots().iter();
            snapshots.map(|(labels, snapshot)| (labels.pairs(), read(snapshot))).collect()
        }
        Read::Page(read) => vec![(page.labels().pairs(), read(page))],
    };
    if samples.iter().all(|(_, own)| own.is_empty()) {
        return Ok(());
    }
    let unit = family.seconds.then_some(&Unit::Seconds);
    let mut encoder =
        encoder.encode_descriptor(family.name, family.help, unit, family.metric_type)?;
    for (common, own) in &samples {
        // A snapshot that came from outside may name a lane twice: the first stands.
        let mut written = BTreeSet::new();
        for sample in own {
            if written.insert(sample.labels.as_slice()) {
                let labels = (common.as_slice(), sample.labels.as_slice());
                value(family.metric_type, &sample.value, encoder.encode_family(&labels)?)?;
            }
        }
    }
    Ok(())
}

fn value(
    metric_type: MetricType,
    value: &Value<'_>,
    mut encoder: MetricEncoder<'_>,
) -> fmt::Result {
    let is_counter = metric_type == MetricType::Counter;
    let float = match *value {
        Value::Histogram(snapshot) => return histogram(snapshot, encoder),
        Value::Info => return encoder.encode_info(&NO_LABELS),
        Value::Count(count) if is_counter => {
            return encoder.encode_counter::<NoLabelSet, u64, u64>(&count, None);
        }
        Value::Count(count) => return encoder.encode_gauge(&count),
        Value::Nanos(ns) => seconds(ns),
        Value::Float(value) => value,
    };
    if is_counter {
        encoder.encode_counter::<NoLabelSet, f64, u64>(&float, None)
    } else {
        encoder.encode_gauge(&float)
    }
}

const NO_LABELS: [(&str, &str); 0] = [];

fn histogram(snapshot: &HistogramSnapshot, mut encoder: MetricEncoder<'_>) -> fmt::Result {
    let native = snapshot.native(NATIVE_SCHEMA);
    let (spans, deltas) = spans(&native.buckets);
    let none = NativeHistogramBuckets { spans: &[], deltas: &[] };
    encoder.encode_histogram_with_native::<NoLabelSet>(
        seconds(snapshot.sum_ns()),
        snapshot.count(),
        &snapshot.classic(),
        None,
        NativeHistogram {
            schema: NATIVE_SCHEMA as i32,
            zero_threshold: ZERO_THRESHOLD,
            zero_count: native.zero_count,
            negative: none,
            positive: NativeHistogramBuckets { spans: &spans, deltas: &deltas },
            created: None,
        },
    )
}

/// Runs of neighbouring buckets, each by its distance from the one before and
/// its length; and each bucket's count by its difference to the one before.
fn spans(buckets: &[(i32, u64)]) -> (Vec<(i32, u32)>, Vec<i64>) {
    let (mut spans, mut deltas) = (Vec::<(i32, u32)>::new(), Vec::new());
    let (mut next, mut before) = (0, 0);
    for &(index, count) in buckets {
        match spans.last_mut() {
            Some((_, length)) if index == next => *length += 1,
            _ => spans.push((index - next, 1)),
        }
        next = index + 1;
        deltas.push((count as i64).wrapping_sub(before));
        before = count as i64;
    }
    (spans, deltas)
}

#[cfg(test)]
mod tests {
    use super::spans;

    #[test]
    fn buckets_become_runs_and_differences() {
        let buckets = [(-175, 4), (-174, 1), (-170, 1), (56, 3), (57, 9)];
        let expected = (vec![(-175, 2), (3, 1), (225, 2)], vec![4, -3, 0, 2, 6]);
        assert_eq!(spans(&buckets), expected);
        assert_eq!(spans(&[]), (vec![], vec![]));
    }
}
