// SPDX-License-Identifier: MIT OR Apache-2.0
//! Our histogram in wider buckets against prometheus-client's own native
//! histogram, bucket by bucket: it finds its buckets from seconds in floating
//! point, and shares no code with ours.

use metrale_telemetry::instrument::{NanosHistogram, NativeBuckets, ZERO_THRESHOLD};
use metrale_telemetry::runtime::{BUCKETS, bucket_upper_ns};
use prometheus_client::encoding::prometheus_protobuf;
use prometheus_client::encoding::prometheus_protobuf::prometheus_data_model as model;
use prometheus_client::metrics::histogram::{Histogram, NativeHistogramConfig};
use prometheus_client::registry::Registry;

/// Index and count of each bucket that holds something.
fn expand(histogram: &model::Histogram) -> Vec<(i32, u64)> {
    let mut buckets = Vec::new();
    let mut deltas = histogram.positive_delta.iter();
    let (mut index, mut count) = (0, 0);
    for span in &histogram.positive_span {
        index += span.offset;
        for _ in 0..span.length {
            count += deltas.next().expect("a delta for each bucket");
            buckets.push((index, u64::try_from(count).expect("no negative count")));
            index += 1;
        }
    }
    buckets.retain(|(_, count)| *count > 0);
    buckets
}

/// The same values in both.
fn both(schema: i8, values: impl Iterator<Item = u64>) -> (NativeBuckets, NativeBuckets) {
    let ours = NanosHistogram::new();
    let config = NativeHistogramConfig::with_schema(schema).zero_threshold(ZERO_THRESHOLD);
    let theirs = Histogram::new_native(config);
    for ns in values {
        ours.observe(ns);
        theirs.observe(ns as f64 / 1e9);
    }
    let mut registry = Registry::default();
    registry.register("h", "h", theirs);
    let families = prometheus_protobuf::encode(&registry).expect("encoded");
    let theirs = families[0].metric[0].histogram.as_ref().expect("a histogram");
    assert_eq!(theirs.schema, i32::from(schema));
    let theirs = NativeBuckets {
        schema: schema as u32,
        zero_count: theirs.zero_count,
        buckets: expand(theirs),
    };
    (ours.snapshot().native(schema as u32), theirs)
}

#[test]
fn a_million_values_fall_into_the_same_buckets() {
    let mut random = fastrand::Rng::with_seed(0);
    // Every octave up to 2^36 ns, 69 s.
    let values = std::iter::repeat_with(|| random.u64(..1 << 36) >> random.u32(0..36));
    let (ours, theirs) = both(3, values.take(1_000_000));
    assert!(ours.buckets.len() > 200, "{}", ours.buckets.len());
    assert_eq!(ours, theirs);
}

#[test]
fn every_edge_falls_into_the_same_bucket() {
    let edges = || (0..BUCKETS - 1).filter_map(bucket_upper_ns);
    let values = || edges().flat_map(|upper| [upper - 1, upper, upper + 1]);
    for schema in 0..=5 {
        // Above 128 s ours are all in the first bucket there.
        let (ours, theirs) = both(schema, values());
        assert_eq!(ours, theirs, "schema {schema}");
    }
}
