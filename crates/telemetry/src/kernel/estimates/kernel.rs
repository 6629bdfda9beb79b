// SPDX-License-Identifier: MIT OR Apache-2.0
//! A kernel's time by step, in one lane: sums over the steps that had it.
//!
//! A step waits until its launches have landed and the lane's time is known: it
//! is added to the sums when the kernel's second step after it appears, or when
//! the lane's sweep finds it, whichever is first.

use super::step_word;
use super::together::{Together, Words, WordsMut};
use crate::sync::const_fn;

/// The newest step, and the one before it, while they wait: a step's word or 0,
/// and the kernel's time.
const STEP: usize = 0;
const STEP_NS: usize = 1;
const BEFORE: usize = 2;
const BEFORE_NS: usize = 3;
/// What was added to the sums: how many steps, the newest of them, their time.
const STEPS: usize = 4;
const ADDED: usize = 5;
const SUM_NS: usize = 6;
/// Sums of x² and of x·y, for the kernel's time x and the lane's time y of a
/// step: floats.
const SQUARES: usize = 7;
const PRODUCTS: usize = 8;

pub(super) struct KernelTimes(Together<9>);

/// A kernel's sums at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct KernelSums {
    /// Steps that had it.
    pub(super) steps: u64,
    /// Its time in them.
    pub(super) sum_ns: u64,
    pub(super) squares: f64,
    pub(super) products: f64,
}

impl KernelSums {
    fn read(words: &Words<'_>) -> Self {
        Self {
            steps: words.get(STEPS),
            sum_ns: words.get(SUM_NS),
            squares: words.float(SQUARES),
            products: words.float(PRODUCTS),
        }
    }

    fn write(self, words: &mut WordsMut<'_>) {
        words.set(STEPS, self.steps);
        words.set(SUM_NS, self.sum_ns);
        words.set(SQUARES, self.squares.to_bits());
        words.set(PRODUCTS, self.products.to_bits());
    }

    /// Adds a step in which the kernel took `ns`, and the lane `lane_ns`.
    fn add(&mut self, ns: u64, lane_ns: u64) {
        self.steps += 1;
        self.sum_ns = self.sum_ns.wrapping_add(ns);
        self.squares += (ns as f64).powi(2);
        self.products += ns as f64 * lane_ns as f64;
    }
}

/// What became of a landed launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fold {
    /// It is counted.
    Counted,
    /// It is, and the lane's time of an earlier step was not known: that step
    /// is left out.
    Unpaired,
    /// It came after two later steps, or another thread was in the way.
    Missed,
}

impl KernelTimes {
    const_fn! {
        pub(super) const fn new() -> Self {
            Self(Together::new())
        }
    }

    /// Counts a landed launch of `ns` in `step`. What belongs to a window before
    /// `window` goes. `lane_ns` tells the lane's time of a step, by its word.
    pub(super) fn land(
        &self,
        window: u64,
        step: u64,
        ns: u64,
        lane_ns: impl Fn(u64) -> Option<u64>,
    ) -> Fold {
        let step = step_word(step);
        let mut fold = Fold::Counted;
        let changed = self.0.change(|words| {
            if newest(words) < window {
                words.clear();
            }
            if step == words.get(STEP) {
                words.add(STEP_NS, ns);
            } else if step == words.get(BEFORE) {
                words.add(BEFORE_NS, ns);
            } else if step < newest(words) {
                fold = Fold::Missed;
            } else {
                if words.get(BEFORE) != 0 && !settle(words, BEFORE, &lane_ns) {
                    fold = Fold::Unpaired;
                }
                words.set(BEFORE, words.get(STEP));
                words.set(BEFORE_NS, words.get(STEP_NS));
                words.set(STEP, step);
                words.set(STEP_NS, ns);
            }
        });
        if changed { fold } else { Fold::Missed }
    }

    /// Adds the steps that wait to the sums, where `lane_ns` tells the lane's
    /// time.
    pub(super) fn sweep(&self, lane_ns: impl Fn(u64) -> Option<u64>) {
        // Where another thread is in the way, the next sweep comes in time.
        let _ = self.0.change(|words| {
            for at in [BEFORE, STEP] {
                if words.get(at) != 0 && settle(words, at, &lane_ns) {
                    words.set(at, 0);
                }
            }
        });
    }

    /// The sums of the window that begins with `window`, with the last two steps
    /// where the lane's time is known; `None` where a thread stays inside a
    /// change.
    pub(super) fn sums(
        &self,
        window: u64,
        lane_ns: impl Fn(u64) -> Option<u64>,
    ) -> Option<KernelSums> {
        self.0.read(|words| {
            let mut sums = KernelSums::default();
            if newest(words) < window {
                return sums;
            }
            sums = KernelSums::read(words);
            for at in [BEFORE, STEP] {
                let step = words.get(at);
                if step != 0
                    && let Some(lane_ns) = lane_ns(step)
                {
                    sums.add(words.get(at + 1), lane_ns);
                }
            }
            sums
        })
    }
}

/// The newest step that the words know of.
fn newest(words: &Words<'_>) -> u64 {
    words.get(STEP).max(words.get(ADDED))
}

/// Adds the step that waits at `at` to the sums; `false`: the lane's time is not
/// known.
fn settle(words: &mut WordsMut<'_>, at: usize, lane_ns: impl Fn(u64) -> Option<u64>) -> bool {
    let (step, x) = (words.get(at), words.get(at + 1));
    let Some(y) = lane_ns(step) else {
        return false;
    };
    let mut sums = KernelSums::read(words);
    sums.add(x, y);
    sums.write(words);
    words.set(ADDED, step.max(words.get(ADDED)));
    true
}
