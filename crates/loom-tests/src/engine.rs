// SPDX-License-Identifier: MIT OR Apache-2.0
//! The two engines that run a model: loom, and real threads.

#[cfg(metrale_loom)]
use loom::{cell::UnsafeCell, sync::atomic::AtomicU64, thread};
use std::sync::atomic::Ordering;
#[cfg(not(metrale_loom))]
use std::{sync::Mutex, sync::atomic::AtomicU64, thread};

/// How many times a thread may be preempted where it could have gone on.
#[derive(Clone, Copy, Debug)]
pub enum Bound {
    /// Every order of the threads' steps.
    None,
    /// At most this many preemptions; for models too large to exhaust.
    Preemptions(usize),
}

/// Checks `body` in every order that `bound` admits, or the bound that
/// LOOM_MAX_PREEMPTIONS sets.
#[cfg(metrale_loom)]
pub fn model(bound: Bound, body: impl Fn() + Send + Sync + 'static) {
    /// Steps of one run. A model is a few hundred; one that goes on past this
    /// spins.
    const MAX_BRANCHES: usize = 10_000;

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

/// Runs `body` many times on real threads; the bound is the checker's.
#[cfg(not(metrale_loom))]
pub fn model(_: Bound, body: impl Fn() + Send + Sync + 'static) {
    /// A fraction of a second for each model.
    const ROUNDS: usize = 2_000;

    (0..ROUNDS).for_each(|_| body());
}

/// Starts a thread of the model; the returned closure joins it.
pub fn spawn<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> impl FnOnce() -> T {
    let thread = thread::spawn(body);
    move || thread.join().expect("the thread's own panic is above")
}

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

/// Data that one thread at a time may touch; two at once end the model, and so
/// does, under the checker, a touch that is not ordered after the one before it.
#[derive(Debug, Default)]
pub struct Tracked<T>(#[cfg(metrale_loom)] UnsafeCell<T>, #[cfg(not(metrale_loom))] Mutex<T>);

// SAFETY: loom sees every access, and ends the model at one that is not
// exclusive; it runs one thread at a time, so even that one is harmless.
#[cfg(metrale_loom)]
unsafe impl<T: Send> Sync for Tracked<T> {}

impl<T> Tracked<T> {
    /// Runs `touch` on the data.
    pub fn touch<R>(&self, touch: impl FnOnce(&mut T) -> R) -> R {
        #[cfg(metrale_loom)]
        return self.0.with_mut(|data| {
            // SAFETY: `with_mut` has just checked that nobody else has it, and the
            // pointer is the cell's own.
            touch(unsafe { &mut *data })
        });
        #[cfg(not(metrale_loom))]
        touch(&mut self.0.try_lock().expect("two threads touch one pair of events at once"))
    }
}

/// A word of 0 at first that all threads may read and write, and that orders nothing.
#[derive(Debug)]
pub struct Shared(AtomicU64);

impl Default for Shared {
    fn default() -> Self {
        Self(AtomicU64::new(0))
    }
}

impl Shared {
    /// A value that it held.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
    /// Stores `value`.
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }
}
