// SPDX-License-Identifier: MIT OR Apache-2.0
//! The recorder over the simulated driver, in one process: an application that
//! uses the driver, and what the recorder does beside it.

mod capture;
mod default_streams;
mod devices;
mod disabled;
mod docs;
mod drain;
mod drivers;
mod errors;
mod exits;
mod floor;
mod gaps;
mod installed;
mod libraries;
mod lifetimes;
mod matrix;
mod names;
#[cfg(feature = "nvtx")]
mod nvtx;
mod oldest;
mod owned;
mod pacing;
mod passes;
mod processes;
mod races;
mod records;
mod regions;
mod rig;
mod snapshot;
mod spans;
mod statuses;
mod twin_edges;
mod twin_ends;
mod twin_order;
mod twin_parts;
mod twin_refusals;
mod twin_rig;
mod twin_statuses;
mod twins;
