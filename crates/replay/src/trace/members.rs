// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packed bytes unpacked: gzip or zstd, of one member or of many.
//!
//! Invariants: every checksum that the data carries is held against it; zeros
//! may follow the last member, as tapes and block devices pad, and nothing else.

use std::io::{self, BufRead, Read};

use flate2::bufread::GzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// How bytes are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packing {
    Gzip,
    Zstd,
}

impl Packing {
    /// The packing of a file that begins with `head`.
    pub(super) fn of(head: &[u8]) -> Option<Self> {
        match head {
            [0x1f, 0x8b, ..] => Some(Packing::Gzip),
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => {
                Some(Packing::Zstd)
            }
            _ => None,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Packing::Gzip => "gzip",
            Packing::Zstd => "zstd",
        }
    }
}

/// The unpacked bytes of `R`.
pub(super) struct Members<R> {
    packing: Packing,
    state: State<R>,
}

enum State<R> {
    Between(R),
    Gzip(GzDecoder<R>),
    Zstd(R, Box<FrameDecoder>),
    /// At the end, or after an error.
    Over,
}

impl<R: BufRead> Members<R> {
    pub(super) fn new(packing: Packing, input: R) -> Self {
        Members { packing, state: State::Between(input) }
    }

    /// The member that begins next.
    fn begin(&self, mut input: R) -> io::Result<State<R>> {
        if at_end(&mut input)? {
            return Ok(State::Over);
        }
        if self.packing == Packing::Gzip {
            return Ok(State::Gzip(GzDecoder::new(input)));
        }
        let mut decoder = FrameDecoder::new();
        match decoder.reset(&mut input) {
            Ok(()) => Ok(State::Zstd(input, Box::new(decoder))),
            Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                length,
                ..
            })) => {
                let length = u64::from(length);
                if io::copy(&mut input.by_ref().take(length), &mut io::sink())? < length {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                Ok(State::Between(input))
            }
            Err(error) => Err(io::Error::other(error)),
        }
    }
}

/// Whether nothing is left but zeros, which are passed.
fn at_end(input: &mut impl BufRead) -> io::Result<bool> {
    let mut padded = false;
    loop {
        let bytes = input.fill_buf()?;
        match bytes.iter().position(|&byte| byte != 0) {
            None if bytes.is_empty() => return Ok(true),
            Some(0) if !padded => return Ok(false),
            Some(_) => return Err(io::Error::other("more after zeros")),
            None => {
                let zeros = bytes.len();
                input.consume(zeros);
                padded = true;
            }
        }
    }
}

impl<R: BufRead> Read for Members<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            let (got, next) = match std::mem::replace(&mut self.state, State::Over) {
                State::Over => return Ok(0),
                State::Between(input) => (0, self.begin(input)?),
                State::Gzip(mut decoder) => match decoder.read(buffer)? {
                    0 => (0, State::Between(decoder.into_inner())),
                    got => (got, State::Gzip(decoder)),
                },
                State::Zstd(mut input, mut decoder) => {
                    match read_frame(&mut input, &mut decoder, buffer)? {
                        0 => (0, State::Between(input)),
                        got => (got, State::Zstd(input, decoder)),
                    }
                }
            };
            self.state = next;
            if got > 0 {
                return Ok(got);
            }
        }
    }
}

/// The next bytes of a zstd frame; 0 at its end, where its checksum holds.
fn read_frame(
    input: &mut impl Read,
    decoder: &mut FrameDecoder,
    buffer: &mut [u8],
) -> io::Result<usize> {
    while decoder.can_collect() == 0 && !decoder.is_finished() {
        decoder
            .decode_blocks(&mut *input, BlockDecodingStrategy::UptoBlocks(1))
            .map_err(io::Error::other)?;
    }
    let got = decoder.read(buffer)?;
    let stated = decoder.get_checksum_from_data();
    if got == 0 && stated.is_some() && stated != decoder.get_calculated_checksum() {
        return Err(io::Error::other("its checksum does not hold"));
    }
    Ok(got)
}
