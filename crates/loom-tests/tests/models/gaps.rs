// SPDX-License-Identifier: MIT OR Apache-2.0
//! A gap is read from the end event of the span before, or is unknown: never
//! from the event of a span that took the slot since.

use metrale_loom_tests::{Bound, Rig, beside, model};
use metrale_telemetry::kernel::SpanToken;

/// Two slots; the span in slot 0 has landed, the one in slot 1 has ended.
fn landed_and_closed() -> Rig {
    let rig = Rig::with(2, |ring| ring.gaps());
    assert!(rig.span(1, 1));
    assert_eq!(rig.harvest(), 1);
    assert!(rig.span(2, 1));
    rig
}

/// The gap of span 2 is to span 1, whose time is its end event's stamp.
fn check(rig: &Rig) {
    let landed = rig.tally.landed();
    assert!(
        landed[1].gap_ns.is_none_or(|gap_ns| gap_ns == landed[0].ns),
        "a gap from another span's end: {landed:?}"
    );
}

#[test]
fn a_gap_against_a_recorder_of_the_slot_before() {
    model(Bound::None, || {
        let rig = landed_and_closed();
        let recorder = beside(&rig, |rig| assert!(rig.span(3, 2), "slot 0 is free"));
        rig.harvest();
        recorder();
        check(&rig);
        rig.finish();
    });
}

#[test]
fn a_gap_against_an_end_on_another_thread() {
    model(Bound::Preemptions(3), || {
        let rig = landed_and_closed();
        let begins = beside(&rig, |rig| {
            assert!(rig.begin(3, 2).is_some(), "slot 0 is free");
        });
        let ends = beside(&rig, |rig| rig.end(SpanToken::from_slot(0), 2));
        rig.harvest();
        begins();
        ends();
        check(&rig);
        rig.end(SpanToken::from_slot(0), 2);
        rig.finish();
    });
}

#[test]
fn a_gap_within_a_pass_against_a_recorder() {
    model(Bound::Preemptions(3), || {
        let rig = Rig::with(2, |ring| ring.gaps());
        assert!(rig.span(1, 1) && rig.span(2, 1));
        let recorder = beside(&rig, |rig| rig.span(3, 2));
        rig.harvest();
        recorder();
        check(&rig);
        rig.finish();
    });
}

#[test]
fn a_gap_against_a_recorder_of_its_own_slot() {
    model(Bound::Preemptions(3), || {
        let rig = landed_and_closed();
        let recorder = beside(&rig, |rig| (rig.span(3, 2), rig.span(4, 2)));
        rig.harvest();
        let (third, _) = recorder();
        assert!(third, "slot 0 is free");
        check(&rig);
        rig.finish();
    });
}
