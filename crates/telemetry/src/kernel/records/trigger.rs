// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which step is slow enough to begin a recording. Whoever leaves records asks,
//! behind the log's lock, and nothing is allocated.

use super::{RECENT_STEPS, StepRecord};

/// A recording begins at most once in so long.
const AT_MOST_EVERY_NS: u64 = 60_000_000_000;
/// Steps with the lane that a percentile is of, at least.
const ENOUGH_STEPS: usize = 100;
/// Steps after which the percentile is looked up anew.
const LOOK_UP_EVERY: u32 = 256;

/// What makes a step slow: GPU time of one of its lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SlowStep {
    /// More than this.
    LongerThan {
        /// The lane's index.
        lane: usize,
        /// Nanoseconds.
        ns: u64,
    },
    /// More than in 99 of 100 steps with the lane, of the last 1,024 steps; once
    /// there are 100.
    LongerThanP99 {
        /// The lane's index.
        lane: usize,
    },
}

impl SlowStep {
    fn lane(self) -> usize {
        let (Self::LongerThan { lane, .. } | Self::LongerThanP99 { lane }) = self;
        lane
    }
}

/// See the module.
pub(super) struct Trigger {
    slow: SlowStep,
    /// Longer is slow; `None`: that is not known yet.
    limit_ns: Option<u64>,
    /// Steps until the limit is looked up.
    until_look_up: u32,
    /// The step that began the recording, and when it ended.
    pub(super) fired: Option<(StepRecord, u64)>,
}

impl Trigger {
    pub(super) fn new(slow: SlowStep) -> Self {
        Self {
            slow,
            limit_ns: match slow {
                SlowStep::LongerThan { ns, .. } => Some(ns),
                SlowStep::LongerThanP99 { .. } => None,
            },
            until_look_up: 0,
            fired: None,
        }
    }

    /// Whether a step that ended at `ended_ns` begins a recording; `recent` are
    /// the last records before it.
    pub(super) fn fires(
        &mut self,
        step: &StepRecord,
        ended_ns: u64,
        recent: &[StepRecord],
    ) -> bool {
        let lane = self.slow.lane();
        let Some(times) = step.lanes.get(lane).filter(|times| times.spans > 0) else {
            return false;
        };
        if step.marked {
            return false;
        }
        if matches!(self.slow, SlowStep::LongerThanP99 { .. }) {
            if self.until_look_up == 0 {
                self.limit_ns = p99(lane, recent);
                self.until_look_up =
                    if self.limit_ns.is_some() { LOOK_UP_EVERY } else { ENOUGH_STEPS as u32 };
            }
            self.until_look_up -= 1;
        }
        let rested = |last: u64| ended_ns.saturating_sub(last) >= AT_MOST_EVERY_NS;
        let fires = self.limit_ns.is_some_and(|limit_ns| times.gpu_ns > limit_ns)
            && self.fired.as_ref().is_none_or(|(_, last)| rested(*last));
        if fires {
            self.fired = Some((*step, ended_ns));
        }
        fires
    }
}

/// The time that 99 of 100 steps with the lane take at most.
fn p99(lane: usize, recent: &[StepRecord]) -> Option<u64> {
    let mut times = [0; RECENT_STEPS];
    let with_lane = recent.iter().filter_map(|step| step.lanes.get(lane));
    let with_lane = with_lane.filter(|times| times.spans > 0);
    let mut count = 0;
    for (place, lane) in times.iter_mut().zip(with_lane) {
        *place = lane.gpu_ns;
        count += 1;
    }
    let times = times.get_mut(..count).filter(|_| count >= ENOUGH_STEPS)?;
    let (_, limit_ns, _) = times.select_nth_unstable(count * 99 / 100 - 1);
    Some(*limit_ns)
}
