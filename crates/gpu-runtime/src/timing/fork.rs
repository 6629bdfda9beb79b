// SPDX-License-Identifier: MIT OR Apache-2.0
//! Knowing that this process is a forked child. Every handle is dead there,
//! and the driver must not be called.

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

/// How many forks lie between this process and the one that was started.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// The process, as far as forks tell it apart.
pub(super) fn generation() -> u32 {
    static WATCH: Once = Once::new();
    WATCH.call_once(watch);
    FORKS.load(Ordering::Relaxed)
}

/// Whether this is a child of the process that read `generation`. One load.
pub(super) fn is_child_of(generation: u32) -> bool {
    FORKS.load(Ordering::Relaxed) != generation
}

#[cfg(unix)]
fn watch() {
    unsafe extern "C" fn in_child() {
        FORKS.fetch_add(1, Ordering::Relaxed);
    }
    // SAFETY: the handler only adds to an atomic, which is allowed after fork.
    // Where it cannot be registered (no memory) the process has other worries,
    // and the driver answers 3 in the child, which quarantines.
    let _ = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
}

#[cfg(not(unix))]
fn watch() {}
