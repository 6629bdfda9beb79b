// SPDX-License-Identifier: MIT OR Apache-2.0
//! The FFI of metrale, and all of it: the CUDA driver's entry points, found by
//! name at run time, and with feature `nvtx` ranges for a profiler to show.
//!
//! Invariants: nothing here links against a CUDA library, nothing panics, and
//! a status is the `u32` that the driver returned.
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

pub mod cuda;
#[cfg(feature = "nvtx")]
pub mod nvtx;
