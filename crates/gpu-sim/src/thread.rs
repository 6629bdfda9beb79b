// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the driver keeps per thread: a number, the stack of current contexts
//! and the capture mode.
//!
//! Plain cells without a destructor: they can be used while a thread is being
//! torn down, when other thread-local values are already gone. A reset of the
//! world is seen by a thread at its next call, through the epoch.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// How deep a thread's stack of contexts can get.
const STACK: usize = 32;

/// `CU_STREAM_CAPTURE_MODE_GLOBAL`, a thread's mode at first.
pub(crate) const GLOBAL: u32 = 0;
/// `CU_STREAM_CAPTURE_MODE_THREAD_LOCAL`.
pub(crate) const THREAD_LOCAL: u32 = 1;
/// `CU_STREAM_CAPTURE_MODE_RELAXED`.
pub(crate) const RELAXED: u32 = 2;

struct Local {
    id: Cell<u64>,
    epoch: Cell<u64>,
    mode: Cell<u32>,
    is_in_callback: Cell<bool>,
    depth: Cell<usize>,
    stack: [Cell<u64>; STACK],
}

thread_local! {
    static LOCAL: Local = const {
        Local {
            id: Cell::new(0),
            epoch: Cell::new(0),
            mode: Cell::new(GLOBAL),
            is_in_callback: Cell::new(false),
            depth: Cell::new(0),
            stack: [const { Cell::new(0) }; STACK],
        }
    };
}

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// The calling thread, as of the world's epoch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Thread {
    /// Unique in the process, from 1, in the order of threads' first calls.
    pub(crate) id: u64,
    /// It runs a function of the host for the driver.
    pub(crate) is_in_callback: bool,
}

impl Thread {
    /// The calling thread; forgets its state if the world was reset since.
    pub(crate) fn current(epoch: u64) -> Self {
        LOCAL.with(|local| {
            if local.epoch.get() != epoch {
                local.epoch.set(epoch);
                local.mode.set(GLOBAL);
                local.depth.set(0);
            }
            Self { id: id_of(local), is_in_callback: local.is_in_callback.get() }
        })
    }

    /// The thread's number, without a look at the world.
    pub(crate) fn current_id() -> u64 {
        LOCAL.with(id_of)
    }

    /// Runs a function of the host, in which driver calls are refused.
    pub(crate) fn in_callback(callback: impl FnOnce()) {
        let outer = LOCAL.with(|local| local.is_in_callback.replace(true));
        callback();
        LOCAL.with(|local| local.is_in_callback.set(outer));
    }

    pub(crate) fn mode(self) -> u32 {
        LOCAL.with(|local| local.mode.get())
    }

    pub(crate) fn set_mode(self, mode: u32) -> u32 {
        LOCAL.with(|local| local.mode.replace(mode))
    }

    /// The current context's handle, 0 where there is none.
    pub(crate) fn context(self) -> u64 {
        LOCAL.with(|local| {
            let top = local.depth.get().checked_sub(1);
            top.and_then(|top| local.stack.get(top)).map_or(0, Cell::get)
        })
    }

    /// Replaces the top of the stack; 0 takes it away.
    pub(crate) fn set_context(self, context: u64) {
        LOCAL.with(|local| {
            let depth = local.depth.get();
            if context == 0 {
                local.depth.set(depth.saturating_sub(1));
            } else {
                let depth = depth.max(1);
                local.depth.set(depth);
                if let Some(top) = local.stack.get(depth - 1) {
                    top.set(context);
                }
            }
        });
    }

    /// Pushes a context; `false` if the stack is full.
    pub(crate) fn push_context(self, context: u64) -> bool {
        LOCAL.with(|local| {
            let depth = local.depth.get();
            let Some(place) = local.stack.get(depth) else {
                return false;
            };
            place.set(context);
            local.depth.set(depth + 1);
            true
        })
    }

    /// Pops the current context, `None` where there is none.
    pub(crate) fn pop_context(self) -> Option<u64> {
        let top = self.context();
        LOCAL.with(|local| local.depth.set(local.depth.get().saturating_sub(1)));
        (top != 0).then_some(top)
    }
}

fn id_of(local: &Local) -> u64 {
    if local.id.get() == 0 {
        local.id.set(NEXT_ID.fetch_add(1, Ordering::Relaxed));
    }
    local.id.get()
}
