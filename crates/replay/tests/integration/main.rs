// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program and its library as their users see them: what is read, planned and
//! reported, against sums that others made.

mod browser;
mod cli;
mod common;
mod devices;
mod exported;
mod forgiving;
mod hostile;
mod latency;
mod losses;
mod mutate;
mod native;
#[cfg(feature = "nvtx")]
mod nvtx;
mod oracle;
mod packed;
mod prometheus;
mod quantiles;
mod readme;
mod replayed;
mod serve;
mod shapes;
mod side_streams;
mod small;
mod timeline;
mod twins;
mod without_ids;
mod workload;
