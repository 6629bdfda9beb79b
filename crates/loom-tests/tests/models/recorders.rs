// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recorders that share slots: one owner to a pair at a time, and what one
//! wrote is there for the next.

use metrale_loom_tests::{Bound, Rig, beside, model};
use metrale_telemetry::kernel::SpanToken;

#[test]
fn two_recorders_take_one_slot_again_and_again() {
    model(Bound::Preemptions(3), || {
        let rig = Rig::new(1);
        let recorder = |first: u64| {
            beside(&rig, move |rig| {
                rig.span(first, 1);
                rig.span(first + 1, 1);
            })
        };
        let threads = [recorder(10), recorder(20)];
        rig.harvest();
        threads.into_iter().for_each(|join| join());
        let ledger = rig.finish();
        assert_eq!(ledger.attempts, 4);
        assert!(ledger.landed >= 1);
    });
}

#[test]
fn three_recorders_share_two_slots() {
    model(Bound::Preemptions(2), || {
        let rig = Rig::new(2);
        let recorder = |name: u64| beside(&rig, move |rig| rig.span(name, name));
        let threads = [recorder(1), recorder(2), recorder(3)];
        rig.harvest();
        let begun = threads.into_iter().filter_map(|join| join().then_some(())).count();
        let ledger = rig.finish();
        assert_eq!((ledger.attempts, ledger.landed), (3, begun as u64));
        assert!(begun >= 2, "two slots were free");
    });
}

#[test]
fn a_span_may_end_on_another_thread() {
    model(Bound::None, || {
        let rig = Rig::new(1);
        let begins = beside(&rig, |rig| {
            assert!(rig.begin(7, 1).is_some());
        });
        // The slot's number is all that it knows, as of a parked span.
        let ends = beside(&rig, |rig| rig.end(SpanToken::from_slot(0), 2));
        rig.harvest();
        begins();
        ends();
        rig.end(SpanToken::from_slot(0), 2);
        let ledger = rig.finish();
        assert_eq!((ledger.landed, ledger.stale_ends), (1, 1));
    });
}

#[test]
fn of_two_ends_of_one_span_one_records() {
    model(Bound::None, || {
        let rig = Rig::new(1);
        let token = rig.begin(7, 1).expect("a free slot");
        let other = beside(&rig, move |rig| rig.end(token, 1));
        rig.end(token, 1);
        other();
        let ledger = rig.finish();
        assert_eq!((ledger.landed, ledger.stale_ends), (1, 1));
    });
}
