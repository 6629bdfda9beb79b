// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random programs with graphs, with twins and without.

use metrale_differential::graphs::try_programs;

#[test]
fn no_program_shows_the_twins_of_its_graphs() {
    let ledger = try_programs(0, 1_000).unwrap_or_else(|failure| panic!("{failure}"));
    // They would show nothing if nothing happened in them.
    let reasons = [
        ledger.launched,
        ledger.read,
        ledger.lost,
        ledger.by_turn,
        ledger.unread,
        ledger.plan_spent,
        ledger.other_stream,
        ledger.no_span,
        ledger.stale,
        ledger.no_twin,
        ledger.launch_failed,
        ledger.waits,
        ledger.updates_failed,
    ];
    assert!(reasons.iter().all(|count| *count >= 3), "{ledger:?}");
    assert!(ledger.launched > 1_500, "{ledger:?}");
}
