// SPDX-License-Identifier: MIT OR Apache-2.0
//! Between which spans a gap is read, and the spans that the next ones follow.
//!
//! A gap runs from the end of the last span that landed on a stream to the
//! start of the next one there. It is known only if no span was lost between
//! the two and the earlier one still has its events.

use super::sink::SpanTag;

/// Streams whose last landed span is remembered.
const STREAMS: usize = 8;

/// Between which spans a ring reads the gap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gaps {
    /// Between none.
    #[default]
    Off,
    /// Between any two neighbours of one stream.
    EverySpan,
    /// Between neighbours of one stream that carry the same step and are both
    /// armed. Outside an armed step not every launch has a span, and spans that
    /// are neighbours here need not be on the stream.
    WithinStep,
}

impl Gaps {
    /// Whether the rule has a gap between spans so tagged.
    #[inline]
    fn between(self, before: SpanTag, after: SpanTag) -> bool {
        match self {
            Self::Off => false,
            Self::EverySpan => true,
            Self::WithinStep => {
                let armed = before.armed && after.armed;
                armed && after.step.is_some() && before.step == after.step
            }
        }
    }
}

/// A span that landed.
#[derive(Clone, Copy)]
pub(super) struct Last {
    pub(super) stream: u64,
    pub(super) tag: SpanTag,
    /// The ring's loss count when it began.
    pub(super) losses: u64,
    pub(super) slot: usize,
    pub(super) lap: u64,
}

/// The last span that landed on each of some streams.
pub(super) struct Previous {
    last: [Option<Last>; STREAMS],
    next: usize,
}

impl Previous {
    pub(super) fn new() -> Self {
        Self {
            last: [None; STREAMS],
            next: 0,
        }
    }

    pub(super) fn clear(&mut self) {
        self.last = [None; STREAMS];
    }

    fn place(&self, stream: u64) -> Option<usize> {
        self.last
            .iter()
            .position(|last| last.is_some_and(|last| last.stream == stream))
    }

    /// Notes that `span` landed. Returns the one before it on its stream, if
    /// `rule` has a gap between the two and no span between them was lost.
    pub(super) fn follow(&mut self, rule: Gaps, span: Last) -> Option<Last> {
        let place = self.place(span.stream).unwrap_or_else(|| {
            self.next = (self.next + 1) % STREAMS;
            self.last[self.next] = None;
            self.next
        });
        let before = self.last[place].replace(span)?;
        let known = before.losses == span.losses && before.slot != span.slot;
        (known && rule.between(before.tag, span.tag)).then_some(before)
    }

    /// Notes that a span of `stream` was lost.
    pub(super) fn forget(&mut self, stream: u64) {
        if let Some(place) = self.place(stream) {
            self.last[place] = None;
        }
    }
}
