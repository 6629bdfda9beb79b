// SPDX-License-Identifier: MIT OR Apache-2.0
//! The recorder for C and C++: `libmetrale`, and `include/metrale.h`, which
//! `cargo xtask api --write` makes of this crate. What may be called when, and
//! from which thread, stands there beside each function.
//!
//! 1. No panic crosses the border: `status::call` catches it, and counts it.
//! 2. A pointer is looked at before it is used (`pointers`): NULL and misaligned
//!    ones are refused. That it points to what it should, the caller promises.
//! 3. A recorder that is NULL is one that measures nothing, as
//!    [`Recorder::disabled`](metrale_gpu_runtime::timing::Recorder::disabled) is.
//! 4. Steps and lanes are plain words in the caller's memory, and spans are tokens:
//!    the hot path allocates nothing.
//! 5. A string that goes out is a copy, and the caller's; those of `const char *`
//!    are the library's.
//! 6. What is declared changes only with [`ABI_VERSION`]; `tests/header.rs` holds it.
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

// In the order of the header.
mod status;

mod telemetry;

mod recorder;

mod spans;

mod twins;

mod records;

mod pointers;

pub use {recorder::*, records::*, spans::*, status::*, telemetry::*, twins::*};

use std::ffi::{CStr, c_char};

/// The version of what this header declares. It is raised where something that
/// was declared before changes; what is new leaves it.
pub const ABI_VERSION: u32 = 2;

/// Stands for a number that is not known.
pub const UNKNOWN: u64 = 0xffff_ffff_ffff_ffff;

/// The library's version, as in "0.1.0".
/// Any thread, at any time; the string is the library's.
#[unsafe(no_mangle)]
pub extern "C" fn metrale_version() -> *const c_char {
    const VERSION: &CStr =
        match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
            Ok(version) => version,
            Err(_) => c"",
        };
    VERSION.as_ptr()
}

/// The `METRALE_ABI_VERSION` that the library was built with.
/// Any thread, at any time.
#[unsafe(no_mangle)]
pub extern "C" fn metrale_abi_version() -> u32 {
    ABI_VERSION
}
