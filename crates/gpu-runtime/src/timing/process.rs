// SPDX-License-Identifier: MIT OR Apache-2.0
//! Knowing that the driver must not be called any more, because this process
//! is a forked child (every handle is dead there) or has begun to exit (the
//! driver takes itself down while other threads run on).
//!
//! Either ends a *generation*: recorders of that generation fall silent and
//! leak what they hold.

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

/// How many forks lie between this process and the one that was started, plus
/// one once it exits.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// How many of our own threads may be inside the driver.
static BUSY: AtomicU32 = AtomicU32::new(0);

/// The generation that something made now belongs to.
pub(super) fn generation() -> u32 {
    static WATCH: Once = Once::new();
    WATCH.call_once(watch);
    GENERATION.load(Ordering::Relaxed)
}

/// Whether `generation` has ended. One load.
pub(super) fn is_over(generation: u32) -> bool {
    GENERATION.load(Ordering::Relaxed) != generation
}

/// Held by a thread of ours while it may call the driver.
#[derive(Debug)]
pub(super) struct Busy(());

/// `None` once `generation` has ended.
pub(super) fn busy(generation: u32) -> Option<Busy> {
    // SeqCst on all four accesses: either the exit handler sees this thread
    // busy and waits for it, or this thread sees that the generation is over.
    BUSY.fetch_add(1, Ordering::SeqCst);
    let busy = Busy(());
    (GENERATION.load(Ordering::SeqCst) == generation).then_some(busy)
}

impl Drop for Busy {
    fn drop(&mut self) {
        BUSY.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(unix)]
fn watch() {
    unsafe extern "C" fn in_child() {
        GENERATION.fetch_add(1, Ordering::SeqCst);
        // The threads that were busy were not forked.
        BUSY.store(0, Ordering::SeqCst);
    }

    /// Runs before the driver's own handlers, which were registered before:
    /// the application had initialised the driver by then.
    extern "C" fn at_exit() {
        GENERATION.fetch_add(1, Ordering::SeqCst);
        // Until a poll in progress is over, but not for long: it may hang.
        for _ in 0..200 {
            if BUSY.load(Ordering::SeqCst) == 0 {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }

    // SAFETY: the handler only writes atomics, which is allowed after fork.
    // Where it cannot be registered (no memory) the process has other worries,
    // and the driver answers 3 in the child, which quarantines.
    let _ = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    // SAFETY: the handler is a function without arguments that does not unwind.
    let _ = unsafe { libc::atexit(at_exit) };
}

#[cfg(not(unix))]
fn watch() {}
