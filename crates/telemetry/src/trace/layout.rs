// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where a step stands in a trace, and where its host's side does.
//!
//! Invariants: GPU work keeps its distances to the nanosecond; the ranges of
//! lanes on the host share no moment, none is empty, and each launch of a lane
//! is in a range of that lane.

use crate::kernel::{Timeline, TimelineSpan};
use std::ops::Range;

const MICROSECOND: i64 = 1_000;

/// See the module.
pub(super) struct Layout {
    /// Where the step's anchor is.
    zero_ns: i64,
    pub(super) begin_ns: i64,
    pub(super) end_ns: i64,
    /// The host's side of each lane's span.
    pub(super) lanes: Vec<Range<i64>>,
    /// The host's moment for launches of no lane: after all lanes.
    outside_ns: i64,
}

impl Layout {
    /// Of a step whose first work or range is to stand at `begin_ns`; `None` for
    /// one without any.
    pub(super) fn new(timeline: &Timeline, begin_ns: i64) -> Option<Self> {
        let spans = || {
            let lanes = timeline.lanes.iter();
            lanes.chain(&timeline.launches).chain(&timeline.regions)
        };
        let first_ns = spans().map(|span| span.start_ns).min()?;
        let zero_ns = begin_ns.saturating_sub(first_ns);
        let end_of = |span: &TimelineSpan| {
            let start_ns = zero_ns.saturating_add(span.start_ns);
            start_ns.saturating_add_unsigned(span.ns)
        };
        let mut starts: Vec<i64> = Vec::with_capacity(timeline.lanes.len());
        for span in &timeline.lanes {
            // They are in the order of their starts.
            let after = starts.last().map_or(i64::MIN, |last| last + 1);
            starts.push(zero_ns.saturating_add(span.start_ns).max(after));
        }
        let nexts = starts.iter().skip(1).copied().chain([i64::MAX]);
        let ranges = starts.iter().zip(nexts).zip(&timeline.lanes);
        let lanes: Vec<Range<i64>> = ranges
            .map(|((&start, next), span)| start..end_of(span).min(next).max(start + 1))
            .collect();
        let outside_ns = lanes.last().map_or(begin_ns, |last| last.end);
        let end_ns = spans().map(end_of).max()?.max(outside_ns);
        // Readers that round to microseconds find each launch in its step.
        let end_ns = (end_ns / MICROSECOND + 2) * MICROSECOND;
        Some(Self { zero_ns, begin_ns, end_ns, lanes, outside_ns })
    }

    /// Where a span starts.
    pub(super) fn place(&self, span: &TimelineSpan) -> i64 {
        self.zero_ns.saturating_add(span.start_ns)
    }

    /// The host's moment for a launch: the start of its work, within its lane's
    /// range that began last before, on its own stream if there is one.
    pub(super) fn launched_at(&self, timeline: &Timeline, launch: &TimelineSpan) -> i64 {
        let lanes = timeline.lanes.iter().zip(&self.lanes);
        let mut best: Option<(bool, bool, &Range<i64>)> = None;
        for (span, range) in lanes.filter(|(span, _)| span.lane == launch.lane) {
            let is_before = span.start_ns <= launch.start_ns;
            let on_stream = is_before && span.stream == launch.stream;
            // Of equals the last, but for those that all begin later.
            let is_better = best
                .is_none_or(|(before, on, _)| (is_before, on_stream) >= (before, on) && is_before);
            if is_better {
                best = Some((is_before, on_stream, range));
            }
        }
        best.map_or(self.outside_ns, |(.., range)| {
            self.place(launch).clamp(range.start, range.end - 1)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Layout, MICROSECOND};
    use crate::kernel::{Timeline, TimelineSpan};
    use proptest::prelude::*;

    /// Spans that start and end together, touch, overlap and are empty.
    fn span(lane: Option<usize>) -> impl Strategy<Value = TimelineSpan> {
        (-20i64..100, 0u64..40, 1u64..4).prop_map(move |(start_ns, ns, stream)| TimelineSpan {
            start_ns,
            ns,
            stream,
            lane,
            func: None,
        })
    }

    prop_compose! {
        fn timelines()(
            mut lanes in prop::collection::vec((0usize..3).prop_flat_map(|lane| span(Some(lane))), 0..6),
            launches in prop::collection::vec(prop::option::of(0usize..4).prop_flat_map(span), 1..20),
        ) -> Timeline {
            lanes.sort_by_key(|span| span.start_ns);
            Timeline { lanes, launches, ..Timeline::default() }
        }
    }

    proptest! {
        #[test]
        fn each_launch_is_in_its_lane_and_all_are_in_the_step(
            timeline in timelines(),
            begin_ns in 0i64..10_000,
        ) {
            let layout = Layout::new(&timeline, begin_ns).expect("it has work");
            let step = layout.begin_ns..layout.end_ns;
            prop_assert_eq!(layout.begin_ns, begin_ns);
            for ranges in layout.lanes.windows(2) {
                prop_assert!(ranges[0].end <= ranges[1].start);
            }
            prop_assert!(layout.lanes.iter().all(|range| !range.is_empty()));
            let spans: Vec<_> = timeline.lanes.iter().chain(&timeline.launches).collect();
            for span in &spans {
                let from_first = layout.place(span) - layout.place(spans[0]);
                prop_assert_eq!(from_first, span.start_ns - spans[0].start_ns);
                prop_assert!(step.contains(&layout.place(span)));
                prop_assert!(layout.place(span) + span.ns as i64 <= step.end);
            }
            prop_assert_eq!(spans.iter().map(|span| layout.place(span)).min(), Some(begin_ns));
            for launch in &timeline.launches {
                let at_ns = layout.launched_at(&timeline, launch);
                // A reader that rounds up still finds it there.
                prop_assert!(step.contains(&at_ns) && at_ns + MICROSECOND <= step.end);
                let mut lanes = timeline.lanes.iter().zip(&layout.lanes);
                let around = lanes.find(|(_, range)| range.contains(&at_ns));
                let has_lane = timeline.lanes.iter().any(|span| span.lane == launch.lane);
                let expected = launch.lane.filter(|_| has_lane);
                prop_assert_eq!(around.and_then(|(span, _)| span.lane), expected);
            }
        }
    }
}
