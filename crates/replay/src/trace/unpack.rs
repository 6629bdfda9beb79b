// SPDX-License-Identifier: MIT OR Apache-2.0
//! A trace file as a stream of bytes: plain, or gzip told by its magic number.
//!
//! Invariant: memory does not depend on the file's size, and no stream gives
//! more than its limit. The limit is on the unpacked size, because a small
//! gzip file can name petabytes of it.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::rc::Rc;

use flate2::bufread::MultiGzDecoder;

use super::TraceError;

/// Bounds on what a compressed file may unpack to.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Unpacked bytes any file may have.
    pub floor: u64,
    /// Unpacked bytes per packed byte beyond the floor. JSON traces pack by
    /// 8 to 50; deflate itself reaches 1,032.
    pub ratio: u64,
    /// Unpacked bytes no file may pass.
    pub ceiling: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            floor: 16 << 20,
            ratio: 200,
            ceiling: 8 << 30,
        }
    }
}

impl Limits {
    /// Unpacked bytes allowed from a file of `packed` bytes.
    pub fn unpacked(&self, packed: u64) -> u64 {
        self.floor
            .saturating_add(packed.saturating_mul(self.ratio))
            .min(self.ceiling)
    }
}

/// How far a [`Source`] has come, readable while a parser holds the source.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    unpacked: Rc<Cell<u64>>,
    packed: Rc<Cell<u64>>,
    over: Rc<Cell<bool>>,
    gzip_failed: Rc<Cell<bool>>,
}

impl Counts {
    /// Unpacked bytes given so far.
    pub(crate) fn unpacked(&self) -> u64 {
        self.unpacked.get()
    }

    /// File bytes taken so far.
    pub(crate) fn packed(&self) -> u64 {
        self.packed.get()
    }
}

/// An open trace file.
pub(crate) struct Source {
    inner: Box<dyn Read>,
    gzip: bool,
    limit: u64,
    counts: Counts,
    /// Size of the file in bytes.
    pub(crate) packed_size: u64,
}

impl Source {
    /// Opens `path` and looks at its first bytes.
    pub(crate) fn open(path: &Path, limits: &Limits) -> Result<Self, TraceError> {
        let file = File::open(path).map_err(TraceError::Io)?;
        let meta = file.metadata().map_err(TraceError::Io)?;
        if meta.is_dir() {
            return Err(TraceError::Io(io::ErrorKind::IsADirectory.into()));
        }
        let packed_size = meta.len();
        Self::new(file, packed_size, limits)
    }

    /// Takes bytes from any reader of `packed_size` bytes.
    pub(crate) fn new(
        reader: impl Read + 'static,
        packed_size: u64,
        limits: &Limits,
    ) -> Result<Self, TraceError> {
        let counts = Counts::default();
        let mut packed = BufReader::with_capacity(
            64 << 10,
            Counted {
                inner: reader,
                count: counts.packed.clone(),
            },
        );
        let head = packed.fill_buf().map_err(TraceError::Io)?;
        if head.is_empty() {
            return Err(TraceError::Empty);
        }
        let gzip = head.starts_with(&[0x1f, 0x8b]);
        let (inner, limit): (Box<dyn Read>, u64) = if gzip {
            let decoder = MultiGzDecoder::new(packed);
            (Box::new(decoder), limits.unpacked(packed_size))
        } else {
            (Box::new(packed), u64::MAX)
        };
        Ok(Source {
            inner,
            gzip,
            limit,
            counts,
            packed_size,
        })
    }

    /// The running counts.
    pub(crate) fn counts(&self) -> Counts {
        self.counts.clone()
    }

    /// Turns an I/O failure met while reading into the error it stands for.
    pub(crate) fn explain(
        counts: &Counts,
        limit: u64,
        packed: u64,
        error: io::Error,
    ) -> TraceError {
        if counts.over.get() {
            TraceError::TooBig { limit, packed }
        } else if counts.gzip_failed.get() {
            TraceError::Gzip {
                at: counts.unpacked(),
                reason: error.to_string(),
            }
        } else {
            TraceError::Io(error)
        }
    }

    /// The limit in unpacked bytes.
    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }
}

impl Read for Source {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let got = self.inner.read(buf).inspect_err(|error| {
            if self.gzip && error.kind() != io::ErrorKind::Interrupted {
                self.counts.gzip_failed.set(true);
            }
        })?;
        let total = self.counts.unpacked.get() + got as u64;
        self.counts.unpacked.set(total);
        if total > self.limit {
            self.counts.over.set(true);
            return Err(io::Error::other("over the limit"));
        }
        Ok(got)
    }
}

struct Counted<R> {
    inner: R,
    count: Rc<Cell<u64>>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let got = self.inner.read(buf)?;
        self.count.set(self.count.get() + got as u64);
        Ok(got)
    }
}
