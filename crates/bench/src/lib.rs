// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the benchmarks measure and what they measure it against:
//! `docs/benchmarking.md` says how to read the numbers.
//!
//! - [`spans`]: one face for the ring and for the plain design it is compared
//!   with ([`naive`]), over events that cost nothing ([`events`]).
//! - [`armed`]: steps that are laid out in time.
//! - [`app`]: recorders and steps on the simulated driver.
//! - [`threads`]: time on several threads.
//! - [`paths`]: the hot paths whose instructions are counted.
//! - [`calls`]: scripted workloads whose driver calls are counted.
//! - [`gpu`]: `metrale-gpu-bench`, which measures on a GPU.
#![deny(missing_docs)]

pub mod app;
pub mod armed;
pub mod calls;
pub mod events;
pub mod gpu;
pub mod naive;
pub mod paths;
pub mod spans;
pub mod threads;
