// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records that cannot be right: on a stream, which runs in order, one goes on
//! long after the next has begun.
//!
//! Invariant: work of one graph launch is no overrun, as nodes may run at once
//! and be recorded on one stream.

use super::units::Units;
use super::{Launched, Overrun};
use crate::steps::{Lane, Steps};
use crate::trace::{Trace, Work, WorkKind};

/// A record is doubted where it runs past the next one's begin by more than so
/// many times the longer of its two neighbours. Kernels that are launched early
/// overlap by less than a neighbour's length.
pub(super) const TIMES: u64 = 100;

/// The last work on a stream, and the length of the one before it.
#[derive(Clone, Copy)]
struct Last<'t> {
    unit: u32,
    work: &'t Work,
    before_ns: u64,
}

/// The overruns of a trace, in the order of their starts.
pub(super) fn find(trace: &Trace, units: &Units, steps: &Steps) -> Vec<Overrun> {
    let mut last: Vec<Option<Last<'_>>> = vec![None; trace.streams.len()];
    let mut found = Vec::new();
    for (unit, work) in units.by_start(trace) {
        let last = &mut last[work.stream as usize];
        let before = last.replace(Last {
            unit,
            work,
            before_ns: last.map_or(0, |last| last.work.duration_ns),
        });
        let Some(before) = before.filter(|before| before.unit != unit) else {
            continue;
        };
        let past_ns = before.work.end_ns().saturating_sub(work.start_ns).max(0) as u64;
        let around_ns = before.before_ns.max(work.duration_ns).max(1);
        if past_ns > TIMES.saturating_mul(around_ns) {
            let unit = &units.list[before.unit as usize];
            found.push(Overrun {
                launched: match (unit.graph, before.work.kind) {
                    (Some(graph), _) => Launched::Graph(graph),
                    (None, WorkKind::Kernel(name) | WorkKind::Graph(name)) => {
                        Launched::Kernel(units.kernels.of(name))
                    }
                    (None, WorkKind::Copy(name)) => Launched::Copy(units.copies.of(name)),
                },
                stream: before.work.stream,
                lane: unit.step.map_or(Lane::Admit, |step| steps.all()[step as usize].what.lane),
                duration_ns: before.work.duration_ns,
            });
        }
    }
    found
}
