// SPDX-License-Identifier: MIT OR Apache-2.0
//! The CUDA driver, found by name at run time.
//!
//! [`Driver`] is a table of entry points with the library that they came from.
//! Those that every driver since CUDA 11.4 has are required; later ones are
//! `Option`. Nothing here calls `cuInit` or makes a context.

mod api;
mod driver;
mod error;
mod graphs;
mod status;

pub use api::{Api, CUcontext, CUdevice, CUevent, CUfunction, CUstream, CUuuid};
pub use driver::{Driver, Origin};
pub use error::DriverError;
pub use graphs::{
    CUgraph, CUgraphEdgeData, CUgraphExec, CUgraphNode, CUkernelNodeParams, GraphApi,
};
pub use status::Status;

/// Oldest driver that is supported: CUDA 11.4, as `cuDriverGetVersion` gives
/// it (1000 * major + 10 * minor). It is the first that needs no special case,
/// and cudarc's oldest.
pub const OLDEST_VERSION: i32 = 11_040;

/// Thread capture mode `GLOBAL`: the default.
pub const CAPTURE_MODE_GLOBAL: u32 = 0;
/// Thread capture mode `THREAD_LOCAL`.
pub const CAPTURE_MODE_THREAD_LOCAL: u32 = 1;
/// Thread capture mode `RELAXED`: what a poll needs.
pub const CAPTURE_MODE_RELAXED: u32 = 2;

/// `cuStreamIsCapturing`: the stream does not capture.
pub const CAPTURE_STATUS_NONE: u32 = 0;

/// Event flags: timing on, busy-wait on synchronise.
pub const EVENT_DEFAULT: u32 = 0;

/// Stream flags: neither waits for the legacy default stream nor holds it up.
pub const STREAM_NON_BLOCKING: u32 = 1;
