// SPDX-License-Identifier: MIT OR Apache-2.0
//! The classic mistakes of such a protocol, as small edits of the sources. A set
//! of models that lets one of them pass proves nothing.

/// A mistake and the model that is expected to catch it.
#[derive(Debug)]
pub(super) struct Mistake {
    pub(super) name: &'static str,
    pub(super) model: &'static str,
    pub(super) edits: &'static [Edit],
}

/// A file of the telemetry crate, a function in it, code that it holds once (told
/// by its tokens, so any layout will do), and what stands there instead.
type Edit = (&'static str, &'static str, &'static str, &'static str);

/// The source that an edit names.
pub(super) fn path(file: &str) -> String {
    format!("crates/telemetry/src/{file}")
}

const RING: &str = "kernel/ring.rs";
const PASS: &str = "kernel/pass.rs";
const SLOT: &str = "kernel/slot.rs";
const STEPS: &str = "kernel/steps.rs";
const TABLE: &str = "kernel/table.rs";
const PACKED: &str = "instrument/packed.rs";

/// Every mistake.
pub(super) const ALL: &[Mistake] = &[
    Mistake {
        name: "open before the start is recorded",
        model: "recorders::a_span_may_end_on_another_thread",
        edits: &[(
            RING,
            "take",
            "if self.ops.record(index, Edge::Start, stream) {
                claimed.open();
                Ok(SpanToken::new(self.id, lap, index))
            } else {
                claimed.abandon();
                self.counts.failed.add(1);
                Err(NotBegun::Failed)
            }",
            "claimed.open();
            self.ops.record(index, Edge::Start, stream);
            Ok(SpanToken::new(self.id, lap, index))",
        )],
    },
    Mistake {
        name: "close before the end is recorded",
        model: "tail::a_closed_span_is_landed_as_it_was_left",
        edits: &[(
            RING,
            "end_span",
            "if self.ops.record(index, Edge::End, stream) {
                ending.close(stream);
                Ok(())
            } else {
                let flags = ending.abandon();
                self.counts.failed.add(1);
                Err(NotEnded::Failed(flags.tag()))
            }",
            "ending.close(stream);
            self.ops.record(index, Edge::End, stream);
            Ok(())",
        )],
    },
    Mistake {
        name: "describe after open",
        model: "recorders::a_span_may_end_on_another_thread",
        edits: &[
            (RING, "take", "claimed.describe(packed, losses);", ""),
            (
                RING,
                "take",
                "claimed.open();",
                "claimed.open_and_describe(packed, losses);",
            ),
            (
                SLOT,
                "open",
                "self.slot.word.store(word.0, Ordering::Release);",
                "self.slot.word.store(word.0, Ordering::Release);
            }
            pub(super) fn open_and_describe(self, packed: Packed, losses: u64) {
                let word = Word::new(State::Open, self.lap);
                self.slot.word.store(word.0, Ordering::Release);
                self.describe(packed, losses);",
            ),
        ],
    },
    Mistake {
        name: "free before the poll",
        model: "harvesters::two_harvesters_land_each_span_once",
        edits: &[
            (PASS, "land", "span.land();", ""),
            (
                PASS,
                "poll",
                "let answer =",
                "self.ring.slots[index].closed(span.lap()).land(); let answer =",
            ),
        ],
    },
    Mistake {
        name: "free before the gap is read",
        model: "gaps::a_gap_against_a_recorder_of_its_own_slot",
        edits: &[
            (PASS, "land", "span.land();", ""),
            (
                PASS,
                "land",
                "let gap_ns =",
                "self.ring.slots[index].closed(span.lap()).land(); let gap_ns =",
            ),
        ],
    },
    Mistake {
        name: "passes that do not exclude each other",
        model: "harvesters::two_harvesters_of_spans_at_rest",
        edits: &[(
            PASS,
            "harvest_with",
            "let Some(mut guard) = try_lock(&self.pass)",
            "let own = crate::sync::Mutex::new(Pass::new(self.slots.len(), true));
            let Some(mut guard) = try_lock(&own)",
        )],
    },
    Mistake {
        name: "claim by load and store",
        model: "recorders::two_recorders_take_one_slot_again_and_again",
        edits: &[(
            SLOT,
            "claim",
            "match self.exchange(seen, Word::new(State::Starting, lap), Ordering::Acquire)",
            "let found = self.word();
            let free = found.is_free() && found.lap() < lap;
            if free { self.word.store(Word::new(State::Starting, lap).0, Ordering::Release); }
            match if free { Ok(()) } else { Err(found) }",
        )],
    },
    Mistake {
        name: "take an open span by load and store",
        model: "recorders::of_two_ends_of_one_span_one_records",
        edits: &[(
            SLOT,
            "take_open",
            "self.exchange(seen, Word::new(State::Ending, lap), Ordering::Acquire)",
            "{ fence(Ordering::Acquire);
            self.word.store(Word::new(State::Ending, lap).0, Ordering::Release);
            Ok::<(), Word>(()) }",
        )],
    },
    Mistake {
        name: "cancel of a span that is being ended",
        model: "tokens::a_cancel_and_an_end_of_one_span",
        edits: &[(
            RING,
            "cancel",
            "seen.state() == State::Open",
            "matches!(seen.state(), State::Open | State::Ending)",
        )],
    },
    Mistake {
        name: "what a span was, read after it was freed",
        model: "tokens::a_cancel_tells_what_its_span_was",
        edits: &[
            (SLOT, "abandon", "let flags = self.slot.filed().flags;", ""),
            (
                SLOT,
                "abandon",
                "self.slot.free(State::Free, self.lap); flags",
                "self.slot.free(State::Free, self.lap); self.slot.filed().flags",
            ),
        ],
    },
    Mistake {
        name: "generation not bumped",
        model: "tokens::a_late_end_against_the_slots_next_span",
        edits: &[
            (
                RING,
                "take",
                "self.turns.of(ticket)",
                "(self.turns.of(ticket).0, 1)",
            ),
            (SLOT, "claim", "|| found.lap() >= lap", ""),
        ],
    },
    Mistake {
        name: "generation not compared",
        model: "tokens::a_late_end_against_the_slots_next_span",
        edits: &[(SLOT, "begin_end", "|| !token.is_lap(seen.lap())", "")],
    },
    Mistake {
        name: "reclaim in the middle of a record",
        model: "tokens::a_reclaim_never_takes_a_span_whose_end_is_being_recorded",
        edits: &[(
            PASS,
            "visit",
            "State::Starting | State::Ending => false",
            "State::Starting | State::Ending => self.reclaim(index, slot, word)",
        )],
    },
    Mistake {
        name: "tail moved past turns that nobody has taken yet",
        model: "tail::a_recorder_between_ticket_and_claim_is_not_left_behind",
        edits: &[(PASS, "visit", "word.lap() < lap", "false")],
    },
    Mistake {
        name: "skip of a slot that nobody was turned away from",
        model: "tail::a_recorder_between_ticket_and_claim_is_not_left_behind",
        edits: &[(
            SLOT,
            "skip",
            "self.turned_away.load(Ordering::Relaxed) < lap",
            "self.turned_away.load(Ordering::Relaxed) > lap",
        )],
    },
    Mistake {
        name: "skip that does not say so in the word",
        model: "tail::a_recorder_that_oversleeps_a_skip_begins_nothing",
        edits: &[(
            SLOT,
            "skip",
            "self.exchange(seen, Word::new(State::Free, lap), Ordering::Relaxed)",
            "({ let _ = seen; Ok::<(), Word>(()) })",
        )],
    },
    Mistake {
        name: "head read before the tail",
        model: "tail::a_pass_over_an_idle_ring_leaves_nothing_of_its_caller",
        edits: &[
            (
                RING,
                "is_idle",
                "self.head.load(Ordering::Relaxed) == tail",
                "head == tail",
            ),
            (
                RING,
                "is_idle",
                "let tail =",
                "let head = self.head.load(Ordering::Relaxed); let tail =",
            ),
        ],
    },
    Mistake {
        name: "gap not checked after it was read",
        model: "gaps::a_gap_against_a_recorder_of_the_slot_before",
        edits: &[(
            SLOT,
            "while_landed",
            "if self.peek() == landed { value } else { None }",
            "value",
        )],
    },
    Mistake {
        name: "placed before the anchor is recorded",
        model: "steps::two_spans_begin_a_step_at_once",
        edits: &[(
            STEPS,
            "enter",
            "State::Taking as u64",
            "State::Placed as u64",
        )],
    },
    Mistake {
        name: "a step taken by load and store",
        model: "steps::two_spans_begin_a_step_at_once",
        edits: &[(
            STEPS,
            "enter",
            "match word.compare_exchange(seen.0, next, Ordering::Acquire, Ordering::Relaxed)",
            "match { word.store(next, Ordering::Release); Ok::<u64, u64>(next) }",
        )],
    },
    Mistake {
        name: "a folded step begins again",
        model: "steps::a_close_against_a_span",
        edits: &[(
            STEPS,
            "enter",
            "is_free && is_later(track, seen.track())",
            "is_free",
        )],
    },
    Mistake {
        name: "a closed step counts spans",
        model: "steps::a_close_against_a_span",
        edits: &[(
            STEPS,
            "enter",
            "seen.has(CLOSED) || seen.0 & SPANS == SPANS",
            "seen.0 & SPANS == SPANS",
        )],
    },
    Mistake {
        name: "close by load and store",
        model: "steps::a_close_against_a_span",
        edits: &[(
            STEPS,
            "close",
            "self.change(track, Ordering::Relaxed, |word| Some(word.0 | CLOSED));",
            "let word = &self.words[entry_of(track)];
            word.store(word.load(Ordering::Acquire) | CLOSED, Ordering::Release);",
        )],
    },
    Mistake {
        name: "a loss in two changes",
        model: "steps::a_loss_against_the_fold",
        edits: &[(
            STEPS,
            "lose",
            "self.change(track, Ordering::Relaxed, |word| {
                Some((word.0 - SPAN) | LOST)
            });",
            "self.withdraw(track); self.miss(track);",
        )],
    },
    Mistake {
        name: "a late word changes a later step",
        model: "steps::a_late_word_of_a_step_that_was_given_up",
        edits: &[(
            STEPS,
            "change",
            "!seen.is_of(track)",
            "seen.state() == State::Free",
        )],
    },
    Mistake {
        name: "the anchor of a later step",
        model: "steps::a_late_word_of_a_step_that_was_given_up",
        edits: &[(
            STEPS,
            "anchor",
            "_ if word.track() != track => Anchor::None",
            "_ if false => Anchor::None",
        )],
    },
    Mistake {
        name: "a step folded while its anchor is recorded",
        model: "steps::a_step_is_given_up_while_it_begins",
        edits: &[(
            STEPS,
            "standing",
            "matches!(word.state(), State::Free | State::Taking)",
            "word.state() == State::Free",
        )],
    },
    Mistake {
        name: "used bit cleared after the word is freed",
        model: "steps::a_step_against_the_next_one_of_its_entry",
        edits: &[(
            STEPS,
            "free",
            "self.used.fetch_and(!(1 << entry), Ordering::Relaxed);",
            "struct Late<'a>(&'a StepTable, usize);
            impl Drop for Late<'_> {
                fn drop(&mut self) { self.0.used.fetch_and(!(1 << self.1), Ordering::Relaxed); }
            }
            let _late = Late(self, entry);",
        )],
    },
    Mistake {
        name: "freed to a step that was turned away",
        model: "steps::a_step_that_was_turned_away_is_not_followed",
        edits: &[(
            STEPS,
            "free",
            "(!word.has(TURNED_AWAY)).then_some(Word::free_after(last).0)",
            "Some(Word::free_after(last).0)",
        )],
    },
    Mistake {
        name: "mark and track taken by the exchange that frees",
        model: "steps::of_two_steps_that_were_turned_away_neither_is_followed",
        edits: &[(
            STEPS,
            "free",
            "|word: Word| (!word.has(TURNED_AWAY)).then_some(Word::free_after(last).0)",
            "|word: Word| {
                let waiting = || {
                    fence(Ordering::Acquire);
                    self.waiting[entry].load(Ordering::Relaxed) as u32
                };
                let last = if word.has(TURNED_AWAY) { waiting() } else { last };
                Some(Word::free_after(last).0)
            }",
        )],
    },
    Mistake {
        name: "turned away without an exchange where the mark is there",
        model: "steps::of_two_steps_that_were_turned_away_neither_is_followed",
        edits: &[(
            STEPS,
            "enter",
            "self.wait(entry, track);",
            "self.wait(entry, track);
            if seen.has(TURNED_AWAY) { return Entered::Alone; }",
        )],
    },
    Mistake {
        name: "row claimed without a second look",
        model: "table::a_row_claimed_by_two_at_once",
        edits: &[
            (TABLE, "claim", "match self.probe(func)", "match found"),
            (
                TABLE,
                "claim",
                "let mut used =",
                "let found = self.probe(func); let mut used =",
            ),
        ],
    },
    Mistake {
        name: "row shown without its key",
        model: "table::a_row_claimed_beside_a_reader",
        edits: &[(TABLE, "each_row", "samples > 0 && func != 0", "samples > 0")],
    },
    Mistake {
        name: "fold counted before it is made",
        model: "cells::a_fold_against_a_reader",
        edits: &[
            (PACKED, "folding", "work();", ""),
            (
                PACKED,
                "folding",
                "self.done.fetch_add(1, Ordering::Release);",
                "self.done.fetch_add(1, Ordering::Release); work();",
            ),
        ],
    },
    Mistake {
        name: "copy not checked after it was read",
        model: "cells::a_fold_against_a_reader",
        edits: &[(
            PACKED,
            "try_copy",
            "self.started.load(Ordering::Relaxed) == done",
            "done == done.min(self.started.load(Ordering::Relaxed))",
        )],
    },
];
