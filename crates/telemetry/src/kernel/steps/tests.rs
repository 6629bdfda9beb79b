// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which steps are followed, which spans they count, and when they are over.

use super::{Anchor, Entered, FOLLOWED_STEPS, Standing, StepTable};

const LATER: u32 = FOLLOWED_STEPS as u32;

/// How a span finds its step.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Found {
    First(usize),
    Counted,
    Alone,
}

/// A span of the step on `track`, whose anchor is recorded where it is the first.
fn enter(table: &StepTable, track: u32) -> Found {
    match table.enter(track, 1_000 + u64::from(track), true) {
        Entered::First(taking) => {
            let anchor = taking.anchor();
            taking.placed();
            Found::First(anchor)
        }
        Entered::Counted => Found::Counted,
        Entered::Alone => Found::Alone,
    }
}

fn standing(table: &StepTable, track: u32, newest: u32) -> Standing {
    let found = table.standing(track as usize % FOLLOWED_STEPS, newest);
    found.expect("a step that is followed")
}

#[test]
fn a_step_counts_its_spans_until_it_is_closed() {
    let table = StepTable::new();
    assert!(table.is_idle());
    assert_eq!(enter(&table, 5), Found::First(5));
    assert_eq!(enter(&table, 5), Found::Counted);
    assert_eq!(enter(&table, 5), Found::Counted);
    let expected = Standing {
        track: 5,
        number: 1_005,
        armed: true,
        spans: 3,
        closed: false,
        lost: false,
        lost_lanes: 0,
        placed: true,
    };
    assert_eq!(standing(&table, 5, 5), expected);
    assert!(table.follows(5) && !table.is_idle());
    table.withdraw(5);
    table.close(5);
    assert_eq!(enter(&table, 5), Found::Alone);
    assert_eq!(table.late_spans(), 1);
    let closed = Standing { spans: 2, closed: true, ..expected };
    assert_eq!(standing(&table, 5, 5), closed);
    table.lose(5, Some(3));
    let lost = Standing { spans: 1, lost: true, lost_lanes: 1 << 3, ..closed };
    assert_eq!(standing(&table, 5, 5), lost);
    table.free(5);
    assert!(table.is_idle() && !table.follows(5));
    assert_eq!(table.standing(5, 5), None);
}

#[test]
fn work_that_was_never_counted_makes_a_step_lose() {
    let table = StepTable::new();
    enter(&table, 0);
    table.miss(0, None);
    let found = standing(&table, 0, 0);
    assert_eq!((found.spans, found.lost, found.lost_lanes), (1, true, 0));
    table.miss(0, Some(1));
    table.miss(0, Some(0));
    assert_eq!(standing(&table, 0, 0).lost_lanes, 0b11);
    // A later step that finds the entry in use leaves that as it is.
    table.miss(LATER, Some(2));
    assert_eq!(standing(&table, 0, 0).lost_lanes, 0b11);
}

#[test]
fn a_step_that_begins_with_work_that_is_missing_is_not_followed() {
    let table = StepTable::new();
    table.miss(4, Some(1));
    assert_eq!(enter(&table, 4), Found::Alone);
    assert!(table.is_idle());
    // Where an earlier step has the entry, neither is that one's loss.
    let next = 4 + LATER;
    enter(&table, next);
    table.miss(next + LATER, Some(1));
    assert!(!standing(&table, next, next).lost);
    table.free(next);
    assert_eq!(enter(&table, next + LATER), Found::Alone);
    assert_eq!(enter(&table, next + 2 * LATER), Found::First(4));
}

#[test]
fn an_anchor_is_coming_until_it_is_recorded_or_given_up() {
    let table = StepTable::new();
    let Entered::First(taking) = table.enter(2, 7, false) else {
        panic!("the first span");
    };
    assert_eq!(table.anchor(2), Anchor::Coming);
    assert_eq!(table.standing(2, 100), None, "nobody folds it now");
    assert!(matches!(table.enter(2, 7, false), Entered::Counted));
    drop(taking);
    assert_eq!(table.anchor(2), Anchor::None);
    let found = standing(&table, 2, 2);
    assert_eq!((found.number, found.armed, found.placed), (7, false, false));
    assert_eq!(found.spans, 2);

    enter(&table, 3);
    assert_eq!(table.anchor(3), Anchor::At(3));
    assert_eq!(table.anchor(3 + LATER), Anchor::None, "of another step");
    table.free(3);
    assert_eq!(table.anchor(3), Anchor::None);
}

#[test]
fn four_later_steps_close_a_step() {
    let table = StepTable::new();
    enter(&table, 10);
    assert!(!standing(&table, 10, 13).closed);
    assert!(!standing(&table, 10, 9).closed, "newest was read before it began");
    assert!(standing(&table, 10, 14).closed);
    assert_eq!(enter(&table, 10), Found::Alone);
}

#[test]
fn a_full_table_turns_steps_away_and_counts_each() {
    let table = StepTable::new();
    for track in 0..LATER {
        assert_eq!(enter(&table, track), Found::First(track as usize));
    }
    for track in [LATER, LATER, LATER + 1, 2 * LATER, LATER, 2 * LATER, LATER] {
        assert_eq!(enter(&table, track), Found::Alone);
    }
    assert_eq!((table.turned_away(), table.late_spans()), (3, 0));
    assert_eq!(standing(&table, 0, 2 * LATER).spans, 1, "not its own");
}

#[test]
fn a_step_that_was_turned_away_never_takes_the_entry_later() {
    for rounds in [1, 2, 30, 62, 63, 64, 100] {
        let table = StepTable::new();
        enter(&table, 3);
        let turned_away = 3 + rounds * LATER;
        assert_eq!(enter(&table, turned_away), Found::Alone);
        // One that was begun before it, and comes after it.
        enter(&table, 3 + LATER);
        table.free(3);
        assert_eq!(enter(&table, turned_away), Found::Alone, "{rounds}");
        assert_eq!(enter(&table, turned_away - LATER), Found::Alone, "{rounds}");
        assert_eq!(enter(&table, turned_away + LATER), Found::First(3), "{rounds}");
    }
}

#[test]
fn nobody_who_comes_late_changes_a_later_step() {
    let table = StepTable::new();
    enter(&table, 1);
    table.free(1);
    assert_eq!(enter(&table, 1), Found::Alone, "it is over");
    assert_eq!(table.late_spans(), 1);
    enter(&table, 1 + LATER);
    let before = standing(&table, 1 + LATER, 1 + LATER);
    for track in [1, 1 + 2 * LATER] {
        table.lose(track, Some(1));
        table.miss(track, Some(2));
        table.withdraw(track);
        table.close(track);
        table.free(track);
    }
    assert_eq!(enter(&table, 1), Found::Alone);
    assert_eq!(standing(&table, 1 + LATER, 1 + LATER), before);
}

#[test]
fn tracks_wrap() {
    let table = StepTable::new();
    let mut track = 0u32;
    // Past 2^32, in strides that no step is later than by half of that.
    for _ in 0..200 {
        track = track.wrapping_add(0x0410_0000 + LATER);
        let entry = track as usize % FOLLOWED_STEPS;
        assert_eq!(enter(&table, track), Found::First(entry));
        assert_eq!(enter(&table, track.wrapping_sub(LATER)), Found::Alone, "earlier");
        assert_eq!(enter(&table, track.wrapping_add(LATER)), Found::Alone, "later");
        table.close(track);
        assert!(standing(&table, track, track).closed);
        table.free(track);
        assert_eq!(enter(&table, track.wrapping_add(LATER)), Found::Alone);
    }
    assert_eq!((table.late_spans(), table.turned_away()), (400, 200));
}
