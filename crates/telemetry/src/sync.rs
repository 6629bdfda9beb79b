// SPDX-License-Identifier: MIT OR Apache-2.0
//! The one door to atomics and locks. All code of this crate that takes part in
//! a concurrent protocol imports from here, so that the model checker sees the
//! very sources that ship (cfg `metrale_loom`).
//!
//! Plain event counters ([`crate::instrument::Counter`]) stay std atomics under
//! the checker: they order nothing, and every extra atomic multiplies the states.

#[cfg(not(metrale_loom))]
mod imp {
    pub(crate) use std::hint::spin_loop;
    pub(crate) use std::sync::atomic::{AtomicU64, fence};
    pub(crate) use std::sync::{Mutex, MutexGuard};
}

#[cfg(metrale_loom)]
mod imp {
    pub(crate) use loom::hint::spin_loop;
    pub(crate) use loom::sync::atomic::{AtomicU64, fence};
    pub(crate) use loom::sync::{Mutex, MutexGuard};
}

pub(crate) use imp::{AtomicU64, Mutex, MutexGuard, fence, spin_loop};
pub(crate) use std::sync::atomic::Ordering;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{LockResult, PoisonError, TryLockError, TryLockResult};
use std::time::Duration;

/// Atomics that count or configure and never order anything else.
pub(crate) mod relaxed {
    pub(crate) use std::sync::atomic::{AtomicU8, AtomicU64};

    /// A lock of plain data that is no part of a protocol. Whoever holds one
    /// calls nothing of a model, so no model waits for one.
    pub(crate) use std::sync::Mutex;
    use std::sync::MutexGuard;

    /// As [`super::lock`].
    pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        super::unpoisoned(mutex.lock())
    }

    /// As [`super::lock_alive`].
    pub(crate) fn lock_alive<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
        super::alive(|| try_lock(mutex), || lock(mutex))
    }

    /// As [`super::try_lock`].
    pub(crate) fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
        super::unless_held(mutex.try_lock())
    }
}

/// What is locked, whatever a panicking holder left: every critical section of
/// ours leaves its data usable at each step, so poison carries no news.
pub fn unpoisoned<G>(locked: LockResult<G>) -> G {
    locked.unwrap_or_else(PoisonError::into_inner)
}

/// As [`unpoisoned`], or `None` where somebody holds it.
pub fn unless_held<G>(tried: TryLockResult<G>) -> Option<G> {
    match tried {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    unpoisoned(mutex.lock())
}

/// `None` at once where somebody holds it.
pub(crate) fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    unless_held(mutex.try_lock())
}

/// As [`lock`], where a forked child may ask; `None` where a thread of its parent
/// holds it, which was not forked.
pub(crate) fn lock_alive<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    alive(|| try_lock(mutex), || lock(mutex))
}

/// No holder of ours takes long: a child waits 20 ms, and once that was in vain it
/// waits for none.
fn alive<G>(try_lock: impl Fn() -> Option<G>, lock: impl FnOnce() -> G) -> Option<G> {
    static IS_LOST: AtomicBool = AtomicBool::new(false);
    if !is_child() {
        return Some(lock());
    }
    for _ in 0..20 {
        let guard = try_lock();
        if guard.is_some() || IS_LOST.load(Ordering::Relaxed) {
            return guard;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    IS_LOST.store(true, Ordering::Relaxed);
    None
}

/// Whether this process was forked from the one that asked first: a recorder does
/// when it is made, before anything is there to be held.
fn is_child() -> bool {
    static FIRST: AtomicU32 = AtomicU32::new(0);
    let own = std::process::id();
    // Relaxed: the word alone; what is forked is whole.
    let first = FIRST.compare_exchange(0, own, Ordering::Relaxed, Ordering::Relaxed);
    first.is_err_and(|first| first != own)
}

/// Declares a constructor that is `const` outside the checker: loom's atomics
/// have no const constructor. One body, so that the two cannot drift.
macro_rules! const_fn {
    ($(#[$meta:meta])* $vis:vis const fn $($rest:tt)*) => {
        #[cfg(not(metrale_loom))]
        $(#[$meta])*
        $vis const fn $($rest)*

        #[cfg(metrale_loom)]
        $(#[$meta])*
        $vis fn $($rest)*
    };
}
pub(crate) use const_fn;

/// An array of a value that is not `Copy`, const outside the checker.
macro_rules! array_of {
    ($value:expr) => {{
        #[cfg(not(metrale_loom))]
        let array = [const { $value }; _];
        #[cfg(metrale_loom)]
        let array = std::array::from_fn(|_| $value);
        array
    }};
}
pub(crate) use array_of;
