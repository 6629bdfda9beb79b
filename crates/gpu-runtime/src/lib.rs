// SPDX-License-Identifier: MIT OR Apache-2.0
//! Times GPU work with pooled CUDA event pairs inside somebody else's process.
//!
//! What it promises its host: it never waits for the GPU, never synchronises,
//! never calls `cuInit` or makes a context, never creates or destroys an event
//! after set-up, never breaks a graph capture, and never panics.
#![deny(missing_docs)]

pub mod timing;
