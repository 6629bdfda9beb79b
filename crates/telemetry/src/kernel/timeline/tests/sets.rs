// SPDX-License-Identifier: MIT OR Apache-2.0
//! The figures as operations on sets of ranges.

use super::is_in;
use super::settle::Settled;
use crate::kernel::timeline::LaneFigures;
use rangemap::RangeSet;
use std::ops::Range;

fn union<'a>(spans: impl Iterator<Item = &'a Settled>) -> RangeSet<i64> {
    spans
        .filter(|span| span.start_ns < span.end_ns)
        .map(|span| span.start_ns..span.end_ns)
        .collect()
}

fn len(ranges: impl Iterator<Item = Range<i64>>) -> u64 {
    ranges.map(|range| range.end.abs_diff(range.start)).sum()
}

/// Of one lane, or of all.
pub(super) fn figures(settled: &[Settled], lane: Option<u8>) -> LaneFigures {
    let own = |is_lane| {
        let kind = move |span: &&Settled| span.span.is_lane == is_lane;
        let in_lane = move |span: &&Settled| is_in(&span.span, lane);
        settled.iter().filter(kind).filter(in_lane)
    };
    let (time, launched) = (union(own(true)), union(own(false)));
    let time_ns = len(time.iter().cloned());
    let inside = |range: Range<i64>| {
        let parts = time.overlapping(range.clone());
        len(parts.map(|part| part.start.max(range.start)..part.end.min(range.end)))
    };
    // The lane's time up to a moment.
    let until = |at: i64| inside(i64::MIN..at);
    let busy_ns = len(time.intersection(&launched));
    let (mut sum_ns, mut outside_ns) = (0, 0);
    // Launches in the lane, by its time: where they begin and end.
    let mut clipped: Vec<(u64, u64)> = Vec::new();
    for launch in own(false) {
        let (start, end) = (launch.start_ns, launch.end_ns);
        let inside_ns = if start < end { inside(start..end) } else { 0 };
        sum_ns += inside_ns;
        outside_ns += end.abs_diff(start) - inside_ns;
        let has = |span: &Settled| span.start_ns <= start && start <= span.end_ns;
        if inside_ns > 0 || (start == end && own(true).any(has)) {
            clipped.push((until(start), until(end)));
        }
    }
    clipped.sort_unstable();
    let idle_ns = time_ns - busy_ns;
    let lead_ns = clipped.first().map_or(idle_ns, |first| first.0);
    let last = clipped.iter().map(|launch| launch.1).max();
    let tail_ns = last.map_or(0, |last| time_ns - last);
    let waits = clipped.iter().enumerate().skip(1).filter(|(at, launch)| {
        let before = clipped[..*at].iter().map(|before| before.1).max();
        before < Some(launch.0)
    });
    LaneFigures {
        steps: u64::from(own(true).next().is_some()),
        time_ns,
        busy_ns,
        lead_ns,
        waited_ns: idle_ns - lead_ns - tail_ns,
        tail_ns,
        overlap_ns: sum_ns - busy_ns,
        outside_ns,
        waits: waits.count() as u64,
    }
}
