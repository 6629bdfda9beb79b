// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a step's spans say when each has its place in time. Pure: plain
//! intervals go in, figures come out.
//!
//! A lane's *time* is the union of its own spans. Launches are clipped to it,
//! by reading it as a clock that stands still outside the lane's spans; what is
//! cut off is counted apart. With `sum` the clipped lengths together, of what is in
//! a region on its stream only the region's, and `busy` their union, these hold
//! between whole nanoseconds:
//!
//! ```text
//! time = busy + lead + waited + tail       sum = busy + overlap
//! ```
//!
//! Neither the order of the intervals nor that of streams matters.

mod cover;
mod nested;
mod settle;

use super::MAX_LANES;
use crate::sums::sums;
use cover::{Cover, Part, add_parts, cover, cover_nested};
use nested::{Nested, Open, nest};
use settle::{Settled, Settler, StreamEnd, are_in_order, look, move_to_settled, settle};

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

impl Interval {
    pub(super) fn lane(&self) -> Option<usize> {
        Some(usize::from(self.lane)).filter(|lane| *lane < MAX_LANES)
    }
}

pub(super) const NO_ROW: u16 = u16::MAX;
pub(super) const NO_LANE: u8 = MAX_LANES as u8;

sums! {
    /// How a lane's time was spent, in GPU nanoseconds of complete steps.
    ///
    /// ```
    /// # fn read(snapshot: &metrale_telemetry::Snapshot) {
    /// for lane in &snapshot.lanes {
    ///     if let Some(figures) = lane.figures {
    ///         let idle = figures.idle_ns() as f64 / figures.time_ns as f64;
    ///         println!("{} is idle {:.0} % of its time", lane.lane, 100.0 * idle);
    ///     }
    /// }
    /// # }
    /// # read(&metrale_telemetry::Telemetry::new().snapshot());
    /// ```
    pub struct LaneFigures {
        /// Steps that these are of.
        pub steps: u64,
        /// The union of the lane's own spans in each step.
        pub time_ns: u64,
        /// A launch or a region of the lane ran.
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
}

impl LaneFigures {
    /// Time in which no launch of the lane ran.
    #[must_use]
    pub const fn idle_ns(&self) -> u64 {
        self.time_ns.saturating_sub(self.busy_ns)
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
    /// Of a region: its time under no span within it.
    pub(super) own_ns: u64,
}

/// The lanes' figures, and those of all lanes together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Figures {
    pub(super) lanes: [LaneFigures; MAX_LANES],
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
    /// Of steps with regions. The first such step takes its memory.
    nested: Vec<Nested>,
    open: Vec<Open>,
}

/// What a step is laid out of.
pub(super) struct Laid<'a> {
    /// Spans of lanes.
    pub(super) lanes: &'a mut [Interval],
    pub(super) launches: &'a mut [Interval],
    pub(super) regions: &'a [Interval],
}

impl Scratch {
    /// Room for steps of so many launches; a step with more takes more.
    pub(super) fn with_capacity(launches: usize) -> Self {
        Self {
            settled: Vec::with_capacity(launches),
            parts: Vec::with_capacity(64),
            ends: Vec::with_capacity(64),
            nested: Vec::new(),
            open: Vec::new(),
        }
    }

    /// Lays a step out whose first `named` lanes have names. Tells `each` of every
    /// launch and region, in the order of starts.
    pub(super) fn figures(
        &mut self,
        named: usize,
        step: &mut Laid<'_>,
        mut each: impl FnMut(Before),
    ) -> Figures {
        let Laid { lanes, launches, regions } = step;
        let Self { settled, parts, ends, nested, open } = self;
        settle(lanes, ends, settled);
        parts.clear();
        let mut ranges = [const { 0..0 }; MAX_LANES + 1];
        for (lane, range) in ranges[..=named].iter_mut().enumerate() {
            // One of a lane that has no name is nobody's time.
            let is_own = |span: &&Settled| match usize::from(span.lane) {
                own if lane == named => own < named,
                own => own == lane,
            };
            *range = add_parts(parts, settled.iter().filter(is_own));
        }
        let mut covers = ranges.map(|range| Cover::new(&parts[range]));
        let covers = &mut covers[..=named];
        if !regions.is_empty() {
            nest(regions, launches, ends, open, nested);
            return cover_nested(covers, nested, &mut each);
        }
        let (has_lanes, are_apart) = look(lanes, launches);
        if are_apart || are_in_order(launches, ends) {
            let mut settler = Settler::new(launches, ends);
            let launches = launches.iter().map(|span| settler.settle(span));
            cover(covers, has_lanes, launches, &mut each)
        } else {
            settle(launches, ends, settled);
            cover(covers, has_lanes, settled.iter().copied(), &mut each)
        }
    }
}

/// Moves the spans of a step to where they are taken to be, in the order of their
/// starts. It allocates.
pub(super) fn settle_all(
    lanes: &mut [Interval],
    launches: &mut [Interval],
    regions: &mut [Interval],
) {
    let mut ends = Vec::new();
    move_to_settled(lanes, &mut ends);
    if regions.is_empty() {
        move_to_settled(launches, &mut ends);
        return;
    }
    let mut nested = Vec::new();
    nest(regions, launches, &mut ends, &mut Vec::new(), &mut nested);
    let (mut launches, mut regions) = (launches.iter_mut(), regions.iter_mut());
    for span in &nested {
        let next = if span.is_region { regions.next() } else { launches.next() };
        if let Some(place) = next {
            *place = Interval { start_ns: span.settled.start_ns, ..span.span };
        }
    }
}

#[cfg(all(test, not(metrale_loom)))]
mod tests;
