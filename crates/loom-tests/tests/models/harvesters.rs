// SPDX-License-Identifier: MIT OR Apache-2.0
//! Passes against each other and against recorders: no span lands twice, and
//! none is freed while a pass reads it.

use metrale_loom_tests::{Bound, NEVER_DONE, Rig, beside, model};

#[test]
fn two_harvesters_land_each_span_once() {
    model(Bound::Preemptions(3), || {
        let rig = Rig::new(1);
        let recorder = beside(&rig, |rig| {
            rig.span(1, 1);
            rig.span(2, 1);
        });
        let harvester = beside(&rig, |rig| rig.harvest());
        let mut landed = rig.harvest();
        recorder();
        landed += harvester();
        let before = rig.tally.landed().len();
        assert_eq!(landed, before);
        rig.finish();
    });
}

#[test]
fn two_harvesters_of_spans_at_rest() {
    model(Bound::None, || {
        let rig = Rig::new(2);
        assert!(rig.span(1, 1) && rig.span(2, 2));
        let harvester = beside(&rig, |rig| rig.harvest());
        let landed = rig.harvest() + harvester();
        assert!(landed == 2, "one of the passes ran");
        assert_eq!(rig.finish().landed, 2);
    });
}

#[test]
fn a_pending_span_keeps_its_slot_and_lets_other_streams_land() {
    model(Bound::Preemptions(3), || {
        let rig = Rig::new(2);
        assert!(rig.span(1, NEVER_DONE));
        let recorder = beside(&rig, |rig| (rig.span(2, 5), rig.span(3, 5)));
        rig.harvest();
        assert_eq!(recorder(), (true, false), "slot 0 waits");
        rig.harvest();
        assert_eq!(rig.tally.names(), [2]);
        let ledger = rig.ring.ledger();
        assert!(ledger.closes(), "{ledger:?}");
        assert_eq!((ledger.in_flight, ledger.dropped), (1, 1));
    });
}
