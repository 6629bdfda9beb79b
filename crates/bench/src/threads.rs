// SPDX-License-Identifier: MIT OR Apache-2.0
//! Time on several threads: each measures its own share of the work, between
//! barriers, so that neither starting threads nor waiting for them is counted.

use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// A barrier that yields instead of sleeping: threads that were woken from
/// sleep would start one after the other, and never meet.
struct Barrier {
    threads: usize,
    arrived: AtomicUsize,
    round: AtomicUsize,
}

impl Barrier {
    /// Waits for the others. The last one does `last` before it lets them go.
    fn wait(&self, last: impl FnOnce()) {
        let round = self.round.load(Ordering::Acquire);
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.threads {
            last();
            self.arrived.store(0, Ordering::Relaxed);
            self.round.store(round + 1, Ordering::Release);
        } else {
            while self.round.load(Ordering::Acquire) == round {
                std::thread::yield_now();
            }
        }
    }
}

/// Has `threads` threads do `batch` each of `rounds` rounds of work, calls
/// `between` after each round, and returns the mean time of one piece of work
/// times `pieces`, where a batch is made of `batch_pieces`.
///
/// # Panics
/// Where a thread does.
pub fn busy(
    threads: usize,
    rounds: u64,
    batch_pieces: u64,
    pieces: u64,
    batch: impl Fn(usize) + Sync,
    between: impl Fn() + Sync,
) -> Duration {
    let barrier = Barrier { threads, arrived: AtomicUsize::new(0), round: AtomicUsize::new(0) };
    let share = |thread: usize| {
        let mut spent = Duration::ZERO;
        for _ in 0..rounds {
            barrier.wait(|| ());
            let start = Instant::now();
            batch(black_box(thread));
            spent += start.elapsed();
            barrier.wait(&between);
        }
        spent
    };
    let spent: Duration = if threads == 1 {
        share(0)
    } else {
        std::thread::scope(|scope| {
            let share = &share;
            let workers: Vec<_> = (0..threads).map(|at| scope.spawn(move || share(at))).collect();
            let spent = workers.into_iter().map(|worker| worker.join().expect("no panic"));
            spent.sum()
        })
    };
    let done = threads as f64 * rounds as f64 * batch_pieces as f64;
    spent.mul_f64(pieces as f64 / done)
}

#[cfg(test)]
mod tests {
    use super::busy;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn every_thread_works_in_every_round() {
        let (batches, rounds) = (AtomicU64::new(0), AtomicU64::new(0));
        let work = |_| {
            batches.fetch_add(1, Ordering::Relaxed);
        };
        let between = || {
            let round = rounds.fetch_add(1, Ordering::Relaxed) + 1;
            assert_eq!(batches.load(Ordering::Relaxed), 3 * round);
        };
        let _ = busy(3, 5, 1, 15, work, between);
        assert_eq!((batches.into_inner(), rounds.into_inner()), (15, 5));
    }
}
