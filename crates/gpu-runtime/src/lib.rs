// SPDX-License-Identifier: MIT OR Apache-2.0
//! Times GPU work with pooled CUDA event pairs inside somebody else's process.
//!
//! What it promises its host: it never waits for the GPU, never synchronises,
//! never calls `cuInit` or makes a context, never creates or destroys an event
//! after set-up, never breaks a graph capture, and never panics.
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

pub mod timing;
