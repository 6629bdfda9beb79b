// SPDX-License-Identifier: MIT OR Apache-2.0
//! How long a section may go on: until its time is used up or its count is
//! full, whichever comes first.

use std::time::{Duration, Instant};

/// What is left to a section.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    ends: Instant,
    /// Only a few of everything.
    pub(crate) quick: bool,
}

/// Most rounds of anything where only a look is asked for.
const QUICK_ROUNDS: u32 = 4;

impl Budget {
    pub(crate) fn new(time: Duration, quick: bool) -> Self {
        Self { ends: Instant::now() + time, quick }
    }

    /// A part of what is left: `1 / parts` of the time.
    pub(crate) fn part(&self, parts: u32) -> Self {
        let left = self.ends.saturating_duration_since(Instant::now());
        Self::new(left / parts.max(1), self.quick)
    }

    /// Rounds from 0: at least `least`, at most `most` (few where a quick run
    /// is asked for), and none begins after the time is used up.
    pub(crate) fn rounds(&self, least: u32, most: u32) -> impl Iterator<Item = u32> + use<> {
        let most = if self.quick { most.min(least.max(QUICK_ROUNDS)) } else { most };
        let ends = self.ends;
        (0..most).take_while(move |round| *round < least || Instant::now() < ends)
    }
}

#[cfg(test)]
mod tests {
    use super::{Budget, QUICK_ROUNDS};
    use std::time::Duration;

    #[test]
    fn rounds_end_by_count_and_by_time() {
        let long = Budget::new(Duration::from_secs(3600), false);
        assert_eq!(long.rounds(1, 100).count(), 100);
        let over = Budget::new(Duration::ZERO, false);
        assert_eq!(over.rounds(3, 100).count(), 3);
        assert_eq!(over.rounds(0, 100).count(), 0);
    }

    #[test]
    fn a_quick_run_is_short_but_not_shorter_than_it_must() {
        let quick = Budget::new(Duration::from_secs(3600), true);
        assert_eq!(quick.rounds(1, 100).count(), QUICK_ROUNDS as usize);
        assert_eq!(quick.rounds(6, 100).count(), 6);
        assert_eq!(quick.rounds(1, 2).count(), 2);
    }
}
