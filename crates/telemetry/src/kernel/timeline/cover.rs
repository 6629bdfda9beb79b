// SPDX-License-Identifier: MIT OR Apache-2.0
//! How launches cover a lane's time.

use super::nested::Nested;
use super::settle::{NO_GAP, Settled, length};
use super::{Before, Figures, LaneFigures};
use crate::kernel::MAX_LANES;

/// A part of a lane's time.
#[derive(Clone, Copy)]
pub(super) struct Part {
    start_ns: i64,
    end_ns: i64,
    /// Time in the parts before it.
    before_ns: u64,
}

/// Nothing is in it.
const NO_PART: Part = Part { start_ns: i64::MAX, end_ns: i64::MIN, before_ns: 0 };

/// Covers lanes, and last the device, with launches, in the order of their
/// starts. `has_lanes`: a bit for each lane that has a span or a launch.
#[inline]
pub(super) fn cover(
    covers: &mut [Cover<'_>],
    has_lanes: u32,
    launches: impl Iterator<Item = Settled>,
    each: &mut impl FnMut(Before),
) -> Figures {
    let Some((device, of_lanes)) = covers.split_last_mut() else {
        return Figures::default();
    };
    let mut tell = |launch: &Settled, waited_ns| each(before(launch, waited_ns));
    // Where one lane has all, as mostly, the device's figures are its own.
    let only = has_lanes.trailing_zeros() as usize;
    if let Some(lane) = of_lanes.get_mut(only)
        && has_lanes.is_power_of_two()
    {
        for launch in launches {
            let waited_ns = lane.take(&launch);
            tell(&launch, waited_ns);
        }
        let device = lane.figures();
        return Figures { lanes: of_all(of_lanes), device };
    }
    for launch in launches {
        let lane = of_lanes.get_mut(usize::from(launch.lane));
        let waited_ns = lane.map_or(0, |lane| lane.take(&launch));
        device.take(&launch);
        tell(&launch, waited_ns);
    }
    Figures { lanes: of_all(of_lanes), device: device.figures() }
}

/// As [`cover`], where there are regions.
pub(super) fn cover_nested(
    covers: &mut [Cover<'_>],
    nested: &[Nested],
    each: &mut impl FnMut(Before),
) -> Figures {
    let Some((device, of_lanes)) = covers.split_last_mut() else {
        return Figures::default();
    };
    for span in nested {
        let launch = &span.settled;
        let lane = of_lanes.get_mut(usize::from(launch.lane));
        let waited_ns = lane.map_or(0, |lane| lane.take_rest(launch, span.lane_until_ns));
        device.take_rest(launch, span.until_ns);
        each(Before { ns: span.span.ns, own_ns: span.own_ns, ..before(launch, waited_ns) });
    }
    Figures { lanes: of_all(of_lanes), device: device.figures() }
}

#[inline]
fn before(launch: &Settled, waited_ns: u64) -> Before {
    Before {
        row: launch.row,
        ns: length(launch.start_ns, launch.end_ns),
        gap_ns: Some(launch.gap_ns).filter(|gap_ns| *gap_ns != NO_GAP),
        waited_ns,
        own_ns: 0,
    }
}

fn of_all(lanes: &[Cover<'_>]) -> [LaneFigures; MAX_LANES] {
    let mut figures = [LaneFigures::NONE; MAX_LANES];
    for (figures, lane) in figures.iter_mut().zip(lanes) {
        *figures = lane.figures();
    }
    figures
}

/// Adds the union of spans, which are in the order of their starts, as parts.
pub(super) fn add_parts<'a>(
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
                let before_ns =
                    last.map_or(0, |last| last.before_ns + last.end_ns.abs_diff(last.start_ns));
                parts.push(Part { start_ns: span.start_ns, end_ns: span.end_ns, before_ns });
            }
        }
    }
    from..parts.len()
}

/// How launches cover a lane's time, taken in the order of their starts.
pub(super) struct Cover<'a> {
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
    pub(super) fn new(parts: &'a [Part]) -> Self {
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
            self.take_clipped(launch.start_ns, launch.end_ns)
        }
    }

    /// As [`take`](Self::take), of what is left of a launch after `until_ns`,
    /// where it began before that.
    fn take_rest(&mut self, launch: &Settled, until_ns: i64) -> u64 {
        if until_ns <= launch.start_ns {
            return self.take(launch);
        }
        if launch.end_ns <= until_ns {
            return 0;
        }
        self.take(&Settled { start_ns: until_ns, ..*launch })
    }

    /// As [`take`](Self::take), of any launch.
    #[inline(never)]
    fn take_clipped(&mut self, start_ns: i64, end_ns: i64) -> u64 {
        let start = self.time_until(start_ns);
        let end = self.time_until(end_ns);
        let (whole_ns, inside_ns) = (length(start_ns, end_ns), end - start);
        self.outside_ns = self.outside_ns.saturating_add(whole_ns - inside_ns);
        if inside_ns == 0 && (whole_ns > 0 || !self.has_moment(start_ns)) {
            return 0;
        }
        if !self.has_launch {
            (self.has_launch, self.lead_ns, self.reach_ns) = (true, start, start);
        }
        self.part = self.part_at(start_ns).copied().unwrap_or(NO_PART);
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
        let (lead_ns, tail_ns) =
            if self.has_launch { (self.lead_ns, time_ns - self.reach_ns) } else { (time_ns, 0) };
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
