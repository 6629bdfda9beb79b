// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which lanes the lost work of a step was of: a step may have lost a launch of a
//! lane of which it has no span, and then nothing bounds what it took.
//!
//! 1. A word has a track and a bit for each lane. Words of an entry go from track to
//!    later track, so nobody who comes late changes those of a later step; and only
//!    once the entry is that step's, so the lanes of an earlier one are kept as long
//!    as it waits.
//! 2. A lane is noted before the step's word says that work was lost, and is read
//!    after that: whoever finds the loss finds its lane.

use super::{FOLLOWED_STEPS, entry_of, is_later};
use crate::kernel::MAX_LANES;
use crate::sync::{AtomicU64, Ordering};

const TRACK_SHIFT: u32 = 32;

/// See the module.
pub(super) struct LostLanes([AtomicU64; FOLLOWED_STEPS]);

impl LostLanes {
    /// `before` is the track that comes before an entry's first one.
    pub(super) fn new(before: impl Fn(usize) -> u32) -> Self {
        Self(std::array::from_fn(|entry| AtomicU64::new(u64::from(before(entry)) << TRACK_SHIFT)))
    }

    /// Notes the lane of work that the step on `track` lost, if it was of one.
    pub(super) fn note(&self, track: u32, lane: Option<usize>) {
        let Some(lane) = lane.filter(|lane| *lane < MAX_LANES) else {
            return;
        };
        let next = |seen: u64| {
            let of = (seen >> TRACK_SHIFT) as u32;
            let before = if of == track { Some(seen) } else { None };
            let first = is_later(track, of).then_some(u64::from(track) << TRACK_SHIFT);
            Some(before.or(first)? | 1 << lane)
        };
        // Relaxed: the step's word publishes. One that is turned away is of a step
        // that is over.
        let _ = self.0[entry_of(track)].fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
    }

    /// The lanes of the step on `track`, a bit each.
    pub(super) fn of(&self, track: u32) -> u32 {
        // Relaxed: the step's word was read before.
        let word = self.0[entry_of(track)].load(Ordering::Relaxed);
        if (word >> TRACK_SHIFT) as u32 == track { word as u32 } else { 0 }
    }
}
