// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mistakes of the step table and the fold.

use super::{Mistake, mistake};

const STEPS: &str = "crates/telemetry/src/kernel/steps.rs";
const FOLD: &str = "crates/telemetry/src/kernel/fold/folding.rs";

#[rustfmt::skip]
pub(super) const ALL: &[Mistake] = &[
    mistake("placed before the anchor is recorded", "steps::two_spans_begin_a_step_at_once", &[
        (STEPS, "enter", "State::Taking as u64", "State::Placed as u64"),
    ]),
    mistake("a step taken by load and store", "steps::two_spans_begin_a_step_at_once", &[
        (STEPS, "enter", "match word.compare_exchange(seen.0, next, Ordering::Acquire, Ordering::Relaxed)",
            "match { word.store(next, Ordering::Release); Ok::<u64, u64>(next) }"),
    ]),
    mistake("a folded step begins again", "steps::a_close_against_a_span", &[
        (STEPS, "enter", "is_free && is_later(track, seen.track())", "is_free"),
    ]),
    mistake("a closed step counts spans", "steps::a_close_against_a_span", &[
        (STEPS, "enter", "seen.has(CLOSED) || seen.0 & SPANS == SPANS", "seen.0 & SPANS == SPANS"),
    ]),
    mistake("close by load and store", "steps::a_close_against_a_span", &[
        (STEPS, "close", "self.change(track, Ordering::Relaxed, |word| Some(word.0 | CLOSED));",
            "let word = &self.words[entry_of(track)];
            word.store(word.load(Ordering::Acquire) | CLOSED, Ordering::Release);"),
    ]),
    mistake("a loss in two changes", "steps::a_loss_against_the_fold", &[
        (STEPS, "lose", "self.change(track, Ordering::Release, |word| Some((word.0 - SPAN) | LOST));",
            "self.withdraw(track); self.miss(track, lane);"),
    ]),
    mistake("a late word changes a later step", "steps::a_late_word_of_a_step_that_was_given_up", &[
        (STEPS, "change", "!seen.is_of(track)", "seen.state() == State::Free"),
    ]),
    mistake("the anchor of a later step", "steps::a_late_word_of_a_step_that_was_given_up", &[
        (STEPS, "anchor", "_ if word.track() != track => Anchor::None", "_ if false => Anchor::None"),
    ]),
    mistake("a step folded while its anchor is recorded", "steps::a_step_is_given_up_while_it_begins", &[
        (STEPS, "standing", "matches!(word.state(), State::Free | State::Taking)",
            "word.state() == State::Free"),
    ]),
    mistake("used bit cleared after the word is freed", "steps::a_step_against_the_next_one_of_its_entry", &[
        (STEPS, "free", "self.used.fetch_and(!(1 << entry), Ordering::Relaxed);",
            "struct Late<'a>(&'a StepTable, usize);
            impl Drop for Late<'_> {
                fn drop(&mut self) { self.0.used.fetch_and(!(1 << self.1), Ordering::Relaxed); }
            }
            let _late = Late(self, entry);"),
    ]),
    mistake("freed to a step that was turned away", "steps::a_step_that_was_turned_away_is_not_followed", &[
        (STEPS, "free", "(!word.has(TURNED_AWAY)).then_some(Word::free_after(last).0)",
            "Some(Word::free_after(last).0)"),
    ]),
    mistake("mark and track taken by the exchange that frees", "steps::of_two_steps_that_were_turned_away_neither_is_followed", &[
        (STEPS, "free", "|word: Word| (!word.has(TURNED_AWAY)).then_some(Word::free_after(last).0)",
            "|word: Word| {
                let waiting = || {
                    fence(Ordering::Acquire);
                    self.waiting[entry].load(Ordering::Relaxed) as u32
                };
                let last = if word.has(TURNED_AWAY) { waiting() } else { last };
                Some(Word::free_after(last).0)
            }"),
    ]),
    mistake("turned away without an exchange where the mark is there", "steps::of_two_steps_that_were_turned_away_neither_is_followed", &[
        (STEPS, "enter", "self.wait(entry, track);",
            "self.wait(entry, track);
            if seen.has(TURNED_AWAY) { return Entered::Alone; }"),
    ]),
    mistake("a refused first span leaves nothing behind", "steps::a_refused_span_against_the_first_one", &[
        (STEPS, "miss", "!is_later(track, seen.track())", "!seen.is_of(track)"),
    ]),
    mistake("a refused span does not wait for the step before", "steps::a_refused_span_against_the_step_before", &[
        (STEPS, "miss", "self.wait(entry, track);", "return;"),
    ]),
    mistake("folded before its spans are over", "folds::a_step_waits_for_the_spans_that_it_counted", &[
        (FOLD, "finish", "standing.closed && over >= standing.spans", "standing.closed"),
    ]),
];
