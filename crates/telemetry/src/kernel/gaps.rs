// SPDX-License-Identifier: MIT OR Apache-2.0
//! The spans that the next ones follow.
//!
//! A gap runs from the end of a span to the start of the next one that landed
//! on its stream. It is known only if no span was lost between the two, the
//! earlier one still has its events, and the two do not overlap: of two that do
//! the next one follows whichever ended later.

/// Streams whose last landed span is remembered.
const STREAMS: usize = 8;

/// A span that landed.
#[derive(Clone, Copy)]
pub(super) struct PreviousSpan {
    pub(super) stream: u64,
    /// The ring's loss count when it began.
    pub(super) losses: u64,
    pub(super) slot: usize,
    pub(super) lap: u64,
}

/// The last span that landed on each of some streams.
pub(super) struct Previous {
    last: [Option<PreviousSpan>; STREAMS],
    /// The place of the last span, where the next one is mostly too.
    at: usize,
    /// The place that was last given to a stream without one.
    given: usize,
}

impl Previous {
    pub(super) fn new() -> Self {
        Self { last: [None; STREAMS], at: 0, given: 0 }
    }

    #[inline]
    fn is_at(&self, place: usize, stream: u64) -> bool {
        self.last[place].is_some_and(|last| last.stream == stream)
    }

    fn place(&self, stream: u64) -> Option<usize> {
        (0..STREAMS).find(|place| self.is_at(*place, stream))
    }

    fn give(&mut self) -> usize {
        self.given = (self.given + 1) % STREAMS;
        self.last[self.given] = None;
        self.given
    }

    /// Notes that `span` landed. Returns the one before it on its stream, if no
    /// span between the two was lost.
    #[inline]
    pub(super) fn follow(&mut self, span: PreviousSpan) -> Option<PreviousSpan> {
        if !self.is_at(self.at, span.stream) {
            self.at = self.place(span.stream).unwrap_or_else(|| self.give());
        }
        let before = self.last[self.at].replace(span)?;
        let known = before.losses == span.losses && before.slot != span.slot;
        known.then_some(before)
    }

    /// Notes that the span before the one that landed last ended later.
    pub(super) fn keep(&mut self, before: PreviousSpan) {
        self.last[self.at] = Some(before);
    }

    /// Notes that a span of `stream` was lost.
    pub(super) fn forget(&mut self, stream: u64) {
        if let Some(place) = self.place(stream) {
            self.last[place] = None;
        }
    }
}
