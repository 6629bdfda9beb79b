// SPDX-License-Identifier: MIT OR Apache-2.0
//! What can be wrong with a trace as a whole, each with its place.
//!
//! Invariant: `Display` is one line and names what was found and what to do.
//! The caller puts the file's name before it.

/// Why a trace cannot be replayed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The file cannot be opened or read.
    #[error("cannot be read: {0}")]
    Io(#[source] std::io::Error),
    /// The file holds no byte.
    #[error("is empty (a Kineto or Chrome JSON trace was expected)")]
    Empty,
    /// The file is of another kind.
    #[error("this is {found}, a Kineto JSON is needed: {cure}")]
    NotATrace {
        /// What it is.
        found: String,
        /// What to do.
        cure: String,
    },
    /// The compressed stream is damaged or cut short.
    #[error("byte {at}: damaged {packing} data: {reason} (is the file complete?)")]
    Damaged {
        /// How it is packed.
        packing: &'static str,
        /// Unpacked bytes read before the damage.
        at: u64,
        /// What the decoder said.
        reason: String,
    },
    /// The file unpacks to more than is plausible for a trace.
    #[error(
        "unpacks to more than {limit} bytes from {packed}: refused as a {packing} bomb (unpack it first if it is genuine)"
    )]
    TooBig {
        /// The limit in unpacked bytes.
        limit: u64,
        /// The bytes of the file that were read until then.
        packed: u64,
        /// How it is packed.
        packing: &'static str,
    },
    /// The text is not JSON, is cut short, or is not shaped like a trace.
    #[error("line {line} column {column}: {reason}")]
    Json {
        /// Line, from 1.
        line: usize,
        /// Column in bytes, from 0 for an error at a line's start.
        column: usize,
        /// What was found there.
        reason: String,
    },
    /// There is nothing to replay.
    #[error(
        "no GPU work among its {events} events (categories kernel, gpu_memcpy, gpu_memset){dropped}"
    )]
    NoGpuWork {
        /// Events read.
        events: u64,
        /// Empty, or how many GPU events were dropped and why.
        dropped: String,
    },
}
