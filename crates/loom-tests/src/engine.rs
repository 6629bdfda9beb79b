// SPDX-License-Identifier: MIT OR Apache-2.0
//! The two engines that run a model: loom, and real threads.

/// How many times a thread may be preempted where it could have gone on.
#[derive(Clone, Copy, Debug)]
pub enum Bound {
    /// Every order of the threads' steps.
    None,
    /// At most this many preemptions; for models too large to exhaust.
    Preemptions(usize),
}

pub use imp::{Shared, Tracked, model, spawn};

/// As [`spawn`], on a clone of what the threads share.
pub fn beside<S, T, B>(shared: &S, body: B) -> impl FnOnce() -> T + use<S, T, B>
where
    S: Clone + Send + 'static,
    T: Send + 'static,
    B: FnOnce(S) -> T + Send + 'static,
{
    let shared = shared.clone();
    spawn(move || body(shared))
}

#[cfg(metrale_loom)]
mod imp {
    use super::Bound;
    use loom::sync::atomic::{AtomicU64, Ordering};

    /// Steps of one run. A model is a few hundred; one that goes on past this
    /// spins.
    const MAX_BRANCHES: usize = 10_000;

    /// Checks `body` in every order that `bound` admits, or the bound that
    /// LOOM_MAX_PREEMPTIONS sets.
    pub fn model(bound: Bound, body: impl Fn() + Send + Sync + 'static) {
        let mut builder = loom::model::Builder::new();
        if let (None, Bound::Preemptions(most)) = (builder.preemption_bound, bound) {
            builder.preemption_bound = Some(most);
        }
        builder.max_branches = MAX_BRANCHES;
        // Either would end the search early and call it a pass.
        builder.max_duration = None;
        builder.max_permutations = None;
        builder.check(body);
    }

    /// Starts a thread of the model; the returned closure joins it.
    pub fn spawn<T: Send + 'static>(
        body: impl FnOnce() -> T + Send + 'static,
    ) -> impl FnOnce() -> T {
        let thread = loom::thread::spawn(body);
        move || thread.join().expect("the thread's own panic ends the model")
    }

    /// Data that one thread at a time may touch; two at once end the model, and
    /// so does a touch that is not ordered after the one before it.
    #[derive(Debug, Default)]
    pub struct Tracked<T>(loom::cell::UnsafeCell<T>);

    // SAFETY: loom sees every access, and ends the model at one that is not
    // exclusive; it runs one thread at a time, so even that one is harmless.
    unsafe impl<T: Send> Sync for Tracked<T> {}

    impl<T> Tracked<T> {
        /// Runs `touch` on the data.
        ///
        /// # Panics
        /// If another thread may touch it at the same time.
        pub fn touch<R>(&self, touch: impl FnOnce(&mut T) -> R) -> R {
            self.0.with_mut(|data| {
                // SAFETY: `with_mut` has just checked that nobody else has it,
                // and the pointer is the cell's own.
                touch(unsafe { &mut *data })
            })
        }
    }

    /// A word that all threads may read and write, and that orders nothing.
    #[derive(Debug)]
    pub struct Shared(AtomicU64);

    impl Shared {
        /// A word of 0.
        #[must_use]
        pub fn new() -> Self {
            Self(AtomicU64::new(0))
        }
        /// A value that it held.
        #[must_use]
        pub fn get(&self) -> u64 {
            self.0.load(Ordering::Relaxed)
        }
        /// Stores `value`.
        pub fn set(&self, value: u64) {
            self.0.store(value, Ordering::Relaxed);
        }
    }

    impl Default for Shared {
        fn default() -> Self {
            Self::new()
        }
    }
}

#[cfg(not(metrale_loom))]
mod imp {
    use super::Bound;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// Rounds of stress: a fraction of a second for each model.
    const ROUNDS: usize = 2_000;

    /// Runs `body` many times on real threads; the bound is the checker's.
    pub fn model(_: Bound, body: impl Fn() + Send + Sync + 'static) {
        (0..ROUNDS).for_each(|_| body());
    }

    /// Starts a thread; the returned closure joins it.
    pub fn spawn<T: Send + 'static>(
        body: impl FnOnce() -> T + Send + 'static,
    ) -> impl FnOnce() -> T {
        let thread = std::thread::spawn(body);
        move || thread.join().expect("the thread's own panic is above")
    }

    /// Data that one thread at a time may touch; two at once are an error.
    #[derive(Debug, Default)]
    pub struct Tracked<T>(Mutex<T>);

    impl<T> Tracked<T> {
        /// Runs `touch` on the data.
        ///
        /// # Panics
        /// If another thread touches it at the same time.
        pub fn touch<R>(&self, touch: impl FnOnce(&mut T) -> R) -> R {
            let mut data = self.0.try_lock().expect("two threads touch one pair of events at once");
            touch(&mut data)
        }
    }

    /// A word that all threads may read and write, and that orders nothing.
    #[derive(Debug, Default)]
    pub struct Shared(AtomicU64);

    impl Shared {
        /// A word of 0.
        #[must_use]
        pub fn new() -> Self {
            Self::default()
        }
        /// A value that it held.
        #[must_use]
        pub fn get(&self) -> u64 {
            self.0.load(Ordering::Relaxed)
        }
        /// Stores `value`.
        pub fn set(&self, value: u64) {
            self.0.store(value, Ordering::Relaxed);
        }
    }
}
