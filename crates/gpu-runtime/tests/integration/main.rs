// SPDX-License-Identifier: MIT OR Apache-2.0
//! The recorder over the simulated driver, in one process: an application that
//! uses the driver, and what the recorder does beside it.

mod capture;
mod errors;
mod held;
mod installed;
mod matrix;
mod races;
mod rig;
mod spans;
