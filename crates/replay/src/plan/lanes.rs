// SPDX-License-Identifier: MIT OR Apache-2.0
//! The lane spans of a plan.
//!
//! Invariants: a step has one span, on the stream with most of its GPU time;
//! work outside every step has one per unbroken run and stream. A span's first
//! and last unit are on its stream.

use std::collections::BTreeMap;

use super::LaneSpan;
use super::units::Units;
use crate::steps::{Lane, Steps};
use crate::trace::Trace;

/// A span and where its marks go.
pub(super) struct Marked {
    pub(super) span: LaneSpan,
    /// The unit before which it begins. Spans stand in this order.
    pub(super) first: u32,
    /// The unit after which it ends.
    pub(super) last: u32,
}

const NONE: u32 = u32::MAX;

/// Finds the spans; `numbers` has the plan's number of each step.
pub(super) fn spans(
    trace: &Trace,
    units: &Units,
    steps: &Steps,
    numbers: &[Option<u32>],
) -> Vec<Marked> {
    let lane_streams = lane_streams(trace, units, steps.all().len());
    let mut spans: Vec<Marked> = Vec::new();
    let mut of_step = vec![NONE; steps.all().len()];
    // Per stream: the run and its span.
    let mut of_run = vec![(NONE, NONE); trace.streams.len()];
    let mut run = 0;
    // (span, work), for the works that a span's extent is taken from.
    let mut members: Vec<(u32, u32)> = Vec::new();
    for (i, unit) in units.list.iter().enumerate() {
        let next = spans.len() as u32;
        let number = match unit.step {
            Some(step) => {
                run += 1;
                if lane_streams[step as usize] != Some(unit.stream) {
                    continue;
                }
                let known = &mut of_step[step as usize];
                if *known == NONE {
                    *known = next;
                }
                *known
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
            spans.push(Marked {
                span: LaneSpan {
                    lane: unit
                        .step
                        .map_or(Lane::Admit, |s| steps.all()[s as usize].what.lane),
                    step: unit.step.and_then(|s| numbers[s as usize]),
                    stream: unit.stream,
                    start_ns: 0,
                    span_ns: 0,
                    overlap_ns: 0,
                },
                first: i as u32,
                last: i as u32,
            });
        }
        spans[number as usize].last = i as u32;
        let here = units.works(unit).iter();
        let here = here.filter(|&&w| trace.work[w as usize].stream == unit.stream);
        members.extend(here.map(|&w| (number, w)));
    }
    members.sort_by_key(|&(span, work)| (span, trace.work[work as usize].start_ns));
    for works in members.chunk_by(|a, b| a.0 == b.0) {
        measure(trace, works, &mut spans[works[0].0 as usize].span);
    }
    spans
}

/// The recorded extent and overlap of `works`, which stand in order of start.
fn measure(trace: &Trace, works: &[(u32, u32)], span: &mut LaneSpan) {
    let work = |&(_, w): &(u32, u32)| &trace.work[w as usize];
    let start_ns = work(&works[0]).start_ns;
    let (mut end, mut sum, mut union) = (start_ns, 0u64, 0u64);
    for work in works.iter().map(work) {
        sum += work.duration_ns;
        union += work.end_ns().saturating_sub(work.start_ns.max(end)).max(0) as u64;
        end = end.max(work.end_ns());
    }
    span.start_ns = start_ns;
    span.span_ns = end.abs_diff(start_ns);
    span.overlap_ns = sum - union;
}

/// For each step, the stream with most of its GPU time among those on which
/// something of it is launched.
fn lane_streams(trace: &Trace, units: &Units, steps: usize) -> Vec<Option<u32>> {
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
    times
        .iter()
        .map(|streams| {
            streams
                .iter()
                .filter(|(_, (_, launched))| *launched)
                .max_by_key(|(stream, (time, _))| (*time, std::cmp::Reverse(**stream)))
                .map(|(stream, _)| *stream)
        })
        .collect()
}
