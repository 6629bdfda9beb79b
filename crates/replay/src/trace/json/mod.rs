// SPDX-License-Identifier: MIT OR Apache-2.0
//! JSON from a reader, taken piece by piece and forgiving where writers of
//! traces are not exact.
//!
//! Invariants: brackets, commas and colons are held to the grammar but for a
//! comma before a closing bracket, so what is taken is where it stands; a value
//! that is not JSON (`NaN`, `inf`, a raw control byte or a bad escape in a
//! string) is passed over and counted; nothing recurses; nothing is kept of
//! what is skipped but one byte for each open bracket.

mod lexical;
#[cfg(test)]
mod tests;

use std::io::{self, Read};

use self::lexical::{is_scalar, push_unit};

/// Why a document cannot be read on.
#[derive(Debug)]
pub(super) enum JsonError {
    /// The bytes stop coming.
    Io(io::Error),
    /// The document is broken where the reader stands.
    Syntax(String),
}

impl From<io::Error> for JsonError {
    fn from(error: io::Error) -> Self {
        JsonError::Io(error)
    }
}

pub(super) type Result<T> = std::result::Result<T, JsonError>;

/// A scalar longer than this is no number that anything reads.
const LONGEST_SCALAR: usize = 4096;

/// What a value is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ValueKind {
    /// There is none.
    #[default]
    Absent,
    Null,
    String,
    /// A number or a boolean, or a bare word that is not JSON.
    Scalar,
    /// A list or an object: its text is not kept.
    Composite,
}

/// A value as text: what a string says, or a scalar's own spelling.
#[derive(Debug, Default)]
pub(super) struct Text {
    pub(super) bytes: Vec<u8>,
    pub(super) kind: ValueKind,
    /// It is not JSON.
    pub(super) odd: bool,
}

impl Text {
    /// 1 for what is JSON but should have been a string.
    pub(super) fn is_no_string(&self) -> u64 {
        u64::from(self.kind != ValueKind::String && !self.odd)
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.kind = ValueKind::Absent;
        self.odd = false;
    }
}

/// A document that is being read.
pub(super) struct Json<R> {
    reader: R,
    buffer: Box<[u8]>,
    at: usize,
    filled: usize,
    /// Bytes taken before the buffer's first, and before the line's first.
    before: u64,
    line_start: u64,
    line: usize,
    scratch: Vec<u8>,
    /// Values that are not JSON, until somebody takes the count.
    pub(super) odd: u64,
}

impl<R: Read> Json<R> {
    pub(super) fn new(reader: R) -> Self {
        Json {
            reader,
            buffer: vec![0; 64 << 10].into(),
            at: 0,
            filled: 0,
            before: 0,
            line_start: 0,
            line: 1,
            scratch: Vec::new(),
            odd: 0,
        }
    }

    /// What the document is read from.
    pub(super) fn reader(&self) -> &R {
        &self.reader
    }

    /// Line and column of the next byte, both from 1; at the document's end the
    /// column of the last one.
    pub(super) fn place(&self) -> (usize, usize) {
        let taken = self.before + self.at as u64 - self.line_start;
        (self.line, taken as usize + usize::from(self.at < self.filled))
    }

    fn peek(&mut self) -> Result<Option<u8>> {
        if self.at == self.filled {
            self.before += self.filled as u64;
            (self.at, self.filled) = (0, 0);
            self.filled = loop {
                match self.reader.read(&mut self.buffer) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    other => break other?,
                }
            };
        }
        Ok(self.buffer[..self.filled].get(self.at).copied())
    }

    /// Passes the byte that was peeked.
    fn pass(&mut self) {
        if self.buffer[self.at] == b'\n' {
            self.line += 1;
            self.line_start = self.before + self.at as u64 + 1;
        }
        self.at += 1;
    }

    /// The next byte that is no white space; none at the end.
    pub(super) fn next(&mut self) -> Result<Option<u8>> {
        while let Some(byte) = self.peek()? {
            if !matches!(byte, b' ' | b'\n' | b'\r' | b'\t') {
                return Ok(Some(byte));
            }
            self.pass();
        }
        Ok(None)
    }

    fn must(&mut self, what: &str) -> Result<u8> {
        let next = self.next()?;
        next.ok_or_else(|| JsonError::Syntax(format!("EOF where {what} was expected")))
    }

    fn unexpected<T>(&self, byte: u8, what: &str) -> Result<T> {
        let found = byte as char;
        Err(JsonError::Syntax(format!("expected {what}, found {found:?}")))
    }

    /// Holds that nothing but white space is left.
    pub(super) fn end(&mut self) -> Result<()> {
        match self.next()? {
            None => Ok(()),
            Some(byte) => self.unexpected(byte, "the end: these are trailing characters"),
        }
    }

    /// Goes into the list or object whose opening bracket is next.
    pub(super) fn enter(&mut self) {
        self.pass();
    }

    /// The next key of an object, and on to its value; none at its end.
    pub(super) fn key<K>(
        &mut self,
        first: &mut bool,
        of: impl FnOnce(&[u8]) -> K,
    ) -> Result<Option<K>> {
        if !self.another(b'}', std::mem::take(first), false)? {
            return Ok(None);
        }
        let mut key = std::mem::take(&mut self.scratch);
        key.clear();
        match self.must("a key")? {
            b'"' => self.string(Some(&mut key))?,
            byte => return self.unexpected(byte, "a key in quotes"),
        };
        let found = of(&key);
        self.scratch = key;
        match self.must("a colon")? {
            b':' => self.pass(),
            byte => return self.unexpected(byte, "a colon"),
        }
        Ok(Some(found))
    }

    /// Whether the list that was entered has another element, which is next.
    pub(super) fn element(&mut self, first: &mut bool) -> Result<bool> {
        self.another(b']', std::mem::take(first), false)
    }

    /// The same of a list that the document's end may end, too.
    pub(super) fn last_element(&mut self, first: &mut bool) -> Result<bool> {
        self.another(b']', std::mem::take(first), true)
    }

    /// Whether a list or an object has more, and past the comma before it, or
    /// past its end.
    fn another(&mut self, close: u8, first: bool, may_end: bool) -> Result<bool> {
        if may_end && self.next()?.is_none() {
            return Ok(false);
        }
        let mut byte = self.must("a comma or a closing bracket")?;
        if !first && byte == b',' {
            self.pass();
            if may_end && self.next()?.is_none() {
                return Ok(false);
            }
            byte = self.must("a value or a closing bracket")?;
        } else if !first && byte != close {
            return self.unexpected(byte, "a comma or a closing bracket");
        }
        if byte == close {
            self.pass();
        }
        Ok(byte != close)
    }

    /// Takes any value as text.
    pub(super) fn text(&mut self, text: &mut Text) -> Result<()> {
        text.clear();
        match self.must("a value")? {
            b'"' => {
                text.odd = !self.string(Some(&mut text.bytes))?;
                text.kind = ValueKind::String;
            }
            b'{' | b'[' => {
                self.skip()?;
                text.kind = ValueKind::Composite;
            }
            _ => {
                text.odd = !self.scalar()?;
                text.bytes.extend_from_slice(&self.scratch);
                text.kind = match &text.bytes[..] {
                    b"null" => ValueKind::Null,
                    _ => ValueKind::Scalar,
                };
            }
        }
        Ok(())
    }

    /// Passes over any value, and tells whether it is a string.
    pub(super) fn skip(&mut self) -> Result<bool> {
        let mut open: Vec<u8> = Vec::new();
        let outer = self.must("a value")?;
        let mut first = false;
        loop {
            match self.must("a value")? {
                b'"' => drop(self.string(None)?),
                bracket @ (b'{' | b'[') => {
                    self.enter();
                    open.push(bracket);
                    first = true;
                }
                _ => drop(self.scalar()?),
            }
            // On to the next value, out of what has no more.
            loop {
                let more = match open.last() {
                    None => return Ok(outer == b'"'),
                    Some(b'{') => self.key(&mut first, |_| ())?.is_some(),
                    Some(_) => self.element(&mut first)?,
                };
                if more {
                    break;
                }
                open.pop();
            }
        }
    }

    /// A string whose quote is next, added to `text`; whether it is JSON. One
    /// that is not is taken byte for byte where it is wrong.
    fn string(&mut self, mut text: Option<&mut Vec<u8>>) -> Result<bool> {
        let mut good = true;
        self.pass();
        loop {
            let Some(byte) = self.peek()? else {
                return Err(JsonError::Syntax("EOF in a string".to_owned()));
            };
            match byte {
                b'"' => {
                    self.pass();
                    self.odd += u64::from(!good);
                    return Ok(good);
                }
                b'\\' => {
                    self.pass();
                    good &= self.escape(text.as_deref_mut())?;
                }
                0..0x20 => {
                    good = false;
                    if let Some(text) = text.as_deref_mut() {
                        text.push(byte);
                    }
                    self.pass();
                }
                _ => {
                    let rest = &self.buffer[self.at..self.filled];
                    let plain = rest.iter().position(|b| matches!(b, b'"' | b'\\' | 0..0x20));
                    let run = plain.unwrap_or(rest.len());
                    if let Some(text) = text.as_deref_mut() {
                        text.extend_from_slice(&rest[..run]);
                    }
                    self.at += run;
                }
            }
        }
    }

    /// What follows a backslash; whether it is JSON.
    fn escape(&mut self, text: Option<&mut Vec<u8>>) -> Result<bool> {
        let mut unused = Vec::new();
        let text = text.unwrap_or(&mut unused);
        let plain = match self.peek()? {
            Some(byte @ (b'"' | b'\\' | b'/')) => byte,
            Some(b'b') => 8,
            Some(b'f') => 12,
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b't') => b'\t',
            Some(b'u') => {
                self.pass();
                return self.unicode(text);
            }
            _ => {
                text.push(b'\\');
                return Ok(false);
            }
        };
        text.push(plain);
        self.pass();
        Ok(true)
    }

    /// The four digits of a UTF-16 unit; where they are not, what there is.
    fn unicode(&mut self, text: &mut Vec<u8>) -> Result<bool> {
        let (mut unit, from) = (0, text.len());
        text.extend_from_slice(b"\\u");
        for _ in 0..4 {
            let byte = self.peek()?.unwrap_or_default();
            let Some(digit) = (byte as char).to_digit(16) else {
                return Ok(false);
            };
            unit = unit << 4 | digit;
            text.push(byte);
            self.pass();
        }
        text.truncate(from);
        push_unit(text, unit);
        Ok(true)
    }

    /// A bare word into the scratch; whether it is JSON. It may be empty, where
    /// a value is left out.
    fn scalar(&mut self) -> Result<bool> {
        self.scratch.clear();
        let mut fits = true;
        while let Some(byte) = self.peek()? {
            if byte <= b' ' || b",:]}[{\"".contains(&byte) {
                break;
            }
            fits = self.scratch.len() < LONGEST_SCALAR;
            if fits {
                self.scratch.push(byte);
            }
            self.pass();
        }
        if self.scratch.is_empty() {
            // Only where the value ends can it have been left out.
            match self.peek()? {
                Some(b',' | b']' | b'}') | None => {}
                Some(byte) => return self.unexpected(byte, "value"),
            }
        }
        let good = fits && is_scalar(&self.scratch);
        self.odd += u64::from(!good);
        Ok(good)
    }
}
