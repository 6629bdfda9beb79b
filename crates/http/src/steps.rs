// SPDX-License-Identifier: MIT OR Apache-2.0
//! `/steps.json` and `/timeline.json`: what the page shows of single steps.
//! Both are bounded: the last [`STEPS`] steps, and one timeline, of a telemetry.

use metrale_telemetry::kernel::{StepCursor, StepRecord, StepShape, Timeline, TimelineSpan};
use metrale_telemetry::snapshot::RowKind;
use metrale_telemetry::{Snapshot, Telemetry};
use serde::Serialize;
use std::collections::BTreeMap;

/// Steps of a telemetry in `/steps.json`.
pub const STEPS: usize = 512;

/// The last steps of a telemetry, the oldest first.
#[derive(Debug, Serialize)]
pub(crate) struct StepsJson {
    /// As the label of its snapshot; null before there was a recorder.
    gpu: Option<String>,
    lanes: Vec<String>,
    steps: Vec<StepJson>,
    /// The step that its timeline is of.
    timeline: Option<u64>,
}

/// A step. A lane has the place that it has in `lanes`.
#[derive(Debug, Serialize)]
struct StepJson {
    number: u64,
    armed: bool,
    marked: bool,
    incomplete: bool,
    shape: Option<StepShape>,
    wall_ns: Option<u64>,
    age_ns: Option<u64>,
    /// Null: it did not have the lane.
    gpu_ns: Vec<Option<u64>>,
    /// Null: not known.
    gap_ns: Vec<Option<u64>>,
}

/// An armed step, laid out in time.
#[derive(Debug, Serialize)]
pub(crate) struct TimelineJson {
    gpu: Option<String>,
    lanes: Vec<String>,
    /// Null, and all else empty: none could be laid out yet.
    step: Option<u64>,
    rows: Vec<RowJson>,
    lane_spans: Vec<SpanJson>,
    launches: Vec<SpanJson>,
    regions: Vec<SpanJson>,
    /// Of graphs among the launches.
    parts: Vec<PartJson>,
}

#[derive(Debug, Serialize)]
struct RowJson {
    name: Option<String>,
    kind: RowKind,
}

#[derive(Debug, Serialize)]
struct SpanJson {
    /// From the step's anchor.
    start_ns: i64,
    ns: u64,
    stream: u64,
    /// Its place in `lanes`.
    lane: Option<usize>,
    /// Its place in `rows`; null for a lane, and for a launch without a row.
    row: Option<usize>,
}

/// One node of a graph, or several.
#[derive(Debug, Serialize)]
struct PartJson {
    #[serde(flatten)]
    span: SpanJson,
    nodes: u32,
}

fn gpu(snapshot: &Snapshot) -> Option<String> {
    snapshot.labels.get("gpu").cloned()
}

fn lanes(telemetry: &Telemetry) -> Vec<String> {
    let names = (0..telemetry.lanes()).filter_map(|lane| telemetry.lane_name(lane));
    names.map(str::to_owned).collect()
}

/// The last timeline of a telemetry.
pub(crate) fn last_timeline(telemetry: &Telemetry) -> Option<Timeline> {
    telemetry.timelines().pop()
}

impl StepsJson {
    pub(crate) fn take(telemetry: &Telemetry, snapshot: &Snapshot) -> Self {
        // A cursor of our own: what an application has not read stays unread.
        let mut cursor = StepCursor::default();
        let mut records: Vec<StepRecord> =
            std::iter::from_fn(|| telemetry.next_record(&mut cursor)).take(2 * STEPS).collect();
        records.drain(..records.len().saturating_sub(STEPS));
        let (now_ns, lanes) = (telemetry.now_ns(), lanes(telemetry));
        Self {
            gpu: gpu(snapshot),
            steps: (records.iter())
                .map(|record| StepJson::new(record, lanes.len(), now_ns))
                .collect(),
            lanes,
            timeline: last_timeline(telemetry).map(|timeline| timeline.step),
        }
    }
}

impl StepJson {
    fn new(record: &StepRecord, lanes: usize, now_ns: u64) -> Self {
        let lanes = record.lanes.iter().take(lanes);
        Self {
            number: record.number,
            armed: record.armed,
            marked: record.marked,
            incomplete: record.incomplete,
            shape: record.shape,
            wall_ns: record.wall_ns,
            age_ns: record.ended_ns.map(|ended_ns| now_ns.saturating_sub(ended_ns)),
            gpu_ns: (lanes.clone()).map(|lane| (lane.spans > 0).then_some(lane.gpu_ns)).collect(),
            gap_ns: lanes
                .map(|lane| (lane.spans > 0 && lane.gaps == lane.spans).then_some(lane.gap_ns))
                .collect(),
        }
    }
}

impl TimelineJson {
    pub(crate) fn take(telemetry: &Telemetry, snapshot: &Snapshot) -> Self {
        let timeline = last_timeline(telemetry);
        let step = timeline.as_ref().map(|timeline| timeline.step);
        let timeline = timeline.unwrap_or_default();
        let mut places = BTreeMap::new();
        let mut rows = Vec::new();
        let mut row = |func: u64| {
            *places.entry(func).or_insert_with(|| {
                let name = telemetry.row_name(func);
                rows.push(RowJson {
                    kind: name.as_ref().map(|name| name.kind).unwrap_or_default(),
                    name: name.map(|name| name.text.to_string()),
                });
                rows.len() - 1
            })
        };
        let mut span = |span: &TimelineSpan| SpanJson {
            start_ns: span.start_ns,
            ns: span.ns,
            stream: span.stream,
            lane: span.lane,
            row: span.func.map(&mut row),
        };
        Self {
            gpu: gpu(snapshot),
            lanes: lanes(telemetry),
            step,
            lane_spans: timeline.lanes.iter().map(&mut span).collect(),
            launches: timeline.launches.iter().map(&mut span).collect(),
            regions: timeline.regions.iter().map(&mut span).collect(),
            parts: (timeline.parts.iter())
                .map(|part| PartJson { span: span(&part.span), nodes: part.nodes })
                .collect(),
            rows,
        }
    }
}
