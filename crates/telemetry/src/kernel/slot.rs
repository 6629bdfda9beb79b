// SPDX-License-Identifier: MIT OR Apache-2.0
//! One slot of the ring: a pair of events and the span that uses it.
//!
//! # Protocol
//!
//! The slot's word holds a *state* and a *lap*. The lap is the number of the
//! turn in which the slot was last taken, and is a slot's generation: it only
//! grows, so no two spans of one slot share it.
//!
//! | state | the event pair and the fields belong to | held as |
//! |---|---|---|
//! | `Free` | nobody; the next recorder to claim the slot | |
//! | `Landed` | the same; the pair still holds the last span's times, if there was one | |
//! | `Starting` | the recorder that claimed it, until it records the start | [`Claimed`] |
//! | `Open` | whoever moves it on: `end`, `cancel` or the reclaimer | |
//! | `Ending` | the caller of `end`, until it records the end; `cancel` and the reclaimer, on their way to `Free` | [`Ending`] |
//! | `Closed` | the harvest pass | [`Closed`] |
//!
//! 1. Every change of state is one of the transitions below; no other code
//!    writes the word. Who owns a state holds its value, and gives that up to
//!    move on.
//! 2. `Free -> Starting`, `Open -> Ending` and a skip (rule 8) are contended and
//!    go by compare-and-exchange: one caller wins, the others learn that they
//!    lost and touch nothing. (`Landed` is as `Free` here.)
//! 3. The remaining ones are made by the only owner of the state, by a store.
//! 4. A lap is claimed only if it is later than the slot's last: a recorder
//!    that overslept its turn drops its attempt.
//! 5. A state that hands the pair on is written with Release, and taken with
//!    Acquire, so that the new owner sees events and fields as they were left.
//! 6. `Starting` and `Ending` are left only by their owner: a driver call may be
//!    in progress there. Nothing reclaims them.
//! 7. An event is recorded only in `Starting` and `Ending`, and read only in
//!    `Closed`. One exception: for a gap the end event of a landed span is read
//!    while the slot is free, and counts only if the word says before and after
//!    that this span was the slot's last.
//! 8. A recorder that finds the slot in use by an earlier lap leaves its own
//!    lap in `turned_away`, as the word is not its to write. When the slot is
//!    free, the pass may *skip* it to such a lap: the word becomes `Free` of
//!    that lap, and a recorder of an earlier one is overslept (rule 4).

use super::span::{Flags, Packed};
use super::token::SpanToken;
use crate::sync::{AtomicU64, Ordering, const_fn, fence, relaxed};

const STATE_BITS: u32 = 3;

/// See the module's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(super) enum State {
    Free = 0,
    Landed = 1,
    Starting = 2,
    Open = 3,
    Ending = 4,
    Closed = 5,
}

/// A slot's word: state and lap at one moment.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Word(u64);

impl Word {
    #[inline]
    const fn new(state: State, lap: u64) -> Self {
        Self(lap << STATE_BITS | state as u64)
    }

    #[inline]
    pub(super) const fn lap(self) -> u64 {
        self.0 >> STATE_BITS
    }

    #[inline]
    pub(super) const fn state(self) -> State {
        match self.0 & ((1 << STATE_BITS) - 1) {
            0 => State::Free,
            1 => State::Landed,
            2 => State::Starting,
            3 => State::Open,
            4 => State::Ending,
            _ => State::Closed,
        }
    }

    /// `Free` or `Landed`.
    #[inline]
    pub(super) const fn is_free(self) -> bool {
        self.0 & ((1 << STATE_BITS) - 1) <= State::Landed as u64
    }

    /// Free, and lap `lap` was its last.
    #[inline]
    pub(super) const fn is_free_in(self, lap: u64) -> bool {
        self.0 & !(State::Landed as u64) == Self::new(State::Free, lap).0
    }

    /// Closed, and of lap `lap`.
    #[inline]
    pub(super) const fn is_closed_in(self, lap: u64) -> bool {
        self.0 == Self::new(State::Closed, lap).0
    }
}

/// A line of its own, so that recorders of neighbouring slots do not contend.
#[repr(align(64))]
pub(super) struct Slot {
    word: AtomicU64,
    /// Written in `Starting`; read in `Open` and `Closed`.
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

/// The owner of `Starting`.
#[must_use = "a claimed slot is opened or abandoned"]
pub(super) struct Claimed<'a> {
    slot: &'a Slot,
    lap: u64,
}

/// The owner of `Ending`.
#[must_use = "a slot that is ending is closed or abandoned"]
pub(super) struct Ending<'a> {
    slot: &'a Slot,
    lap: u64,
}

/// A closed slot, for the harvest pass.
pub(super) struct Closed<'a> {
    slot: &'a Slot,
    lap: u64,
}

impl Slot {
    const_fn! {
        #[inline]
        pub(super) const fn new() -> Self {
            Self {
                // As a claim takes it to be: the first lap costs what others do.
                word: AtomicU64::new(State::Landed as u64),
                value: AtomicU64::new(0),
                flags: AtomicU64::new(0),
                losses: AtomicU64::new(0),
                stream: AtomicU64::new(0),
                claims: relaxed::AtomicU64::new(0),
                turned_away: AtomicU64::new(0),
            }
        }
    }

    /// The word now; in `Closed`, fields and events are there to be read.
    #[inline]
    pub(super) fn word(&self) -> Word {
        // Acquire: in `Closed`, fields and events are complete (partner: the
        // Release of `close`).
        // Model: tail::a_closed_span_is_landed_as_it_was_left.
        Word(self.word.load(Ordering::Acquire))
    }

    /// The word for a guess before an exchange, or for counting; orders nothing.
    #[inline]
    pub(super) fn peek(&self) -> Word {
        // Relaxed: a guess, a count, or after a fence the check of
        // `while_landed`.
        Word(self.word.load(Ordering::Relaxed))
    }

    /// `Free -> Starting` for lap `lap`.
    #[inline]
    pub(super) fn claim(&self, lap: u64) -> Option<Claimed<'_>> {
        // As it mostly is; a look first would wait for the line twice.
        let mut seen = Word::new(State::Landed, lap - 1);
        loop {
            // Acquire: the last owner is done with the pair (partner: the
            // Release of whichever transition freed the slot).
            // Model: recorders::two_recorders_take_one_slot_again_and_again.
            match self.exchange(seen, Word::new(State::Starting, lap), Ordering::Acquire) {
                Ok(()) => return Some(Claimed { slot: self, lap }),
                Err(found) if !found.is_free() || found.lap() >= lap => return None,
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

    /// How often the slot was claimed.
    pub(super) fn claims(&self) -> u64 {
        self.claims.load(Ordering::Relaxed)
    }

    /// A skip to lap `lap` of a slot seen free in `seen`, if a recorder of that
    /// lap or a later one was turned away: from now on no earlier one claims
    /// it. Whether it was made.
    pub(super) fn skip(&self, seen: Word, lap: u64) -> bool {
        // Relaxed: a hint; who does not see it leaves the ticket for later.
        if self.turned_away.load(Ordering::Relaxed) < lap {
            return false;
        }
        // Relaxed: the caller touches neither pair nor fields, and the exchange
        // carries the Release of `free` on to the next claim.
        let skipped = self.exchange(seen, Word::new(State::Free, lap), Ordering::Relaxed);
        skipped.is_ok()
    }

    /// `Open -> Ending`, if `token` names the open span.
    #[inline]
    pub(super) fn begin_end(&self, token: SpanToken) -> Option<Ending<'_>> {
        let seen = self.peek();
        if seen.state() != State::Open || !token.is_lap(seen.lap()) {
            return None;
        }
        let ending = self.take_open(seen);
        // Release: whoever sees the end event that is recorded from here on
        // also sees that the word moved on (partner: the fence of
        // `while_landed`). Here and not in `claim`: the end may be recorded by
        // another thread, to which a fence of the claiming one means nothing.
        // Model: gaps::a_gap_against_an_end_on_another_thread.
        fence(Ordering::Release);
        ending
    }

    /// `Open -> Ending` for the span that was seen open in `seen`. To give it up
    /// this is all: without an end, no event is recorded.
    #[inline]
    pub(super) fn take_open(&self, seen: Word) -> Option<Ending<'_>> {
        let lap = seen.lap();
        // Acquire: the start event and the fields are complete (partner: `open`).
        // Model: recorders::a_span_may_end_on_another_thread.
        let taken = self.exchange(seen, Word::new(State::Ending, lap), Ordering::Acquire);
        taken.is_ok().then_some(Ending { slot: self, lap })
    }

    /// The slot, for the pass, which saw it closed in lap `lap`.
    #[inline]
    pub(super) fn closed(&self, lap: u64) -> Closed<'_> {
        Closed { slot: self, lap }
    }

    /// What the span of lap `lap` is and the stream of its end, while it is
    /// open or closed. If it is over by now, this may be of another span, or be
    /// put together from two: good enough to be shown.
    pub(super) fn describe_if(&self, lap: u64) -> Option<(Packed, State, u64)> {
        let seen = self.word();
        let packed = self.filed();
        // Relaxed: shown, and nothing else.
        let stream = self.stream.load(Ordering::Relaxed);
        let same = self.peek() == seen && seen.lap() == lap && !seen.is_free();
        same.then_some((packed, seen.state(), stream))
    }

    /// Runs `read` on the end event of the span that landed in lap `lap`, if it
    /// is still its own before and after.
    #[inline]
    pub(super) fn while_landed<T>(&self, lap: u64, read: impl FnOnce() -> Option<T>) -> Option<T> {
        let landed = Word::new(State::Landed, lap);
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

    #[inline]
    fn filed(&self) -> Packed {
        Packed {
            // Relaxed: after the owner's Acquire.
            value: self.value.load(Ordering::Relaxed),
            flags: Flags(self.flags.load(Ordering::Relaxed)),
        }
    }

    #[inline]
    fn free(&self, state: State, lap: u64) {
        // Release: the caller is done with pair and fields (partner: `claim`).
        // Model: recorders::two_recorders_take_one_slot_again_and_again.
        self.word.store(Word::new(state, lap).0, Ordering::Release);
    }

    #[inline]
    fn exchange(&self, seen: Word, next: Word, success: Ordering) -> Result<(), Word> {
        // Relaxed: on failure, as the loser touches nothing.
        self.word
            .compare_exchange(seen.0, next.0, success, Ordering::Relaxed)
            .map(drop)
            .map_err(Word)
    }
}

impl Claimed<'_> {
    /// Counts the claim and describes the span.
    #[inline]
    pub(super) fn describe(&self, packed: Packed, losses: u64) {
        let slot = self.slot;
        // Relaxed: after `claim`, and published by `open` or `free`.
        let claims = slot.claims.load(Ordering::Relaxed);
        slot.claims.store(claims + 1, Ordering::Relaxed);
        slot.value.store(packed.value, Ordering::Relaxed);
        slot.flags.store(packed.flags.0, Ordering::Relaxed);
        slot.losses.store(losses, Ordering::Relaxed);
    }

    /// `Starting -> Open`: the start was recorded.
    #[inline]
    pub(super) fn open(self) {
        let word = Word::new(State::Open, self.lap);
        // Release: the start event and the fields are complete (partner: the
        // Acquire of `take_open`).
        // Model: recorders::a_span_may_end_on_another_thread.
        self.slot.word.store(word.0, Ordering::Release);
    }

    /// `Starting -> Free`: the start could not be recorded.
    pub(super) fn abandon(self) {
        self.slot.free(State::Free, self.lap);
    }
}

impl Ending<'_> {
    /// `Ending -> Closed`: the end was recorded on `stream`.
    #[inline]
    pub(super) fn close(self, stream: u64) {
        // Relaxed: published by the word.
        self.slot.stream.store(stream, Ordering::Relaxed);
        let word = Word::new(State::Closed, self.lap);
        // Release: fields and events are complete (partner: `word`).
        // Model: tail::a_closed_span_is_landed_as_it_was_left.
        self.slot.word.store(word.0, Ordering::Release);
    }

    /// `Ending -> Free`: there is no end. What the span was.
    pub(super) fn abandon(self) -> Packed {
        let packed = self.slot.filed();
        self.slot.free(State::Free, self.lap);
        packed
    }
}

impl Closed<'_> {
    /// The stream that the end was recorded on.
    #[inline]
    pub(super) fn stream(&self) -> u64 {
        // Relaxed: after the Acquire of `word`.
        self.slot.stream.load(Ordering::Relaxed)
    }

    /// What the span is.
    #[inline]
    pub(super) fn filed(&self) -> Packed {
        self.slot.filed()
    }

    /// The ring's loss count when the span began.
    #[inline]
    pub(super) fn losses(&self) -> u64 {
        // Relaxed: after the Acquire of `word`.
        self.slot.losses.load(Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn lap(&self) -> u64 {
        self.lap
    }

    /// `Closed -> Landed`.
    #[inline]
    pub(super) fn land(self) {
        self.slot.free(State::Landed, self.lap);
    }

    /// `Closed -> Free`: its pair cannot be read.
    pub(super) fn fail(self) {
        self.slot.free(State::Free, self.lap);
    }
}
