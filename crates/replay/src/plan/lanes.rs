// SPDX-License-Identifier: MIT OR Apache-2.0
//! The lane spans of a plan.
//!
//! Invariants: a step has one span on each device that it launches on, on the
//! stream with most of its GPU time there; work outside every step has one per
//! unbroken run and stream. A span's first and last unit are on its stream. Where
//! the trace is an export of ours, spans are the ranges that it has of lanes.

use std::collections::{BTreeMap, HashMap};

use super::LaneSpan;
use super::units::Units;
use crate::steps::{Lane, Steps};
use crate::trace::{LaneRange, Trace};

/// A span and where its marks go.
pub(super) struct Marked {
    pub(super) span: LaneSpan,
    /// The unit before which it begins. Spans stand in this order.
    pub(super) first: u32,
    /// The unit after which it ends.
    pub(super) last: u32,
}

const NONE: u32 = u32::MAX;

/// A lane's own range.
pub(super) struct StepRange {
    /// Index into [`Steps::all`].
    pub(super) step: u32,
    pub(super) stream: u32,
    pub(super) start_ns: i64,
    pub(super) ns: u64,
}

/// The mark of a range, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LaneMark {
    Begin(u32),
    End(u32),
}

/// The ranges that the trace has of lanes, in the order of their begins.
pub(super) fn ranges(trace: &Trace, steps: &Steps) -> Vec<StepRange> {
    let steps = (0u32..).zip(steps.all());
    let steps: HashMap<_, _> =
        steps.filter_map(|(number, step)| Some((step.id?, number))).collect();
    let of = |range: &LaneRange| {
        Some(StepRange {
            step: *steps.get(&range.id)?,
            stream: range.stream,
            start_ns: range.start_ns,
            ns: range.duration_ns,
        })
    };
    let mut ranges: Vec<_> = trace.lane_ranges.iter().filter_map(of).collect();
    ranges.sort_by_key(|range| range.start_ns);
    ranges
}

/// Their spans; `numbers` has the plan's number of each step.
pub(super) fn of_ranges(
    ranges: &[StepRange],
    steps: &Steps,
    numbers: &[Option<u32>],
) -> Vec<LaneSpan> {
    let of = |range: &StepRange| LaneSpan {
        lane: steps.all()[range.step as usize].what.lane,
        step: numbers[range.step as usize],
        stream: range.stream,
        start_ns: range.start_ns,
        span_ns: range.ns,
        // Work of our own exports does not overlap on a stream.
        overlap_ns: 0,
        overlap_lanes_ns: 0,
    };
    ranges.iter().map(of).collect()
}

/// Finds the spans; `numbers` has the plan's number of each step.
pub(super) fn spans(
    trace: &Trace,
    units: &Units,
    steps: &Steps,
    numbers: &[Option<u32>],
) -> Vec<Marked> {
    let lane_streams = lane_streams(trace, units, steps.all().len());
    let mut spans: Vec<Marked> = Vec::new();
    // By step and stream.
    let mut of_step: HashMap<(u32, u32), u32> = HashMap::new();
    // Per stream: the run and its span.
    let mut of_run = vec![(NONE, NONE); trace.streams.len()];
    let mut run = 0;
    // Of each unit: its work on the unit's own stream is the span's.
    let mut span_of = vec![None; units.list.len()];
    for (i, unit) in units.list.iter().enumerate() {
        let next = spans.len() as u32;
        let number = match unit.step {
            Some(step) => {
                run += 1;
                if !lane_streams[step as usize].contains(&unit.stream) {
                    continue;
                }
                *of_step.entry((step, unit.stream)).or_insert(next)
            }
            None => {
                let known = &mut of_run[unit.stream as usize];
                if known.0 != run || known.1 == NONE {
                    *known = (run, next);
                }
                known.1
            }
        };
        if number == next {
            let found = unit.step.map(|step| &steps.all()[step as usize]);
            spans.push(Marked {
                span: LaneSpan {
                    lane: found.map_or(Lane::Admit, |step| step.what.lane),
                    step: unit.step.and_then(|step| numbers[step as usize]),
                    stream: unit.stream,
                    start_ns: 0,
                    span_ns: 0,
                    overlap_ns: 0,
                    overlap_lanes_ns: 0,
                },
                first: i as u32,
                last: i as u32,
            });
        }
        spans[number as usize].last = i as u32;
        span_of[i] = Some(number);
    }
    measure(trace, units, &span_of, &mut spans);
    spans
}

/// The recorded extent of each span, and what its stream has at once.
fn measure(trace: &Trace, units: &Units, span_of: &[Option<u32>], spans: &mut [Marked]) {
    // Ends so far, of each stream and of each span.
    let mut stream_ends = vec![i64::MIN; trace.streams.len()];
    let mut span_ends = vec![i64::MIN; spans.len()];
    for (unit, work) in units.by_start(trace) {
        let (start_ns, end_ns) = (work.start_ns, work.end_ns());
        // Work in order of start covers no gap before its reach again.
        let reach = |reached_ns: &mut i64| {
            let twice_ns = end_ns.min(*reached_ns).saturating_sub(start_ns).max(0) as u64;
            *reached_ns = end_ns.max(*reached_ns);
            twice_ns
        };
        let on_stream_ns = reach(&mut stream_ends[work.stream as usize]);
        let is_own = work.stream == units.list[unit as usize].stream;
        let Some(number) = span_of[unit as usize].filter(|_| is_own) else {
            continue;
        };
        let span = &mut spans[number as usize].span;
        let span_end = &mut span_ends[number as usize];
        if *span_end == i64::MIN {
            span.start_ns = start_ns;
        }
        let in_span_ns = reach(span_end);
        span.span_ns = span_end.abs_diff(span.start_ns);
        span.overlap_ns += in_span_ns;
        span.overlap_lanes_ns += on_stream_ns - in_span_ns;
    }
}

/// For each step and each device that something of it is launched on: the stream
/// with most of the step's GPU time there.
fn lane_streams(trace: &Trace, units: &Units, steps: usize) -> Vec<Vec<u32>> {
    let mut times: Vec<BTreeMap<u32, (u64, bool)>> = vec![BTreeMap::new(); steps];
    for unit in &units.list {
        let Some(step) = unit.step else { continue };
        let times = &mut times[step as usize];
        for &work in units.works(unit) {
            let work = &trace.work[work as usize];
            times.entry(work.stream).or_default().0 += work.duration_ns;
        }
        times.entry(unit.stream).or_default().1 = true;
    }
    let most = |streams: &BTreeMap<u32, (u64, bool)>| {
        let mut of_device: BTreeMap<u32, (u64, u32)> = BTreeMap::new();
        for (&stream, &(time, _)) in streams.iter().filter(|(_, (_, launched))| *launched) {
            let device = trace.streams[stream as usize].device;
            let most = of_device.entry(device).or_insert((time, stream));
            if time > most.0 {
                *most = (time, stream);
            }
        }
        of_device.into_values().map(|(_, stream)| stream).collect()
    };
    times.iter().map(most).collect()
}
