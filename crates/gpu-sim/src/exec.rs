// SPDX-License-Identifier: MIT OR Apache-2.0
//! Executable graphs: a graph's nodes as they were at instantiation, those of
//! child graphs among them, in one order; and their launches.
//!
//! An executable never runs beside itself; two of one graph may. Branches run
//! side by side: a node starts once those it depends on are done.

use std::sync::Arc;

use metrale_gpu_sys::cuda::Status;

use crate::capture::Target;
use crate::event::State;
use crate::graph::{Edge, EdgeData, Graph, Kind, Origin};
use crate::moment::Moment;
use crate::user_object::Held;
use crate::watch::Flight;
use crate::world::{Outcome, World};

/// One node of an executable.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    /// The node of the graph instantiated, or of a child of it: the graph's id
    /// and the place.
    pub(crate) node: (u64, usize),
    pub(crate) origin: Origin,
    pub(crate) kind: Kind,
    /// Edges from earlier steps, by index.
    pub(crate) deps: Vec<Edge>,
    pub(crate) is_leaf: bool,
    /// What is not enabled takes no time and does nothing.
    pub(crate) is_enabled: bool,
}

#[derive(Debug)]
pub(crate) struct Exec {
    /// Shared with the launch under way: no copy per launch.
    pub(crate) steps: Arc<[Step]>,
    /// The id of the graph instantiated.
    pub(crate) graph: u64,
    pub(crate) family: u64,
    pub(crate) flags: u64,
    /// Device memory that it takes.
    pub(crate) bytes: usize,
    pub(crate) held: Held,
    pub(crate) last_end: Moment,
}

/// Why a graph cannot be instantiated, as `CUgraphInstantiateResult`, and the
/// node it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flaw {
    pub(crate) result: u32,
    pub(crate) node: Option<(u64, usize)>,
}

impl Flaw {
    pub(crate) const ERROR: u32 = 1;
    pub(crate) const STRUCTURE: u32 = 2;
    pub(crate) const NODE: u32 = 3;
}

impl World {
    /// A graph's steps; `Err` where it has a cycle.
    pub(crate) fn steps(&self, graph: &Graph) -> Result<Vec<Step>, Flaw> {
        let mut steps = Vec::new();
        self.append(graph, &[], &mut steps)?;
        for end in leaves(&steps, 0) {
            if let Some(step) = steps.get_mut(end.from) {
                step.is_leaf = true;
            }
        }
        Ok(steps)
    }

    /// Appends a graph's nodes, its roots after the steps of `first`. A child
    /// node's step comes behind its graph's.
    fn append(&self, graph: &Graph, first: &[Edge], steps: &mut Vec<Step>) -> Result<(), Flaw> {
        let order = graph
            .order()
            .map_err(|place| Flaw { result: Flaw::STRUCTURE, node: Some((graph.id, place)) })?;
        let mut index_of = vec![0; order.iter().max().map_or(0, |last| last + 1)];
        for place in order {
            let Some(node) = graph.node(place) else {
                continue;
            };
            let mut deps = first.to_vec();
            if !node.deps.is_empty() {
                let moved = node.deps.iter().filter_map(|edge| {
                    let from = index_of.get(edge.from).copied()?;
                    Some(Edge { from, ..*edge })
                });
                deps = moved.collect();
            }
            if let Kind::Child(child) = node.kind
                && let Some(child) = self.graphs.get(child)
            {
                let begin = steps.len();
                self.append(child, &deps, steps)?;
                let within = steps.get(begin..).unwrap_or_default();
                if !within.is_empty() {
                    deps = leaves(within, begin);
                }
            }
            if let Some(index) = index_of.get_mut(place) {
                *index = steps.len();
            }
            steps.push(Step {
                node: (graph.id, place),
                origin: node.origin,
                kind: node.kind.clone(),
                deps,
                is_leaf: false,
                is_enabled: true,
            });
        }
        Ok(())
    }

    pub(crate) fn launch_graph(&mut self, key: u64, exec: u64) -> Outcome {
        let found = self.execs.find(exec, Status::ERROR_INVALID_VALUE, &mut self.stale_uses)?;
        let (steps, family) = (Arc::clone(&found.steps), found.family);
        let last_end = found.last_end.clone();
        match self.target(key)? {
            Target::Capture(id) => self.inline(id, key, &steps),
            Target::Device => {
                let start = self.start_time(key).max(&last_end);
                let context = self.stream(key)?.context;
                self.check(&steps)?;
                self.watch_launch(&steps);
                let end = self.run_steps(context, &start, &steps)?;
                let now = self.clock.now();
                let (start, until) = (start.earliest(), end.earliest());
                self.watch.fly(now, Flight { exec, family, start, end: until });
                if let Some(found) = self.execs.get_mut(exec) {
                    found.last_end = end.clone();
                }
                self.stream(key)?.busy_until = end;
                Ok(())
            }
        }
    }

    /// What a launch would fail on: a launch that fails does nothing.
    fn check(&mut self, steps: &[Step]) -> Outcome {
        for step in steps {
            match step.kind {
                Kind::Copy(transfer) if step.is_enabled => self.memory.check(transfer)?,
                Kind::RecordEvent(event) if self.events.get(event).is_none() => {
                    return Err(self.stale());
                }
                Kind::WaitEvent(event) => {
                    self.event_time(event)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Runs the steps from `start`; returns when the last one ends.
    fn run_steps(
        &mut self,
        context: u64,
        start: &Moment,
        steps: &[Step],
    ) -> Result<Moment, Status> {
        let times = self.config.graph;
        let mut spans: Vec<(Moment, Moment)> = Vec::with_capacity(steps.len());
        for step in steps {
            let mut begin = ready(start, &spans, &step.deps, times.overlap_ns);
            let mut ns = 0;
            let mut end = None;
            match &step.kind {
                _ if !step.is_enabled => {}
                Kind::Kernel(kernel) => {
                    self.watch.ran(kernel);
                    ns = kernel.ns;
                    if !step.deps.is_empty() {
                        begin = begin.plus(times.gap_ns);
                    }
                }
                Kind::Copy(transfer) => {
                    self.memory.run(*transfer)?;
                    ns = self.config.copy_ns;
                }
                Kind::Host(callback) => {
                    end = Some(self.call_host(context, begin.clone(), *callback)?);
                }
                Kind::WaitEvent(event) => {
                    begin = begin.max(&self.event_time(*event)?.unwrap_or_default());
                }
                Kind::RecordEvent(event) => {
                    ns = times.mark_ns;
                    if step.is_leaf {
                        ns = ns.saturating_add(times.leaf_lag_ns);
                    }
                    self.mark(*event, begin.clone().plus(ns));
                }
                Kind::Child(_) | Kind::Empty | Kind::Allocate | Kind::Release => {}
            }
            let end = end.unwrap_or_else(|| begin.clone().plus(ns));
            spans.push((begin, end));
        }
        Ok(spans.iter().fold(start.clone(), |last, (_, end)| last.max(end)))
    }

    /// A graph's node records an event.
    fn mark(&mut self, event: u64, at: Moment) {
        if let Some(found) = self.events.get_mut(event) {
            found.state = State::Recorded(at);
            if std::mem::replace(&mut found.is_unread_mark, true) {
                self.watch.counts.unread_marks += 1;
            }
        }
    }

    /// A graph launched into a capture: its nodes become part of that graph.
    fn inline(&mut self, id: u64, key: u64, steps: &[Step]) -> Outcome {
        let first = match &self.stream(key)?.joined {
            Some(joined) => joined.deps.clone(),
            None => Vec::new(),
        };
        let graph = self.capture(id).map_or(0, |capture| capture.graph);
        let graph = self.graphs.get_mut(graph).ok_or(Status::ERROR_UNKNOWN)?;
        let mut places = Vec::with_capacity(steps.len());
        for step in steps {
            let kind = match &step.kind {
                Kind::Child(_) => Kind::Empty,
                _ if !step.is_enabled => Kind::Empty,
                kind => kind.clone(),
            };
            let moved = step.deps.iter().filter_map(|edge| {
                let from = places.get(edge.from).copied()?;
                Some(Edge { from, ..*edge })
            });
            let place = if step.deps.is_empty() {
                graph.add_after(kind, &first)
            } else {
                graph.add(kind, moved.collect())
            };
            places.push(place);
        }
        if let Some(joined) = &mut self.stream(key)?.joined
            && !places.is_empty()
        {
            let ends = steps.iter().zip(places).filter(|(step, _)| step.is_leaf);
            joined.deps = ends.map(|(_, place)| place).collect();
        }
        Ok(())
    }
}

/// When a step may start: once `start` has come and those before it are done,
/// at a programmatic edge `overlap` earlier, but not before they start.
fn ready(start: &Moment, spans: &[(Moment, Moment)], deps: &[Edge], overlap: u64) -> Moment {
    let done = deps.iter().filter_map(|edge| Some((edge, spans.get(edge.from)?)));
    done.fold(start.clone(), |last, (edge, (begin, end))| match edge.data.kind {
        EdgeData::PROGRAMMATIC => last.max(&end.clone().minus(overlap).max(begin)),
        _ => last.max(end),
    })
}

/// Edges from the steps that no other of these depends on; the first of them
/// has index `begin`.
fn leaves(steps: &[Step], begin: usize) -> Vec<Edge> {
    let mut is_leaf = vec![true; steps.len()];
    for edge in steps.iter().flat_map(|step| &step.deps) {
        let index = edge.from.checked_sub(begin);
        if let Some(leaf) = index.and_then(|index| is_leaf.get_mut(index)) {
            *leaf = false;
        }
    }
    let data = EdgeData::default();
    let indices = is_leaf.iter().zip(begin..).filter(|(leaf, _)| **leaf);
    indices.map(|(_, from)| Edge { from, data }).collect()
}

#[cfg(test)]
mod tests {
    use super::{Edge, EdgeData, Moment, ready};

    /// a(10) → b(20), a → c(5), {b, c} → d(1), started at 100: worked out by hand.
    #[test]
    fn a_diamond_ends_when_its_longer_arm_does() {
        let edge = |from, kind| Edge { from, data: EdgeData { kind, ..EdgeData::default() } };
        let run = |kind, overlap| {
            let nodes = [
                (10, vec![]),
                (20, vec![edge(0, 0)]),
                (5, vec![edge(0, 0)]),
                (1, vec![edge(1, kind), edge(2, 0)]),
            ];
            let mut spans: Vec<(Moment, Moment)> = Vec::new();
            for (ns, deps) in nodes {
                let begin = ready(&100.into(), &spans, &deps, overlap);
                spans.push((begin.clone(), begin.plus(ns)));
            }
            spans.into_iter().map(|(_, end)| end.earliest()).collect::<Vec<u64>>()
        };
        assert_eq!(run(0, 7), [110, 130, 115, 131]);
        assert_eq!(run(1, 7), [110, 130, 115, 124], "the last starts 7 early");
        assert_eq!(run(1, 90), [110, 130, 115, 116], "but after the other arm");
        let spans = [(100, 110), (110, 130)].map(|(begin, end)| (begin.into(), end.into()));
        let behind = ready(&100.into(), &spans, &[edge(1, 1)], 90);
        assert_eq!(behind, 110.into(), "and not before the one that it overlaps");
    }
}
