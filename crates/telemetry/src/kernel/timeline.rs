// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a step's spans say when each has its place in time. Pure: plain
//! intervals go in, figures come out.
//!
//! A lane's *time* is the union of its own spans. Launches are clipped to it,
//! by reading it as a clock that stands still outside the lane's spans; what is
//! cut off is counted apart. With `sum` the clipped lengths together and `busy`
//! their union, these hold between whole nanoseconds:
//!
//! ```text
//! time = busy + lead + waited + tail       sum = busy + overlap
//! ```
//!
//! Neither the order of the intervals nor that of streams matters.

use super::LANES;
use serde::{Deserialize, Serialize};

/// A span at its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Interval {
    /// From the step's anchor.
    pub(super) start_ns: i64,
    pub(super) ns: u64,
    pub(super) stream: u64,
    /// The kernel's place in the table; [`NO_ROW`]: it has none.
    pub(super) row: u16,
    /// The lane's index; [`NO_LANE`]: in none.
    pub(super) lane: u8,
    /// The step's entry.
    pub(super) entry: u8,
}

pub(super) const NO_ROW: u16 = u16::MAX;
pub(super) const NO_LANE: u8 = LANES.len() as u8;

/// How a lane's time was spent, in GPU nanoseconds of complete steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LaneFigures {
    /// Steps that these are of.
    pub steps: u64,
    /// The union of the lane's own spans in each step.
    pub time_ns: u64,
    /// A launch of the lane ran.
    pub busy_ns: u64,
    /// None did, before the lane's first.
    pub lead_ns: u64,
    /// None did, between the first and the last: each such time ends with a
    /// launch that the GPU waited for.
    pub waited_ns: u64,
    /// None did, after the last.
    pub tail_ns: u64,
    /// By how much the launches' lengths are more than the time that they cover.
    pub overlap_ns: u64,
    /// What launches of the lane took outside its time.
    pub outside_ns: u64,
    /// Launches that the GPU waited for.
    pub waits: u64,
}

impl LaneFigures {
    pub(super) const NONE: Self = Self {
        steps: 0,
        time_ns: 0,
        busy_ns: 0,
        lead_ns: 0,
        waited_ns: 0,
        tail_ns: 0,
        overlap_ns: 0,
        outside_ns: 0,
        waits: 0,
    };

    /// Time in which no launch of the lane ran.
    #[must_use]
    pub const fn idle_ns(&self) -> u64 {
        self.time_ns.saturating_sub(self.busy_ns)
    }

    /// Adds others. Sums saturate.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            steps: self.steps.saturating_add(other.steps),
            time_ns: self.time_ns.saturating_add(other.time_ns),
            busy_ns: self.busy_ns.saturating_add(other.busy_ns),
            lead_ns: self.lead_ns.saturating_add(other.lead_ns),
            waited_ns: self.waited_ns.saturating_add(other.waited_ns),
            tail_ns: self.tail_ns.saturating_add(other.tail_ns),
            overlap_ns: self.overlap_ns.saturating_add(other.overlap_ns),
            outside_ns: self.outside_ns.saturating_add(other.outside_ns),
            waits: self.waits.saturating_add(other.waits),
        }
    }
}

/// A launch of a timeline, and what came before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Before {
    pub(super) row: u16,
    pub(super) ns: u64,
    /// From the end of the span that ended last on its stream; `None` for the
    /// first one there. Negative: it began before that end.
    pub(super) gap_ns: Option<i64>,
    /// How long its lane had waited for it.
    pub(super) waited_ns: u64,
}

/// The lanes' figures, and those of all lanes together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Figures {
    pub(super) lanes: [LaneFigures; LANES.len()],
    pub(super) device: LaneFigures,
}

/// Memory that folds share.
#[derive(Default)]
pub(super) struct Scratch {
    /// Spans at their settled places.
    settled: Vec<Settled>,
    /// Disjoint parts of lanes' time, in order: of each lane, then of all.
    parts: Vec<Part>,
    ends: Vec<StreamEnd>,
}

/// A span at its settled place.
#[derive(Clone, Copy)]
struct Settled {
    start_ns: i64,
    end_ns: i64,
    /// [`NO_GAP`]: the first of its stream.
    gap_ns: i64,
    row: u16,
    lane: u8,
}

/// No gap is known.
const NO_GAP: i64 = i64::MIN;

/// A part of a lane's time.
#[derive(Clone, Copy)]
struct Part {
    start_ns: i64,
    end_ns: i64,
    /// Time in the parts before it.
    before_ns: u64,
}

/// Nothing is in it.
const NO_PART: Part = Part {
    start_ns: i64::MAX,
    end_ns: i64::MIN,
    before_ns: 0,
};

/// The span that ended last on a stream.
#[derive(Clone, Copy)]
struct StreamEnd {
    stream: u64,
    start_ns: i64,
    /// [`NO_END`]: there is none yet.
    end_ns: i64,
}

const NO_END: i64 = i64::MIN;

impl Scratch {
    /// Room for steps of so many launches; a step with more takes more.
    pub(super) fn with_capacity(launches: usize) -> Self {
        Self {
            settled: Vec::with_capacity(launches),
            parts: Vec::with_capacity(64),
            ends: Vec::with_capacity(64),
        }
    }

    /// Lays a step out: the spans of its lanes, and its launches. Tells `each` of
    /// every launch, in the order of starts.
    pub(super) fn figures(
        &mut self,
        lanes: &mut [Interval],
        launches: &mut [Interval],
        mut each: impl FnMut(Before),
    ) -> Figures {
        let Self {
            settled,
            parts,
            ends,
        } = self;
        settle(lanes, ends, settled);
        parts.clear();
        let ranges: [_; LANES.len() + 1] = std::array::from_fn(|lane| {
            let is_all = lane == LANES.len();
            let own = settled
                .iter()
                .filter(|span| is_all || usize::from(span.lane) == lane);
            add_parts(parts, own)
        });
        let mut covers = ranges.map(|range| Cover::new(&parts[range]));
        let (has_lanes, are_apart) = look(lanes, launches);
        if are_apart || are_in_order(launches, ends) {
            let mut settler = Settler::new(launches, ends);
            let launches = launches.iter().map(|span| settler.settle(span));
            cover(&mut covers, has_lanes, launches, &mut each)
        } else {
            settle(launches, ends, settled);
            cover(&mut covers, has_lanes, settled.iter().copied(), &mut each)
        }
    }
}

/// Covers lanes with launches, in the order of their starts. `has_lanes`: a bit
/// for each lane that has a span or a launch.
#[inline]
fn cover(
    covers: &mut [Cover<'_>; LANES.len() + 1],
    has_lanes: u32,
    launches: impl Iterator<Item = Settled>,
    each: &mut impl FnMut(Before),
) -> Figures {
    let [of_lanes @ .., device] = covers;
    let mut tell = |launch: &Settled, waited_ns| {
        each(Before {
            row: launch.row,
            ns: length(launch.start_ns, launch.end_ns),
            gap_ns: Some(launch.gap_ns).filter(|gap_ns| *gap_ns != NO_GAP),
            waited_ns,
        });
    };
    // Where one lane has all, as mostly, the device's figures are its own.
    let only = has_lanes.trailing_zeros() as usize;
    if let Some(lane) = of_lanes.get_mut(only)
        && has_lanes.is_power_of_two()
    {
        for launch in launches {
            let waited_ns = lane.take(&launch);
            tell(&launch, waited_ns);
        }
        let lanes = of_lanes.each_ref().map(Cover::figures);
        return Figures {
            device: lanes[only],
            lanes,
        };
    }
    for launch in launches {
        let lane = of_lanes.get_mut(usize::from(launch.lane));
        let waited_ns = lane.map_or(0, |lane| lane.take(&launch));
        device.take(&launch);
        tell(&launch, waited_ns);
    }
    Figures {
        lanes: of_lanes.each_ref().map(Cover::figures),
        device: device.figures(),
    }
}

/// Settles spans: one that is before the end of the span before it on its
/// stream by no more than the rounding of the two places is moved to that end.
/// It takes them in the order of their starts.
struct Settler<'a> {
    /// Of the streams, but for that of the last span.
    ends: &'a mut Vec<StreamEnd>,
    before: StreamEnd,
}

impl<'a> Settler<'a> {
    fn new(spans: &[Interval], ends: &'a mut Vec<StreamEnd>) -> Self {
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
    fn settle(&mut self, span: &Interval) -> Settled {
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
        if before.end_ns <= end_ns {
            (before.start_ns, before.end_ns) = (start_ns, end_ns);
        }
        Settled {
            start_ns,
            end_ns,
            gap_ns,
            row: span.row,
            lane: span.lane,
        }
    }
}

/// A bit for each lane that has a span or a launch, and whether each launch
/// starts so long after the one before it that settling leaves them in order.
fn look(lanes: &[Interval], launches: &[Interval]) -> (u32, bool) {
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
fn are_in_order(spans: &[Interval], ends: &mut Vec<StreamEnd>) -> bool {
    let mut settler = Settler::new(spans, ends);
    let mut last_ns = i64::MIN;
    spans.iter().all(|span| {
        let is_later = last_ns <= span.start_ns;
        last_ns = settler.settle(span).start_ns;
        is_later
    })
}

/// Puts spans in the order of their settled starts.
fn settle(spans: &mut [Interval], ends: &mut Vec<StreamEnd>, settled: &mut Vec<Settled>) {
    // Stable: of spans that start at once the one begun first stays first.
    spans.sort_by_key(|span| span.start_ns);
    settled.clear();
    let mut settler = Settler::new(spans, ends);
    settled.extend(spans.iter().map(|span| settler.settle(span)));
    settled.sort_by_key(|span| span.start_ns);
}

/// The start of a span that is before the end of the one before it, settled, and
/// the gap between the two; or where that is very long.
#[inline(never)]
fn move_to_end(start_ns: i64, before_start_ns: i64, before_end_ns: i64) -> (i64, i64) {
    let is_before = start_ns < before_end_ns;
    if is_before && start_ns.abs_diff(before_end_ns) <= rounding_ns(start_ns, before_start_ns) {
        (before_end_ns, 0)
    } else {
        (start_ns, start_ns.saturating_sub(before_end_ns))
    }
}

#[inline]
fn end_of(start_ns: i64, ns: u64) -> i64 {
    #[cold]
    fn far(start_ns: i64, ns: u64) -> i64 {
        start_ns.saturating_add_unsigned(ns)
    }
    let end_ns = start_ns.wrapping_add_unsigned(ns);
    if end_ns >= start_ns {
        end_ns
    } else {
        far(start_ns, ns)
    }
}

/// From one place to another that is not before it.
#[inline]
fn length(from_ns: i64, to_ns: i64) -> u64 {
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
    known.copied().unwrap_or(StreamEnd {
        stream: to,
        start_ns: 0,
        end_ns: NO_END,
    })
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

/// Adds the union of spans, which are in the order of their starts, as parts.
fn add_parts<'a>(
    parts: &mut Vec<Part>,
    spans: impl Iterator<Item = &'a Settled>,
) -> std::ops::Range<usize> {
    let from = parts.len();
    for span in spans {
        match parts[from..].last_mut() {
            Some(last) if span.start_ns <= last.end_ns => {
                last.end_ns = last.end_ns.max(span.end_ns);
            }
            last => {
                let before_ns = last.map_or(0, |last| {
                    last.before_ns + last.end_ns.abs_diff(last.start_ns)
                });
                parts.push(Part {
                    start_ns: span.start_ns,
                    end_ns: span.end_ns,
                    before_ns,
                });
            }
        }
    }
    from..parts.len()
}

/// How launches cover a lane's time, taken in the order of their starts.
struct Cover<'a> {
    parts: &'a [Part],
    /// The part that a launch within one is mostly in: [`NO_PART`] before the
    /// first launch.
    part: Part,
    /// Up to where launches reach, as time of the lane.
    reach_ns: u64,
    has_launch: bool,
    sum_ns: u64,
    outside_ns: u64,
    lead_ns: u64,
    waited_ns: u64,
    waits: u64,
}

impl<'a> Cover<'a> {
    fn new(parts: &'a [Part]) -> Self {
        Self {
            parts,
            part: NO_PART,
            reach_ns: 0,
            has_launch: false,
            sum_ns: 0,
            outside_ns: 0,
            lead_ns: 0,
            waited_ns: 0,
            waits: 0,
        }
    }

    /// The last part that began by `at_ns`, or the first.
    fn part_at(&self, at_ns: i64) -> Option<&Part> {
        let begun = self.parts.partition_point(|part| part.start_ns <= at_ns);
        self.parts.get(begun.saturating_sub(1))
    }

    /// The lane's time until `at_ns`.
    fn time_until(&self, at_ns: i64) -> u64 {
        self.part_at(at_ns).map_or(0, |part| {
            let at_ns = at_ns.clamp(part.start_ns, part.end_ns);
            part.before_ns + at_ns.abs_diff(part.start_ns)
        })
    }

    /// Covers what of the launch is in the lane's time; how long the lane had
    /// waited for it.
    #[inline]
    fn take(&mut self, launch: &Settled) -> u64 {
        let part = &self.part;
        if part.start_ns <= launch.start_ns && launch.end_ns <= part.end_ns {
            let start = part.before_ns + length(part.start_ns, launch.start_ns);
            self.cover(start, start + length(launch.start_ns, launch.end_ns))
        } else {
            self.take_clipped(launch)
        }
    }

    /// As [`take`](Self::take), of any launch.
    #[inline(never)]
    fn take_clipped(&mut self, launch: &Settled) -> u64 {
        let start = self.time_until(launch.start_ns);
        let end = self.time_until(launch.end_ns);
        let (whole_ns, inside_ns) = (length(launch.start_ns, launch.end_ns), end - start);
        self.outside_ns = self.outside_ns.saturating_add(whole_ns - inside_ns);
        if inside_ns == 0 && (whole_ns > 0 || !self.has_moment(launch.start_ns)) {
            return 0;
        }
        if !self.has_launch {
            (self.has_launch, self.lead_ns, self.reach_ns) = (true, start, start);
        }
        self.part = self.part_at(launch.start_ns).copied().unwrap_or(NO_PART);
        self.cover(start, end)
    }

    /// Covers the lane's time from `start` to `end`; how long it had waited.
    #[inline]
    fn cover(&mut self, start: u64, end: u64) -> u64 {
        self.sum_ns = self.sum_ns.saturating_add(end - start);
        let waited_ns = start.saturating_sub(self.reach_ns);
        if waited_ns > 0 {
            self.waited_ns += waited_ns;
            self.waits += 1;
        }
        self.reach_ns = self.reach_ns.max(end);
        waited_ns
    }

    fn has_moment(&self, at_ns: i64) -> bool {
        let has = |part: &Part| (part.start_ns..=part.end_ns).contains(&at_ns);
        self.parts.iter().any(has)
    }

    fn figures(&self) -> LaneFigures {
        let time_ns = self.time_until(i64::MAX);
        // All of the time is lead where nothing was launched.
        let (lead_ns, tail_ns) = if self.has_launch {
            (self.lead_ns, time_ns - self.reach_ns)
        } else {
            (time_ns, 0)
        };
        let busy_ns = time_ns - lead_ns - self.waited_ns - tail_ns;
        LaneFigures {
            steps: u64::from(!self.parts.is_empty()),
            time_ns,
            busy_ns,
            lead_ns,
            waited_ns: self.waited_ns,
            tail_ns,
            overlap_ns: self.sum_ns - busy_ns,
            outside_ns: self.outside_ns,
            waits: self.waits,
        }
    }
}

#[cfg(all(test, not(metrale_loom)))]
mod tests;
