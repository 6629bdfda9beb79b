// SPDX-License-Identifier: MIT OR Apache-2.0
//! Armed steps, as a recorder has them: a ring for lanes and one for launches,
//! a table that counts each step's spans, and the fold that lays it out.

use crate::events::Placed;
use crate::spans::kernel;
use metrale_telemetry::kernel::{
    KernelInstruments, LANE_DECODE, SpanKey, SpanRing, SpanTag, StepId,
};
use metrale_telemetry::runtime::{Entered, Fold, StepTable};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// What an empty pair reads, ns.
const FLOOR_NS: u64 = 1_500;

/// See the module. One step after the other, of one lane and one stream.
#[derive(Debug)]
pub struct Armed {
    lanes: SpanRing<Placed>,
    launches: SpanRing<Placed>,
    to_step: usize,
    table: StepTable,
    fold: Mutex<Fold>,
    tracks: AtomicU32,
}

impl Armed {
    /// Steps of `to_step` launches, in rings with room for `steps` of them.
    #[must_use]
    pub fn new(steps: usize, to_step: usize) -> Self {
        let (lanes, launches) = Placed::steps(to_step);
        Self {
            lanes: SpanRing::new(lanes, steps),
            launches: SpanRing::new(launches, steps * to_step),
            to_step,
            table: StepTable::new(),
            fold: Mutex::default(),
            tracks: AtomicU32::new(0),
        }
    }

    /// Begins and ends `steps` steps.
    ///
    /// # Panics
    /// Where a ring has no slot for a span.
    pub fn fill(&self, steps: usize) {
        for _ in 0..steps {
            let track = self.tracks.fetch_add(1, Relaxed);
            self.begin_and_end(track, 0..1, &self.lanes, |_| SpanKey::Lane(LANE_DECODE));
            let launch = |nth| SpanKey::Kernel(kernel(nth));
            self.begin_and_end(track, 0..self.to_step, &self.launches, launch);
            self.table.close(track);
        }
    }

    #[inline]
    fn begin_and_end(
        &self,
        track: u32,
        spans: std::ops::Range<usize>,
        ring: &SpanRing<Placed>,
        key: impl Fn(usize) -> SpanKey,
    ) {
        for nth in spans {
            match self.table.enter(track, u64::from(track), true) {
                Entered::First(taking) => taking.placed(),
                Entered::Counted => {}
                Entered::Alone => panic!("the table does not follow step {track}"),
            }
            let tag = SpanTag { armed: true, lane: Some(LANE_DECODE), step: StepId::Track(track) };
            let token = ring.begin_tagged(key(nth), tag, 1).expect("a free slot");
            ring.end_span(token, 1).expect("an open span");
        }
    }

    /// Lands what is there and folds the steps that are complete; how many
    /// launches landed. `between` is called between the two.
    pub fn harvest(&self, into: &KernelInstruments, between: impl FnOnce()) -> usize {
        let mut fold = self.fold.lock().unwrap_or_else(PoisonError::into_inner);
        let mut folding = fold.harvest(&self.table, into);
        folding.pass(&self.lanes);
        let landed = folding.pass(&self.launches);
        between();
        let newest = self.tracks.load(Relaxed).wrapping_sub(1);
        folding.finish(newest, Some(FLOOR_NS));
        landed
    }

    /// Whether no step waits to be folded.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.table.is_idle()
    }
}

#[cfg(test)]
mod tests {
    use super::Armed;
    use crate::events::{GAP_NS, SPAN_NS};
    use metrale_telemetry::Telemetry;
    use metrale_telemetry::kernel::{LANE_DECODE, StepLosses};

    /// Else the benchmark would measure steps that are not laid out.
    #[test]
    fn each_step_is_laid_out() {
        static TELEMETRY: Telemetry = Telemetry::new();
        let (armed, into) = (Armed::new(5, 100), TELEMETRY.instruments());
        for _ in 0..3 {
            armed.fill(4);
            assert_eq!(armed.harvest(into, || ()), 400);
            assert!(armed.is_idle());
        }
        assert_eq!(TELEMETRY.step_losses(), StepLosses::default());
        let figures = TELEMETRY.snapshot().lanes[LANE_DECODE].figures;
        let figures = figures.expect("laid out");
        assert_eq!((figures.steps, figures.waits), (12, 12 * 99));
        assert_eq!(figures.busy_ns, 12 * 100 * SPAN_NS);
        assert_eq!(figures.waited_ns, 12 * 99 * GAP_NS);
        assert_eq!((figures.lead_ns, figures.tail_ns), (0, 12 * GAP_NS));
    }
}
