// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table of steps: a step has one first span, which records the anchor; it
//! is folded once, with all spans that it counted; and no step is followed
//! without its first ones.

use metrale_loom_tests::{Bound, Found, Steps, beside, model, next_on_entry, spawn};
use metrale_telemetry::runtime::Anchor;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

const TRACK: u32 = 0;

/// A table that follows one step, which has its first span.
fn begun() -> Steps {
    let steps = Steps::default();
    assert_eq!(steps.enter(TRACK), Found::First);
    steps
}

/// The same, and the step is closed: it waits for the fold.
fn begun_and_closed() -> Steps {
    let steps = begun();
    steps.close(TRACK);
    steps
}

fn enters(steps: &Steps, track: u32) -> impl FnOnce() -> Found + use<> {
    beside(steps, move |steps| steps.enter(track))
}

#[test]
fn two_spans_begin_a_step_at_once() {
    model(Bound::Preemptions(3), || {
        let steps = Steps::default();
        let threads = [enters(&steps, TRACK), enters(&steps, TRACK)];
        // A pass may ask for the anchor at any moment.
        steps.read_anchor(TRACK);
        let mut found = threads.map(|join| join());
        found.sort_unstable_by_key(|found| *found == Found::Counted);
        assert_eq!(found, [Found::First, Found::Counted]);
        assert!(matches!(steps.read_anchor(TRACK), Anchor::At(_)));
        steps.close(TRACK);
        let folded = steps.fold(TRACK, 2).expect("it is complete");
        assert!(folded.placed && !folded.lost && folded.spans == 2);
        assert_eq!(steps.read_anchor(TRACK), Anchor::None);
        assert!(steps.table.is_idle());
    });
}

#[test]
fn a_fold_against_the_first_span() {
    model(Bound::None, || {
        let steps = Steps::default();
        let recorder = beside(&steps, |steps| {
            assert_eq!(steps.enter(TRACK), Found::First);
            steps.close(TRACK);
        });
        let folded = steps.fold(TRACK, 1);
        recorder();
        let folded = folded.or_else(|| steps.fold(TRACK, 1));
        let folded = folded.expect("it is complete");
        assert!(folded.placed && folded.spans == 1);
        assert!(steps.table.is_idle());
    });
}

#[test]
fn a_number_is_that_of_its_step() {
    model(Bound::None, || {
        let steps = Steps::default();
        let recorder = enters(&steps, TRACK);
        let number = steps.found_number(TRACK);
        assert!(number.is_none_or(|number| number == Steps::number(TRACK)));
        recorder();
        assert_eq!(steps.found_number(TRACK), Some(Steps::number(TRACK)));
    });
}

/// The fold lets the entry alone while the anchor is being recorded.
#[test]
fn a_step_is_given_up_while_it_begins() {
    model(Bound::None, || {
        let steps = Steps::default();
        let recorder = enters(&steps, TRACK);
        let given_up = steps.give_up(TRACK);
        let next = steps.enter(next_on_entry(TRACK));
        assert!(given_up.is_none() || next == Found::First);
        recorder();
    });
}

/// A span that a step counted is over before the step is folded; one that comes
/// too late is in no step.
#[test]
fn a_close_against_a_span() {
    model(Bound::Preemptions(3), || {
        let steps = begun();
        // Counted outside the model: it orders nothing.
        let over = Arc::new(AtomicU32::new(1));
        let recorder = {
            let (steps, over) = (steps.clone(), Arc::clone(&over));
            spawn(move || {
                let found = steps.enter(TRACK);
                let counted = u32::from(found == Found::Counted);
                over.fetch_add(counted, Ordering::Relaxed);
                found
            })
        };
        let closes = beside(&steps, |steps| steps.close(TRACK));
        let folded = steps.fold(TRACK, over.load(Ordering::Relaxed));
        let found = recorder();
        closes();
        assert_ne!(found, Found::First, "a step begins twice");
        let spans = over.load(Ordering::Relaxed);
        let folded = folded.or_else(|| steps.fold(TRACK, spans));
        let folded = folded.expect("it is complete");
        assert_eq!(folded.spans, spans, "folded without a span");
        assert!(steps.table.is_idle());
    });
}

/// A step whose span came to nothing: `comes_to_nothing` takes it off.
fn against_the_fold(comes_to_nothing: fn(&Steps), is_lost: bool) {
    model(Bound::None, move || {
        let steps = begun();
        assert_eq!(steps.enter(TRACK), Found::Counted);
        let recorder = beside(&steps, move |steps| comes_to_nothing(&steps));
        steps.close(TRACK);
        let folded = steps.fold(TRACK, 1);
        recorder();
        let folded = folded.or_else(|| steps.fold(TRACK, 1));
        let folded = folded.expect("it is complete");
        assert_eq!((folded.spans, folded.lost), (1, is_lost));
    });
}

#[test]
fn a_loss_against_the_fold() {
    against_the_fold(|steps| steps.lose(TRACK), true);
}

/// Whoever finds that work was lost finds of which lane.
fn lane_is_found(lost: fn(&Steps), newest: u32) {
    model(Bound::None, move || {
        let steps = begun();
        assert_eq!(steps.enter(TRACK), Found::Counted);
        let recorder = beside(&steps, move |steps| lost(&steps));
        for _ in 0..2 {
            let standing = steps.standing_before(TRACK, newest).expect("it waits");
            let is_noted = standing.lost_lanes == 1 << Steps::LANE;
            assert!(is_noted || !standing.lost, "{standing:?}");
        }
        recorder();
    });
}

#[test]
fn the_lane_of_a_loss_is_found_with_it() {
    lane_is_found(|steps| steps.lose(TRACK), TRACK);
}

#[test]
fn the_lane_of_a_refusal_is_found_with_it() {
    lane_is_found(|steps| steps.miss(TRACK), TRACK);
}

#[test]
fn the_lane_of_a_loss_is_found_as_the_step_is_closed() {
    lane_is_found(|steps| steps.lose(TRACK), TRACK + 4);
}

#[test]
fn a_withdrawal_against_the_fold() {
    against_the_fold(|steps| steps.withdraw(TRACK), false);
}

/// Who comes late changes no later step.
#[test]
fn a_late_word_of_a_step_that_was_given_up() {
    model(Bound::Preemptions(3), || {
        let steps = begun();
        let late = beside(&steps, |steps| {
            steps.lose(TRACK);
            steps.close(TRACK);
        });
        steps.give_up(TRACK).expect("it is in use");
        let next = next_on_entry(TRACK);
        assert_eq!(steps.enter(next), Found::First);
        assert_eq!(steps.read_anchor(TRACK), Anchor::None);
        late();
        let standing = steps.standing(next).expect("it is in use");
        assert!(standing.spans == 1 && !standing.lost && !standing.closed);
    });
}

#[test]
fn a_step_against_the_next_one_of_its_entry() {
    model(Bound::None, || {
        let steps = begun_and_closed();
        let next = next_on_entry(TRACK);
        let recorder = enters(&steps, next);
        steps.fold(TRACK, 1).expect("it is complete");
        if recorder() == Found::First {
            assert!(matches!(steps.read_anchor(next), Anchor::At(_)));
            steps.close(next);
            let folded = steps.fold(next, 1).expect("it is complete");
            assert!(folded.placed && folded.spans == 1);
        }
        assert!(steps.table.is_idle());
    });
}

/// Two spans of a step: the second is followed only if the first is.
fn recorder_of(steps: &Steps, track: u32) -> impl FnOnce() + use<> {
    beside(steps, move |steps| match [(); 2].map(|()| steps.enter(track)) {
        [Found::First, Found::Counted] | [Found::Alone, Found::Alone] => {}
        found => panic!("{found:?}: a step without its first span"),
    })
}

#[test]
fn a_step_that_was_turned_away_is_not_followed() {
    model(Bound::Preemptions(3), || {
        let steps = begun_and_closed();
        let recorder = recorder_of(&steps, next_on_entry(TRACK));
        steps.fold(TRACK, 1).expect("it is complete");
        recorder();
    });
}

#[test]
fn of_two_steps_that_were_turned_away_neither_is_followed() {
    model(Bound::Preemptions(3), || {
        let steps = begun_and_closed();
        let next = next_on_entry(TRACK);
        assert_eq!(steps.enter(next), Found::Alone);
        let recorder = recorder_of(&steps, next_on_entry(next));
        steps.fold(TRACK, 1).expect("it is complete");
        recorder();
    });
}

/// A refused span is missing from its step: that is lost, or not followed.
#[test]
fn a_refused_span_against_the_first_one() {
    model(Bound::Preemptions(3), || {
        let steps = Steps::default();
        // Outside the model: it orders nothing.
        let is_refused = Arc::new(AtomicU32::new(0));
        let refused = {
            let (steps, is_refused) = (steps.clone(), Arc::clone(&is_refused));
            spawn(move || {
                steps.miss(TRACK);
                is_refused.store(1, Ordering::Relaxed);
            })
        };
        let found = steps.enter(TRACK);
        // One that is refused after the close is nobody's.
        let is_refused = is_refused.load(Ordering::Relaxed) == 1;
        steps.close(TRACK);
        match steps.fold(TRACK, 1) {
            Some(folded) => assert!(folded.lost || !is_refused, "{folded:?}"),
            None => assert_eq!(found, Found::Alone),
        }
        refused();
    });
}

#[test]
fn a_refused_span_against_the_step_before() {
    model(Bound::Preemptions(3), || {
        let steps = begun_and_closed();
        let recorder = beside(&steps, |steps| {
            let next = next_on_entry(TRACK);
            steps.miss(next);
            assert_eq!(steps.enter(next), Found::Alone);
        });
        steps.fold(TRACK, 1).expect("it is complete");
        recorder();
    });
}
