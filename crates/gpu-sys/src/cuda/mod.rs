// SPDX-License-Identifier: MIT OR Apache-2.0
//! The CUDA driver, found by name at run time.

mod status;

pub use status::Status;
