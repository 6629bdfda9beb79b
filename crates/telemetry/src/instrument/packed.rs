// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cells whose count and sum share one word, so that an observation is one
//! read-modify-write and the two can never disagree.
//!
//! Rules:
//!
//! 1. A cell holds `count << COUNT_SHIFT | sum` of what was observed since its
//!    last fold. An observer adds `1 << COUNT_SHIFT | ns` in one step.
//! 2. An observer that sees the top bit of either field set *folds*: it moves
//!    the cell's content into the wide pair beside it. `started` and `done`
//!    bracket every fold, of any cell.
//! 3. A reader's copy is exact if as many folds were done before it as have
//!    started after it: then none was under way, and none began, in between.
//! 4. Observers and folders never wait. A reader tries again while folds
//!    interfere: a fold happens once in 2^15 observations of a cell.
//!
//! Overflow: a field has as much room above its fold bit as below it. Where an
//! observer adds less than 2^37 ns and at most `MAX_ADD` observations at a
//! time, 1,024 threads may do so between a fold bit being set and the fold, and
//! the sum stays under 2^48, the count under 2^16; larger values must use
//! [`PackedCells::add_wide`]. A sum past 2^64 ns stays there: it never falls.

use crate::sync::{AtomicU64, Ordering, array_of, const_fn, fence, spin_loop};

/// Bits below the count. The checker gets a two-bit count, so that its handful
/// of observations reaches a fold.
const COUNT_SHIFT: u32 = if cfg!(metrale_loom) { 62 } else { 48 };
const SUM_MASK: u64 = (1 << COUNT_SHIFT) - 1;
const FOLD: u64 = (1 << 63) | (1 << (COUNT_SHIFT - 1));

/// Observations that one `add_many` may add.
pub(crate) const MAX_ADD: u64 = if cfg!(metrale_loom) { 1 } else { 32 };
/// A sum that is too large for one `add_many`.
pub(crate) const TOO_LONG_NS: u64 = 1 << 37;
/// Threads that may add between a fold bit being set and the fold.
const ADDERS: u64 = if cfg!(metrale_loom) { 2 } else { 1_024 };
#[allow(clippy::disallowed_macros, reason = "asked at compile time")]
const _: () = assert!(ADDERS * MAX_ADD <= 1 << (63 - COUNT_SHIFT));
#[allow(clippy::disallowed_macros, reason = "asked at compile time")]
const _: () = assert!(ADDERS * TOO_LONG_NS <= 1 << (COUNT_SHIFT - 1));

/// How often a reader tries for an exact copy. A folder needs a few
/// nanoseconds; only a thread suspended inside a fold outlasts this.
const READ_TRIES: usize = if cfg!(metrale_loom) { 2 } else { 10_000 };
/// Tries before the reader gives its core to a suspended folder.
const SPIN_TRIES: usize = 64;

#[derive(Debug)]
struct Wide {
    count: AtomicU64,
    sum: AtomicU64,
}

/// `N` one-word cells of count and nanosecond sum, with their wide totals.
#[derive(Debug)]
pub struct PackedCells<const N: usize> {
    cells: [AtomicU64; N],
    started: AtomicU64,
    done: AtomicU64,
    wide: [Wide; N],
}

impl<const N: usize> PackedCells<N> {
    const_fn! {
        /// All cells at zero.
        #[must_use]
        pub const fn new() -> Self {
            Self {
                cells: array_of!(AtomicU64::new(0)),
                started: AtomicU64::new(0),
                done: AtomicU64::new(0),
                wide: array_of!(Wide { count: AtomicU64::new(0), sum: AtomicU64::new(0) }),
            }
        }
    }

    /// Adds one observation of `ns` to cell `index`; `ns` is under 2^37.
    #[inline]
    pub fn add(&self, index: usize, ns: u64) {
        self.add_many(index, 1, ns);
    }

    /// Adds up to `MAX_ADD` observations to cell `index`, whose sum `ns` is
    /// under 2^37.
    #[inline]
    pub(crate) fn add_many(&self, index: usize, count: u64, ns: u64) {
        let Some(cell) = self.cells.get(index) else {
            return;
        };
        let more = (count << COUNT_SHIFT) | ns;
        // Relaxed: one word, nothing to publish; continues the release sequence of a fold.
        let now = cell.fetch_add(more, Ordering::Relaxed).wrapping_add(more);
        if now & FOLD != 0 {
            self.fold(index);
        }
    }

    /// Adds one observation of any size, past the cell and its field widths.
    #[cold]
    pub fn add_wide(&self, index: usize, ns: u64) {
        if let Some(wide) = self.wide.get(index) {
            self.folding(|| add_to(wide, 1, ns));
        }
    }

    #[cold]
    fn fold(&self, index: usize) {
        let (Some(cell), Some(wide)) = (self.cells.get(index), self.wide.get(index)) else {
            return;
        };
        self.folding(|| {
            // Relaxed: published by the fence of `folding`.
            let content = cell.swap(0, Ordering::Relaxed);
            add_to(wide, content >> COUNT_SHIFT, content & SUM_MASK);
        });
    }

    fn folding(&self, work: impl FnOnce()) {
        // Relaxed: published by the fence.
        self.started.fetch_add(1, Ordering::Relaxed);
        // Release: who sees the emptied cell, a sum built on it, or part of the
        // wide pair also sees `started` moved (partner: the fence of `try_copy`).
        // Model: cells::a_fold_against_a_reader.
        fence(Ordering::Release);
        work();
        // Release: a reader that counts this fold as done sees what it wrote
        // (partner: the load of `done` in `try_copy`).
        // Model: cells::a_fold_against_a_reader.
        self.done.fetch_add(1, Ordering::Release);
    }

    /// Reads every cell as (count, sum in ns) into `visit`, in order. `true`:
    /// each pair is whole, and holds all that was observed before the call.
    /// `false`, only while a thread stays suspended inside a fold: what was
    /// read may miss or repeat that fold's content.
    pub fn read(&self, mut visit: impl FnMut(usize, u64, u64)) -> bool {
        let mut copy = [(0u64, 0u64); N];
        let mut exact = false;
        for attempt in 0..READ_TRIES {
            exact = self.try_copy(&mut copy);
            if exact {
                break;
            }
            if attempt < SPIN_TRIES {
                spin_loop();
            } else {
                std::thread::sleep(std::time::Duration::from_micros(50));
            }
        }
        for (index, (count, sum)) in copy.into_iter().enumerate() {
            visit(index, count, sum);
        }
        exact
    }

    fn try_copy(&self, copy: &mut [(u64, u64); N]) -> bool {
        // Acquire: what every fold counted here wrote is in the copy (partner:
        // the increment of `done` in `folding`).
        // Model: cells::a_fold_against_a_reader.
        let done = self.done.load(Ordering::Acquire);
        for ((cell, wide), out) in self.cells.iter().zip(&self.wide).zip(copy.iter_mut()) {
            // Relaxed: before the fence.
            let content = cell.load(Ordering::Relaxed);
            let count = wide.count.load(Ordering::Relaxed);
            let sum = wide.sum.load(Ordering::Relaxed);
            *out = (
                count.wrapping_add(content >> COUNT_SHIFT),
                sum.saturating_add(content & SUM_MASK),
            );
        }
        // Acquire: a fold of which anything was copied is among those counted
        // below (partner: the fence of `folding`).
        // Model: cells::a_fold_against_a_reader.
        fence(Ordering::Acquire);
        // Relaxed: after the fence.
        self.started.load(Ordering::Relaxed) == done
    }
}

impl<const N: usize> Default for PackedCells<N> {
    fn default() -> Self {
        Self::new()
    }
}

fn add_to(wide: &Wide, count: u64, sum: u64) {
    // Relaxed: published by the fence of `folding`.
    wide.count.fetch_add(count, Ordering::Relaxed);
    let before = wide.sum.fetch_add(sum, Ordering::Relaxed);
    if before.checked_add(sum).is_none() {
        // Relaxed: published by the same fence; no exact copy holds what it was in between.
        wide.sum.fetch_max(u64::MAX, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(metrale_loom)))]
mod tests {
    use super::PackedCells;

    fn totals<const N: usize>(cells: &PackedCells<N>) -> Vec<(u64, u64)> {
        let mut out = Vec::new();
        assert!(cells.read(|_, count, sum| out.push((count, sum))));
        out
    }

    #[test]
    fn wide_values_and_stray_indexes() {
        let cells = PackedCells::<1>::new();
        cells.add_wide(0, u64::MAX >> 1);
        cells.add(7, 1);
        cells.add_wide(7, 1);
        assert_eq!(totals(&cells), [(1, u64::MAX >> 1)]);
    }

    #[test]
    fn a_sum_stays_at_the_most_that_it_holds() {
        let cells = PackedCells::<1>::new();
        cells.add_wide(0, u64::MAX - 1);
        for count in 2..70_000 {
            cells.add(0, 7);
            if count % 1_000 == 0 {
                assert_eq!(totals(&cells), [(count, u64::MAX)]);
            }
        }
        cells.add_wide(0, u64::MAX);
        assert_eq!(totals(&cells), [(70_000, u64::MAX)]);
    }
}
