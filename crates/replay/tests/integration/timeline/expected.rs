// SPDX-License-Identifier: MIT OR Apache-2.0
//! How each lane's time was spent, from a recording: all work of a stream laid
//! in order, a start moved to the end before it.

use std::collections::{BTreeMap, HashMap};

use super::recording::Recording;

/// What is launched at once, in order.
struct Unit {
    start_ns: i64,
    end_ns: i64,
    stream: (i64, i64),
    step: Option<usize>,
}

/// A length, and by how much the rounding of places may change it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Length {
    pub(crate) ns: i64,
    pub(crate) within_ns: f64,
}

impl Length {
    fn add(&mut self, ns: i64, boundaries: impl IntoIterator<Item = i64>) {
        self.ns += ns;
        self.within_ns += boundaries.into_iter().map(step_ns).sum::<f64>();
    }
}

/// One lane on one device.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lane {
    pub(crate) armed: Length,
    pub(crate) busy: Length,
    pub(crate) lead: Length,
    pub(crate) waited: Length,
    pub(crate) tail: Length,
    pub(crate) overlap: Length,
    pub(crate) outside: Length,
}

/// The step of f32 milliseconds at a place.
fn step_ns(place_ns: i64) -> f64 {
    let milliseconds = (place_ns as f64 / 1e6) as f32;
    f64::from(milliseconds.next_up() - milliseconds) * 1e6
}

/// The units of a recording in order. A graph is laid as one: its nodes follow
/// one another as they were recorded.
fn units(recording: &Recording) -> Vec<Unit> {
    let mut units: Vec<Unit> = Vec::new();
    let mut graphs: HashMap<i64, usize> = HashMap::new();
    for work in &recording.works {
        let graph = recording.is_in_graph(work).then_some(work.correlation);
        if let Some(&at) = graph.and_then(|id| graphs.get(&id)) {
            let unit: &mut Unit = &mut units[at];
            assert_eq!(unit.stream, work.stream, "a graph on one stream");
            unit.end_ns = work.start_ns.max(unit.end_ns) + work.ns;
            continue;
        }
        if let Some(id) = graph {
            graphs.insert(id, units.len());
        }
        units.push(Unit {
            start_ns: work.start_ns,
            end_ns: work.start_ns + work.ns,
            stream: work.stream,
            step: recording.step(work),
        });
    }
    let mut ends: HashMap<(i64, i64), i64> = HashMap::new();
    for unit in &mut units {
        let end_ns = ends.entry(unit.stream).or_insert(i64::MIN);
        let by_ns = end_ns.saturating_sub(unit.start_ns).max(0);
        unit.start_ns += by_ns;
        unit.end_ns += by_ns;
        *end_ns = unit.end_ns;
    }
    units
}

/// The lanes' figures by lane and device. Work outside every step is admit work
/// of the step that comes next: here it is in one piece before the first step.
pub(crate) fn lanes(recording: &Recording) -> BTreeMap<(&'static str, i64), Lane> {
    let units = units(recording);
    let mut lanes = BTreeMap::new();
    let outside = units.iter().filter(|unit| unit.step.is_none()).count();
    assert!(units[..outside].iter().all(|unit| unit.step.is_none()));
    let groups = std::iter::once(None).chain((0..recording.steps.len()).map(Some));
    // Places of the first step are from the admit work before it.
    let mut anchor_ns = None;
    for group in groups {
        let own: Vec<&Unit> = units.iter().filter(|unit| unit.step == group).collect();
        let Some(stream) = lane_stream(&own) else {
            continue;
        };
        let on = |unit: &&&Unit| unit.stream == stream;
        let (first, last) = (own.iter().find(on), own.iter().rfind(on));
        let (start_ns, end_ns) = (first.expect("one").start_ns, last.expect("one").end_ns);
        let first_ns = own.iter().map(|unit| unit.start_ns).min();
        let from_ns = anchor_ns.take().unwrap_or(start_ns.min(first_ns.unwrap_or(start_ns)));
        if group.is_none() {
            anchor_ns = Some(from_ns);
        }
        let mut intervals: Vec<(i64, i64)> = own
            .iter()
            .filter(|unit| unit.stream.0 == stream.0)
            .map(|unit| (unit.start_ns - from_ns, unit.end_ns - from_ns))
            .collect();
        intervals.sort_unstable();
        let name = group.map_or("admit", |step| recording.steps[step].lane);
        let lane: &mut Lane = lanes.entry((name, stream.0)).or_default();
        lane.add((start_ns - from_ns, end_ns - from_ns), &intervals);
    }
    lanes
}

/// From the first start to the last end of a recording of one stream. Each lane
/// and each gap is read by itself.
pub(crate) fn extent(recording: &Recording) -> Length {
    let units = units(recording);
    let (first, last) = (units.first().expect("work"), units.last().expect("work"));
    assert!(units.iter().all(|unit| unit.stream == first.stream));
    let mut extent = Length { ns: last.end_ns - first.start_ns, within_ns: 0.0 };
    for parts in units.chunk_by(|a, b| a.step == b.step) {
        let length_ns = parts[parts.len() - 1].end_ns - parts[0].start_ns;
        extent.add(0, [length_ns, 0]);
    }
    for pair in units.windows(2).filter(|pair| pair[0].step != pair[1].step) {
        extent.add(0, [pair[1].start_ns - pair[0].end_ns]);
    }
    extent
}

/// The stream with most of the time.
fn lane_stream(units: &[&Unit]) -> Option<(i64, i64)> {
    let mut times: BTreeMap<(i64, i64), i64> = BTreeMap::new();
    for unit in units {
        *times.entry(unit.stream).or_default() += unit.end_ns - unit.start_ns;
    }
    let most = times.into_iter().max_by_key(|(_, ns)| *ns)?;
    Some(most.0)
}

impl Lane {
    /// Adds a step whose lane lasted so long, with its launches in order.
    fn add(&mut self, (start_ns, end_ns): (i64, i64), launches: &[(i64, i64)]) {
        // The length is read by itself.
        self.armed.add(end_ns - start_ns, [end_ns - start_ns]);
        let mut parts: Vec<(i64, i64)> = Vec::new();
        for &(from, to) in launches {
            let clipped = (from.clamp(start_ns, end_ns), to.clamp(start_ns, end_ns));
            let cut_ns = (to - from) - (clipped.1 - clipped.0);
            if cut_ns > 0 {
                self.outside.add(cut_ns, [from, to]);
            }
            if clipped.0 == clipped.1 {
                continue;
            }
            match parts.last_mut() {
                Some(last) if clipped.0 <= last.1 => {
                    let twice_ns = last.1.min(clipped.1) - clipped.0;
                    if twice_ns > 0 {
                        self.overlap.add(twice_ns, [clipped.0, clipped.1]);
                    }
                    last.1 = last.1.max(clipped.1);
                }
                _ => parts.push(clipped),
            }
        }
        // Rounding may cut a launch off at either end.
        self.outside.add(0, [start_ns, end_ns]);
        for &(from, to) in &parts {
            self.busy.add(to - from, [from, to]);
        }
        let (Some(first), Some(last)) = (parts.first(), parts.last()) else {
            self.lead.add(end_ns - start_ns, [start_ns, end_ns]);
            return;
        };
        self.lead.add(first.0 - start_ns, [start_ns, first.0]);
        self.tail.add(end_ns - last.1, [last.1, end_ns]);
        for pair in parts.windows(2) {
            let (from, to) = (pair[0].1, pair[1].0);
            self.waited.add(to - from, [from, to]);
        }
    }
}
