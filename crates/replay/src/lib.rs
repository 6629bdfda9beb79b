// SPDX-License-Identifier: MIT OR Apache-2.0
//! Replays a recorded GPU timeline, or a built-in workload, as a serving loop
//! would have produced it.
//!
//! [`options`] reads the command line; [`trace`] reads a file, [`workload`]
//! makes one up; [`steps`] finds its steps; [`plan`] turns it into the list of
//! host operations; [`model`] predicts what an in-order device makes of them;
//! [`driver`] decides what runs them and [`play`] does, with kernels that
//! [`ptx`] wrote; [`check`] holds what was read against the timeline,
//! and [`report`] shows the result.
#![deny(missing_docs)]

pub mod check;
mod device;
pub mod driver;
pub mod file;
mod graphs;
pub mod model;
pub mod options;
mod pace;
pub mod plan;
pub mod play;
pub mod progress;
pub mod ptx;
pub mod report;
mod serve;
pub mod simulator;
pub mod steps;
mod tally;
pub mod trace;
pub mod workload;
