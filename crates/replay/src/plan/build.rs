// SPDX-License-Identifier: MIT OR Apache-2.0
//! From a trace to a plan.
//!
//! Invariant: the unit of launching is a kernel, copy or set, or all the work
//! of one graph launch on one device. Units keep their recorded order on each
//! stream whatever the timing.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::join::{Joined, is_graph, join};
use super::{Graph, LaneSpan, Op, Plan, Step, Stream, Timing, What, graph};
use crate::steps::{Lane, Patterns, Steps};
use crate::trace::{Trace, Work, WorkKind};

/// What the host launches at once.
struct Unit {
    /// Its works, in order of start; one unless it is a graph.
    works: Vec<u32>,
    start_ns: i64,
    /// The stream it is launched on.
    stream: u32,
    /// Index into [`Steps::all`].
    step: Option<usize>,
    /// Host time of its call.
    called_ns: Option<i64>,
    /// Index into [`Plan::graphs`].
    graph: Option<u32>,
}

/// A span under construction.
struct Open {
    lane: Lane,
    step: Option<u32>,
    stream: u32,
    works: Vec<u32>,
    first: usize,
    last: usize,
}

/// Plans the replay of `trace`.
pub fn build(trace: &Trace, patterns: &Patterns, timing: Timing) -> Plan {
    let steps = Steps::find(&trace.annotations, &trace.names, patterns);
    let joined = join(trace);
    let mut plan = Plan::default();
    name_streams(trace, &mut plan);
    let mut kernels = Kernels::default();
    let mut units = units(trace, &steps, &joined, &mut plan, &mut kernels);
    plan.kernels = trace.names.texts(kernels.order.iter().copied());
    let times = order(&mut units, trace.streams.len(), timing);

    let lane_streams = lane_streams(trace, &units, steps.all().len());
    let mut numbers: HashMap<usize, u32> = HashMap::new();
    for unit in &units {
        if let Some(step) = unit.step
            && let std::collections::hash_map::Entry::Vacant(entry) = numbers.entry(step)
        {
            let found = &steps.all()[step];
            entry.insert(plan.steps.len() as u32);
            plan.steps.push(Step {
                name: trace.names.text(found.name),
                lane: found.what.lane,
            });
        }
    }
    let spans = spans(&units, &steps, &numbers, &lane_streams);
    emit(trace, &units, &times, &spans, &numbers, &kernels, &mut plan);
    plan.spans = spans.iter().map(|open| measure(trace, open)).collect();
    plan.notes = notes(trace, &steps, &joined, plan.steps.len());
    plan
}

fn name_streams(trace: &Trace, plan: &mut Plan) {
    let mut devices: HashMap<u32, u32> = HashMap::new();
    for stream in &trace.streams {
        let device = *devices.entry(stream.device).or_insert_with(|| {
            plan.devices.push(trace.ids.text(stream.device));
            plan.devices.len() as u32 - 1
        });
        plan.streams.push(Stream {
            device,
            name: trace.ids.text(stream.stream),
        });
    }
}

/// The kernels of a plan, numbered in the order of their launch.
#[derive(Default)]
struct Kernels {
    order: Vec<u32>,
    number: HashMap<u32, u32>,
}

impl Kernels {
    fn number(&mut self, name: u32) -> u32 {
        *self.number.entry(name).or_insert_with(|| {
            self.order.push(name);
            self.order.len() as u32 - 1
        })
    }
}

/// Groups the work into units, in order of GPU start.
fn units(
    trace: &Trace,
    steps: &Steps,
    joined: &Joined,
    plan: &mut Plan,
    kernels: &mut Kernels,
) -> Vec<Unit> {
    let mut by_start: Vec<u32> = (0..trace.work.len() as u32).collect();
    by_start.sort_by_key(|&i| trace.work[i as usize].start_ns);

    let mut units: Vec<Unit> = Vec::new();
    // (device, process, correlation) of a graph launch → its unit.
    let mut launches: HashMap<(u32, u32, i64), usize> = HashMap::new();
    for i in by_start {
        let work = &trace.work[i as usize];
        let call = joined.calls[i as usize].map(|c| &trace.calls[c as usize]);
        if let Some(call) = call.filter(|c| is_graph(c)) {
            let device = trace.streams[work.stream as usize].device;
            let key = (device, call.process, call.correlation);
            if let Some(&unit) = launches.get(&key) {
                units[unit].works.push(i);
                continue;
            }
            launches.insert(key, units.len());
        }
        units.push(Unit {
            works: vec![i],
            start_ns: work.start_ns,
            stream: work.stream,
            step: call.and_then(|c| steps.at(c.process, c.at_ns)),
            called_ns: call.map(|c| c.at_ns),
            graph: None,
        });
    }
    let mut graph_units: Vec<usize> = launches.into_values().collect();
    graph_units.sort_unstable();
    let mut known: HashMap<Graph, u32> = HashMap::new();
    for (i, unit) in units.iter_mut().enumerate() {
        if graph_units.binary_search(&i).is_err() {
            if let WorkKind::Kernel(name) = trace.work[unit.works[0] as usize].kind {
                kernels.number(name);
            }
            continue;
        }
        let works: Vec<Work> = unit.works.iter().map(|&w| trace.work[w as usize]).collect();
        let built = graph::build(&works, |name| kernels.number(name));
        unit.stream = built.stream();
        let next = plan.graphs.len() as u32;
        let number = *known.entry(built).or_insert_with_key(|built| {
            plan.graphs.push(built.clone());
            next
        });
        unit.graph = Some(number);
    }
    units
}

/// Puts the units in host order and gives each its host time.
fn order(units: &mut Vec<Unit>, streams: usize, timing: Timing) -> Vec<i64> {
    let earliest = units
        .iter()
        .map(|u| u.called_ns.unwrap_or(u.start_ns).min(u.start_ns))
        .min()
        .unwrap_or(0);
    // A launch never comes before one that it follows on its stream. Work
    // without a call was launched at an unknown time, so as early as that
    // order allows.
    let mut latest = vec![earliest; streams];
    let mut timed: Vec<(i64, Unit)> = std::mem::take(units)
        .into_iter()
        .map(|unit| {
            let own = match timing {
                Timing::Ideal => unit.start_ns,
                Timing::Honest => unit.called_ns.unwrap_or(earliest),
            };
            let after = &mut latest[unit.stream as usize];
            *after = own.max(*after);
            (*after, unit)
        })
        .collect();
    timed.sort_by_key(|(at, _)| *at);
    let (times, sorted) = timed.into_iter().unzip();
    *units = sorted;
    times
}

/// For each step, the stream with most of its GPU time among those on which
/// something of it is launched.
fn lane_streams(trace: &Trace, units: &[Unit], steps: usize) -> Vec<Option<u32>> {
    let mut times: Vec<BTreeMap<u32, (u64, bool)>> = vec![BTreeMap::new(); steps];
    for unit in units {
        let Some(step) = unit.step else { continue };
        for &work in &unit.works {
            let work = &trace.work[work as usize];
            times[step].entry(work.stream).or_default().0 += work.duration_ns;
        }
        times[step].entry(unit.stream).or_default().1 = true;
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

/// The lane spans: one per step on its lane's stream, one per unbroken run of
/// admit work and stream.
fn spans(
    units: &[Unit],
    steps: &Steps,
    numbers: &HashMap<usize, u32>,
    lane_streams: &[Option<u32>],
) -> Vec<Open> {
    let mut spans: Vec<Open> = Vec::new();
    let mut of_step: HashMap<usize, usize> = HashMap::new();
    let mut of_run: HashMap<u32, usize> = HashMap::new();
    for (i, unit) in units.iter().enumerate() {
        let known = match unit.step {
            Some(step) => {
                of_run.clear();
                if lane_streams[step] != Some(unit.stream) {
                    continue;
                }
                of_step.entry(step).or_insert(spans.len())
            }
            None => of_run.entry(unit.stream).or_insert(spans.len()),
        };
        if *known == spans.len() {
            spans.push(Open {
                lane: unit.step.map_or(Lane::Admit, |s| steps.all()[s].what.lane),
                step: unit.step.and_then(|s| numbers.get(&s).copied()),
                stream: unit.stream,
                works: Vec::new(),
                first: i,
                last: i,
            });
        }
        let span = &mut spans[*known];
        span.last = i;
        span.works.extend(&unit.works);
    }
    spans
}

/// The recorded extent of a span on its stream.
fn measure(trace: &Trace, open: &Open) -> LaneSpan {
    let mut works: Vec<Work> = open
        .works
        .iter()
        .map(|&w| trace.work[w as usize])
        .filter(|w| w.stream == open.stream)
        .collect();
    works.sort_by_key(|w| w.start_ns);
    let start_ns = works.first().map_or(0, |w| w.start_ns);
    let (mut end, mut sum, mut union) = (start_ns, 0u64, 0u64);
    for work in &works {
        sum += work.duration_ns;
        union += work.end_ns().saturating_sub(work.start_ns.max(end)).max(0) as u64;
        end = end.max(work.end_ns());
    }
    LaneSpan {
        lane: open.lane,
        step: open.step,
        stream: open.stream,
        start_ns,
        span_ns: end.abs_diff(start_ns),
        overlap_ns: sum - union,
    }
}

/// Where the recorder's steps begin: before a step's first unit, and before
/// the admit work that directly precedes it.
fn step_begins(units: &[Unit], numbers: &HashMap<usize, u32>) -> BTreeMap<usize, Option<u32>> {
    let mut begins = BTreeMap::new();
    let mut seen = HashSet::new();
    let mut run = None;
    for (i, unit) in units.iter().enumerate() {
        match unit.step {
            None => {
                run.get_or_insert(i);
            }
            Some(step) => {
                let from = run.take().unwrap_or(i);
                if seen.insert(step) {
                    begins.insert(from, numbers.get(&step).copied());
                }
            }
        }
    }
    if seen.is_empty() && !units.is_empty() {
        begins.insert(0, None);
    }
    begins
}

fn emit(
    trace: &Trace,
    units: &[Unit],
    times: &[i64],
    spans: &[Open],
    numbers: &HashMap<usize, u32>,
    kernels: &Kernels,
    plan: &mut Plan,
) {
    let mut first_of: HashMap<usize, u32> = HashMap::new();
    let mut last_of: HashMap<usize, u32> = HashMap::new();
    for (number, span) in spans.iter().enumerate() {
        first_of.insert(span.first, number as u32);
        last_of.insert(span.last, number as u32);
    }
    let begins = step_begins(units, numbers);
    let zero = times.first().copied().unwrap_or(0);
    let mut in_step = false;
    let mut at_ns = 0;
    let ops = &mut plan.ops;
    for (i, unit) in units.iter().enumerate() {
        at_ns = times[i].abs_diff(zero);
        let mut push = |what| ops.push(Op { at_ns, what });
        if let Some(&step) = begins.get(&i) {
            if in_step {
                push(What::StepEnd);
            }
            in_step = true;
            push(What::StepBegin { step });
        }
        if let Some(&span) = first_of.get(&i) {
            push(What::LaneBegin { span });
        }
        let work = &trace.work[unit.works[0] as usize];
        let (stream, duration_ns) = (unit.stream, work.duration_ns);
        push(match (unit.graph, work.kind) {
            (Some(graph), _) => What::Graph { graph },
            (None, WorkKind::Kernel(name)) => What::Kernel {
                kernel: kernels.number[&name],
                stream,
                duration_ns,
            },
            (None, WorkKind::Copy) => What::Copy {
                stream,
                duration_ns,
            },
            (None, WorkKind::Set) => What::Set {
                stream,
                duration_ns,
            },
        });
        if let Some(&span) = last_of.get(&i) {
            push(What::LaneEnd { span });
        }
    }
    if in_step {
        ops.push(Op {
            at_ns,
            what: What::StepEnd,
        });
    }
}

fn notes(trace: &Trace, steps: &Steps, joined: &Joined, with_work: usize) -> Vec<String> {
    let mut notes = Vec::new();
    let all = steps.all();
    if all.is_empty() {
        notes.push(
            "no step recognised (vLLM's execute_…, SGLang's step[…], ProfilerStep#…): all work is \
             admit; name the annotation of a step with --step-pattern 'PREFIX' or 'PART*PART'"
                .to_owned(),
        );
    }
    let uncounted = all.iter().filter(|s| !s.what.states_tokens).count();
    if uncounted > 0 {
        notes.push(format!(
            "{uncounted} of {} steps state no token count: taken as decode",
            all.len()
        ));
    }
    if all.len() > with_work {
        notes.push(format!(
            "{} steps launched no GPU work: not replayed",
            all.len() - with_work
        ));
    }
    let unlaunched = joined.calls.iter().filter(|c| c.is_none()).count();
    if unlaunched > 0 {
        notes.push(format!(
            "{unlaunched} pieces of GPU work have no launch record: admit"
        ));
    }
    if joined.shared > 0 {
        notes.push(format!(
            "{} launches have a correlation id that several processes use: joined by device",
            joined.shared
        ));
    }
    if trace.drops.total() > 0 {
        notes.push(format!(
            "{} records dropped: {}",
            trace.drops.total(),
            trace.drops.reasons().join(", ")
        ));
    }
    if trace.drops.rounded > 0 {
        notes.push(format!(
            "{} times had digits below 1 ns: rounded",
            trace.drops.rounded
        ));
    }
    notes
}
