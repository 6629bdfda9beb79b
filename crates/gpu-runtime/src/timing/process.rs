// SPDX-License-Identifier: MIT OR Apache-2.0
//! Knowing that the driver must not be called any more, because this process
//! is a forked child (every handle is dead there) or has begun to exit (the
//! driver takes itself down while other threads run on).
//!
//! Either ends a *generation*: recorders of that generation fall silent and
//! leak what they hold.
//!
//! 1. Every driver call of ours is asked for first, of whatever path: by
//!    [`is_over`] or, where nothing was made yet that could know its generation,
//!    by [`unless_exiting`].
//! 2. Every path but a record's is held by a [`Busy`] too, and an exit waits a
//!    little until nobody is busy. A record is not: it is one of four calls of a
//!    serving thread that launches work beside it, and two writes to a word that
//!    all threads share would cost it more than they are worth.

use metrale_gpu_sys::cuda::Status;
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

/// How many forks lie between this process and the one that was started, and
/// whether it exits: [`EXITING`].
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// Above all forks: nothing is born into a generation that has it.
const EXITING: u32 = 1 << 31;

/// How many threads, our own and others, may be inside the driver for us.
static BUSY: AtomicU32 = AtomicU32::new(0);

/// The generation that something made now belongs to. The exit is watched from
/// the first call on: it is made once the driver was initialised, so that our
/// handler runs before the driver's own.
pub(super) fn generation() -> u32 {
    static WATCH: Once = Once::new();
    WATCH.call_once(watch);
    GENERATION.load(Ordering::Relaxed) & !EXITING
}

/// Whether `generation` has ended. One load.
pub(super) fn is_over(generation: u32) -> bool {
    GENERATION.load(Ordering::Relaxed) != generation
}

/// Whether this is a child forked from the process of `generation`: a lock may
/// be held there for ever, by a thread that was not forked.
pub(super) fn is_child(generation: u32) -> bool {
    GENERATION.load(Ordering::Relaxed) & !EXITING != generation
}

/// Makes a driver call, unless the process exits: then it is not made, and the
/// answer is what the driver would say.
pub(super) fn unless_exiting(call: impl FnOnce() -> Status) -> Status {
    if GENERATION.load(Ordering::Relaxed) & EXITING == 0 {
        call()
    } else {
        Status::ERROR_DEINITIALIZED
    }
}

/// Held by a thread while it may call the driver for us.
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

/// For what was not made yet; `None` once the process exits.
pub(super) fn busy_now() -> Option<Busy> {
    busy(GENERATION.load(Ordering::Relaxed) & !EXITING)
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
        GENERATION.fetch_or(EXITING, Ordering::SeqCst);
        // Until a call in progress is over, but not for long: it may hang.
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
