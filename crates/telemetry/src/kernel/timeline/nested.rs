// SPDX-License-Identifier: MIT OR Apache-2.0
//! A step that has regions. A region is busy for all of its span, so what begins
//! within it on its stream covers nothing but what is left after the region's end.
//!
//! 1. Spans go by their starts; where two start at once, a region goes first: it
//!    is around the other.
//! 2. A region is over for a span of its stream that starts at its end, or before
//!    that by no more than the rounding of the two places; not while one that began
//!    within it is open.
//! 3. A span within a region neither starts before nor, but for more than rounding,
//!    ends after it.
//! 4. What ran before a region says nothing of the gap before a span within it:
//!    the region's own work, which nobody sees, may lie between.

use super::Interval;
use super::settle::{Settled, Settler, StreamEnd, is_rounding};

/// A launch or a region at its settled place.
#[derive(Clone, Copy)]
pub(super) struct Nested {
    pub(super) span: Interval,
    pub(super) is_region: bool,
    pub(super) settled: Settled,
    /// Up to where regions of its lane around it reach; `i64::MIN`: there is none.
    pub(super) lane_until_ns: i64,
    /// The same, of regions of any lane.
    pub(super) until_ns: i64,
    /// Of a region: its time under no span that began within it.
    pub(super) own_ns: u64,
}

/// A region that is open where the spans have been looked at.
#[derive(Clone, Copy)]
pub(super) struct Open {
    /// Its place among the spans.
    at: usize,
    stream: u64,
    settled: Settled,
    /// What ended last on its stream before it.
    before: StreamEnd,
    /// Up to where spans that began within it reach.
    reach_ns: i64,
    covered_ns: u64,
}

impl Open {
    fn is_over_at(&self, start_ns: i64) -> bool {
        let end_ns = self.settled.end_ns;
        end_ns <= start_ns || is_rounding(start_ns, self.settled.start_ns, end_ns)
    }

    fn cover(&mut self, span: &Settled) {
        let from_ns = self.reach_ns.max(span.start_ns);
        let to_ns = span.end_ns.min(self.settled.end_ns);
        if from_ns < to_ns {
            self.covered_ns += to_ns.abs_diff(from_ns);
            self.reach_ns = to_ns;
        }
    }

    fn own_ns(&self) -> u64 {
        self.settled.end_ns.abs_diff(self.settled.start_ns) - self.covered_ns
    }
}

/// Settles regions and launches together, in the order of their starts.
pub(super) fn nest(
    regions: &[Interval],
    launches: &[Interval],
    ends: &mut Vec<StreamEnd>,
    open: &mut Vec<Open>,
    nested: &mut Vec<Nested>,
) {
    let of = |is_region| {
        move |span: &Interval| Nested {
            span: *span,
            is_region,
            settled: Settled::at_start_of(span),
            lane_until_ns: i64::MIN,
            until_ns: i64::MIN,
            own_ns: 0,
        }
    };
    nested.clear();
    nested.extend(regions.iter().map(of(true)));
    nested.extend(launches.iter().map(of(false)));
    // Stable: of spans that start at once the one begun first stays first.
    nested.sort_by_key(|nested| (nested.span.start_ns, !nested.is_region));
    open.clear();
    let mut settler = Settler::new(&[], ends);
    for at in 0..nested.len() {
        let Nested { mut span, is_region, .. } = nested[at];
        while let Some(last) = open.iter().rposition(|region| region.stream == span.stream)
            && open[last].is_over_at(span.start_ns)
        {
            let region = open.remove(last);
            settler.leave(region.before, &region.settled);
            nested[region.at].own_ns = region.own_ns();
        }
        let innermost = open.iter().rposition(|region| region.stream == span.stream);
        if let Some(region) = innermost.map(|region| &open[region]) {
            span.start_ns = span.start_ns.max(region.settled.start_ns);
        }
        let until_ns = innermost.map(|region| open[region].settled.end_ns);
        let settled = settler.settle_within(&span, until_ns);
        if let Some(region) = innermost.map(|region| &mut open[region]) {
            region.cover(&settled);
        }
        let within = &mut nested[at];
        within.settled = settled;
        for region in open.iter().filter(|region| region.stream == span.stream) {
            let end_ns = region.settled.end_ns;
            within.until_ns = within.until_ns.max(end_ns);
            if region.settled.lane == settled.lane {
                within.lane_until_ns = within.lane_until_ns.max(end_ns);
            }
        }
        if is_region {
            open.push(Open {
                at,
                stream: span.stream,
                settled,
                before: settler.enter(span.stream),
                reach_ns: settled.start_ns,
                covered_ns: 0,
            });
        }
    }
    for region in open.drain(..) {
        nested[region.at].own_ns = region.own_ns();
    }
    nested.sort_by_key(|nested| nested.settled.start_ns);
}
