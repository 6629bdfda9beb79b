// SPDX-License-Identifier: MIT OR Apache-2.0
//! The word of an entry of the step table: the track of its step, how many spans
//! it counted, and its state.

/// Bits 0 and 1 of a word.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub(super) enum State {
    Free = 0,
    Taking = 1,
    Placed = 2,
    Unplaced = 3,
}

pub(super) const STATE: u64 = 3;
pub(super) const CLOSED: u64 = 1 << 2;
pub(super) const LOST: u64 = 1 << 3;
/// A later step found the entry in use.
pub(super) const TURNED_AWAY: u64 = 1 << 4;
/// One span, in bits 5 to 31; the track is in bits 32 to 63.
pub(super) const SPAN: u64 = 1 << 5;
pub(super) const SPANS: u64 = (1 << 32) - SPAN;
pub(super) const TRACK_SHIFT: u32 = 32;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Word(pub(super) u64);

impl Word {
    pub(super) const fn free_after(track: u32) -> Self {
        Self((track as u64) << TRACK_SHIFT | State::Free as u64)
    }

    pub(super) fn state(self) -> State {
        match self.0 & STATE {
            0 => State::Free,
            1 => State::Taking,
            2 => State::Placed,
            _ => State::Unplaced,
        }
    }

    pub(super) fn track(self) -> u32 {
        (self.0 >> TRACK_SHIFT) as u32
    }

    /// In use by the step on `track`.
    pub(super) fn is_of(self, track: u32) -> bool {
        self.track() == track && self.state() != State::Free
    }

    pub(super) fn has(self, bit: u64) -> bool {
        self.0 & bit != 0
    }

    pub(super) fn spans(self) -> u32 {
        ((self.0 & SPANS) / SPAN) as u32
    }
}
