// SPDX-License-Identifier: MIT OR Apache-2.0
//! The streams that a pass has met, and which of them wait.
//!
//! Work on one stream completes in order, so after the first pending span of a
//! stream its later ones are left alone. 64 streams are told apart. Of those
//! that wait beyond that a filter is kept: it may take another stream for one
//! of them, which then waits for the next pass, where the filter is another.

/// Streams a pass tells apart.
const STREAMS: usize = 64;
/// Words of the filter; one bit to a stream.
const FILTER: usize = 64;

/// What to do about a closed span, by its stream.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ask {
    /// No span of the stream was asked about yet.
    First,
    /// The span before it was done.
    Next,
    /// The stream said to wait.
    Wait,
}

#[derive(Clone, Copy)]
struct Met {
    stream: u64,
    waits: bool,
}

pub(super) struct Streams {
    met: [Met; STREAMS],
    len: usize,
    /// The stream of the last turn or meeting.
    at: usize,
    /// The same, if it does not wait.
    next: Option<u64>,
    /// The stream that was met last and found no room.
    beyond: Option<u64>,
    /// Streams beyond the room that wait.
    filter: [u64; FILTER],
    filtered: bool,
    passes: u64,
}

impl Streams {
    pub(super) fn new() -> Self {
        let none = Met { stream: 0, waits: false };
        Self {
            met: [none; STREAMS],
            len: 0,
            at: 0,
            next: None,
            beyond: None,
            filter: [0; FILTER],
            filtered: false,
            passes: 0,
        }
    }

    /// Forgets all, for the next pass.
    pub(super) fn clear(&mut self) {
        (self.len, self.at, self.next, self.beyond) = (0, 0, None, None);
        self.passes = self.passes.wrapping_add(1);
        if std::mem::take(&mut self.filtered) {
            self.filter = [0; FILTER];
        }
    }

    #[inline]
    pub(super) fn ask(&mut self, stream: u64) -> Ask {
        if self.next == Some(stream) { Ask::Next } else { self.ask_other(stream) }
    }

    #[inline(never)]
    fn ask_other(&mut self, stream: u64) -> Ask {
        // Streams take turns, mostly: the one that was met after the last one.
        let after = if self.at + 1 < self.len { self.at + 1 } else { 0 };
        let met = &self.met[..self.len];
        let is_met = |met: &Met| met.stream == stream;
        let place = match met.get(after) {
            Some(met) if is_met(met) => Some(after),
            _ => met.iter().position(is_met),
        };
        match place {
            Some(at) => {
                (self.at, self.beyond) = (at, None);
                let waits = met[at].waits;
                self.next = (!waits).then_some(stream);
                if waits { Ask::Wait } else { Ask::Next }
            }
            None if self.filtered && self.is_filtered(stream) => Ask::Wait,
            None => Ask::First,
        }
    }

    /// Notes the stream of a first turn.
    pub(super) fn meet(&mut self, stream: u64) {
        self.next = Some(stream);
        let place = if self.len < STREAMS {
            self.len += 1;
            Some(self.len - 1)
        } else {
            // A stream that does not wait can be asked anew.
            self.met.iter().position(|met| !met.waits)
        };
        match place {
            Some(at) => {
                self.at = at;
                self.met[at] = Met { stream, waits: false };
                self.beyond = None;
            }
            None => self.beyond = Some(stream),
        }
    }

    /// Notes that the stream of the last turn or meeting waits.
    pub(super) fn wait(&mut self) {
        self.next = None;
        match self.beyond.take() {
            Some(stream) => {
                let (word, bit) = self.filter_place(stream);
                self.filter[word] |= bit;
                self.filtered = true;
            }
            None => self.met[self.at].waits = true,
        }
    }

    fn is_filtered(&self, stream: u64) -> bool {
        let (word, bit) = self.filter_place(stream);
        self.filter[word] & bit != 0
    }

    /// Another place in each pass, so that no two streams share one for ever.
    fn filter_place(&self, stream: u64) -> (usize, u64) {
        let hash = crate::sampling::mix(stream ^ crate::sampling::mix(self.passes));
        ((hash >> 58) as usize, 1 << (hash & 63))
    }
}

#[cfg(all(test, not(metrale_loom)))]
mod tests {
    use super::{Ask, Streams};

    #[test]
    fn beyond_64_waiting_streams_each_is_asked_once_and_none_waits_for_ever() {
        let mut streams = Streams::new();
        let mut asked = [0u32; 1_000];
        for _ in 0..8 {
            streams.clear();
            for round in 0..2 {
                for (stream, asked) in asked.iter_mut().enumerate() {
                    if streams.ask(stream as u64) == Ask::First {
                        assert_eq!(round, 0, "stream {stream} said to wait");
                        *asked += 1;
                        streams.meet(stream as u64);
                        streams.wait();
                    }
                }
            }
        }
        assert!(asked.iter().all(|asked| *asked >= 2), "{asked:?}");
        assert!(asked[..64].iter().all(|asked| *asked == 8));
    }

    #[test]
    fn a_stream_that_does_not_wait_makes_room() {
        let mut streams = Streams::new();
        for stream in 0..200 {
            assert!(streams.ask(stream) == Ask::First);
            streams.meet(stream);
            assert!(streams.ask(stream) == Ask::Next);
        }
    }
}
