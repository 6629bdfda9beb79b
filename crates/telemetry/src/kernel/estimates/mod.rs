// SPDX-License-Identifier: MIT OR Apache-2.0
//! What kernels took on all steps, estimated from those that were sampled.
//!
//! Lanes are timed on every step, kernels on sampled ones. Sums over steps are
//! kept beside the kernel table's one-word rows: for each kernel in each lane,
//! for all kernels of a lane, and for the lane itself. They are folded where
//! spans land, without a lock, an allocation or a wait.
//!
//! 1. A span counts in the step and the lane that its tag names. One without
//!    either is in the raw sums only.
//! 2. Estimates are of one *window*: it begins when the sampling changes, and
//!    nothing from before it is mixed in.
//! 3. Where a step's sums could not be kept, that is counted.

mod kernel;
mod lane;
mod statistics;
mod together;

pub use statistics::{ENOUGH_STEPS, Estimate, StandardError};
pub use together::Together;

use self::kernel::{Fold, KernelTimes};
use self::lane::{Land, LaneSums, LaneTimes};
use super::LANES;
use super::sink::SpanTag;
use crate::instrument::Counter;
use crate::sampling::Sampling;
use crate::sync::relaxed::{AtomicU16, AtomicU64};
use crate::sync::{Ordering, array_of, const_fn};
use serde::{Deserialize, Serialize};

/// Pairs of kernel and lane that have sums.
const ROWS: usize = 512;
/// No row is left for this pair.
const FULL: u16 = u16::MAX;

/// Sums over steps, for the `PLACES` places of a kernel table.
pub(super) struct Estimates<const PLACES: usize> {
    /// The first step of the window, as a word.
    window: AtomicU64,
    lanes: [LaneTimes; LANES.len()],
    /// All kernels of a lane.
    covered: [KernelTimes; LANES.len()],
    /// Row of a place in each lane, plus 1; 0: none yet.
    index: [[AtomicU16; LANES.len()]; PLACES],
    rows: [KernelTimes; ROWS],
    used: AtomicU64,
    unpaired: Counter,
    missed: Counter,
    full: Counter,
}

/// What a lane took in the window, and how much of it kernels covered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LaneEstimate {
    /// GPU nanoseconds of the lane's spans, on every step: measured.
    pub total_ns: u64,
    /// Steps that had the lane.
    pub steps: u64,
    /// Armed ones among them.
    pub armed_steps: u64,
    /// GPU nanoseconds of the lane's spans on armed steps.
    pub armed_ns: u64,
    /// Time under kernel and graph spans: its share is the lane's coverage.
    /// `None` before the lane was sampled.
    pub covered: Option<Estimate>,
}

/// A kernel's estimate in one lane.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KernelEstimate {
    /// The row, as [`KernelTime::func`](super::KernelTime).
    pub func: u64,
    /// The lane that its launch guards were made from.
    pub lane: usize,
    /// What it took there.
    pub estimate: Estimate,
}

/// Landed spans that estimates had to leave out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EstimateLosses {
    /// A kernel's time of a step whose lane time is not known.
    pub unpaired_steps: u64,
    /// Spans that came after two later steps of their kernel, or while another
    /// thread stayed inside the same sums.
    pub missed_spans: u64,
    /// Spans of a kernel and lane that found 512 such pairs before them.
    pub rowless_spans: u64,
}

impl EstimateLosses {
    /// Adds those of another GPU or process.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            unpaired_steps: self.unpaired_steps + other.unpaired_steps,
            missed_spans: self.missed_spans + other.missed_spans,
            rowless_spans: self.rowless_spans + other.rowless_spans,
        }
    }
}

/// The step and the lane of launches, in the window.
struct At<'a> {
    window: u64,
    step: u64,
    lane: usize,
    armed: bool,
    times: &'a LaneTimes,
}

/// A step's number as a word that is not 0.
fn step_word(step: u64) -> u64 {
    step.wrapping_add(1)
}

impl<const PLACES: usize> Estimates<PLACES> {
    const_fn! {
        pub(super) const fn new() -> Self {
            Self {
                window: AtomicU64::new(1),
                lanes: array_of!(LaneTimes::new()),
                covered: array_of!(KernelTimes::new()),
                index: array_of!([const { AtomicU16::new(0) }; _]),
                rows: array_of!(KernelTimes::new()),
                used: AtomicU64::new(0),
                unpaired: Counter::new(),
                missed: Counter::new(),
                full: Counter::new(),
            }
        }
    }

    /// Begins a window at step `step`.
    pub(super) fn restart(&self, step: u64) {
        self.window.store(step_word(step), Ordering::Relaxed);
    }

    /// The window, if `step` is in it.
    fn window_of(&self, step: Option<u64>) -> Option<(u64, u64)> {
        let window = self.window.load(Ordering::Relaxed);
        let step = step.filter(|step| step_word(*step) >= window)?;
        Some((window, step))
    }

    /// Counts a landed span of a lane.
    #[inline]
    pub(super) fn land_lane(&self, lane: usize, step: Option<u64>, armed: bool, ns: u64) {
        let (Some((window, step)), Some(times)) = (self.window_of(step), self.lanes.get(lane))
        else {
            return;
        };
        match times.land(window, step, armed, ns) {
            Land::Counted => {}
            Land::Sweep => self.sweep(lane, times),
            Land::Missed => self.missed.add(1),
        }
    }

    /// Adds the steps that wait to their sums, before their lane time is
    /// forgotten: a kernel that comes seldom does not do so itself. Once in 64
    /// armed steps, some microseconds.
    #[cold]
    fn sweep(&self, lane: usize, times: &LaneTimes) {
        let rows = self
            .index
            .iter()
            .filter_map(|entries| self.row(entries.get(lane)?));
        for row in self.covered.get(lane).into_iter().chain(rows) {
            row.sweep(|step| times.of_old_step(step));
        }
    }

    /// Counts `count` landed launches of the kernel at `place` of the kernel
    /// table, if it has one. They took `ns`.
    pub(super) fn land_kernel(&self, place: Option<usize>, tag: &SpanTag, count: u64, ns: u64) {
        let Some(at) = self.at(tag) else {
            return;
        };
        match place.and_then(|place| self.row_for(place, at.lane)) {
            Some(row) => self.land(row, &at, count, ns),
            None => self.full.add(count),
        }
    }

    /// Counts what all kernels of a lane took: its covered time.
    pub(super) fn land_covered(&self, tag: &SpanTag, count: u64, ns: u64) {
        if let Some(at) = self.at(tag)
            && let Some(covered) = self.covered.get(at.lane)
        {
            self.land(covered, &at, count, ns);
        }
    }

    /// Where launches of that tag count, if they do.
    fn at(&self, tag: &SpanTag) -> Option<At<'_>> {
        let lane = tag.lane?;
        let times = self.lanes.get(lane)?;
        let (window, step) = self.window_of(tag.step)?;
        Some(At {
            window,
            step,
            lane,
            armed: tag.armed,
            times,
        })
    }

    fn land(&self, sums: &KernelTimes, at: &At<'_>, count: u64, ns: u64) {
        // Of launches sampled one by one the lane's time is not asked for.
        let fold = if at.armed {
            sums.land(at.window, at.step, ns, |step| at.times.of_step(step))
        } else {
            sums.land(at.window, at.step, ns, |_| Some(0))
        };
        match fold {
            Fold::Counted => {}
            Fold::Unpaired => self.unpaired.add(1),
            Fold::Missed => self.missed.add(count),
        }
    }

    /// The row of an entry of the index, if it has one.
    fn row(&self, entry: &AtomicU16) -> Option<&KernelTimes> {
        // Relaxed: a row is in place from the start, so finding its number
        // leads to nothing that had to be published with it.
        let number = entry.load(Ordering::Relaxed);
        self.rows.get(usize::from(number).checked_sub(1)?)
    }

    /// As [`row`](Self::row); it gets one the first time, if there is one left.
    fn row_for(&self, place: usize, lane: usize) -> Option<&KernelTimes> {
        let entry = self.index.get(place)?.get(lane)?;
        self.row(entry).or_else(|| {
            self.claim(entry);
            self.row(entry)
        })
    }

    #[cold]
    fn claim(&self, entry: &AtomicU16) {
        let nth = self.used.fetch_add(1, Ordering::Relaxed);
        let number = u16::try_from(nth + 1)
            .ok()
            .filter(|number| usize::from(*number) <= ROWS)
            .unwrap_or(FULL);
        // Relaxed: the loser takes the winner's row, and a row is in place from
        // the start. Where another thread was first its row counts, and this one is lost.
        let _ = entry.compare_exchange(0, number, Ordering::Relaxed, Ordering::Relaxed);
    }

    fn sums(&self, lane: usize) -> Option<(u64, LaneSums)> {
        let window = self.window.load(Ordering::Relaxed);
        Some((window, self.lanes.get(lane)?.sums(window)?))
    }

    /// What a lane took. A lane outside the lanes took nothing.
    pub(super) fn lane(&self, lane: usize, sampling: Sampling, every: u64) -> LaneEstimate {
        let (Some((window, sums)), Some(covered)) = (self.sums(lane), self.covered.get(lane))
        else {
            return LaneEstimate::default();
        };
        LaneEstimate {
            total_ns: sums.total_ns,
            steps: sums.steps,
            armed_steps: sums.armed_steps,
            armed_ns: sums.armed_ns,
            covered: estimate(covered, window, &sums, sampling, every),
        }
    }

    /// What each kernel took in a lane, for the kernels at `places` as pairs of
    /// place and row.
    pub(super) fn kernels(
        &self,
        lane: usize,
        sampling: Sampling,
        every: u64,
        places: &[(usize, u64)],
    ) -> Vec<KernelEstimate> {
        let Some((window, sums)) = self.sums(lane) else {
            return Vec::new();
        };
        let one = |&(place, func): &(usize, u64)| {
            let row = self.row(self.index.get(place)?.get(lane)?)?;
            let estimate = estimate(row, window, &sums, sampling, every)?;
            (estimate.steps > 0).then_some(KernelEstimate {
                func,
                lane,
                estimate,
            })
        };
        places.iter().filter_map(one).collect()
    }

    pub(super) fn losses(&self) -> EstimateLosses {
        EstimateLosses {
            unpaired_steps: self.unpaired.get(),
            missed_spans: self.missed.get(),
            rowless_spans: self.full.get(),
        }
    }
}

fn estimate(
    row: &KernelTimes,
    window: u64,
    lane: &LaneSums,
    sampling: Sampling,
    every: u64,
) -> Option<Estimate> {
    let spread = sampling == Sampling::Spread;
    let lane_ns = |step| if spread { Some(0) } else { lane.of_step(step) };
    let kernel = row.sums(window, lane_ns)?;
    if spread {
        statistics::of_spread(&kernel, lane, every)
    } else {
        statistics::of_armed(&kernel, lane)
    }
}
