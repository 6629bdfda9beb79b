// SPDX-License-Identifier: MIT OR Apache-2.0
//! The pass moves its tail on only past turns that are over for good: whatever
//! a pass meets, a later one at rest lands the rest.

use metrale_loom_tests::{Bound, Rig, beside, model};

#[test]
fn a_closed_span_is_landed_as_it_was_left() {
    model(Bound::None, || {
        let rig = Rig::new(2);
        let recorder = beside(&rig, |rig| assert!(rig.span(1, 1)));
        rig.harvest();
        recorder();
        assert_eq!(rig.finish().landed, 1);
    });
}

#[test]
fn a_recorder_between_ticket_and_claim_is_not_left_behind() {
    model(Bound::Preemptions(2), || {
        let rig = Rig::new(4);
        let recorder = |first: u64, spans: u64| {
            beside(&rig, move |rig| {
                for name in first..first + spans {
                    assert!(rig.span(name, name));
                }
            })
        };
        let threads = [recorder(1, 1), recorder(2, 2)];
        rig.harvest();
        threads.into_iter().for_each(|join| join());
        assert_eq!(rig.finish().landed, 3);
    });
}

#[test]
fn a_turn_that_found_its_slot_in_use_hides_no_span() {
    model(Bound::Preemptions(3), || {
        let rig = Rig::new(2);
        // Slot 0 is in use while the others begin; slot 1 is theirs.
        let open = rig.begin(1, 1).expect("a free slot");
        let recorder = |name: u64| beside(&rig, move |rig| rig.span(name, name));
        let threads = [recorder(2), recorder(3)];
        rig.end(open, 1);
        rig.harvest();
        let begun = threads.into_iter().filter_map(|join| join().then_some(())).count();
        assert_eq!(rig.finish().landed, 1 + begun as u64);
    });
}

/// Of two recorders that wait for the slot, the later one may be turned away
/// while the earlier one sleeps, and a pass may skip the slot before it wakes.
#[test]
fn a_recorder_that_oversleeps_a_skip_begins_nothing() {
    model(Bound::Preemptions(3), || {
        let rig = Rig::new(1);
        let open = rig.begin(1, 1).expect("a free slot");
        let recorder = |name: u64| beside(&rig, move |rig| rig.span(name, name));
        let threads = [recorder(2), recorder(3)];
        rig.cancel(open);
        rig.harvest();
        let begun = threads.into_iter().filter_map(|join| join().then_some(())).count();
        assert_eq!(rig.finish().landed, begun as u64);
    });
}

/// A ring that looks idle to a harvest has none of the spans that its caller
/// ended before.
#[test]
fn a_pass_over_an_idle_ring_leaves_nothing_of_its_caller() {
    model(Bound::Preemptions(3), || {
        let rig = Rig::new(1);
        let ends_and_harvests = beside(&rig, |rig| {
            let begun = rig.span(1, 1);
            rig.harvest();
            begun
        });
        let other = beside(&rig, |rig| {
            rig.begin(2, 2).is_some_and(|token| {
                rig.cancel(token);
                true
            })
        });
        rig.harvest();
        let (begun, _) = (ends_and_harvests(), other());
        // Neither pass found the other one at work, so both were made.
        if begun && rig.ring.ledger().passes == 2 {
            assert_eq!(rig.tally.names(), [1]);
        }
        rig.finish();
    });
}
