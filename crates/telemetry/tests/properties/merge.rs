// SPDX-License-Identifier: MIT OR Apache-2.0
//! A merge of any snapshots: in whatever order, the same; its whole numbers are
//! the sums of its parts', in numbers wide enough for any.

use metrale_telemetry::Snapshot;
use metrale_telemetry::instrument::NanosHistogram;
use metrale_telemetry::kernel::{Estimate, LaneFigures, StandardError};
use metrale_telemetry::snapshot::{
    KernelLane, KernelSeries, KernelSnapshot, LaneSnapshot, RecorderSnapshot, RowKind,
    SNAPSHOT_VERSION,
};
use proptest::prelude::*;
use serde_json::Value;
use std::collections::BTreeMap;

/// Counts, now and then so large that two of them are too large.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![20 => 0..1u64 << 40, 1 => (u64::MAX >> 1)..=u64::MAX]
}

fn float() -> impl Strategy<Value = f64> {
    prop_oneof![1 => Just(0.0), 9 => 1.0..1e12]
}

prop_compose! {
    fn estimate()(
        steps in 0..100u64,
        total_ns in float(),
        error in prop::option::weighted(0.8, float()),
    ) -> Estimate {
        let mut estimate = Estimate::default();
        (estimate.steps, estimate.total_ns, estimate.share) = (steps, total_ns, total_ns / 1e12);
        estimate.error = error.map(|total_ns| {
            let mut error = StandardError::default();
            (error.total_ns, error.share) = (total_ns, total_ns / 1e12);
            error
        });
        estimate
    }
}

fn lane_name() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["admit", "decode", "draft", "copy"]).prop_map(str::to_owned)
}

prop_compose! {
    fn lane()(
        ns in prop::collection::vec(0..1u64 << 33, 0..4),
        figures in prop::option::of(prop::array::uniform3(number())),
        total_ns in prop_oneof![Just(0), number()],
        is_sampled: bool,
        counts in prop::array::uniform4(number()),
        covered in prop::option::of(estimate()),
    ) -> LaneSnapshot {
        let mut lane = LaneSnapshot::default();
        let histogram = NanosHistogram::new();
        ns.iter().for_each(|ns| histogram.observe(*ns));
        (lane.gpu, lane.gap) = (histogram.snapshot(), histogram.snapshot());
        lane.figures = figures.map(|[steps, time_ns, busy_ns]| {
            let mut figures = LaneFigures::default();
            (figures.steps, figures.time_ns, figures.busy_ns) = (steps, time_ns, busy_ns);
            figures
        });
        let estimate = &mut lane.estimate;
        estimate.total_ns = total_ns;
        estimate.unsampled_ns = if is_sampled { 0 } else { total_ns };
        [estimate.steps, estimate.armed_steps, estimate.lost_spans, lane.incomplete.ns] = counts;
        lane.estimate.covered = covered;
        lane
    }
}

prop_compose! {
    fn kernel()(
        series in prop::option::of("[ab]"),
        counts in prop::array::uniform4(number()),
        lanes in prop::collection::btree_map(lane_name(), estimate(), 0..4),
    ) -> KernelSnapshot {
        let mut kernel = KernelSnapshot::default();
        kernel.series = series;
        [kernel.total_ns, kernel.samples, kernel.lost_spans, kernel.figures.waits] = counts;
        kernel.lanes = lanes.into_iter().map(|(lane, estimate)| {
            let mut own = KernelLane::default();
            (own.lane, own.estimate) = (lane, estimate);
            own
        }).collect();
        kernel
    }
}

type Row = (Option<String>, bool);

prop_compose! {
    fn snapshot()(
        counts in prop::array::uniform6(number()),
        labels in prop::collection::btree_map("gpu|rank", "[01]", 0..2),
        every in prop::option::of(1..3u64),
        lanes in prop::collection::btree_map(lane_name(), lane(), 0..4),
        kernels in prop::collection::btree_map(
            (prop::option::of("[abc]"), any::<bool>()), kernel(), 0..5
        ),
        series in prop::collection::btree_map("a|b|other", number(), 0..3),
        recorders in prop::collection::vec(("[ab]", number()), 0..3),
        pair_ns in prop::option::of(0..9u64),
    ) -> Snapshot {
        let mut taken = Snapshot::default();
        (taken.version, taken.sources, taken.labels) = (SNAPSHOT_VERSION, 1, labels);
        taken.config = every.map(|every| {
            metrale_telemetry::TelemetryConfig { every, ..Default::default() }
        });
        [
            taken.steps, taken.host.launches, taken.lane_gap_unknown, taken.table_full,
            taken.losses.late_spans, taken.spans_dropped,
        ] = counts;
        taken.lanes = lanes.into_iter().map(|(name, mut lane)| {
            lane.lane = name;
            lane
        }).collect();
        taken.kernels = kernels.into_iter().map(|((name, is_graph), mut kernel): (Row, _)| {
            kernel.kind = if is_graph { RowKind::Graph } else { RowKind::Kernel };
            kernel.name = name;
            kernel
        }).collect();
        taken.kernel_series = series.into_iter().map(|(label, total_ns)| {
            let mut series = KernelSeries::default();
            (series.label, series.total_ns) = (label, total_ns);
            series
        }).collect();
        taken.recorders = recorders.into_iter().map(|(label, landed)| {
            let mut recorder = RecorderSnapshot::default();
            (recorder.label, recorder.lane_ledger.landed) = (label, landed);
            recorder
        }).collect();
        (taken.floor.pair_ns, taken.start_unix_ns) = (pair_ns, pair_ns);
        taken
    }
}

fn merged(parts: &[&Snapshot]) -> Snapshot {
    let mut merged = parts[0].clone();
    for part in &parts[1..] {
        merged.merge(part).expect("one version");
    }
    merged
}

/// Where two differ by more than the last digits of a float.
fn difference(one: &Value, other: &Value, path: String) -> Option<String> {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let keys = one.keys().chain(other.keys());
            keys.into_iter().find_map(|key| {
                let (one, other) = (one.get(key)?, other.get(key)?);
                difference(one, other, format!("{path}.{key}"))
            })
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            let mut pairs = one.iter().zip(other).enumerate();
            pairs.find_map(|(at, (one, other))| difference(one, other, format!("{path}[{at}]")))
        }
        (Value::Number(a), Value::Number(b)) if a.is_f64() && b.is_f64() => {
            let (a, b) = (a.as_f64()?, b.as_f64()?);
            let off = (a - b).abs() / a.abs().max(b.abs()).max(f64::MIN_POSITIVE);
            (off > 1e-12).then(|| format!("{path}: {a} and {b}"))
        }
        _ => (one != other).then(|| format!("{path}: {one} and {other}")),
    }
}

fn assert_same(one: &Snapshot, other: &Snapshot) -> Result<(), TestCaseError> {
    let json = |taken| serde_json::to_value(taken).expect("it is finite");
    let found = difference(&json(one), &json(other), String::new());
    prop_assert_eq!(found, None);
    Ok(())
}

/// The sum, or the most there is, and whether it was that.
fn wide(values: impl Iterator<Item = u64>) -> (u64, bool) {
    let sum: u128 = values.map(u128::from).sum();
    (u64::try_from(sum).unwrap_or(u64::MAX), sum >= u128::from(u64::MAX))
}

proptest! {
    #[test]
    fn the_order_of_parts_does_not_matter(
        one in snapshot(), other in snapshot(), third in snapshot(),
    ) {
        let left = merged(&[&merged(&[&one, &other]), &third]);
        let right = merged(&[&one, &merged(&[&other, &third])]);
        assert_same(&left, &right)?;
        assert_same(&merged(&[&one, &other]), &merged(&[&other, &one]))?;
        assert_same(&left, &merged(&[&third, &one, &other]))?;
    }

    #[test]
    fn whole_numbers_are_the_sums_of_the_parts(
        parts in prop::collection::vec(snapshot(), 2..6),
    ) {
        let found = merged(&parts.iter().collect::<Vec<_>>());
        let mut saturates = false;
        let mut sum = |of: fn(&Snapshot) -> u64| {
            let (sum, is_most) = wide(parts.iter().map(of));
            saturates |= is_most;
            sum
        };
        let scalars: [fn(&Snapshot) -> u64; 6] = [
            |part| part.steps,
            |part| part.host.launches,
            |part| part.lane_gap_unknown,
            |part| part.table_full,
            |part| part.losses.late_spans,
            |part| part.spans_dropped,
        ];
        for scalar in scalars {
            prop_assert_eq!(scalar(&found), sum(scalar));
        }
        if saturates {
            prop_assert!(found.saturated);
        }
        let mut rows: BTreeMap<_, Vec<&KernelSnapshot>> = BTreeMap::new();
        for row in parts.iter().flat_map(|part| &part.kernels) {
            rows.entry((row.name.clone(), row.kind)).or_default().push(row);
        }
        prop_assert_eq!(found.kernels.len(), rows.len());
        for row in &found.kernels {
            let own = &rows[&(row.name.clone(), row.kind)];
            prop_assert_eq!(row.total_ns, wide(own.iter().map(|row| row.total_ns)).0);
            prop_assert_eq!(row.samples, wide(own.iter().map(|row| row.samples)).0);
            prop_assert_eq!(row.lost_spans, wide(own.iter().map(|row| row.lost_spans)).0);
        }
        for lane in &found.lanes {
            let own = parts.iter().flat_map(|part| &part.lanes).filter(|own| own.lane == lane.lane);
            prop_assert_eq!(lane.gpu.sum_ns(), wide(own.clone().map(|own| own.gpu.sum_ns())).0);
            prop_assert_eq!(lane.gpu.count(), wide(own.clone().map(|own| own.gpu.count())).0);
            let total_ns = wide(own.map(|own| own.estimate.total_ns)).0;
            prop_assert_eq!(lane.estimate.total_ns, total_ns);
        }
    }

    /// For each row and lane, by the rule as it is told, over the parts at once.
    #[test]
    fn totals_add_up_and_errors_by_their_squares(
        parts in prop::collection::vec(snapshot(), 2..6),
    ) {
        let found = merged(&parts.iter().collect::<Vec<_>>());
        for row in &found.kernels {
            let of = |part: &Snapshot| part.kernels.iter()
                .find(|own| (&own.name, own.kind) == (&row.name, row.kind)).cloned();
            for own in &row.lanes {
                let mut total_ns = 0.0;
                let mut squares = Some(0.0);
                for part in &parts {
                    let seen = of(part).and_then(|row| {
                        row.lanes.into_iter().find(|lane| lane.lane == own.lane)
                    });
                    let had_lane = part.lanes.iter()
                        .any(|lane| lane.lane == own.lane && lane.estimate.total_ns > 0);
                    let error = match &seen {
                        Some(lane) if lane.estimate.steps < 30 => None,
                        Some(lane) => lane.estimate.error.map(|error| error.total_ns),
                        None => (!had_lane).then_some(0.0),
                    };
                    total_ns += seen.map_or(0.0, |lane| lane.estimate.total_ns);
                    squares = squares.zip(error).map(|(sum, error)| sum + error * error);
                }
                let near = |a: f64, b: f64| (a - b).abs() <= 1e-9 * a.abs().max(b.abs());
                prop_assert!(near(own.estimate.total_ns, total_ns));
                let error = own.estimate.error.map(|error| error.total_ns);
                prop_assert_eq!(error.is_some(), squares.is_some());
                prop_assert!(near(error.unwrap_or(0.0), squares.unwrap_or(0.0).sqrt()));
            }
        }
    }
}
