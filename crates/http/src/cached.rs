// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is taken once a second at most, however many ask for it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long something taken is given to whoever asks.
pub(crate) const FRESH: Duration = Duration::from_secs(1);

/// See the module. Who comes while it is taken waits for it.
#[derive(Debug)]
pub(crate) struct Cached<T>(Mutex<Option<(Instant, Arc<T>)>>);

impl<T> Cached<T> {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(None))
    }

    /// What was taken within the last second, else what `take` takes.
    pub(crate) fn get(&self, take: impl FnOnce() -> T) -> Arc<T> {
        // One that panicked left what was there before it.
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*kept {
            Some((at, taken)) if at.elapsed() < FRESH => Arc::clone(taken),
            _ => {
                let taken = Arc::new(take());
                *kept = Some((Instant::now(), Arc::clone(&taken)));
                taken
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Cached, FRESH};
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Instant;

    #[test]
    fn however_many_ask_it_is_taken_once_a_second() {
        let (cached, taken) = (Cached::new(), AtomicU64::new(0));
        let began = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| {
                    while began.elapsed() < FRESH * 2 + FRESH / 2 {
                        cached.get(|| taken.fetch_add(1, Ordering::Relaxed));
                    }
                });
            }
        });
        let (taken, most) = (taken.into_inner(), began.elapsed().as_secs() + 1);
        assert!((2..=most).contains(&taken), "{taken} times, {most} at most");
    }

    #[test]
    fn one_that_could_not_be_taken_is_taken_by_the_next() {
        let cached = Cached::new();
        let fails = || {
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| cached.get(|| panic!("no"))))
        };
        assert!(fails().is_err());
        assert_eq!(*cached.get(|| 7), 7);
        assert_eq!(*cached.get(|| 8), 7);
    }
}
