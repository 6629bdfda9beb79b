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
    /// A lane's span, not a launch.
    pub(super) is_lane: bool,
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
    lanes: Vec<Interval>,
    launches: Vec<Interval>,
    /// The launches once they are settled.
    settled: Vec<Launch>,
    /// Disjoint parts of lanes' time, in order: of each lane, then of all.
    parts: Vec<Part>,
    ends: Vec<StreamEnd>,
}

/// A launch at its settled place.
#[derive(Clone, Copy)]
struct Launch {
    start_ns: i64,
    end_ns: i64,
    gap_ns: Option<i64>,
    row: u16,
    lane: u8,
}

/// A part of a lane's time.
#[derive(Clone, Copy)]
struct Part {
    start_ns: i64,
    end_ns: i64,
    /// Time in the parts before it.
    before_ns: u64,
}

/// The span that ended last on a stream.
#[derive(Clone, Copy)]
struct StreamEnd {
    stream: u64,
    start_ns: i64,
    end_ns: i64,
}

impl Scratch {
    /// Room for steps of so many launches; a step with more takes more.
    pub(super) fn with_capacity(launches: usize) -> Self {
        Self {
            lanes: Vec::with_capacity(64),
            launches: Vec::with_capacity(launches),
            settled: Vec::with_capacity(launches),
            parts: Vec::with_capacity(64),
            ends: Vec::with_capacity(64),
        }
    }

    /// Forgets the step before.
    pub(super) fn clear(&mut self) {
        self.lanes.clear();
        self.launches.clear();
    }

    /// Adds a span of the step.
    #[inline]
    pub(super) fn add(&mut self, span: Interval) {
        if span.is_lane {
            self.lanes.push(span);
        } else {
            self.launches.push(span);
        }
    }

    /// Lays the step out; tells `each` of every launch, in the order of starts.
    pub(super) fn figures(&mut self, mut each: impl FnMut(Before)) -> Figures {
        let Self {
            lanes,
            launches,
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
        // Where one lane has all, as mostly, the device's figures are its own.
        let single = match lanes.first() {
            Some(first) if has_all(first.lane, lanes) && has_all(first.lane, launches) => {
                covers.get(usize::from(first.lane)).map(|_| first.lane)
            }
            _ => None,
        };
        settle(launches, ends, settled);
        let [of_lanes @ .., device] = &mut covers;
        for launch in settled.iter() {
            let lane = of_lanes.get_mut(usize::from(launch.lane));
            let waited_ns = lane.map_or(0, |lane| lane.take(launch));
            if single.is_none() {
                device.take(launch);
            }
            each(Before {
                row: launch.row,
                ns: launch.end_ns.abs_diff(launch.start_ns),
                gap_ns: launch.gap_ns,
                waited_ns,
            });
        }
        let lanes = of_lanes.each_ref().map(Cover::figures);
        let device = match single {
            Some(lane) => lanes[usize::from(lane)],
            None => device.figures(),
        };
        Figures { lanes, device }
    }
}

fn has_all(lane: u8, spans: &[Interval]) -> bool {
    spans.iter().all(|span| span.lane == lane)
}

/// Puts spans in the order of their starts. A start that is before the end of
/// the span before it on its stream by no more than the rounding of the two
/// places is moved to that end.
fn settle(spans: &mut [Interval], ends: &mut Vec<StreamEnd>, settled: &mut Vec<Launch>) {
    // Stable: of spans that start at once the one begun first stays first.
    if !spans.is_sorted_by_key(|span| span.start_ns) {
        spans.sort_by_key(|span| span.start_ns);
    }
    settled.clear();
    ends.clear();
    let mut at = 0;
    let mut is_sorted = true;
    let mut last_ns = i64::MIN;
    for span in spans.iter() {
        if ends.get(at).is_none_or(|end| end.stream != span.stream) {
            let known = ends.iter().position(|end| end.stream == span.stream);
            at = known.unwrap_or(ends.len());
        }
        let mut start_ns = span.start_ns;
        let before = ends.get(at).copied();
        let gap_ns = before.map(|before| start_ns.saturating_sub(before.end_ns));
        if let (Some(before), Some(..0)) = (before, gap_ns)
            && start_ns.abs_diff(before.end_ns) <= rounding_ns(start_ns, before.start_ns)
        {
            start_ns = before.end_ns;
        }
        let end_ns = start_ns.saturating_add_unsigned(span.ns);
        let end = StreamEnd {
            stream: span.stream,
            start_ns,
            end_ns,
        };
        match ends.get_mut(at) {
            None => ends.push(end),
            Some(last) if last.end_ns <= end_ns => *last = end,
            Some(_) => {}
        }
        is_sorted &= last_ns <= start_ns;
        last_ns = start_ns;
        settled.push(Launch {
            start_ns,
            end_ns,
            gap_ns: gap_ns.map(|gap_ns| if start_ns == span.start_ns { gap_ns } else { 0 }),
            row: span.row,
            lane: span.lane,
        });
    }
    if !is_sorted {
        settled.sort_by_key(|span| span.start_ns);
    }
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
    spans: impl Iterator<Item = &'a Launch>,
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
            reach_ns: 0,
            has_launch: false,
            sum_ns: 0,
            outside_ns: 0,
            lead_ns: 0,
            waited_ns: 0,
            waits: 0,
        }
    }

    /// The lane's time until `at_ns`.
    #[inline]
    fn time_until(&self, at_ns: i64) -> u64 {
        let part = match self.parts {
            [] => return 0,
            [part] => part,
            // The last one that began, or the first.
            parts => {
                let begun = parts.partition_point(|part| part.start_ns <= at_ns);
                &parts[begun.saturating_sub(1)]
            }
        };
        let at_ns = at_ns.clamp(part.start_ns, part.end_ns);
        part.before_ns + at_ns.abs_diff(part.start_ns)
    }

    /// Covers what of the launch is in the lane's time; how long the lane had
    /// waited for it.
    #[inline]
    fn take(&mut self, launch: &Launch) -> u64 {
        let start = self.time_until(launch.start_ns);
        let end = self.time_until(launch.end_ns);
        let (whole_ns, inside_ns) = (launch.end_ns.abs_diff(launch.start_ns), end - start);
        self.outside_ns = self.outside_ns.saturating_add(whole_ns - inside_ns);
        if inside_ns == 0 && (whole_ns > 0 || !self.has_moment(launch.start_ns)) {
            return 0;
        }
        self.sum_ns = self.sum_ns.saturating_add(inside_ns);
        let mut waited_ns = 0;
        if !std::mem::replace(&mut self.has_launch, true) {
            self.lead_ns = start;
        } else if start > self.reach_ns {
            waited_ns = start - self.reach_ns;
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
