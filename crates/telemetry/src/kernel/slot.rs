// SPDX-License-Identifier: MIT OR Apache-2.0
//! One slot of the ring: a pair of events and the span that uses it.
//!
//! # Protocol
//!
//! The slot's word holds a *state* and a *lap*. The lap is the number of the
//! turn in which the slot was last taken, and is a slot's generation: it only
//! grows, so no two spans of one slot share it.
//!
//! | state | the event pair and the fields belong to |
//! |---|---|
//! | `Free` | nobody; the next recorder to claim the slot |
//! | `Starting` | the recorder that claimed it, until it records the start |
//! | `Open` | whoever moves it on: `end`, `cancel` or the reclaimer |
//! | `Ending` | the caller of `end`, until it records the end |
//! | `Closed` | the harvest pass |
//!
//! 1. Every change of state is one of the transitions below; no other code
//!    writes the word.
//! 2. `Free -> Starting`, `Open -> Ending`, `Open -> Free` and a skip (rule 8)
//!    are contended and go by compare-and-exchange: one caller wins, the others
//!    learn that they lost and touch nothing.
//! 3. The remaining ones are made by the only owner of the state, by a store.
//! 4. A lap is claimed only if it is later than the slot's last: a recorder
//!    that overslept its turn drops its attempt.
//! 5. A state that hands the pair on is written with Release, and taken with
//!    Acquire, so that the new owner sees events and fields as they were left.
//! 6. `Starting` and `Ending` are left only by their owner: a driver call is in
//!    progress there. Nothing reclaims them.
//! 7. An event is recorded only in `Starting` and `Ending`, and read only in
//!    `Closed`. One exception: for a gap the end event of a landed span is read
//!    while the slot is free, and counts only if the word says before and after
//!    that this span was the slot's last.
//! 8. A recorder that finds the slot in use by an earlier lap leaves its own
//!    lap in `turned_away`, as the word is not its to write. When the slot is
//!    free, the pass may *skip* it to such a lap: the word becomes `Free` of
//!    that lap, and a recorder of an earlier one is overslept (rule 4).

use super::sink::Packed;
use crate::sync::{AtomicU64, Ordering, const_fn, fence, relaxed};

const STATE_BITS: u32 = 3;
const FREE: u64 = 0;
/// Free, and its last span landed: the events hold their times.
const LANDED: u64 = 1;
const STARTING: u64 = 2;
const OPEN: u64 = 3;
const ENDING: u64 = 4;
const CLOSED: u64 = 5;

/// A slot's word: state and lap at one moment.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Word(u64);

/// What a word says about the slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Nobody's.
    Free,
    /// A driver call is in progress (`Starting` or `Ending`).
    Busy,
    /// Begun, not ended.
    Open,
    /// Ended, not landed.
    Closed,
}

impl Word {
    #[inline]
    const fn new(state: u64, lap: u64) -> Self {
        Self(lap << STATE_BITS | state)
    }

    #[inline]
    pub(super) const fn lap(self) -> u64 {
        self.0 >> STATE_BITS
    }

    /// Free, and lap `lap` was its last.
    #[inline]
    pub(super) const fn is_free_in(self, lap: u64) -> bool {
        self.0 & !LANDED == Self::new(FREE, lap).0
    }

    /// Closed, and of lap `lap`.
    #[inline]
    pub(super) const fn is_closed_in(self, lap: u64) -> bool {
        self.0 == Self::new(CLOSED, lap).0
    }

    #[inline]
    pub(super) const fn state(self) -> State {
        match self.0 & ((1 << STATE_BITS) - 1) {
            FREE | LANDED => State::Free,
            OPEN => State::Open,
            CLOSED => State::Closed,
            _ => State::Busy,
        }
    }
}

/// A contended transition either happened or was lost to somebody else.
#[must_use = "the loser of a transition must not touch the event pair"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transition {
    /// The caller owns the new state.
    Made,
    /// Another state or lap was found; nothing changed.
    Lost,
}

impl From<Result<(), Word>> for Transition {
    #[inline]
    fn from(exchange: Result<(), Word>) -> Self {
        match exchange {
            Ok(()) => Self::Made,
            Err(_) => Self::Lost,
        }
    }
}

/// A line of its own, so that recorders of neighbouring slots do not contend.
#[repr(align(64))]
pub(super) struct Slot {
    word: AtomicU64,
    /// Written in `Starting`; read in `Closed`.
    value: AtomicU64,
    flags: AtomicU64,
    losses: AtomicU64,
    /// Written in `Ending`; read in `Closed`.
    stream: AtomicU64,
    /// How often the slot was claimed. Written in `Starting`.
    claims: relaxed::AtomicU64,
    /// The last lap that found the slot in use.
    turned_away: AtomicU64,
}

impl Slot {
    const_fn! {
        #[inline]
        pub(super) const fn new() -> Self {
            Self {
                word: AtomicU64::new(FREE),
                value: AtomicU64::new(0),
                flags: AtomicU64::new(0),
                losses: AtomicU64::new(0),
                stream: AtomicU64::new(0),
                claims: relaxed::AtomicU64::new(0),
                turned_away: AtomicU64::new(0),
            }
        }
    }

    /// The word now.
    #[inline]
    pub(super) fn word(&self) -> Word {
        // Acquire: in `Closed`, the fields and the end event are the caller's to
        // read (partner: the Release of `close`).
        // Model: tail::a_closed_span_is_landed_as_it_was_left.
        Word(self.word.load(Ordering::Acquire))
    }

    /// `Free -> Starting` for lap `lap`.
    #[inline]
    pub(super) fn claim(&self, lap: u64) -> Transition {
        // As it mostly is; a look first would wait for the line twice.
        let mut seen = Word::new(LANDED, lap - 1);
        loop {
            // Acquire: the last owner is done with the pair (partner: the
            // Release of whichever transition freed the slot).
            // Model: recorders::two_recorders_take_one_slot_again_and_again.
            match self.exchange(seen, Word::new(STARTING, lap), Ordering::Acquire) {
                Ok(()) => return Transition::Made,
                Err(found) if found.state() != State::Free || found.lap() >= lap => {
                    return Transition::Lost;
                }
                // Free, and not the word guessed or seen before. This ends, as
                // the slot is free in a lap once or, by a skip, twice.
                Err(found) => seen = found,
            }
        }
    }

    /// Notes that lap `lap` found the slot in use.
    pub(super) fn turn_away(&self, lap: u64) {
        // Relaxed: the pass that sees it exchanges the word, and one that does
        // not leaves the ticket for later.
        self.turned_away.fetch_max(lap, Ordering::Relaxed);
    }

    /// Counts the claim and describes the span; for the owner of `Starting`.
    #[inline]
    pub(super) fn describe(&self, packed: Packed, losses: u64) {
        // Relaxed: after `claim`; published by `open` or `free`.
        let claims = self.claims.load(Ordering::Relaxed);
        self.claims.store(claims + 1, Ordering::Relaxed);
        self.value.store(packed.value, Ordering::Relaxed);
        self.flags.store(packed.flags, Ordering::Relaxed);
        self.losses.store(losses, Ordering::Relaxed);
    }

    /// How often the slot was claimed.
    pub(super) fn claims(&self) -> u64 {
        self.claims.load(Ordering::Relaxed)
    }

    /// A skip to lap `lap` of a slot seen free in `seen`, if a recorder of that
    /// lap or a later one was turned away: from now on no earlier one claims it.
    pub(super) fn skip(&self, seen: Word, lap: u64) -> Transition {
        // Relaxed: a hint; who does not see it leaves the ticket for later.
        if self.turned_away.load(Ordering::Relaxed) < lap {
            return Transition::Lost;
        }
        // Relaxed: as in `give_up`, for the Release of `free`.
        self.exchange(seen, Word::new(FREE, lap), Ordering::Relaxed)
            .into()
    }

    /// `Starting -> Open`.
    #[inline]
    pub(super) fn open(&self, lap: u64) {
        // Release: the start event and the fields are complete (partner: the
        // Acquire of `begin_end`).
        // Model: recorders::a_span_may_end_on_another_thread.
        self.word.store(Word::new(OPEN, lap).0, Ordering::Release);
    }

    /// `Starting -> Free`: the start could not be recorded.
    pub(super) fn abandon_start(&self, lap: u64) {
        self.free(FREE, lap);
    }

    /// `Open -> Ending` for the span seen in `seen`.
    #[inline]
    pub(super) fn begin_end(&self, seen: Word) -> Transition {
        // Acquire: the start event is complete (partner: `open`).
        // Model: recorders::a_span_may_end_on_another_thread.
        let taken = self.exchange(seen, Word::new(ENDING, seen.lap()), Ordering::Acquire);
        // Release: whoever sees the end event that is recorded from here on
        // also sees that the word moved on (partner: the fence of
        // `while_landed`). Here and not in `claim`: the end may be recorded by
        // another thread, to which a fence of the claiming one means nothing.
        // Model: gaps::a_gap_against_an_end_on_another_thread.
        fence(Ordering::Release);
        taken.into()
    }

    /// `Ending -> Closed`: the end was recorded on `stream`.
    #[inline]
    pub(super) fn close(&self, lap: u64, stream: u64) {
        // Relaxed: published by the word.
        self.stream.store(stream, Ordering::Relaxed);
        // Release: fields and events are complete (partner: `word`).
        // Model: tail::a_closed_span_is_landed_as_it_was_left.
        self.word.store(Word::new(CLOSED, lap).0, Ordering::Release);
    }

    /// `Ending -> Free`: the end could not be recorded.
    pub(super) fn abandon_end(&self, lap: u64) {
        self.free(FREE, lap);
    }

    /// `Open -> Free` for the span seen in `seen`: cancelled or reclaimed.
    pub(super) fn give_up(&self, seen: Word) -> Transition {
        // Relaxed: the caller touches neither pair nor fields, and the
        // exchange carries the Release of `open` on to the next claim.
        self.exchange(seen, Word::new(FREE, seen.lap()), Ordering::Relaxed)
            .into()
    }

    /// `Closed -> Free`, landed (`true`) or failed; for the harvest pass.
    #[inline]
    pub(super) fn settle(&self, lap: u64, landed: bool) {
        self.free(if landed { LANDED } else { FREE }, lap);
    }

    #[inline]
    fn free(&self, state: u64, lap: u64) {
        // Release: the caller is done with the pair (partner: `claim`).
        // Model: recorders::two_recorders_take_one_slot_again_and_again.
        self.word.store(Word::new(state, lap).0, Ordering::Release);
    }

    #[inline]
    fn exchange(&self, seen: Word, next: Word, success: Ordering) -> Result<(), Word> {
        self.word
            // Relaxed: on failure, as the loser touches nothing.
            .compare_exchange(seen.0, next.0, success, Ordering::Relaxed)
            .map(drop)
            .map_err(Word)
    }

    /// The word for reading a token against; orders nothing.
    #[inline]
    pub(super) fn peek(&self) -> Word {
        // Relaxed: a guess before an exchange, a count, or after a fence the check of
        // `while_landed`.
        Word(self.word.load(Ordering::Relaxed))
    }

    /// The stream that the end was recorded on; for the harvest pass, in `Closed`.
    #[inline]
    pub(super) fn stream(&self) -> u64 {
        // Relaxed: after `word`.
        self.stream.load(Ordering::Relaxed)
    }

    /// What the span is; for the harvest pass, in `Closed`.
    #[inline]
    // Relaxed: after `word`.
    pub(super) fn filed(&self) -> Packed {
        Packed {
            value: self.value.load(Ordering::Relaxed),
            flags: self.flags.load(Ordering::Relaxed),
        }
    }

    /// The ring's loss count when the span began; for the harvest pass, in
    /// `Closed`.
    #[inline]
    pub(super) fn losses(&self) -> u64 {
        // Relaxed: after `word`.
        self.losses.load(Ordering::Relaxed)
    }

    /// Runs `read` on the end event of the span that landed in lap `lap`, if it
    /// is still its own before and after.
    #[inline]
    pub(super) fn while_landed<T>(&self, lap: u64, read: impl FnOnce() -> Option<T>) -> Option<T> {
        let landed = Word::new(LANDED, lap);
        if self.word() != landed {
            return None;
        }
        let value = read();
        // Acquire: if `read` saw a later span's end event, the check sees the
        // word that this span moved on (partner: the fence of `begin_end`).
        // Model: gaps::a_gap_against_a_recorder_of_the_slot_before.
        fence(Ordering::Acquire);
        if self.peek() == landed { value } else { None }
    }
}
