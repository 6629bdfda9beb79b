// SPDX-License-Identifier: MIT OR Apache-2.0
//! Snapshots as files: of an earlier version, a later one, and with fields that
//! nobody wrote yet.

use crate::served::Served;
use metrale_telemetry::kernel::{LANE_DECODE, SpanKey, SpanPoll};
use metrale_telemetry::snapshot::{MergeError, RowKind, SNAPSHOT_VERSION};
use metrale_telemetry::{Sampling, Snapshot, TelemetryConfig};
use serde_json::Value;

/// Of a server of 40 steps, all of them armed, with a kernel in a lane.
fn taken() -> Snapshot {
    let mut served = Served::new();
    let config =
        TelemetryConfig { every: 1, sampling: Sampling::EveryNth, ..TelemetryConfig::default() };
    served.telemetry.configure(config).unwrap();
    for _ in 0..40 {
        let step = served.telemetry.step_begin();
        let (lane, kernel) = (SpanKey::Lane(LANE_DECODE), SpanKey::Kernel(7));
        served.span(step, (lane, LANE_DECODE, 1), 0, SpanPoll::Ready(9_000));
        served.span(step, (kernel, LANE_DECODE, 1), 0, SpanPoll::Ready(5_000));
        served.close(step);
    }
    served.harvest();
    served.named_snapshot()
}

/// Written by the release whose snapshots were of version 1.
const VERSION_1: &str = include_str!("../data/snapshot-version-1.json");

#[test]
fn a_snapshot_of_version_1_is_read_and_what_it_does_not_tell_is_null() {
    let mut read: Snapshot = serde_json::from_str(VERSION_1).unwrap();
    assert_eq!(read.version, SNAPSHOT_VERSION);
    assert_eq!((read.steps, read.armed_steps), (400, 100));
    let lane = &read.lanes[LANE_DECODE];
    assert_eq!((lane.gpu.sum_ns(), lane.gap.count()), (4_000_000, 400));
    assert_eq!((lane.figures, read.device), (None, None));
    let rows: Vec<_> =
        (read.kernels.iter()).map(|row| (row.name.as_deref(), row.kind, row.total_ns)).collect();
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
    let today = taken();
    read.merge(&today).unwrap();
    assert_eq!((read.steps, read.device), (440, today.device));
}

#[test]
fn a_later_version_says_so_whatever_else_changed() {
    let later = r#"{"version":7,"sources":"many","lanes":{"new":"shape"}}"#;
    let error = serde_json::from_str::<Snapshot>(later).unwrap_err();
    let told = error.to_string();
    assert!(told.contains("of version 7: this reader knows versions up to 2"), "{told}");
}

#[test]
fn the_version_is_written_first() {
    let json = serde_json::to_string(&taken()).unwrap();
    assert!(json.starts_with(&format!("{{\"version\":{SNAPSHOT_VERSION},")), "{json}");
}

/// Every record of a snapshot once more, without one of its fields.
fn without_a_field(value: &Value) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    let mut inside = |key: String, child: &Value, put: &dyn Fn(Value) -> Value| {
        let less = without_a_field(child).into_iter();
        found.extend(less.map(|(path, less)| (format!("{key}.{path}"), put(less))));
    };
    match value {
        Value::Object(fields) => {
            for (key, child) in fields {
                inside(key.clone(), child, &|less| {
                    let mut fields = fields.clone();
                    fields.insert(key.clone(), less);
                    Value::Object(fields)
                });
            }
            for key in fields.keys() {
                let mut fields = fields.clone();
                fields.remove(key);
                found.push((key.clone(), Value::Object(fields)));
            }
        }
        Value::Array(items) => {
            for (at, child) in items.iter().enumerate() {
                inside(at.to_string(), child, &|less| {
                    let mut items = items.clone();
                    items[at] = less;
                    Value::Array(items)
                });
            }
        }
        _ => {}
    }
    found
}

#[test]
fn a_file_that_does_not_tell_a_field_is_read() {
    let whole = serde_json::to_value(taken()).unwrap();
    let all = without_a_field(&whole);
    assert!(all.len() > 200, "{}", all.len());
    for (path, less) in all {
        // What has been there from the first version on, and is no number that 0
        // could stand for: the two of an error, and the three of a bucket.
        if path.contains(".error.") || path.contains(".buckets.") {
            continue;
        }
        let read = serde_json::from_value::<Snapshot>(less);
        assert!(read.is_ok(), "{path}: {}", read.unwrap_err());
    }
}

#[test]
fn what_is_no_finite_number_is_refused_where_it_is_made() {
    for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let spoil: [fn(&mut Snapshot, f64); 5] = [
            |taken, value| taken.kernels[0].lanes[0].estimate.share = value,
            |taken, value| taken.kernels[0].lanes[0].estimate.total_ns = value,
            |taken, value| {
                let error = &mut taken.kernels[0].lanes[0].estimate.error;
                error.as_mut().unwrap().share = value;
            },
            |taken, value| {
                let error = &mut taken.kernels[0].lanes[0].estimate.error;
                error.as_mut().unwrap().total_ns = value;
            },
            |taken, value| {
                taken.lanes[LANE_DECODE].estimate.covered.as_mut().unwrap().share = value;
            },
        ];
        for spoil in spoil {
            let mut spoilt = taken();
            spoil(&mut spoilt, value);
            let told = serde_json::to_string(&spoilt).unwrap_err().to_string();
            assert!(told.contains("finite numbers only"), "{told}");
            let (mut fine, before) = (taken(), taken());
            fine.start_unix_ns = before.start_unix_ns;
            assert_eq!(fine.merge(&spoilt), Err(MergeError::NotFinite));
            assert_eq!(fine, before);
            assert_eq!(spoilt.merge(&fine), Err(MergeError::NotFinite));
        }
    }
}
