// SPDX-License-Identifier: MIT OR Apache-2.0
//! The steps whose spans are put together: how many spans each began, and
//! whether more can come.
//!
//! A followed step has a *track*, a number that grows by one from step to step,
//! and the entry of the table that the track falls on. An entry is one word:
//!
//! | state | whose it is |
//! |---|---|
//! | `Free` | nobody's: the first span of a later step than its last takes it |
//! | `Taking` | a step's, whose anchor is being recorded: [`Taking`] |
//! | `Placed` | a step's, whose anchor was recorded |
//! | `Unplaced` | a step's without an anchor |
//!
//! 1. The word is changed by compare-and-exchange only, and only by who finds
//!    its own track there: nobody who comes late changes a later step.
//! 2. A step's spans are counted when they begin. One that comes to nothing is
//!    taken off again; if its work was lost, the word says so for good.
//! 3. A closed step counts no more spans. It is over when every span that it
//!    counted is over.
//! 4. Only the fold frees an entry, and tracks of an entry only grow. A span
//!    that found the entry in use by an earlier step leaves its track beside the
//!    word, and then a mark in it; the entry is freed to later steps than the
//!    last of these: no step is followed without its first spans.
//! 5. `Taking -> Placed` is written with Release and read with Acquire, so that
//!    the fold finds the anchor recorded; `-> Free` with Release and claimed with
//!    Acquire, so that an anchor is not recorded before it was last read.

mod lost_lanes;
mod word;

use crate::instrument::Counter;
use crate::sync::{AtomicU64, Ordering, fence};
use lost_lanes::LostLanes;
use word::{CLOSED, LOST, SPAN, SPANS, STATE, State, TRACK_SHIFT, TURNED_AWAY, Word};

/// Steps that are followed at a time.
pub const FOLLOWED_STEPS: usize = if cfg!(metrale_loom) { 2 } else { 64 };
/// A step is closed when this many later ones were begun.
const LATER_STEPS: u32 = 4;

/// What a span that begins finds of its step.
pub enum Entered<'a> {
    /// It is the step's first: an anchor is to be recorded.
    First(Taking<'a>),
    /// It is counted in its step.
    Counted,
    /// The step is not followed, or is over.
    Alone,
}

/// The owner of `Taking`; dropped, the step goes on without an anchor.
#[must_use = "the step has no anchor before this says so"]
pub struct Taking<'a> {
    table: &'a StepTable,
    track: u32,
    next: State,
}

impl Taking<'_> {
    /// The number of the step's anchor, under [`FOLLOWED_STEPS`].
    #[must_use]
    pub fn anchor(&self) -> usize {
        entry_of(self.track)
    }

    /// The anchor was recorded.
    pub fn placed(mut self) {
        self.next = State::Placed;
    }
}

impl Drop for Taking<'_> {
    fn drop(&mut self) {
        let state = self.next as u64;
        // Release: the anchor was recorded, and the step's number is in place
        // (partners: the loads of `anchor` and `standing`).
        // Model: steps::two_spans_begin_a_step_at_once.
        self.table.change(self.track, Ordering::Release, |word| Some(word.0 & !STATE | state));
    }
}

/// Where a step's anchor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// Being recorded.
    Coming,
    /// Recorded, with this number.
    At(usize),
    /// There is none.
    None,
}

/// How a step stands, for the fold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The step's track.
    pub track: u32,
    /// Its number.
    pub number: u64,
    /// It is armed.
    pub armed: bool,
    /// Spans that it counted and that did not come to nothing.
    pub spans: u32,
    /// It counts no more.
    pub closed: bool,
    /// Work of it is missing.
    pub lost: bool,
    /// Lanes that some of that was of, a bit each.
    pub lost_lanes: u32,
    /// It has an anchor.
    pub placed: bool,
}

/// See the module.
pub struct StepTable {
    words: [AtomicU64; FOLLOWED_STEPS],
    /// The number of the step of each entry, and in bit 0 whether it is armed.
    /// Written in `Taking`.
    numbers: [AtomicU64; FOLLOWED_STEPS],
    /// The last track that found the entry in use.
    waiting: [AtomicU64; FOLLOWED_STEPS],
    lost_lanes: LostLanes,
    /// A bit for each entry that may be in use.
    used: AtomicU64,
    turned_away: Counter,
    late: Counter,
}

fn entry_of(track: u32) -> usize {
    track as usize % FOLLOWED_STEPS
}

impl StepTable {
    /// A table that follows no step yet.
    #[must_use]
    pub fn new() -> Self {
        // The track that comes before the entry's first one.
        let before = |entry: usize| (entry as u32).wrapping_sub(FOLLOWED_STEPS as u32);
        Self {
            words: std::array::from_fn(|entry| AtomicU64::new(Word::free_after(before(entry)).0)),
            numbers: std::array::from_fn(|_| AtomicU64::new(0)),
            waiting: std::array::from_fn(|entry| AtomicU64::new(u64::from(before(entry)))),
            lost_lanes: LostLanes::new(before),
            used: AtomicU64::new(0),
            turned_away: Counter::new(),
            late: Counter::new(),
        }
    }

    /// Changes the word of `track` as long as it is in use by that step; what
    /// it was, if it was changed.
    fn change(
        &self,
        track: u32,
        success: Ordering,
        next: impl Fn(Word) -> Option<u64>,
    ) -> Option<Word> {
        let word = &self.words[entry_of(track)];
        // Relaxed: a guess; the exchange decides.
        let mut seen = Word(word.load(Ordering::Relaxed));
        loop {
            if !seen.is_of(track) {
                return None;
            }
            match word.compare_exchange(seen.0, next(seen)?, success, Ordering::Relaxed) {
                Ok(_) => return Some(seen),
                Err(found) => seen = Word(found),
            }
        }
    }

    /// Counts a span that is about to begin in step `number`, on `track`.
    pub fn enter(&self, track: u32, number: u64, armed: bool) -> Entered<'_> {
        let entry = entry_of(track);
        let word = &self.words[entry];
        // Relaxed: a guess; the exchange decides.
        let mut seen = Word(word.load(Ordering::Relaxed));
        let mut is_new = false;
        loop {
            let is_free = seen.state() == State::Free;
            let next = if is_free && is_later(track, seen.track()) {
                u64::from(track) << TRACK_SHIFT | SPAN | State::Taking as u64
            } else if seen.is_of(track) {
                if seen.has(CLOSED) || seen.0 & SPANS == SPANS {
                    self.late.add(1);
                    return Entered::Alone;
                }
                seen.0 + SPAN
            } else if !is_later(track, seen.track()) {
                self.late.add(1);
                return Entered::Alone;
            } else {
                is_new |= self.wait(entry, track);
                seen.0 | TURNED_AWAY
            };
            // Acquire: the fold is done with the entry and its anchor (partner:
            // `free`).
            // Model: steps::a_step_against_the_next_one_of_its_entry.
            match word.compare_exchange(seen.0, next, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) if is_free => {
                    let number = number << 1 | u64::from(armed);
                    // Relaxed: published by the drop of `Taking`.
                    self.numbers[entry].store(number, Ordering::Relaxed);
                    // Relaxed: a fold that does not see it comes again.
                    self.used.fetch_or(1 << entry, Ordering::Relaxed);
                    return Entered::First(Taking { table: self, track, next: State::Unplaced });
                }
                Ok(_) if seen.is_of(track) => return Entered::Counted,
                Ok(_) => {
                    self.turned_away.add(u64::from(is_new));
                    return Entered::Alone;
                }
                Err(found) => seen = Word(found),
            }
        }
    }

    /// Leaves the track of a step whose entry is in use, for who frees it. The
    /// mark is to follow by an exchange, be it there or not: who takes it off
    /// after that sees the track. Whether it is the step's first span to do so.
    #[cold]
    fn wait(&self, entry: usize, track: u32) -> bool {
        let later = |last: u64| is_later(track, last as u32).then_some(u64::from(track));
        // Relaxed: published by the fence and the mark. It fails where a later
        // step waits.
        let left = self.waiting[entry].fetch_update(Ordering::Relaxed, Ordering::Relaxed, later);
        // Release: who takes the mark off sees the track (partner: the exchange
        // of `free`).
        // Model: steps::a_step_that_was_turned_away_is_not_followed.
        fence(Ordering::Release);
        left.is_ok()
    }

    /// A span of the step on `track` came to nothing, and its work, of `lane`, was lost.
    #[cold]
    pub fn lose(&self, track: u32, lane: Option<usize>) {
        self.lost_lanes.note(track, lane);
        // Release: the lane was noted (partner: the loads of `standing`).
        // Model: steps::the_lane_of_a_loss_is_found_with_it.
        self.change(track, Ordering::Release, |word| Some((word.0 - SPAN) | LOST));
    }

    /// Work of the step on `track`, of `lane`, is missing from it, which was never
    /// counted. A step that begins with such work is not followed.
    #[cold]
    pub fn miss(&self, track: u32, lane: Option<usize>) {
        let entry = entry_of(track);
        let word = &self.words[entry];
        // Relaxed: a guess; the exchange decides.
        let mut seen = Word(word.load(Ordering::Relaxed));
        loop {
            let next = if seen.is_of(track) {
                // Not before that is known: the lanes of an earlier step are kept.
                self.lost_lanes.note(track, lane);
                seen.0 | LOST
            } else if !is_later(track, seen.track()) {
                return;
            } else if seen.state() == State::Free {
                Word::free_after(track).0
            } else {
                self.wait(entry, track);
                seen.0 | TURNED_AWAY
            };
            // Release: the lane was noted (partner: the loads of `standing`). Relaxed:
            // the next try decides.
            // Model: steps::the_lane_of_a_refusal_is_found_with_it.
            match word.compare_exchange(seen.0, next, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(found) => seen = Word(found),
            }
        }
    }

    /// A span of the step on `track` came to nothing, and there was no work.
    #[cold]
    pub fn withdraw(&self, track: u32) {
        // Relaxed: one word, nothing to publish; as in `close`.
        self.change(track, Ordering::Relaxed, |word| Some(word.0 - SPAN));
    }

    /// The step on `track` counts no more spans.
    pub fn close(&self, track: u32) {
        self.change(track, Ordering::Relaxed, |word| Some(word.0 | CLOSED));
    }

    /// The anchor of the step on `track`.
    #[must_use]
    #[inline]
    pub fn anchor(&self, track: u32) -> Anchor {
        let entry = entry_of(track);
        // Acquire: the anchor was recorded (partner: the drop of `Taking`).
        // Model: steps::two_spans_begin_a_step_at_once.
        let word = Word(self.words[entry].load(Ordering::Acquire));
        match word.state() {
            _ if word.track() != track => Anchor::None,
            State::Taking => Anchor::Coming,
            State::Placed => Anchor::At(entry),
            State::Free | State::Unplaced => Anchor::None,
        }
    }

    /// Whether no step waits: one load.
    #[must_use]
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.used.load(Ordering::Relaxed) == 0
    }

    /// Spans of steps that were over, or closed, when they began.
    pub(super) fn late_spans(&self) -> u64 {
        self.late.get()
    }

    /// Steps that found their entry in use. Of several that find the same one
    /// in use at a time, the first counts.
    pub(super) fn turned_away(&self) -> u64 {
        self.turned_away.get()
    }

    /// The number of the step on `track`, if that is followed.
    #[must_use]
    pub fn number(&self, track: u32) -> Option<u64> {
        let entry = entry_of(track);
        // Acquire: the step's number is in place (partner: the drop of `Taking`).
        // Model: steps::a_number_is_that_of_its_step.
        let word = Word(self.words[entry].load(Ordering::Acquire));
        let is_numbered = word.is_of(track) && word.state() != State::Taking;
        // Relaxed: after the load above.
        is_numbered.then(|| self.numbers[entry].load(Ordering::Relaxed) >> 1)
    }

    /// Whether the step on `track` has an entry.
    pub(super) fn follows(&self, track: u32) -> bool {
        // Relaxed: a landed span's begin, and so its step's entry, is in sight.
        Word(self.words[entry_of(track)].load(Ordering::Relaxed)).is_of(track)
    }

    /// How the step of an entry stands, for the fold. A step is closed here if
    /// `newest`, the newest track, is far enough from its own.
    #[must_use]
    pub fn standing(&self, entry: usize, newest: u32) -> Option<Standing> {
        // Acquire: the step's number is in place (partner: the drop of `Taking`).
        // Model: steps::a_fold_against_the_first_span.
        let mut word = Word(self.words[entry].load(Ordering::Acquire));
        let track = word.track();
        if matches!(word.state(), State::Free | State::Taking) {
            return None;
        }
        if !word.has(CLOSED) && newest.wrapping_sub(track) as i32 >= LATER_STEPS as i32 {
            self.close(track);
            // Acquire: of a loss that the load above did not find, the lane was noted
            // (partners: the exchanges of `lose` and `miss`).
            // Model: steps::the_lane_of_a_loss_is_found_as_the_step_is_closed.
            word = Word(self.words[entry].load(Ordering::Acquire));
        }
        let number = self.numbers[entry].load(Ordering::Relaxed);
        Some(Standing {
            track,
            number: number >> 1,
            armed: number & 1 == 1,
            spans: word.spans(),
            closed: word.has(CLOSED),
            lost: word.has(LOST),
            lost_lanes: self.lost_lanes.of(track),
            placed: word.state() == State::Placed,
        })
    }

    /// The entries that may be in use, as bits.
    #[must_use]
    pub fn used(&self) -> u64 {
        // Relaxed: what an entry holds is read from its word.
        self.used.load(Ordering::Relaxed)
    }

    /// Frees the entry of the step on `track`, which the fold is done with.
    pub fn free(&self, track: u32) {
        let entry = entry_of(track);
        // Relaxed: before the word, and whoever takes the entry sets the bit
        // after that.
        self.used.fetch_and(!(1 << entry), Ordering::Relaxed);
        let mut last = track;
        let free = |last| {
            let next = |word: Word| (!word.has(TURNED_AWAY)).then_some(Word::free_after(last).0);
            // Release: the anchor was read for the last time (partner: `enter`).
            // Model: steps::a_step_against_the_next_one_of_its_entry.
            self.change(track, Ordering::Release, next).is_some()
        };
        // Nobody leaves the mark between the exchange that takes it off and the
        // one that frees the entry.
        while !free(last) && self.follows(track) {
            let next = |word: Word| Some(word.0 & !TURNED_AWAY);
            // Acquire: the tracks of all who left the mark are in sight (partner:
            // the fence of `wait`).
            // Model: steps::a_step_that_was_turned_away_is_not_followed.
            self.change(track, Ordering::Acquire, next);
            // Relaxed: after the exchange.
            last = self.waiting[entry].load(Ordering::Relaxed) as u32;
        }
    }
}

/// Whether track `a` comes after track `b`.
fn is_later(a: u32, b: u32) -> bool {
    a.wrapping_sub(b) as i32 > 0
}

impl Default for StepTable {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for StepTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StepTable").field("used", &self.used().count_ones()).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(metrale_loom)))]
mod tests;
