// SPDX-License-Identifier: MIT OR Apache-2.0
//! The pass moves its oldest ticket on only past spans that are over: whatever
//! a pass meets, a later one at rest lands the rest.

use metrale_loom_tests::{Bound, Rig, model, spawn};

#[test]
fn a_claimed_slot_is_seen_by_a_pass_that_counts_it() {
    model(Bound::None, || {
        let rig = Rig::new(2);
        let recorder = {
            let rig = rig.clone();
            spawn(move || assert!(rig.span(1, 1)))
        };
        rig.harvest();
        recorder();
        assert_eq!(rig.finish().landed, 1);
    });
}

#[test]
fn a_recorder_between_ticket_and_claim_is_not_left_behind() {
    model(Bound::Preemptions(3), || {
        let rig = Rig::new(4);
        let recorder = |first: u64, spans: u64| {
            let rig = rig.clone();
            spawn(move || {
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
fn a_dropped_ticket_is_not_taken_for_one_still_under_way() {
    model(Bound::Preemptions(3), || {
        let rig = Rig::new(2);
        // Slot 0 is in use while the others begin; slot 1 is theirs.
        let open = rig.begin(1, 1).expect("a free slot");
        let recorder = |name: u64| {
            let rig = rig.clone();
            spawn(move || rig.span(name, name))
        };
        let threads = [recorder(2), recorder(3)];
        rig.end(open, 1);
        rig.harvest();
        let begun = threads
            .into_iter()
            .filter_map(|join| join().then_some(()))
            .count();
        assert_eq!(rig.finish().landed, 1 + begun as u64);
    });
}
