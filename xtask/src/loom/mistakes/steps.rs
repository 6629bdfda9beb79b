// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mistakes of the step table and the fold.

use super::Mistake;

const STEPS: &str = "kernel/steps.rs";
const FOLD: &str = "kernel/fold/folding.rs";

pub(super) const ALL: &[Mistake] = &[
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
        name: "a refused first span leaves nothing behind",
        model: "steps::a_refused_span_against_the_first_one",
        edits: &[(
            STEPS,
            "miss",
            "!is_later(track, seen.track())",
            "!seen.is_of(track)",
        )],
    },
    Mistake {
        name: "a refused span does not wait for the step before",
        model: "steps::a_refused_span_against_the_step_before",
        edits: &[(STEPS, "miss", "self.wait(entry, track);", "return;")],
    },
    Mistake {
        name: "folded before its spans are over",
        model: "folds::a_step_waits_for_the_spans_that_it_counted",
        edits: &[(
            FOLD,
            "finish",
            "standing.closed && over >= standing.spans",
            "standing.closed",
        )],
    },
];
