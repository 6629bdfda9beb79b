// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ends, cancels and reclaims that meet: one of them has the span, and a stale
//! token touches nothing.

use metrale_loom_tests::{Bound, NEVER_ENDS, Rig, Tally, beside, model};
use std::time::Duration;

#[test]
fn a_cancel_and_an_end_of_one_span() {
    model(Bound::None, || {
        let rig = Rig::new(1);
        let token = rig.begin(1, 1).expect("a free slot");
        let ends = beside(&rig, move |rig| rig.end(token, 1));
        rig.cancel(token);
        ends();
        let ledger = rig.finish();
        assert_eq!(ledger.landed + ledger.cancelled, 1);
        assert_eq!(ledger.stale_ends, 1);
    });
}

#[test]
fn a_cancel_against_a_harvest_and_the_next_recorder() {
    model(Bound::Preemptions(3), || {
        let rig = Rig::new(1);
        let token = rig.begin(1, 1).expect("a free slot");
        let cancels = beside(&rig, move |rig| rig.cancel(token));
        let recorder = beside(&rig, |rig| rig.span(2, 1));
        rig.harvest();
        cancels();
        let begun = recorder();
        let ledger = rig.finish();
        assert_eq!((ledger.cancelled, ledger.stale_ends), (1, 0));
        assert_eq!(ledger.landed, u64::from(begun));
    });
}

/// Who gives a span up learns what it was, whatever becomes of the slot.
#[test]
fn a_cancel_tells_what_its_span_was() {
    model(Bound::Preemptions(3), || {
        let rig = Rig::new(1);
        let token = rig.begin(1, 1).expect("a free slot");
        let ends = beside(&rig, move |rig| rig.end(token, 1));
        let recorder = beside(&rig, |rig| rig.span(2, 1));
        let tag = rig.cancel(token);
        assert!(tag.is_none_or(|tag| tag == Tally::tag(1)), "{tag:?}");
        ends();
        let begun = recorder();
        let ledger = rig.finish();
        assert_eq!(ledger.landed, 1 + u64::from(begun) - ledger.cancelled);
    });
}

#[test]
fn a_late_end_against_the_slots_next_span() {
    model(Bound::Preemptions(3), || {
        let rig = Rig::new(1);
        let late = rig.begin(1, 1).expect("a free slot");
        rig.cancel(late);
        let ends = beside(&rig, move |rig| rig.end(late, NEVER_ENDS));
        let harvester = beside(&rig, |rig| rig.harvest());
        assert!(rig.span(2, 1));
        ends();
        harvester();
        let ledger = rig.finish();
        assert_eq!((ledger.landed, ledger.stale_ends), (1, 1));
    });
}

#[test]
fn a_reclaim_against_a_late_end() {
    model(Bound::Preemptions(3), || {
        // Every open span is too old at once.
        let rig = Rig::with(1, |ring| ring.reclaim_after(Duration::ZERO).clock(|| 0));
        let token = rig.begin(1, 1).expect("a free slot");
        let ends = beside(&rig, move |rig| rig.end(token, 1));
        let recorder = beside(&rig, |rig| rig.span(2, 1));
        rig.harvest();
        ends();
        let begun = recorder();
        let ledger = rig.finish();
        // The second span may have been reclaimed between its begin and its
        // end, and both ends are stale then.
        assert_eq!(ledger.begun, 1 + u64::from(begun));
        assert_eq!(ledger.stale_ends, ledger.reclaimed);
    });
}

#[test]
fn a_reclaim_never_takes_a_span_whose_end_is_being_recorded() {
    model(Bound::None, || {
        let rig = Rig::with(2, |ring| ring.reclaim_after(Duration::ZERO).clock(|| 0));
        let harvester = beside(&rig, |rig| rig.harvest());
        // Records touch the pair: a reclaim meanwhile would let nobody else in,
        // but the span would be counted twice.
        assert!(rig.span(1, 1));
        harvester();
        let ledger = rig.finish();
        assert_eq!(ledger.landed + ledger.reclaimed, 1);
        assert_eq!(ledger.stale_ends, ledger.reclaimed);
    });
}
