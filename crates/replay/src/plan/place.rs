// SPDX-License-Identifier: MIT OR Apache-2.0
//! Steps for GPU work that the recorder gave no correlation id: by its stamps,
//! the step around it on its device.
//!
//! Invariants: a step's extent on a device is that of its work with a launch
//! record; of several extents around a piece of work the one begun last counts;
//! work that no extent encloses has no step.

use std::collections::HashMap;

use super::join::Joined;
use crate::steps::Steps;
use crate::trace::Trace;

/// A step on a device.
#[derive(Clone, Copy)]
struct Extent {
    start_ns: i64,
    end_ns: i64,
    placed: Placed,
}

/// Where a piece of work was found to belong.
#[derive(Clone, Copy)]
pub(super) struct Placed {
    /// Index into [`Steps::all`].
    pub(super) step: u32,
    /// The host time of the step's first launch on the device: the work was
    /// launched no earlier.
    pub(super) at_ns: i64,
}

/// The places of the works without a correlation id, by number. `by_start` has
/// all works in the order of their starts.
pub(super) fn by_stamps(
    trace: &Trace,
    steps: &Steps,
    joined: &Joined,
    by_start: &[u32],
) -> HashMap<u32, Placed> {
    let device = |work: u32| trace.streams[trace.work[work as usize].stream as usize].device;
    let lost = |work: &u32| trace.work[*work as usize].correlation.is_none();
    let lost: Vec<u32> = by_start.iter().copied().filter(lost).collect();
    if lost.is_empty() {
        return HashMap::new();
    }
    // In the order of their begins.
    let mut extents: Vec<(u32, Extent)> = Vec::new();
    let mut known: HashMap<(u32, u32), usize> = HashMap::new();
    for &number in by_start {
        let work = &trace.work[number as usize];
        let call = joined.calls[number as usize].map(|call| &trace.calls[call as usize]);
        let step = call.and_then(|call| Some((steps.at(call.process, call.at_ns)?, call.at_ns)));
        let Some((step, at_ns)) = step else { continue };
        let (step, device) = (step as u32, device(number));
        let at = *known.entry((device, step)).or_insert(extents.len());
        if at == extents.len() {
            let extent = Extent {
                start_ns: work.start_ns,
                end_ns: work.end_ns(),
                placed: Placed { step, at_ns },
            };
            extents.push((device, extent));
        }
        let extent = &mut extents[at].1;
        extent.end_ns = extent.end_ns.max(work.end_ns());
        extent.placed.at_ns = extent.placed.at_ns.min(at_ns);
    }
    // Per device, the extents begun so far. One that ends no later than another
    // begun after it is never the answer again, so their ends fall.
    let mut begun: HashMap<u32, Vec<Extent>> = HashMap::new();
    let mut extents = extents.into_iter().peekable();
    let mut places = HashMap::new();
    for number in lost {
        let work = &trace.work[number as usize];
        while let Some((device, extent)) = extents.next_if(|(_, e)| e.start_ns <= work.start_ns) {
            let begun = begun.entry(device).or_default();
            while begun.pop_if(|other| other.end_ns <= extent.end_ns).is_some() {}
            begun.push(extent);
        }
        let around = begun.get(&device(number)).and_then(|begun| {
            let count = begun.partition_point(|extent| extent.end_ns >= work.end_ns());
            begun[..count].last()
        });
        if let Some(extent) = around {
            places.insert(number, extent.placed);
        }
    }
    places
}
