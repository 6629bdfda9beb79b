// SPDX-License-Identifier: MIT OR Apache-2.0
//! A simulated CUDA driver.
#![deny(missing_docs)]

mod abi;
mod capture;
mod clock;
mod config;
pub mod control;
mod control_abi;
mod event;
mod faults;
mod graph;
mod handles;
mod log;
mod memory;
mod module;
mod ptx;
mod stream;
mod symbols;
mod thread;
mod world;

use std::ffi::c_void;
use std::sync::{Mutex, MutexGuard, PoisonError};

pub use control_abi::SimCall;
use symbols::Symbol;

/// The address of an exported driver function.
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

/// Waits until no other test uses the simulator, and resets it.
#[must_use]
pub fn exclusive() -> Exclusive {
    static ALONE: Mutex<()> = Mutex::new(());
    let guard = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    control::reset();
    Exclusive(guard)
}
