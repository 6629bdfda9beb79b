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

/// Atomics that count or configure and never order anything else.
pub(crate) mod relaxed {
    #[cfg(all(test, not(metrale_loom)))]
    pub(crate) use std::sync::atomic::AtomicBool;
    pub(crate) use std::sync::atomic::{AtomicU8, AtomicU64};

    /// A lock of plain data that is no part of a protocol. Whoever holds one
    /// calls nothing of a model, so no model waits for one.
    pub(crate) use std::sync::Mutex;
    use std::sync::MutexGuard;

    /// As [`super::lock`].
    pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        match mutex.lock() {
            Ok(guard) => guard,
            Err(poisoned) => poisoned.into_inner(),
        }
    }

    /// As [`super::try_lock`].
    pub(crate) fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
        match mutex.try_lock() {
            Ok(guard) => Some(guard),
            Err(std::sync::TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(std::sync::TryLockError::WouldBlock) => None,
        }
    }
}

/// Locks, whatever a panicking holder left: every critical section of this
/// crate leaves its data usable at each step, so poison carries no news.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    match mutex.lock() {
        Ok(guard) => guard,
        Err(poisoned) => poisoned.into_inner(),
    }
}

/// As [`lock`], or `None` at once where somebody holds it.
pub(crate) fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(std::sync::TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(std::sync::TryLockError::WouldBlock) => None,
    }
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
