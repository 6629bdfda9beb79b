// SPDX-License-Identifier: MIT OR Apache-2.0
//! From a trace to a plan.
//!
//! Invariants: each unit is one operation; marks stand directly before and
//! after the units that they enclose; a step is open from before its first unit
//! until after its last.

use std::collections::HashMap;

use super::join::join;
use super::lanes::{self, LaneMark, Marked};
use super::notes::notes;
use super::overruns;
use super::units::{Units, units};
use super::{Op, Plan, PlannedStep, Stream, Timing, What};
use crate::steps::{Patterns, Steps};
use crate::trace::{Trace, WorkKind};

/// Plans the replay of `trace`.
pub fn build(trace: &Trace, patterns: &Patterns, timing: Timing) -> Plan {
    let steps = Steps::find(&trace.annotations, &trace.names, patterns);
    let joined = join(trace);
    let mut plan = Plan { lanes: patterns.lanes().to_vec(), ..Plan::default() };
    name_streams(trace, &mut plan);
    let ranges = lanes::ranges(trace, &steps);
    let units = units(trace, &steps, &joined, timing, &ranges);

    let mut numbers = vec![None; steps.all().len()];
    for step in units.list.iter().filter_map(|unit| unit.step) {
        if numbers[step as usize].is_none() {
            let found = &steps.all()[step as usize];
            numbers[step as usize] = Some(plan.steps.len() as u32);
            plan.steps.push(PlannedStep {
                name: trace.names.text(found.name),
                lane: found.what.lane,
                shape: found.what.shape,
            });
        }
    }
    plan.overruns = overruns::find(trace, &units, &steps);
    plan.notes = notes(trace, &steps, &joined, &plan, units.placed);
    drop(joined);
    let marked = if ranges.is_empty() {
        lanes::spans(trace, &units, &steps, &numbers)
    } else {
        // Their marks are units.
        plan.spans = lanes::of_ranges(&ranges, &steps, &numbers);
        Vec::new()
    };
    plan.ops = operations(trace, &units, &marked, &numbers);
    plan.spans.extend(marked.into_iter().map(|marked| marked.span));
    plan.kernels = trace.names.texts(&units.kernels.list);
    plan.copies = trace.names.texts(&units.copies.list);
    plan.graphs = units.graphs;
    plan
}

fn name_streams(trace: &Trace, plan: &mut Plan) {
    let mut devices: HashMap<u32, u32> = HashMap::new();
    for stream in &trace.streams {
        let device = *devices.entry(stream.device).or_insert_with(|| {
            plan.devices.push(trace.ids.text(stream.device));
            plan.devices.len() as u32 - 1
        });
        plan.streams.push(Stream { device, name: trace.ids.text(stream.stream) });
    }
}

/// A recorder's step in host order.
struct Opened {
    /// The unit before which it begins.
    first: u32,
    /// Its last unit.
    last: u32,
    /// The plan's number of it.
    step: Option<u32>,
}

/// The recorder's steps in the order of their begins: before a step's first
/// unit, and before the admit work that directly precedes it.
fn opened(units: &Units, numbers: &[Option<u32>]) -> Vec<Opened> {
    let mut opened: Vec<Opened> = Vec::new();
    let mut known = vec![None; numbers.len()];
    let mut run = None;
    for (i, unit) in units.list.iter().enumerate() {
        match unit.step {
            None => {
                run.get_or_insert(i as u32);
            }
            Some(step) => {
                let first = run.take().unwrap_or(i as u32);
                let number = *known[step as usize].get_or_insert_with(|| {
                    opened.push(Opened { first, last: i as u32, step: numbers[step as usize] });
                    opened.len() - 1
                });
                opened[number].last = i as u32;
            }
        }
    }
    if opened.is_empty() && !units.list.is_empty() {
        opened.push(Opened { first: 0, last: 0, step: None });
    }
    opened
}

fn operations(trace: &Trace, units: &Units, spans: &[Marked], numbers: &[Option<u32>]) -> Vec<Op> {
    let steps = opened(units, numbers);
    let mut ends: Vec<u32> = (0..spans.len() as u32).collect();
    ends.sort_by_key(|&span| spans[span as usize].last);
    let mut firsts = (0..).zip(spans).peekable();
    let mut lasts = ends.into_iter().peekable();

    let zero = units.list.first().map_or(0, |unit| unit.at_ns);
    let marks = 2 * (spans.len() + steps.len());
    let mut ops = Vec::with_capacity(units.list.len() + marks);
    let mut begins = steps.into_iter().peekable();
    let mut open: Vec<Opened> = Vec::new();
    let mut at_ns = 0;
    for i in 0..units.list.len() {
        let unit = &units.list[i];
        at_ns = unit.at_ns.abs_diff(zero);
        let mut push = |what, step| ops.push(Op { at_ns, what, step });
        if let Some(begun) = begins.next_if(|begun| begun.first == i as u32) {
            for ended in open.extract_if(.., |open| open.last < i as u32) {
                push(What::StepEnd, ended.step);
            }
            push(What::StepBegin { step: begun.step }, begun.step);
            open.push(begun);
        }
        if let Some((span, marked)) = firsts.next_if(|(_, marked)| marked.first == i as u32) {
            push(What::LaneBegin { span }, marked.span.step);
        }
        let step = unit.step.and_then(|step| numbers[step as usize]);
        let Some(&first) = units.works(unit).first() else {
            match unit.mark {
                Some(LaneMark::Begin(span)) => push(What::LaneBegin { span }, step),
                Some(LaneMark::End(span)) => push(What::LaneEnd { span }, step),
                None => {}
            }
            continue;
        };
        let work = &trace.work[first as usize];
        let (stream, duration_ns) = (unit.stream, work.duration_ns);
        let what = match (unit.graph, work.kind) {
            (Some(graph), _) => What::Graph { graph },
            (None, WorkKind::Kernel(name) | WorkKind::Graph(name)) => {
                What::Kernel { kernel: units.kernels.of(name), stream, duration_ns }
            }
            (None, WorkKind::Copy(name)) => {
                What::Copy { copy: units.copies.of(name), stream, duration_ns }
            }
        };
        push(what, step);
        if let Some(span) = lasts.next_if(|&span| spans[span as usize].last == i as u32) {
            push(What::LaneEnd { span }, spans[span as usize].span.step);
        }
    }
    ops.extend(open.iter().map(|ended| Op { at_ns, what: What::StepEnd, step: ended.step }));
    ops
}
