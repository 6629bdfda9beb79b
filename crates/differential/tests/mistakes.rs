// SPDX-License-Identifier: MIT OR Apache-2.0
//! Each mistake that a guest can make is found: by what the application sees
//! where it can see it, else by the rules.

use metrale_differential::guest::Maker;
use metrale_differential::naive::Mistake;
use metrale_differential::sequence::Sequence;
use metrale_differential::{Bench, Failure, Look};

/// Sequences that are tried at most.
const SEQUENCES: u64 = 400;

/// Those that the application sees, and the kept sequence that shows each.
const SEEN: [(Mistake, &str); 7] = [
    (Mistake::PollsUnguarded, "unguarded_poll"),
    (Mistake::PollsThreadLocal, "thread_local_poll"),
    (Mistake::RecordsUnasked, "unasked_record"),
    (Mistake::KeepsMode, "kept_mode"),
    (Mistake::KeepsContext, "kept_context"),
    (Mistake::StaysEntered, "kept_entry"),
    (Mistake::Waits, "wait"),
];

fn found(mistake: Mistake, look: Look) -> Option<Box<Failure>> {
    let maker = Maker::Naive(mistake);
    let tried = Bench::new().try_seeds(0, SEQUENCES, maker, look, |_| ());
    tried.err()
}

#[test]
fn nobody_notices_a_guest_without_a_mistake() {
    let failure = found(Mistake::None, Look::Everywhere);
    assert!(failure.is_none(), "{}", failure.unwrap().difference);
}

#[test]
fn the_application_sees_a_mistake_in_a_few_turns() {
    for (mistake, _) in SEEN {
        let failure = found(mistake, Look::AtTheApplication);
        let sequence = failure.unwrap_or_else(|| panic!("{mistake:?}")).sequence;
        assert!(sequence.operations.len() <= 10, "{mistake:?}: {}", sequence.to_data());
    }
}

#[test]
fn the_log_shows_what_the_application_cannot_see() {
    for (mistake, rule) in [
        (Mistake::CreatesEvents, "cuEventCreate has no place in Begin"),
        (Mistake::PollsAll, "cuEventQuery\"] in Harvest, not"),
        (Mistake::KeepsStreams, "stale handles"),
    ] {
        let failure = found(mistake, Look::Everywhere);
        let failure = failure.unwrap_or_else(|| panic!("{mistake:?}"));
        let told = failure.difference.to_string();
        assert!(told.contains(rule), "{mistake:?}: {told}");
    }
}

/// The sequences that are kept with the name of a mistake show it.
#[test]
fn kept_scripts_show_the_mistakes_that_they_are_named_after() {
    let bench = Bench::new();
    for (mistake, name) in SEEN.into_iter().chain([(Mistake::KeepsStreams, "kept_stream")]) {
        let folder = env!("CARGO_MANIFEST_DIR");
        let path = format!("{folder}/regressions/{name}.json");
        let text = std::fs::read_to_string(&path).expect("it can be read");
        let sequence = Sequence::from_data(&text).expect("it is a sequence");
        let maker = Maker::Naive(mistake);
        let (difference, _) = bench.compare(&sequence, maker, Look::AtTheApplication);
        assert!(difference.is_some(), "{name}");
    }
}
