// SPDX-License-Identifier: MIT OR Apache-2.0
//! A trace file as a stream of bytes: plain, or packed, which its first bytes
//! tell.
//!
//! Invariant: memory does not depend on the file's size, and no stream gives
//! more than its limit. The limit is on the unpacked size, because a small
//! gzip file can name petabytes of it, and goes by the packed bytes that were
//! read: a pipe has no length.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufReader, Cursor, Read};
use std::path::Path;
use std::rc::Rc;

use super::members::{Members, Packing};
use super::read::one_line;
use super::{TraceError, foreign};

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

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
        Limits { floor: 16 << 20, ratio: 200, ceiling: 8 << 30 }
    }
}

impl Limits {
    /// Unpacked bytes allowed from a file of `packed` bytes.
    pub fn unpacked(&self, packed: u64) -> u64 {
        self.floor.saturating_add(packed.saturating_mul(self.ratio)).min(self.ceiling)
    }
}

/// An open trace file.
pub(super) struct TraceBytes {
    inner: Box<dyn Read>,
    packing: Option<Packing>,
    /// Unpacked bytes that were looked at and are not given yet.
    head: Cursor<Vec<u8>>,
    limits: Limits,
    over: bool,
    unpacked: u64,
    packed: Rc<Cell<u64>>,
    /// Size of the file in bytes; a pipe has none.
    pub(super) size: Option<u64>,
}

impl TraceBytes {
    /// Opens `path` and looks at its first bytes.
    pub(super) fn open(path: &Path, limits: &Limits) -> Result<Self, TraceError> {
        let file = File::open(path).map_err(TraceError::Io)?;
        let meta = file.metadata().map_err(TraceError::Io)?;
        if meta.is_dir() {
            return Err(TraceError::Io(io::ErrorKind::IsADirectory.into()));
        }
        let size = meta.is_file().then_some(meta.len());
        Self::new(file, size, Some(path), limits)
    }

    /// Takes bytes from any reader; `path` is where they come from.
    pub(super) fn new(
        reader: impl Read + 'static,
        size: Option<u64>,
        path: Option<&Path>,
        limits: &Limits,
    ) -> Result<Self, TraceError> {
        let packed = Rc::new(Cell::new(0));
        let mut reader = Counted { inner: reader, count: packed.clone() };
        let head = read_head(&mut reader).map_err(TraceError::Io)?;
        let packing = Packing::of(&head);
        let all = Cursor::new(head).chain(reader);
        let inner: Box<dyn Read> = match packing {
            None => Box::new(all),
            Some(packing) => {
                Box::new(Members::new(packing, BufReader::with_capacity(64 << 10, all)))
            }
        };
        let mut source = TraceBytes {
            inner,
            packing,
            head: Cursor::default(),
            limits: *limits,
            over: false,
            unpacked: 0,
            packed,
            size,
        };
        let mut head = read_head(&mut source).map_err(|error| source.explain(error))?;
        if head.is_empty() {
            return Err(TraceError::Empty);
        }
        if let Some(error) = foreign::name(&head, packing, path) {
            return Err(error);
        }
        if head.starts_with(BYTE_ORDER_MARK) {
            head.drain(..BYTE_ORDER_MARK.len());
        }
        source.head = Cursor::new(head);
        Ok(source)
    }

    /// File bytes taken so far.
    pub(super) fn packed(&self) -> u64 {
        self.packed.get()
    }

    /// Unpacked bytes read so far.
    pub(super) fn unpacked(&self) -> u64 {
        self.unpacked
    }

    /// What a failure met while reading stands for.
    pub(super) fn explain(&self, error: io::Error) -> TraceError {
        match self.packing.map(Packing::name) {
            Some(packing) if self.over => TraceError::TooBig {
                limit: self.limits.unpacked(self.packed()),
                packed: self.packed(),
                packing,
            },
            Some(packing) => TraceError::Damaged {
                packing,
                at: self.unpacked,
                reason: one_line(&error.to_string()),
            },
            None => TraceError::Io(error),
        }
    }
}

impl Read for TraceBytes {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let looked_at = self.head.read(buffer)?;
        if looked_at > 0 {
            return Ok(looked_at);
        }
        let got = self.inner.read(buffer)?;
        self.unpacked += got as u64;
        if self.packing.is_some() && self.unpacked > self.limits.unpacked(self.packed()) {
            self.over = true;
            return Err(io::Error::other("over the limit"));
        }
        Ok(got)
    }
}

/// The first bytes that a reader gives, as many as say what it is.
fn read_head(reader: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut head = Vec::with_capacity(foreign::HEAD);
    reader.take(foreign::HEAD as u64).read_to_end(&mut head)?;
    Ok(head)
}

struct Counted<R> {
    inner: R,
    count: Rc<Cell<u64>>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // A decoder that is interrupted could not go on.
        let got = loop {
            match self.inner.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other?,
            }
        };
        self.count.set(self.count.get() + got as u64);
        Ok(got)
    }
}
