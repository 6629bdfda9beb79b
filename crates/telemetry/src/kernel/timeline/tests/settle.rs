// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where spans begin once rounding is taken out, said again: span by span, and
//! without a list of streams.

use super::Interval;
use super::{figures, lane, launch};

#[derive(Clone, Copy, Debug)]
pub(super) struct Settled {
    pub(super) span: Interval,
    pub(super) start_ns: i64,
    pub(super) end_ns: i64,
    pub(super) gap_ns: Option<i64>,
}

/// How far neighbouring f32 numbers are apart at a place in milliseconds.
fn step_ns(place_ns: i64) -> f64 {
    let place = (place_ns.unsigned_abs() as f64 / 1e6) as f32;
    let next = f32::from_bits(place.to_bits() + 1);
    (f64::from(next) - f64::from(place)) * 1e6
}

/// Spans in the order of their settled starts; lanes and launches each by
/// themselves.
pub(super) fn by_stream(spans: &[Interval]) -> Vec<Settled> {
    let mut out = Vec::new();
    for is_lane in [true, false] {
        let kind = spans.iter().filter(|span| span.is_lane == is_lane);
        let mut kind: Vec<_> = kind.collect();
        kind.sort_by_key(|span| span.start_ns);
        let mut settled: Vec<Settled> = Vec::new();
        for span in kind {
            let before = settled
                .iter()
                .filter(|before| before.span.stream == span.stream)
                .max_by_key(|before| before.end_ns);
            let gap_ns = before.map(|before| span.start_ns - before.end_ns);
            let moved = before.filter(|before| {
                let most = step_ns(span.start_ns) + step_ns(before.start_ns);
                let early = before.end_ns - span.start_ns;
                early > 0 && early as f64 <= most.ceil()
            });
            let start_ns = moved.map_or(span.start_ns, |before| before.end_ns);
            settled.push(Settled {
                span: *span,
                start_ns,
                end_ns: start_ns + span.ns as i64,
                gap_ns: if moved.is_some() { Some(0) } else { gap_ns },
            });
        }
        settled.sort_by_key(|settled| settled.start_ns);
        out.extend(settled);
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
    let (found, launches) = figures(&[
        lane(2, 1, 0, 100),
        launch(2, 1, 0, 50),
        launch(2, 2, 49, 10),
    ]);
    assert_eq!(launches[1].gap_ns, None);
    assert_eq!(found.lanes[2].overlap_ns, 1);
}
