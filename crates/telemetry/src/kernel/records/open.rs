// SPDX-License-Identifier: MIT OR Apache-2.0
//! The steps that left no record yet: what the serving thread knows of each.
//!
//! Step `n` has the entry `n % OPEN_STEPS`. An entry's word says which step has
//! it, how many lane spans that counted, and what of its fields is there.
//!
//! 1. The word is changed by compare-and-exchange only, and but for the claim of
//!    a free one only by who finds its own step there: nobody who comes late
//!    changes a later step.
//! 2. The fields belong to who set `OWNED`, until it is taken off; while it is
//!    set nobody reads them.
//! 3. A closed step takes no more shape, and a span that begins then marks it
//!    as incomplete.
//! 4. Only the fold frees an entry. A step that finds its own in use leaves no
//!    record, and is counted.

use super::StepShape;
use crate::instrument::Counter;
use crate::sync::{AtomicU64, Ordering, array_of, const_fn, relaxed};
use std::ops::Range;

/// Steps that may wait for their record at a time.
pub const OPEN_STEPS: usize = if cfg!(metrale_loom) { 2 } else { 512 };
/// A step that nobody closed is closed when this many later ones were begun.
const LATER_STEPS: u64 = 64;
/// It leaves its record as it is when this many were.
pub(crate) const GIVEN_UP: u64 = (OPEN_STEPS - OPEN_STEPS / 8) as u64;

const FREE: u64 = 0;
const IN_USE: u64 = 1;
const OWNED: u64 = 1 << 1;
const CLOSED: u64 = 1 << 2;
const ARMED: u64 = 1 << 3;
const LOST: u64 = 1 << 4;
const HAS_SHAPE: u64 = 1 << 5;
const HAS_WALL: u64 = 1 << 6;
const MARKED: u64 = 1 << 7;
/// One span, in bits 8 to 31; the step's number, as far as it goes, in 32 to 63.
const SPAN: u64 = 1 << 8;
const SPANS: u64 = (1 << 32) - SPAN;
const NUMBER_SHIFT: u32 = 32;

/// What is noted of a step beside the word.
struct Fields {
    tokens: AtomicU64,
    requests: AtomicU64,
    began_ns: AtomicU64,
    ended_ns: AtomicU64,
}

struct Entry {
    word: AtomicU64,
    fields: Fields,
}

/// See the module.
pub struct OpenSteps {
    /// The number of the next step.
    begun: relaxed::AtomicU64,
    entries: [Entry; OPEN_STEPS],
    unrecorded: Counter,
}

/// A step that waits for its record, as it was seen.
#[derive(Clone, Copy, Debug)]
pub struct OpenStep {
    word: u64,
    number: u64,
}

impl OpenStep {
    /// Its number.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Lane spans that it counted.
    #[must_use]
    pub fn spans(&self) -> u32 {
        ((self.word & SPANS) / SPAN) as u32
    }

    /// It counts no more, and no field is being written.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.word & (CLOSED | OWNED) == CLOSED
    }

    pub(crate) fn is_owned(&self) -> bool {
        self.word & OWNED != 0
    }

    /// A span of a lane was lost, or came late.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.word & LOST != 0
    }

    pub(crate) fn is_armed(&self) -> bool {
        self.word & ARMED != 0
    }

    pub(crate) fn is_marked(&self) -> bool {
        self.word & MARKED != 0
    }
}

impl OpenSteps {
    const_fn! {
        /// Before the first step.
        #[must_use]
        pub const fn new() -> Self {
            Self {
                begun: relaxed::AtomicU64::new(0),
                entries: array_of!(Entry {
                    word: AtomicU64::new(FREE),
                    fields: Fields {
                        tokens: AtomicU64::new(0),
                        requests: AtomicU64::new(0),
                        began_ns: AtomicU64::new(0),
                        ended_ns: AtomicU64::new(0),
                    },
                }),
                unrecorded: Counter::new(),
            }
        }
    }

    fn entry(&self, number: u64) -> &Entry {
        &self.entries[number as usize % OPEN_STEPS]
    }

    /// Changes the word of step `number` as long as that has the entry; what it
    /// was, if it was changed.
    fn change(
        &self,
        number: u64,
        success: Ordering,
        next: impl Fn(u64) -> Option<u64>,
    ) -> Option<u64> {
        let word = &self.entry(number).word;
        // Relaxed: a guess; the exchange decides.
        let mut seen = word.load(Ordering::Relaxed);
        loop {
            if !is_of(seen, number) {
                return None;
            }
            match word.compare_exchange(seen, next(seen)?, success, Ordering::Relaxed) {
                Ok(_) => return Some(seen),
                Err(found) => seen = found,
            }
        }
    }

    /// Numbers the next step.
    pub(crate) fn number(&self) -> u64 {
        self.begun.fetch_add(1, Ordering::Relaxed)
    }

    /// How many steps began.
    pub(crate) fn begun(&self) -> u64 {
        self.begun.load(Ordering::Relaxed)
    }

    /// Steps that found their entry in use.
    pub(crate) fn unrecorded(&self) -> u64 {
        self.unrecorded.get()
    }

    /// Step `number` is to leave a record; whether its entry was free.
    #[inline]
    pub fn begin(&self, number: u64, armed: bool) -> bool {
        let armed = if armed { ARMED } else { 0 };
        let next = number << NUMBER_SHIFT | armed | IN_USE;
        let word = &self.entry(number).word;
        // Acquire: the fold is done with the fields (partner: `free`).
        // Model: records::a_record_against_the_next_step_of_its_entry.
        let claimed = word.compare_exchange(FREE, next, Ordering::Acquire, Ordering::Relaxed);
        if claimed.is_err() {
            self.unrecorded.add(1);
        }
        claimed.is_ok()
    }

    /// Counts a lane's span that is about to begin.
    pub fn enter(&self, number: u64) {
        // Relaxed: one word, nothing to publish; as in `leave`.
        self.change(number, Ordering::Relaxed, |word| {
            let is_late = word & CLOSED != 0 || word & SPANS == SPANS;
            Some(if is_late { word | LOST } else { word + SPAN })
        });
    }

    /// A lane's span that was counted came to nothing. `lost`: there was work.
    #[cold]
    pub fn leave(&self, number: u64, lost: bool) {
        let lost = if lost { LOST } else { 0 };
        self.change(number, Ordering::Relaxed, |word| {
            let word = if word & SPANS == 0 { word } else { word - SPAN };
            Some(word | lost)
        });
    }

    /// A twin was launched in the step.
    pub fn mark(&self, number: u64) {
        // Relaxed: one word, nothing to publish.
        self.change(number, Ordering::Relaxed, |word| Some(word | MARKED));
    }

    /// Writes fields of a step that is not closed; `then` are the bits that tell
    /// of them. Not while another thread does.
    fn write(&self, number: u64, then: u64, write: impl FnOnce(&Fields)) -> bool {
        let own = |word| (word & (CLOSED | OWNED) == 0).then_some(word | OWNED);
        // Relaxed: who has the step has it from its claim.
        if self.change(number, Ordering::Relaxed, own).is_none() {
            return false;
        }
        write(&self.entry(number).fields);
        // Release: the fields are in place (partner: `standing`).
        // Model: records::a_record_has_what_its_step_stated.
        self.change(number, Ordering::Release, |word| Some(word & !OWNED | then));
        true
    }

    /// States the shape of a step.
    pub fn shape(&self, number: u64, shape: StepShape) {
        let tokens = u64::from(shape.decode_tokens) << 32 | u64::from(shape.prompt_tokens);
        self.write(number, HAS_SHAPE, |fields| {
            // Relaxed: published by the word; as in `close`.
            fields.tokens.store(tokens, Ordering::Relaxed);
            let requests = u64::from(shape.requests);
            fields.requests.store(requests, Ordering::Relaxed);
        });
    }

    /// Closes a step, which took `wall` on the host, if that is known.
    pub fn close(&self, number: u64, wall: Option<Range<u64>>) {
        let closed = wall.is_some_and(|wall| {
            self.write(number, HAS_WALL | CLOSED, |fields| {
                fields.began_ns.store(wall.start, Ordering::Relaxed);
                fields.ended_ns.store(wall.end, Ordering::Relaxed);
            })
        });
        if !closed {
            // Relaxed: nothing to publish.
            self.change(number, Ordering::Relaxed, |word| Some(word | CLOSED));
        }
    }

    /// How the step stands, for the fold, that has the entry of step `number`:
    /// itself or an earlier one. It is closed here if enough later ones began.
    #[must_use]
    pub fn standing(&self, number: u64) -> Option<OpenStep> {
        let entry = &self.entry(number).word;
        // Acquire: the fields that the word tells of are there (partner: `write`).
        // Model: records::a_record_has_what_its_step_stated.
        let mut word = entry.load(Ordering::Acquire);
        if word & IN_USE == 0 {
            return None;
        }
        let behind = (number as u32).wrapping_sub((word >> NUMBER_SHIFT) as u32);
        let number = number.checked_sub(u64::from(behind))?;
        if word & (CLOSED | OWNED) == 0 && self.begun().saturating_sub(number) > LATER_STEPS {
            self.close(number, None);
            // Relaxed: what was there is in sight since the load above, and
            // `free` fails on what came after it.
            word = entry.load(Ordering::Relaxed);
        }
        Some(OpenStep { word, number })
    }

    /// What was stated of a step, and its wall time.
    #[must_use]
    pub fn read(&self, step: OpenStep) -> (Option<StepShape>, Option<Range<u64>>) {
        let fields = &self.entry(step.number).fields;
        // Relaxed: after the Acquire of `standing`.
        let read = |field: &AtomicU64| field.load(Ordering::Relaxed);
        let shape = (step.word & HAS_SHAPE != 0).then(|| {
            let tokens = read(&fields.tokens);
            StepShape::new()
                .prompt_tokens(tokens as u32)
                .decode_tokens((tokens >> 32) as u32)
                .requests(read(&fields.requests) as u32)
        });
        let wall = read(&fields.began_ns)..read(&fields.ended_ns);
        (shape, Some(wall).filter(|_| step.word & HAS_WALL != 0))
    }

    /// Frees the entry of a step, if nothing changed since it was seen.
    pub fn free(&self, step: OpenStep) -> bool {
        let word = &self.entry(step.number).word;
        // Release: the fields were read for the last time (partner: `begin`).
        // Model: records::a_record_against_the_next_step_of_its_entry.
        let freed = word.compare_exchange(step.word, FREE, Ordering::Release, Ordering::Relaxed);
        freed.is_ok()
    }
}

/// Whether an entry is in use by step `number`.
fn is_of(word: u64, number: u64) -> bool {
    word & IN_USE != 0 && word >> NUMBER_SHIFT == number & u64::from(u32::MAX)
}

impl Default for OpenSteps {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for OpenSteps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenSteps").field("begun", &self.begun()).finish_non_exhaustive()
    }
}
