// SPDX-License-Identifier: MIT OR Apache-2.0
//! A lane's GPU time by step: its sums over armed steps, and the times of the
//! last of them, against which kernels are weighed.

use super::step_word;
use super::together::{Together, Words, WordsMut};
use crate::sync::const_fn;

/// Armed steps whose lane time is remembered until their kernels have landed.
/// At a harvest every 10 ms that is enough for steps of 80 µs, all armed.
const RECENT: u64 = 256;
/// A sweep comes after so many armed steps, and takes the steps that are at
/// least as old: by then their kernels have landed, and it is well before their
/// lane time is forgotten.
const SWEEP: u64 = 64;

const TOTAL_NS: usize = 0;
const LAST_STEP: usize = 1;
const STEPS: usize = 2;
const ARMED_STEPS: usize = 3;
const ARMED_NS: usize = 4;
/// Sum of the squares of the armed steps' times: a float.
const ARMED_SQUARES: usize = 5;
/// From here on pairs of step and nanoseconds.
const PAIRS: usize = 6;
const WORDS: usize = PAIRS + 2 * RECENT as usize;

pub(super) struct LaneTimes(Together<WORDS>);

/// What became of a landed span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Land {
    /// It is counted.
    Counted,
    /// It is, and the lane's kernels are due for a sweep.
    Sweep,
    /// Another thread was in the way.
    Missed,
}

/// A lane's sums at one moment.
#[derive(Clone, Debug, Default)]
pub(super) struct LaneSums {
    /// GPU time of all its spans.
    pub(super) total_ns: u64,
    /// Steps that had the lane.
    pub(super) steps: u64,
    pub(super) armed_steps: u64,
    pub(super) armed_ns: u64,
    pub(super) armed_squares: f64,
    /// The last armed steps, as words, and their times.
    pub(super) recent: Vec<(u64, u64)>,
}

impl LaneSums {
    /// Lane time of an armed step, if it is known.
    pub(super) fn of_step(&self, step: u64) -> Option<u64> {
        let found = self.recent.iter().find(|pair| pair.0 == step);
        found.map(|pair| pair.1)
    }
}

impl LaneTimes {
    const_fn! {
        pub(super) const fn new() -> Self {
            Self(Together::new())
        }
    }

    /// Counts a landed span. What belongs to a window before `window` goes.
    pub(super) fn land(&self, window: u64, step: u64, armed: bool, ns: u64) -> Land {
        let step = step_word(step);
        let mut land = Land::Counted;
        let changed = self.0.change(|words| {
            if words.get(LAST_STEP) < window {
                words.clear();
            }
            words.add(TOTAL_NS, ns);
            if step > words.get(LAST_STEP) {
                words.set(LAST_STEP, step);
                words.add(STEPS, 1);
            }
            if armed && land_armed(words, step, ns) {
                land = Land::Sweep;
            }
        });
        if changed { land } else { Land::Missed }
    }

    /// Lane time of an armed step, if it is known.
    pub(super) fn of_step(&self, step: u64) -> Option<u64> {
        self.0.read(|words| ns_of(words, step, 0)).flatten()
    }

    /// As [`of_step`](Self::of_step), of a step that a sweep takes.
    pub(super) fn of_old_step(&self, step: u64) -> Option<u64> {
        self.0.read(|words| ns_of(words, step, SWEEP)).flatten()
    }

    /// The sums of the window that begins with `window`; `None` where a thread
    /// stays inside a change.
    pub(super) fn sums(&self, window: u64) -> Option<LaneSums> {
        self.0.read(|words| {
            if words.get(LAST_STEP) < window {
                return LaneSums::default();
            }
            let pairs = (PAIRS..WORDS).step_by(2);
            LaneSums {
                total_ns: words.get(TOTAL_NS),
                steps: words.get(STEPS),
                armed_steps: words.get(ARMED_STEPS),
                armed_ns: words.get(ARMED_NS),
                armed_squares: words.float(ARMED_SQUARES),
                recent: pairs
                    .map(|at| (words.get(at), words.get(at + 1)))
                    .filter(|pair| pair.0 != 0)
                    .collect(),
            }
        })
    }
}

/// Whether a sweep is due.
fn land_armed(words: &mut WordsMut<'_>, step: u64, ns: u64) -> bool {
    let known = place(words, step, 0);
    let at = known.unwrap_or_else(|| {
        let at = pair(words.get(ARMED_STEPS));
        words.set(at, step);
        words.set(at + 1, 0);
        words.add(ARMED_STEPS, 1);
        at
    });
    let (before, more) = (words.get(at + 1) as f64, ns as f64);
    words.add(at + 1, ns);
    words.add(ARMED_NS, ns);
    words.add_float(ARMED_SQUARES, (2.0 * before + more) * more);
    known.is_none() && words.get(ARMED_STEPS).is_multiple_of(SWEEP)
}

/// Where the pair of the armed step `nth` is.
fn pair(nth: u64) -> usize {
    PAIRS + 2 * (nth % RECENT) as usize
}

/// The pair of a step that is at least `age` armed steps old, sought from the
/// newest.
fn place(words: &Words<'_>, step: u64, age: u64) -> Option<usize> {
    let armed = words.get(ARMED_STEPS);
    let oldest = armed.saturating_sub(RECENT);
    (oldest..armed.saturating_sub(age))
        .rev()
        .map(pair)
        .find(|at| words.get(*at) == step)
}

fn ns_of(words: &Words<'_>, step: u64, age: u64) -> Option<u64> {
    Some(words.get(place(words, step, age)? + 1))
}
