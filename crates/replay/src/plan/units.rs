// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the host launches at once: a kernel or copy, or all the work of
//! one graph launch on one device.
//!
//! Invariant: units keep their recorded order on each stream, whatever the
//! timing. There are as many as pieces of work in an eager trace, so they are
//! small and own nothing.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::num::NonZeroI64;

use super::join::{Joined, is_graph};
use super::lanes::{LaneMark, StepRange};
use super::{Graph, Timing, graph, place};
use crate::steps::Steps;
use crate::trace::{Trace, Work, WorkKind};

/// What the host launches at once, or the mark of a lane that an export of ours
/// has: then it has no works.
pub(super) struct Unit {
    /// Its works: so many from there in [`Units::works`].
    from: u32,
    count: u32,
    /// Index into [`Steps::all`].
    pub(super) step: Option<u32>,
    /// Index into the plan's graphs.
    pub(super) graph: Option<u32>,
    pub(super) mark: Option<LaneMark>,
    /// The stream it is launched on.
    pub(super) stream: u32,
    /// First GPU start.
    start_ns: i64,
    /// When the host launches it.
    pub(super) at_ns: i64,
}

/// The units of a trace in host order.
pub(super) struct Units {
    pub(super) list: Vec<Unit>,
    /// Works in the order of their units, in each by their start.
    works: Vec<u32>,
    /// How many works were given their step by their stamps.
    pub(super) placed: usize,
    /// The plan's distinct graphs.
    pub(super) graphs: Vec<Graph>,
    pub(super) kernels: Numbers,
    pub(super) copies: Numbers,
}

const NONE: u32 = u32::MAX;

/// Names of the trace, numbered in the order of their first launch.
pub(super) struct Numbers {
    /// The trace's number of each name.
    pub(super) list: Vec<u32>,
    /// The place in the list of each of the trace's names.
    places: Vec<u32>,
}

impl Numbers {
    fn new(trace: &Trace) -> Self {
        Self { list: Vec::new(), places: vec![NONE; trace.names.len()] }
    }

    /// The number of a name that has one.
    pub(super) fn of(&self, name: u32) -> u32 {
        self.places[name as usize]
    }

    fn add(&mut self, name: u32) -> u32 {
        let place = &mut self.places[name as usize];
        if *place == NONE {
            *place = self.list.len() as u32;
            self.list.push(name);
        }
        *place
    }
}

impl Units {
    /// The works of a unit, by number.
    pub(super) fn works(&self, unit: &Unit) -> &[u32] {
        &self.works[unit.from as usize..][..unit.count as usize]
    }

    /// Each work with the number of its unit, in the order of their starts.
    pub(super) fn by_start<'t>(&self, trace: &'t Trace) -> Vec<(u32, &'t Work)> {
        let of = |(number, unit)| self.works(unit).iter().map(move |&work| (number, work));
        let units = (0..).zip(&self.list);
        let works = units.flat_map(of);
        let mut works: Vec<_> =
            works.map(|(unit, work)| (unit, &trace.work[work as usize])).collect();
        works.sort_by_key(|(_, work)| work.start_ns);
        works
    }
}

/// Groups the work of `trace` into units and puts them in host order.
pub(super) fn units(
    trace: &Trace,
    steps: &Steps,
    joined: &Joined,
    timing: Timing,
    ranges: &[StepRange],
) -> Units {
    let mut units = group(trace, steps, joined);
    build_graphs(trace, &mut units);
    mark(&mut units.list, ranges);
    order(&mut units.list, trace.streams.len(), timing);
    units
}

/// A call's host time where it is known. Stands in [`Unit::at_ns`] until the
/// units are ordered.
const UNKNOWN: i64 = i64::MIN;

fn group(trace: &Trace, steps: &Steps, joined: &Joined) -> Units {
    let mut by_start: Vec<u32> = (0..trace.work.len() as u32).collect();
    by_start.sort_by_key(|&i| trace.work[i as usize].start_ns);

    let places = place::by_stamps(trace, steps, joined, &by_start);
    let mut list: Vec<Unit> = Vec::with_capacity(by_start.len());
    // (device, process, correlation) of a graph launch → its unit.
    let mut launches: HashMap<(u32, u32, NonZeroI64), u32> = HashMap::new();
    let mut unit_of: Vec<u32> = vec![NONE; by_start.len()];
    for &i in &by_start {
        let work = &trace.work[i as usize];
        let call = joined.calls[i as usize].map(|c| &trace.calls[c as usize]);
        let next = list.len() as u32;
        let graph = call.filter(|call| is_graph(call)).map(|call| {
            let device = trace.streams[work.stream as usize].device;
            let key = (device, call.process, call.correlation);
            *launches.entry(key).or_insert(next)
        });
        let unit = graph.unwrap_or(next);
        unit_of[i as usize] = unit;
        if unit == next {
            let (step, at_ns) = match (call, places.get(&i)) {
                (Some(call), _) => {
                    (steps.at(call.process, call.at_ns).map(|step| step as u32), call.at_ns)
                }
                (None, Some(place)) => (Some(place.step), place.at_ns),
                (None, None) => (None, UNKNOWN),
            };
            list.push(Unit {
                from: 0,
                count: 0,
                step,
                // Any number marks a graph until it is built.
                graph: graph.map(|_| NONE),
                mark: None,
                stream: work.stream,
                start_ns: work.start_ns,
                at_ns,
            });
        }
        list[unit as usize].count += 1;
    }
    let mut from = 0;
    for unit in &mut list {
        unit.from = from;
        from += unit.count;
    }
    // Stable: within a unit the works stay in order of start.
    by_start.sort_by_key(|&i| unit_of[i as usize]);
    Units {
        list,
        works: by_start,
        placed: places.len(),
        graphs: Vec::new(),
        kernels: Numbers::new(trace),
        copies: Numbers::new(trace),
    }
}

/// Builds the graphs, each distinct one once, and numbers kernels and copies.
fn build_graphs(trace: &Trace, units: &mut Units) {
    let hasher = BuildHasherDefault::<DefaultHasher>::default();
    let mut known: HashMap<u64, u32> = HashMap::new();
    for i in 0..units.list.len() {
        let unit = &units.list[i];
        if unit.graph.is_none() {
            let work = &trace.work[units.works(unit)[0] as usize];
            match work.kind {
                WorkKind::Kernel(name) | WorkKind::Graph(name) => units.kernels.add(name),
                WorkKind::Copy(name) => units.copies.add(name),
            };
            continue;
        }
        let works: Vec<Work> = units.works(unit).iter().map(|&w| trace.work[w as usize]).collect();
        let built = graph::build(&works, |name| units.kernels.add(name));
        let next = units.graphs.len() as u32;
        // Two graphs of one hash only cost a second copy.
        let found = *known.entry(hasher.hash_one(&built)).or_insert(next);
        let unit = &mut units.list[i];
        unit.stream = built.stream;
        if found < next && units.graphs[found as usize] == built {
            unit.graph = Some(found);
        } else {
            unit.graph = Some(next);
            units.graphs.push(built);
        }
    }
}

/// Adds the marks where lanes' own ranges begin and end.
fn mark(units: &mut Vec<Unit>, ranges: &[StepRange]) {
    if ranges.is_empty() {
        return;
    }
    for (span, range) in (0..).zip(ranges) {
        let begin_ns = range.start_ns;
        let end_ns = begin_ns.saturating_add_unsigned(range.ns);
        for (mark, at_ns) in [(LaneMark::Begin(span), begin_ns), (LaneMark::End(span), end_ns)] {
            units.push(Unit {
                from: 0,
                count: 0,
                step: Some(range.step),
                graph: None,
                mark: Some(mark),
                stream: range.stream,
                start_ns: at_ns,
                at_ns,
            });
        }
    }
    // Of one moment: what ends, then what begins, then work; but the end of an
    // empty range after its begin.
    units.sort_by_key(|unit| {
        let rank = match unit.mark {
            Some(LaneMark::End(span)) if ranges[span as usize].ns > 0 => 0,
            Some(LaneMark::Begin(_)) => 1,
            Some(LaneMark::End(_)) => 2,
            None => 3,
        };
        (unit.start_ns, rank)
    });
}

/// Puts units, which stand in order of start, in host order.
fn order(units: &mut [Unit], streams: usize, timing: Timing) {
    let called = |u: &Unit| {
        if u.at_ns == UNKNOWN { u.start_ns } else { u.at_ns }
    };
    let earliest = units.iter().map(|u| called(u).min(u.start_ns)).min().unwrap_or(0);
    // A launch never comes before one that it follows on its stream. Work
    // without a call was launched at an unknown time, so as early as that
    // order allows.
    let mut latest = vec![earliest; streams];
    for unit in units.iter_mut() {
        let own = match timing {
            Timing::Ideal => unit.start_ns,
            Timing::Honest if unit.at_ns == UNKNOWN => earliest,
            Timing::Honest => unit.at_ns,
        };
        let after = &mut latest[unit.stream as usize];
        *after = own.max(*after);
        unit.at_ns = *after;
    }
    // Stable: of one moment, the order of GPU starts.
    units.sort_by_key(|unit| unit.at_ns);
}
