// SPDX-License-Identifier: MIT OR Apache-2.0
//! A simulated CUDA driver, for machines without a GPU.
//!
//! It exports the driver's C functions that cudarc's ordinary path and metrale
//! call, with the semantics and status codes of NVIDIA's driver, on a virtual
//! clock: a run is deterministic, and a microsecond of GPU time costs nothing.
//!
//! # Two ways to use it
//!
//! - **As a library in one process**: take addresses from [`symbol`], steer
//!   through [`control`], and hold [`exclusive`] while a test runs.
//! - **As a shared library**: build this package, copy
//!   `libmetrale_gpu_sim.so` from the target folder into a folder of its own as
//!   `libcuda.so.1`, make `libcuda.so` a symbolic link to it, and start the
//!   program with that folder first in `LD_LIBRARY_PATH`. Steer through the
//!   `sim_*` functions, found by name; `sim_version` tells the simulator from a
//!   driver. The file must never be called `libcuda` in a target folder: cargo
//!   puts that on the library path, where it would hide a real driver.
//!
//! A program that does both has two simulators that know nothing of each other.
//!
//! ```
//! use metrale_gpu_sim::{control, exclusive, symbol};
//!
//! let _alone = exclusive();
//! let init = symbol("cuInit").expect("an export");
//! // SAFETY: `cuInit` takes flags and returns a status.
//! let init: extern "C" fn(u32) -> u32 = unsafe { std::mem::transmute(init) };
//! assert_eq!(init(0), 0);
//! assert_eq!(control::call_count("cuInit"), Ok(1));
//! ```
//!
//! # What is simulated
//!
//! - **Time.** One clock for the process. It moves by explicit advance, by
//!   waits (to the end of what is waited for) and by a cost for each call, 0 at
//!   first; or it follows the host's clock. Work submitted at `now` starts at
//!   max(now, end of the stream's last work). An event's timestamp is that of an
//!   empty piece of work; a query is done once the clock has reached it.
//! - **Streams**: blocking, non-blocking, legacy (a barrier among the context's
//!   blocking streams), per-thread; waits for events.
//! - **Kernels** from PTX text. A launch takes as long as the argument of a
//!   `.u64` parameter whose name ends in `duration_ns` says, else what
//!   [`control::set_kernel_duration`] says, else 1 µs.
//! - **Memory** that really holds bytes, bounds checked, moved at the call.
//! - **Capture** in all three modes, with per-thread mode exchange,
//!   invalidation, forks and joins, captured events.
//! - **Functions of the host**, in streams and graphs, in order: on a thread of the driver's own,
//!   where driver calls answer 800. What comes after one is not ready until it returned, and it
//!   takes what the clock moved while it ran.
//! - **Graphs**, captured or built by hand: kernel, copy, host, event and child
//!   nodes, edges with data, clones, executables and their updates, user objects.
//!   Branches run side by side, two executables too; what their parts cost is set
//!   in [`control::graphs`], which also counts mistakes that a driver answers
//!   with success, as launches side by side on one memory.
//! - **Errors**: sticky ones, chosen ones for chosen calls, calls that take long
//!   or hang, no device, a stub library, older drivers, a forked child.
//! - **Handles** that are given out again at once. A dead one answers 400 and is
//!   counted ([`control::stale_handle_uses`]); the real driver would read
//!   whatever lies there.
//! - **A log** of calls, with thread and capture mode: "no wait, no create or
//!   destroy in steady state, every poll in relaxed mode" is a test.
//!
//! # What is not
//!
//! - Kernels compute nothing; modules in binary form are refused (200), the
//!   `extra` form of a launch too (801), launch attributes are ignored.
//! - Graph nodes of other kinds: conditional ones, semaphores, copies and sets
//!   made by hand, allocations outside a capture.
//! - The device is never full: work of different streams runs side by side.
//! - Copies are ordered by the host's calls, not by the stream.
//! - Variables of a module begin as zeros, whatever its text says.
//! - No green contexts, IPC, peer memory, textures, occupancy, WDDM, MPS. A function that is not exported is
//!   missing, as in an older driver.
//! - The CUDA runtime library does not run on it.
//! - Of the 52 own tests of cudarc 0.19.10 that one GPU can run (`CONTRIBUTING.md` has the
//!   command) 47 pass. `test_large_launches`, `test_launch_with_mut_and_ref_cudarc` and
//!   `test_launch_with_views` want the results of their kernels;
//!   `test_default_pinned_host_reads_are_faster_than_write_combined` and
//!   `test_pinned_copy_is_faster` compare real time, and host memory is all of one speed: they go
//!   either way.
//!
//! # How far to trust it
//!
//! The claims about captures, graphs and events are written down as [`scripts`], which
//! also run over a real driver. Where NVIDIA states nothing, the simulator takes
//! the stricter reading: reading a time, waiting for or asking about a stream
//! that does not capture, copying in step, freeing and unloading count as unsafe
//! calls, and so do copying, instantiating, updating and destroying whole
//! graphs; work that a fork leaves unjoined is a node that the capture's last
//! nodes do not come after.
#![deny(missing_docs)]

mod abi;
pub mod app;
mod capture;
pub mod child;
mod clock;
mod config;
pub mod control;
mod control_abi;
mod event;
mod exec;
mod faults;
mod graph;
mod handles;
mod host;
mod kernel;
mod log;
mod memory;
mod module;
mod moment;
mod ptx;
pub mod scripts;
mod stream;
mod symbols;
#[cfg(test)]
mod tests;
mod thread;
mod user_object;
mod watch;
mod world;

use std::ffi::c_void;
use std::sync::{Mutex, MutexGuard, PoisonError};

pub use control_abi::SimCall;
use symbols::Symbol;

/// The address of a driver function or `sim_*` function, by its exported name;
/// `None` for one that there is not, or that is hidden
/// ([`control::hide_symbol`]).
#[must_use]
pub fn symbol(name: &str) -> Option<*const c_void> {
    let Some(symbol) = Symbol::named(name) else {
        return control_abi::address(name);
    };
    let is_hidden = world::lock().config.is_hidden(symbol);
    (!is_hidden).then(|| symbol.address())
}

/// Held by the one test that uses the simulator.
#[derive(Debug)]
pub struct Exclusive(#[expect(dead_code, reason = "held for its drop")] MutexGuard<'static, ()>);

/// Waits until no other test of this process uses the simulator, and resets it
/// ([`control::reset`]).
#[must_use]
pub fn exclusive() -> Exclusive {
    static ALONE: Mutex<()> = Mutex::new(());
    // A test that failed leaves nothing behind: the reset is what counts.
    let guard = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    control::reset();
    Exclusive(guard)
}
