// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where spans begin once rounding is taken out, said again: span by span, and
//! without a list of streams.

use super::AnySpan;
use super::{figures, lane, launch};

#[derive(Clone, Debug)]
pub(super) struct Settled {
    pub(super) span: AnySpan,
    pub(super) start_ns: i64,
    pub(super) end_ns: i64,
    pub(super) gap_ns: Option<i64>,
    /// The places, among launches and regions, of the regions that it began in,
    /// the outermost first.
    pub(super) within: Vec<usize>,
}

/// How far neighbouring f32 numbers are apart at a place in milliseconds.
fn step_ns(place_ns: i64) -> f64 {
    let place = (place_ns.unsigned_abs() as f64 / 1e6) as f32;
    let next = f32::from_bits(place.to_bits() + 1);
    (f64::from(next) - f64::from(place)) * 1e6
}

/// Whether a place is before the end of a span by rounding.
fn is_rounding(place_ns: i64, from_ns: i64, end_ns: i64) -> bool {
    let early = end_ns - place_ns;
    early > 0 && early as f64 <= (step_ns(place_ns) + step_ns(from_ns)).ceil()
}

/// Spans in the order of their settled starts; lanes by themselves, launches and
/// regions together.
pub(super) fn by_stream(spans: &[AnySpan]) -> Vec<Settled> {
    let mut out = Vec::new();
    for is_lane in [true, false] {
        let kind = spans.iter().filter(|span| span.is_lane == is_lane);
        let mut kind: Vec<_> = kind.collect();
        // A region is around what starts with it.
        kind.sort_by_key(|span| (span.start_ns, !span.is_region));
        let mut settled: Vec<Settled> = Vec::new();
        for span in kind {
            let own = settled.iter().enumerate();
            let own = own.filter(|(_, before)| before.span.stream == span.stream);
            let own: Vec<_> = own.collect();
            let is_open = |before: &Settled| {
                let is_over = before.end_ns <= span.start_ns
                    || is_rounding(span.start_ns, before.start_ns, before.end_ns);
                before.span.is_region && !is_over
            };
            let last = own.iter().rev().find(|(_, before)| is_open(before));
            let within = last.map_or_else(Vec::new, |(at, region)| {
                region.within.iter().copied().chain([*at]).collect()
            });
            let over = own.iter().filter(|(at, _)| !within.contains(at));
            // A region holds it from its own start on.
            let around = within.last().map(|at| &settled[*at]);
            let start_ns =
                around.map_or(span.start_ns, |region| region.start_ns.max(span.start_ns));
            // In a region only what came in it as well.
            let since = within.last().copied().unwrap_or(0);
            let before = over.filter(|(at, _)| *at >= since);
            let before = before.map(|(_, before)| *before);
            let before = before.max_by_key(|before| before.end_ns);
            let gap_ns = before.map(|before| start_ns - before.end_ns);
            let moved =
                before.filter(|before| is_rounding(start_ns, before.start_ns, before.end_ns));
            let start_ns = moved.map_or(start_ns, |before| before.end_ns);
            let end_ns = start_ns + span.ns as i64;
            let cut = around.map(|region| region.end_ns);
            let cut = cut.filter(|cut_ns| is_rounding(*cut_ns, start_ns, end_ns));
            settled.push(Settled {
                span: *span,
                start_ns,
                end_ns: cut.unwrap_or(end_ns),
                gap_ns: if moved.is_some() { Some(0) } else { gap_ns },
                within,
            });
        }
        let order = settled.clone();
        let mut moved: Vec<_> = (0..settled.len()).collect();
        moved.sort_by_key(|at| settled[*at].start_ns);
        out.extend(moved.iter().map(|at| {
            let place = |of: &usize| moved.iter().position(|at| at == of);
            Settled {
                within: order[*at].within.iter().filter_map(place).collect(),
                ..order[*at].clone()
            }
        }));
    }
    out
}

/// The overlap of two launches of a stream, the second `early_ns` before the
/// first one's end at `end_ns`.
fn overlap_ns(end_ns: i64, early_ns: i64) -> u64 {
    let spans = [
        lane(2, 1, 0, 2 * end_ns as u64),
        launch(2, 1, end_ns - 1_000_000, 1_000_000),
        launch(2, 1, end_ns - early_ns, 5_000),
    ];
    let (found, launches) = figures(&spans);
    let moved = launches[1].gap_ns == Some(0);
    assert_eq!(moved, found.lanes[2].overlap_ns == 0);
    found.lanes[2].overlap_ns
}

#[test]
fn a_start_too_early_by_rounding_is_moved_and_by_more_is_not() {
    // Around 3 s an f32 of milliseconds tells places 244 ns apart, around 1.5 s
    // 122 ns, at 12 ms not quite a nanosecond.
    for (end_ns, most_ns) in [(3_000_000_000, 489), (1_500_000_000, 245), (12_000_000, 2)] {
        assert_eq!(overlap_ns(end_ns, most_ns), 0, "at {end_ns}");
        let more_ns = most_ns + 1;
        assert_eq!(overlap_ns(end_ns, more_ns), more_ns as u64, "at {end_ns}");
    }
}

#[test]
fn spans_of_other_streams_are_not_moved() {
    let (found, launches) =
        figures(&[lane(2, 1, 0, 100), launch(2, 1, 0, 50), launch(2, 2, 49, 10)]);
    assert_eq!(launches[1].gap_ns, None);
    assert_eq!(found.lanes[2].overlap_ns, 1);
}
