// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random sequences of calls against plain models: the ring against a vector
//! of slots, the instruments against the values themselves. One thread; what
//! threads do to each other is for the models of `metrale-loom-tests`.
#![cfg(not(metrale_loom))]

#[cfg(feature = "prometheus")]
mod export;
mod graph;
mod instruments;
mod losses;
mod merge;
mod plain;
mod ring;
#[path = "../served/mod.rs"]
mod served;
mod source;
#[path = "../twinned/mod.rs"]
mod twinned;
