// SPDX-License-Identifier: MIT OR Apache-2.0
//! Spans at the places where they are taken to be, in the order of their starts.
//!
//! A start that is before the end of the span before it on its stream by no
//! more than the rounding of the two places is moved to that end.

use super::Interval;

/// A span at its settled place.
#[derive(Clone, Copy)]
pub(super) struct Settled {
    pub(super) start_ns: i64,
    pub(super) end_ns: i64,
    /// [`NO_GAP`]: the first of its stream.
    pub(super) gap_ns: i64,
    pub(super) row: u16,
    pub(super) lane: u8,
}

impl Settled {
    /// A span where its place says.
    pub(super) fn at_start_of(span: &Interval) -> Self {
        Self {
            start_ns: span.start_ns,
            end_ns: end_of(span.start_ns, span.ns),
            gap_ns: NO_GAP,
            row: span.row,
            lane: span.lane,
        }
    }
}

/// No gap is known.
pub(super) const NO_GAP: i64 = i64::MIN;

/// The span that ended last on a stream.
#[derive(Clone, Copy)]
pub(super) struct StreamEnd {
    stream: u64,
    start_ns: i64,
    /// [`NO_END`]: there is none yet.
    end_ns: i64,
}

const NO_END: i64 = i64::MIN;

/// Settles spans: one that is before the end of the span before it on its
/// stream by no more than the rounding of the two places is moved to that end.
/// It takes them in the order of their starts.
pub(super) struct Settler<'a> {
    /// Of the streams, but for that of the last span.
    ends: &'a mut Vec<StreamEnd>,
    before: StreamEnd,
}

impl<'a> Settler<'a> {
    pub(super) fn new(spans: &[Interval], ends: &'a mut Vec<StreamEnd>) -> Self {
        ends.clear();
        Self {
            ends,
            before: StreamEnd {
                stream: spans.first().map_or(0, |span| span.stream),
                start_ns: 0,
                end_ns: NO_END,
            },
        }
    }

    #[inline(always)]
    pub(super) fn settle(&mut self, span: &Interval) -> Settled {
        if span.stream != self.before.stream {
            self.before = change_stream(self.ends, self.before, span.stream);
        }
        let before = &mut self.before;
        let (mut start_ns, mut gap_ns) = (span.start_ns, NO_GAP);
        if before.end_ns != NO_END {
            (start_ns, gap_ns) = match start_ns.checked_sub(before.end_ns) {
                Some(gap_ns @ 0..) => (start_ns, gap_ns),
                _ => move_to_end(start_ns, before.start_ns, before.end_ns),
            };
        }
        let end_ns = end_of(start_ns, span.ns);
        self.end(start_ns, end_ns);
        Settled { start_ns, end_ns, gap_ns, row: span.row, lane: span.lane }
    }

    /// As [`settle`](Self::settle), in a region that ends at `until_ns`: a span that
    /// ends after that by no more than rounding ends there.
    pub(super) fn settle_within(&mut self, span: &Interval, until_ns: Option<i64>) -> Settled {
        self.before = change_stream(self.ends, self.before, span.stream);
        let before = self.before;
        let mut settled = self.settle(span);
        if let Some(end_ns) = until_ns
            && is_rounding(end_ns, settled.start_ns, settled.end_ns)
        {
            settled.end_ns = end_ns;
            self.before = before;
            self.end(settled.start_ns, end_ns);
        }
        settled
    }

    /// A span of this stream ends.
    #[inline(always)]
    fn end(&mut self, start_ns: i64, end_ns: i64) {
        let before = &mut self.before;
        if before.end_ns <= end_ns {
            (before.start_ns, before.end_ns) = (start_ns, end_ns);
        }
    }

    /// What ended on the stream so far says nothing of what comes there: it is given
    /// back, until a region on the stream is over.
    pub(super) fn enter(&mut self, stream: u64) -> StreamEnd {
        self.before = change_stream(self.ends, self.before, stream);
        let before = self.before;
        self.before.end_ns = NO_END;
        before
    }

    /// A region is over that was entered when `before` was given back.
    pub(super) fn leave(&mut self, before: StreamEnd, region: &Settled) {
        self.before = change_stream(self.ends, self.before, before.stream);
        self.end(before.start_ns, before.end_ns);
        self.end(region.start_ns, region.end_ns);
    }
}

/// A bit for each lane that has a span or a launch, and whether each launch
/// starts so long after the one before it that settling leaves them in order.
pub(super) fn look(lanes: &[Interval], launches: &[Interval]) -> (u32, bool) {
    let mut has_lanes = lanes.iter().fold(0, |has, span| has | 1 << span.lane);
    let (Some(first), Some(last)) = (launches.first(), launches.last()) else {
        return (has_lanes, true);
    };
    // Halves, as their differences are numbers too.
    let (mut before, mut least) = (i64::MIN >> 1, i64::MAX);
    for launch in launches {
        let half = launch.start_ns >> 1;
        least = least.min(half - before);
        before = half;
        has_lanes |= 1 << launch.lane;
    }
    // No start between the two is moved by more.
    let most = |span: &Interval| rounding_ns(span.start_ns, span.start_ns);
    let most_ns = most(first).max(most(last)) as i64;
    (has_lanes, least > most_ns / 2)
}

/// Whether each span starts where or after the one before it does once that is
/// settled: as they land, mostly.
pub(super) fn are_in_order(spans: &[Interval], ends: &mut Vec<StreamEnd>) -> bool {
    let mut settler = Settler::new(spans, ends);
    let mut last_ns = i64::MIN;
    spans.iter().all(|span| {
        let is_later = last_ns <= span.start_ns;
        last_ns = settler.settle(span).start_ns;
        is_later
    })
}

/// Puts spans in the order of their settled starts.
pub(super) fn settle(
    spans: &mut [Interval],
    ends: &mut Vec<StreamEnd>,
    settled: &mut Vec<Settled>,
) {
    // Stable: of spans that start at once the one begun first stays first.
    spans.sort_by_key(|span| span.start_ns);
    settled.clear();
    let mut settler = Settler::new(spans, ends);
    settled.extend(spans.iter().map(|span| settler.settle(span)));
    settled.sort_by_key(|span| span.start_ns);
}

/// Moves spans to their settled starts, in the order of those that were read.
pub(super) fn move_to_settled(spans: &mut [Interval], ends: &mut Vec<StreamEnd>) {
    spans.sort_by_key(|span| span.start_ns);
    let mut settler = Settler::new(spans, ends);
    for span in spans {
        span.start_ns = settler.settle(span).start_ns;
    }
}

/// The start of a span that is before the end of the one before it, settled, and
/// the gap between the two; or where that is very long.
#[inline(never)]
fn move_to_end(start_ns: i64, before_start_ns: i64, before_end_ns: i64) -> (i64, i64) {
    if is_rounding(start_ns, before_start_ns, before_end_ns) {
        (before_end_ns, 0)
    } else {
        (start_ns, start_ns.saturating_sub(before_end_ns))
    }
}

/// Whether a place is before the end of a span that starts at `from_ns` by no more
/// than the rounding of the two places.
pub(super) fn is_rounding(place_ns: i64, from_ns: i64, end_ns: i64) -> bool {
    place_ns < end_ns && place_ns.abs_diff(end_ns) <= rounding_ns(place_ns, from_ns)
}

#[inline]
fn end_of(start_ns: i64, ns: u64) -> i64 {
    #[cold]
    fn far(start_ns: i64, ns: u64) -> i64 {
        start_ns.saturating_add_unsigned(ns)
    }
    let end_ns = start_ns.wrapping_add_unsigned(ns);
    if end_ns >= start_ns { end_ns } else { far(start_ns, ns) }
}

/// From one place to another that is not before it.
#[inline]
pub(super) fn length(from_ns: i64, to_ns: i64) -> u64 {
    to_ns.wrapping_sub(from_ns) as u64
}

/// Keeps what ended last on a stream, and returns that of another.
#[inline(never)]
fn change_stream(ends: &mut Vec<StreamEnd>, from: StreamEnd, to: u64) -> StreamEnd {
    match ends.iter_mut().find(|end| end.stream == from.stream) {
        Some(end) => *end = from,
        None => ends.push(from),
    }
    let known = ends.iter().find(|end| end.stream == to);
    known.copied().unwrap_or(StreamEnd { stream: to, start_ns: 0, end_ns: NO_END })
}

/// By how much rounding may have moved two places, each read as f32
/// milliseconds, towards each other.
#[cold]
fn rounding_ns(a: i64, b: i64) -> u64 {
    let step_ns = |place: i64| {
        let milliseconds = (place.unsigned_abs() as f64 / 1e6) as f32;
        f64::from(milliseconds.next_up() - milliseconds) * 1e6
    };
    (step_ns(a) + step_ns(b)).ceil() as u64
}
