// SPDX-License-Identifier: MIT OR Apache-2.0
//! The core of metrale: span ring, instruments, levels and sampling. It knows
//! no CUDA and runs anywhere.
//!
//! A server configures a [`Telemetry`], a recorder lands spans in it, and
//! anybody reads it, at any moment:
//!
//! ```
//! use metrale_telemetry::kernel::{LANE_DECODE, SpanKey};
//! use metrale_telemetry::{TelemetryConfig, global};
//!
//! let telemetry = global();
//! telemetry.configure(TelemetryConfig { every: 16, ..TelemetryConfig::DEFAULT })?;
//!
//! // What `metrale_gpu_runtime::timing::Recorder` does as a span ends on the GPU:
//! telemetry.instruments().record(SpanKey::Lane(LANE_DECODE), 8_420_000);
//!
//! let snapshot = telemetry.snapshot();
//! assert_eq!(snapshot.lanes[LANE_DECODE].gpu.sum_ns(), 8_420_000);
//! println!("{}", serde_json::to_string(&snapshot)?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`kernel`] has the span ring, for events that are not CUDA's; [`snapshot`]
//! and, with feature `prometheus`, `export` are for reading.
//!
//! Invariants: no unsafe code; a hot-path call takes no lock, allocates
//! nothing and logs nothing; nothing is lost without being counted.
#![deny(missing_docs)]
// It runs in somebody else's process: it neither prints nor panics.
#![cfg_attr(
    not(test),
    deny(
        clippy::print_stdout,
        clippy::print_stderr,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable,
        clippy::disallowed_macros
    )
)]
#![forbid(unsafe_code)]

pub mod clock;
mod config;
#[cfg(all(feature = "prometheus", not(metrale_loom)))]
pub mod export;
mod floor;
mod graph;
mod host;
pub mod instrument;
pub mod kernel;
mod lanes;
#[doc(hidden)]
pub mod runtime;
pub mod snapshot;
mod sync;

mod level;
mod records;
mod rows;
mod sampling;
mod series;
mod step;
mod sums;
mod telemetry;

pub use config::{ConfigError, TelemetryConfig};
pub use floor::Floor;
pub use host::HostInstruments;
pub use lanes::LaneNamesError;
pub use level::{Level, UnknownLevel};
pub use sampling::Sampling;
pub use snapshot::Snapshot;
pub use step::Step;
pub use telemetry::Telemetry;
#[cfg(not(metrale_loom))]
pub use telemetry::global;
