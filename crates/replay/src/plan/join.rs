// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which host call launched which GPU work.
//!
//! Invariant: ids are joined within one process. A GPU event does not name its
//! process, so where several processes use an id, the device's own process is
//! taken: the one that its unshared ids name most, else the one whose calls
//! come last before the device's work.

use std::collections::{HashMap, HashSet};
use std::num::NonZeroI64;

use crate::trace::{Call, CallKind, Trace};

/// Processes considered for one id: a merged trace has one per GPU of a node,
/// and a hostile one must not cost the square of its size.
const MAX_PROCESSES: usize = 64;

/// The calls of a trace's work.
pub(super) struct Joined {
    /// For each work, the index of its call.
    pub(super) calls: Vec<Option<u32>>,
    /// Works whose id several processes use.
    pub(super) shared: u64,
}

/// Joins a trace's work to its calls.
pub(super) fn join(trace: &Trace) -> Joined {
    // By id and process, the call that launches before any other.
    let wanted: HashSet<NonZeroI64> = trace.work.iter().filter_map(|w| w.correlation).collect();
    let calls = &trace.calls;
    let mut order: Vec<u32> = (0..calls.len() as u32)
        .filter(|&i| wanted.contains(&calls[i as usize].correlation))
        .collect();
    order.sort_by_key(|&i| {
        let c = &calls[i as usize];
        (c.correlation, c.process, std::cmp::Reverse(c.kind), c.at_ns, i)
    });
    order.dedup_by_key(|i| (calls[*i as usize].correlation, calls[*i as usize].process));
    let call = |i: u32| -> &Call { &calls[i as usize] };
    let candidates = |id: NonZeroI64| {
        let from = order.partition_point(|&i| call(i).correlation < id);
        let to = from + order[from..].partition_point(|&i| call(i).correlation == id);
        &order[from..to.min(from + MAX_PROCESSES)]
    };

    // Work of one launch stands together: its calls are looked up once.
    let launches = || {
        let together = trace.work.chunk_by(|a, b| a.correlation == b.correlation);
        together.map(|works| (works, works[0].correlation.map_or(&[][..], candidates)))
    };
    // (device, process): how many works only it can have launched, and how
    // many it called for last before they ran.
    let mut votes: HashMap<(u32, u32), (u64, u64)> = HashMap::new();
    for (works, found) in launches() {
        for work in works {
            let device = trace.streams[work.stream as usize].device;
            match found {
                [] => {}
                [one] => votes.entry((device, call(*one).process)).or_default().0 += 1,
                several => {
                    let before = several.iter().filter(|&&i| call(i).at_ns <= work.start_ns);
                    let last = before.max_by_key(|&&i| (call(i).at_ns, std::cmp::Reverse(i)));
                    if let Some(&last) = last {
                        votes.entry((device, call(last).process)).or_default().1 += 1;
                    }
                }
            }
        }
    }
    let mut joined = Joined { calls: Vec::with_capacity(trace.work.len()), shared: 0 };
    for (works, found) in launches() {
        for work in works {
            let device = trace.streams[work.stream as usize].device;
            joined.shared += u64::from(found.len() > 1);
            let most = found.iter().copied().max_by_key(|&i| {
                let process = call(i).process;
                let vote = votes.get(&(device, process)).copied().unwrap_or_default();
                (vote, std::cmp::Reverse(process))
            });
            joined.calls.push(most);
        }
    }
    joined
}

/// Whether the call launches a graph.
pub(super) fn is_graph(call: &Call) -> bool {
    call.kind == CallKind::Graph
}
