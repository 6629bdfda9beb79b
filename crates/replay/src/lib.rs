// SPDX-License-Identifier: MIT OR Apache-2.0
//! Replays a recorded GPU timeline, or a built-in workload, as a serving loop
//! would have produced it.
//!
//! [`trace`] reads a file; [`steps`] finds its steps; [`plan`] turns it into
//! the list of host operations; [`model`] predicts what an in-order device
//! makes of it.
#![deny(missing_docs)]

pub mod model;
pub mod plan;
pub mod steps;
pub mod trace;
