// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces as bytes, packed and not.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use metrale_replay::trace::{self, Limits, Trace, TraceError};

pub(crate) fn read(bytes: impl Into<Vec<u8>>) -> Result<Trace, TraceError> {
    trace::read_bytes(bytes.into(), &Limits::default())
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("packed");
    encoder.finish().expect("packed")
}

/// As an error is to be told, whatever was read.
pub(crate) fn is_one_line(error: &str) -> bool {
    !error.contains('\n') && error.len() < 300
}
