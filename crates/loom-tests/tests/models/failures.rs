// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every call's failure path frees the slot for the next recorder, who finds
//! the pair complete.

use metrale_loom_tests::{Bound, FAILS_END, FAILS_POLL, FAILS_START, Rig, beside, model};

/// A recorder whose span fails on `stream` against one whose spans do not.
fn against(stream: u64) {
    model(Bound::Preemptions(3), move || {
        let rig = Rig::new(1);
        let failing = beside(&rig, move |rig| rig.span(1, stream));
        let sound = beside(&rig, |rig| {
            rig.span(2, 1);
            rig.span(3, 1);
        });
        rig.harvest();
        failing();
        sound();
        let ledger = rig.finish();
        assert!(ledger.failed <= 1);
        assert!(!rig.tally.names().contains(&1), "a failed span never lands");
    });
}

#[test]
fn a_start_that_fails() {
    against(FAILS_START);
}

#[test]
fn an_end_that_fails() {
    against(FAILS_END);
}

#[test]
fn a_poll_that_fails() {
    against(FAILS_POLL);
}
