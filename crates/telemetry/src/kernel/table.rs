// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table of kernels: GPU time and samples by function handle.
//!
//! Open addressing with linear probing from a Fibonacci hash. A row is claimed
//! once and never freed, so a probe ends at the handle or at an empty place.
//! At most half of the places are used, so there always is one.

use crate::instrument::TOO_LONG_NS;
use crate::instrument::packed::PackedCells;
use crate::sync::{AtomicU64, Mutex, Ordering, array_of, const_fn, lock};

/// How many kernels the table holds; the checker, which follows every word,
/// gets a few.
pub const KERNEL_TABLE_SLOTS: usize = if cfg!(metrale_loom) { 2 } else { 512 };

/// Time by kernel, for `PLACES / 2` kernels; `PLACES` is a power of two.
#[derive(Debug)]
pub struct KernelTable<const PLACES: usize> {
    keys: [AtomicU64; PLACES],
    cells: PackedCells<PLACES>,
    /// How many rows are taken. Held while a row is claimed, which happens
    /// once for each kernel of a process; readers and hits never take it.
    used: Mutex<usize>,
    /// 1 once all rows are taken, for ever: a kernel without one is then turned
    /// away without the lock.
    full: AtomicU64,
}

/// Where a handle's probe ended.
enum Probe {
    Row(usize),
    Empty(usize),
    Full,
}

/// 2^64 divided by the golden ratio, made odd: the multiplier of a Fibonacci
/// hash, which spreads the aligned handles that an allocator hands out.
const FIBONACCI: u64 = 0x9e37_79b9_7f4a_7c15;

impl<const PLACES: usize> KernelTable<PLACES> {
    const_fn! {
        /// An empty table.
        #[must_use]
        #[allow(clippy::disallowed_macros, reason = "asked at compile time")]
        pub const fn new() -> Self {
            const { assert!(PLACES.is_power_of_two() && PLACES >= 2) }
            Self {
                keys: array_of!(AtomicU64::new(0)),
                cells: PackedCells::new(),
                used: Mutex::new(0),
                full: AtomicU64::new(0),
            }
        }
    }

    /// Adds one sample of `ns` to the row of `func`. `false`: there is no row,
    /// because `func` is 0 or finds the table full.
    #[inline]
    #[must_use]
    pub fn record(&self, func: u64, ns: u64) -> bool {
        let place = self.place(func);
        if let Some(place) = place {
            self.add(place, 1, ns);
        }
        place.is_some()
    }

    /// The place of the kernel's row, which it gets now if it had none; `None`:
    /// there is none, because `func` is 0 or finds the table full.
    #[inline]
    pub(super) fn place(&self, func: u64) -> Option<usize> {
        match self.probe(func) {
            _ if func == 0 => None,
            Probe::Row(row) => Some(row),
            Probe::Empty(_) | Probe::Full => self.miss(func),
        }
    }

    /// The place of the kernel's row, if it is where a probe begins: most are.
    #[inline]
    pub(super) fn first_place(&self, func: u64) -> Option<usize> {
        let first = Self::first(func);
        let found = self.keys[first].load(Ordering::Relaxed) == func && func != 0;
        found.then_some(first)
    }

    /// Adds to the row at `place` one sample of any size, or up to `MAX_ADD`
    /// whose sum `ns` is under `TOO_LONG_NS`.
    #[inline]
    pub(super) fn add(&self, place: usize, samples: u64, ns: u64) {
        if ns < TOO_LONG_NS {
            self.cells.add_many(place, samples, ns);
        } else {
            self.cells.add_wide(place, ns);
        }
    }

    /// Where the probe for a handle begins.
    #[inline]
    fn first(func: u64) -> usize {
        let bits = PLACES.trailing_zeros();
        (func.wrapping_mul(FIBONACCI) >> (64 - bits)) as usize
    }

    fn probe(&self, func: u64) -> Probe {
        let first = Self::first(func);
        for step in 0..PLACES {
            let place = (first + step) & (PLACES - 1);
            // Relaxed: a row's cell is in place from the start, so finding the
            // key leads to nothing that had to be published with it.
            match self.keys[place].load(Ordering::Relaxed) {
                0 => return Probe::Empty(place),
                key if key == func => return Probe::Row(place),
                _ => {}
            }
        }
        Probe::Full
    }

    /// The row of a kernel that a first look did not find.
    #[cold]
    fn miss(&self, func: u64) -> Option<usize> {
        // Acquire: every row is in sight (partner: the store of `claim`), so a
        // second look decides.
        // Model: table::a_row_claimed_by_two_at_once.
        if self.full.load(Ordering::Acquire) == 0 {
            return self.claim(func);
        }
        if let Probe::Row(row) = self.probe(func) { Some(row) } else { None }
    }

    fn claim(&self, func: u64) -> Option<usize> {
        let mut used = lock(&self.used);
        // Another thread may have claimed the row, or the place, since.
        match self.probe(func) {
            Probe::Row(row) => Some(row),
            Probe::Empty(place) if *used < PLACES / 2 => {
                *used += 1;
                // Relaxed: under the lock that orders claims.
                self.keys[place].store(func, Ordering::Relaxed);
                if *used == PLACES / 2 {
                    // Release: the keys of all rows come before it (partner:
                    // the load of `miss`).
                    // Model: table::a_row_claimed_by_two_at_once.
                    self.full.store(1, Ordering::Release);
                }
                Some(place)
            }
            Probe::Empty(_) | Probe::Full => None,
        }
    }

    /// Every kernel with at least one sample, as (handle, nanoseconds, samples).
    /// Only while a thread stays suspended inside a fold for the half second
    /// that this tries may a row miss or repeat that fold's content.
    #[must_use]
    pub fn rows(&self) -> Vec<(u64, u64, u64)> {
        let rows = self.placed().into_iter();
        rows.map(|(_, func, ns, samples)| (func, ns, samples)).collect()
    }

    /// As [`rows`](Self::rows), each with its place before it.
    pub(super) fn placed(&self) -> Vec<(usize, u64, u64, u64)> {
        let mut rows = Vec::new();
        self.each_row(|place, func, ns, samples| rows.push((place, func, ns, samples)));
        rows
    }

    /// As `placed`, one by one: it allocates nothing.
    pub(super) fn each_row(&self, mut visit: impl FnMut(usize, u64, u64, u64)) {
        self.cells.read(|place, samples, ns| {
            // Relaxed: a sample may become visible before its row's key. It is
            // then still in progress for this reader, who leaves it for later.
            let func = self.keys[place].load(Ordering::Relaxed);
            if samples > 0 && func != 0 {
                visit(place, func, ns, samples);
            }
        });
    }
}

impl<const PLACES: usize> Default for KernelTable<PLACES> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(metrale_loom)))]
mod tests {
    use super::KernelTable;

    #[test]
    fn threads_that_meet_a_kernel_at_once_share_its_row() {
        for round in 0..200 {
            let table = KernelTable::<8>::new();
            let barrier = std::sync::Barrier::new(2);
            std::thread::scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(|| {
                        barrier.wait();
                        assert!(table.record(77 + round, 3));
                    });
                }
            });
            assert_eq!(table.rows(), [(77 + round, 6, 2)]);
        }
    }
}
