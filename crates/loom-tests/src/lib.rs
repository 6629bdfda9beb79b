// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the models of the telemetry crate stand on.
//!
//! The models (`tests/models`) drive the production sources, not copies. Under
//! cfg `metrale_loom` loom runs them in every order that the bound admits;
//! otherwise the same sources run as stress on real threads.
//!
//! Invariants: a model passes nothing from thread to thread but what it means
//! to (`Arc`s and counters here are the standard library's, which order nothing
//! in loom's eyes); two threads that touch one pair of events at a time are an
//! error in both engines.
#![deny(missing_docs)]

#[cfg(all(metrale_loom, not(debug_assertions)))]
compile_error!(
    "loom checks its own rules by debug assertions; build the models with `cargo xtask loom` (profile `loom`)"
);

mod engine;
mod pairs;
mod rig;
mod steps;
mod tally;

pub use engine::{Bound, Shared, Tracked, beside, model, spawn};
pub use pairs::{FAILS_END, FAILS_POLL, FAILS_START, NEVER_DONE, NEVER_ENDS, Pairs};
pub use rig::Rig;
pub use steps::{Found, Steps, next_on_entry};
pub use tally::Tally;
