// SPDX-License-Identifier: MIT OR Apache-2.0
//! Words that change together: a sequence lock over atomics.
//!
//! A writer makes the version odd, changes words, and makes it even again. One
//! writer at a time; another one tries a bounded number of times and gives up,
//! so nobody ever waits for a thread that is suspended. A reader copies, and
//! its copy counts only if the version was even and the same before and after.

use crate::sync::{AtomicU64, Ordering, array_of, const_fn, fence, spin_loop};

/// How often a writer or a reader tries. A change takes a few nanoseconds: only
/// a thread suspended inside one outlasts this.
const TRIES: usize = if cfg!(metrale_loom) { 2 } else { 1_000 };

/// `N` words under one version.
pub struct Together<const N: usize> {
    version: AtomicU64,
    words: [AtomicU64; N],
}

/// The words, for a reader or the writer.
pub struct Words<'a>(&'a [AtomicU64]);

impl Words<'_> {
    /// Word `at`; 0 beyond the last.
    #[inline]
    #[must_use]
    pub fn get(&self, at: usize) -> u64 {
        // Relaxed: before a fence, or by the only writer.
        self.0
            .get(at)
            .map_or(0, |word| word.load(Ordering::Relaxed))
    }

    /// Word `at` as the float whose bits it holds.
    #[inline]
    #[must_use]
    pub fn float(&self, at: usize) -> f64 {
        f64::from_bits(self.get(at))
    }
}

/// The words, for the writer.
pub struct WordsMut<'a>(Words<'a>);

impl<'a> std::ops::Deref for WordsMut<'a> {
    type Target = Words<'a>;
    fn deref(&self) -> &Words<'a> {
        &self.0
    }
}

impl WordsMut<'_> {
    /// Sets word `at`.
    #[inline]
    pub fn set(&mut self, at: usize, value: u64) {
        // Relaxed: published by the fence of `change`, and by its store.
        if let Some(word) = (self.0).0.get(at) {
            word.store(value, Ordering::Relaxed);
        }
    }

    /// Adds to word `at`.
    #[inline]
    pub fn add(&mut self, at: usize, value: u64) {
        self.set(at, self.get(at).wrapping_add(value));
    }

    /// Adds to the float in word `at`.
    #[inline]
    pub fn add_float(&mut self, at: usize, value: f64) {
        self.set(at, (self.float(at) + value).to_bits());
    }

    /// Sets every word to 0.
    pub fn clear(&mut self) {
        (0..(self.0).0.len()).for_each(|at| self.set(at, 0));
    }
}

impl<const N: usize> Together<N> {
    const_fn! {
        /// All words 0.
        #[must_use]
        pub const fn new() -> Self {
            Self {
                version: AtomicU64::new(0),
                words: array_of!(AtomicU64::new(0)),
            }
        }
    }

    /// Changes the words. `false`: another thread is changing them, and nothing
    /// was done.
    #[inline]
    #[must_use]
    pub fn change(&self, change: impl FnOnce(&mut WordsMut<'_>)) -> bool {
        let Some(version) = (0..TRIES).find_map(|_| self.claim()) else {
            return false;
        };
        // Release: who sees a word that is changed below also sees the odd
        // version (partner: the fence of `read`).
        // Model: together::a_change_against_a_reader.
        fence(Ordering::Release);
        change(&mut WordsMut(Words(&self.words)));
        // Release: who sees this version sees all words of it (partners: the
        // loads of `claim` and `read`).
        // Model: together::a_change_against_a_reader.
        self.version.store(version + 2, Ordering::Release);
        true
    }

    #[inline]
    fn claim(&self) -> Option<u64> {
        // Relaxed: a guess; the exchange decides, and its loser touches nothing.
        let version = self.version.load(Ordering::Relaxed);
        let is_mine = version & 1 == 0
            && self
                .version
                // Acquire: the words are as the writer before left them
                // (partner: the store of `change`).
                // Model: together::two_writers_lose_nothing.
                .compare_exchange(version, version + 1, Ordering::Acquire, Ordering::Relaxed)
                .is_ok();
        if !is_mine {
            spin_loop();
        }
        is_mine.then_some(version)
    }

    /// Runs `read` on the words until it saw them unchanged. `None`: a thread
    /// stays inside a change.
    #[inline]
    #[must_use]
    pub fn read<T>(&self, mut read: impl FnMut(&Words<'_>) -> T) -> Option<T> {
        (0..TRIES).find_map(|_| {
            // Acquire: all words of this version are in sight (partner: the
            // store of `change`).
            // Model: together::a_change_against_a_reader.
            let before = self.version.load(Ordering::Acquire);
            if before & 1 == 1 {
                spin_loop();
                return None;
            }
            let value = read(&Words(&self.words));
            // Acquire: if a word of a later change was read, its odd version is
            // seen below (partner: the fence of `change`).
            // Model: together::a_change_against_a_reader.
            fence(Ordering::Acquire);
            // Relaxed: after the fence.
            (self.version.load(Ordering::Relaxed) == before).then_some(value)
        })
    }
}

impl<const N: usize> Default for Together<N> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(metrale_loom)))]
mod tests {
    use super::Together;

    #[test]
    fn writers_lose_nothing_and_readers_see_no_half() {
        let words = Together::<3>::new();
        let made: u64 = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..2)
                .map(|_| {
                    scope.spawn(|| {
                        let change = || {
                            words.change(|words| {
                                words.add(0, 1);
                                words.add_float(1, 0.5);
                                words.add(2, 2);
                            })
                        };
                        (0..100_000).filter(|_| change()).count() as u64
                    })
                })
                .collect();
            for _ in 0..20_000 {
                let read = words.read(|words| (words.get(0), words.float(1), words.get(2)));
                if let Some((ones, halves, twos)) = read {
                    assert_eq!((halves * 2.0, twos), (ones as f64, 2 * ones));
                }
            }
            writers.into_iter().map(|it| it.join().unwrap()).sum()
        });
        assert!(made > 0);
        assert_eq!(words.read(|words| words.get(0)), Some(made));
        assert_eq!(words.read(|words| words.get(3)), Some(0));
    }
}
