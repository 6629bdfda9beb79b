// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who asks for memory, and how much.
#![cfg(not(metrale_loom))]

mod graph;
#[cfg(feature = "prometheus")]
mod scrape;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// Bytes that this thread asked for.
    static ASKED: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call is handed to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ASKED.set(ASKED.get() + layout.size());
        // SAFETY: promised by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: promised by the caller.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What `work` asked for.
fn asked<T>(work: impl FnOnce() -> T) -> usize {
    let before = ASKED.get();
    drop(work());
    ASKED.get() - before
}
