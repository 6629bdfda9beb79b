// SPDX-License-Identifier: MIT OR Apache-2.0
//! The streams that a pass has met, and which of them wait.
//!
//! Work on one stream completes in order, so after the first pending span of a
//! stream its later ones are left alone.

/// Streams a pass tells apart.
const STREAMS: usize = 64;

/// What to do about a closed span, by its stream.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// No span of the stream was asked about yet.
    First,
    /// The span before it was done.
    Next,
    /// The stream said to wait.
    Wait,
    /// Too many streams wait: the next pass starts here.
    Later,
}

#[derive(Clone, Copy)]
struct Met {
    stream: u64,
    waits: bool,
}

pub(super) struct Streams {
    met: [Met; STREAMS],
    len: usize,
    waiting: usize,
    /// The stream of the last turn or meeting.
    at: usize,
    /// The same, if it does not wait.
    next: Option<u64>,
}

impl Streams {
    pub(super) fn new() -> Self {
        let none = Met {
            stream: 0,
            waits: false,
        };
        Self {
            met: [none; STREAMS],
            len: 0,
            waiting: 0,
            at: 0,
            next: None,
        }
    }

    pub(super) fn clear(&mut self) {
        (self.len, self.waiting, self.at, self.next) = (0, 0, 0, None);
    }

    #[inline]
    pub(super) fn turn(&mut self, stream: u64) -> Turn {
        if self.next == Some(stream) {
            return Turn::Next;
        }
        // Streams take turns, mostly: the one that was met after the last one.
        let after = if self.at + 1 < self.len {
            self.at + 1
        } else {
            0
        };
        let met = &self.met[..self.len];
        let is_it = |met: &Met| met.stream == stream;
        let place = match met.get(after) {
            Some(met) if is_it(met) => Some(after),
            _ => met.iter().position(is_it),
        };
        match place {
            Some(at) => {
                self.at = at;
                let waits = met[at].waits;
                self.next = (!waits).then_some(stream);
                if waits { Turn::Wait } else { Turn::Next }
            }
            None if self.waiting == STREAMS => Turn::Later,
            None => Turn::First,
        }
    }

    /// Notes the stream of a first turn.
    pub(super) fn meet(&mut self, stream: u64) {
        self.at = if self.len < STREAMS {
            self.len += 1;
            self.len - 1
        } else {
            // A stream that does not wait can be asked anew.
            self.met.iter().position(|met| !met.waits).unwrap_or(0)
        };
        self.met[self.at] = Met {
            stream,
            waits: false,
        };
        self.next = Some(stream);
    }

    /// Notes that the stream of the last turn or meeting waits.
    pub(super) fn wait(&mut self) {
        self.waiting += 1;
        self.met[self.at].waits = true;
        self.next = None;
    }
}
