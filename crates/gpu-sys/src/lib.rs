// SPDX-License-Identifier: MIT OR Apache-2.0
//! The FFI of metrale, and all of it: the CUDA driver's entry points, found by
//! name at run time, and with feature `nvtx` ranges for a profiler to show.
//!
//! Invariants: nothing here links against a CUDA library, nothing panics, and
//! a status is the `u32` that the driver returned.
#![deny(missing_docs)]

pub mod cuda;
#[cfg(feature = "nvtx")]
pub mod nvtx;
