// SPDX-License-Identifier: MIT OR Apache-2.0
//! Each mistake that a guest can make is found: by what the application sees
//! where it can see it, else by the rules.

use metrale_differential::guest::Mistake;
use metrale_differential::sequence::Sequence;
use metrale_differential::{Bench, Failure, Look};

/// Sequences that are tried at most.
const SEQUENCES: u32 = 400;

/// Those that the application sees, and the kept sequence that shows each.
const SEEN: [(Mistake, &str); 8] = [
    (Mistake::PollsUnguarded, "unguarded_poll"),
    (Mistake::PollsThreadLocal, "thread_local_poll"),
    (Mistake::RecordsUnasked, "unasked_record"),
    (Mistake::KeepsMode, "kept_mode"),
    (Mistake::KeepsContext, "kept_context"),
    (Mistake::StaysEntered, "kept_entry"),
    (Mistake::Waits, "wait"),
    (Mistake::KeepsStreams, "kept_stream"),
];

fn found(mistake: Mistake, look: Look) -> Failure {
    let tried = Bench::default().try_sequences(0, SEQUENCES, mistake, look);
    tried.err().unwrap_or_else(|| panic!("{mistake:?}"))
}

#[test]
fn the_application_sees_a_mistake_in_a_few_turns() {
    for (mistake, _) in SEEN {
        let failure = found(mistake, Look::AtTheApplication);
        assert!(failure.sequence.operations.len() <= 10, "{mistake:?}: {failure}");
    }
}

#[test]
fn the_log_shows_what_the_application_cannot_see() {
    for (mistake, rule) in [
        (Mistake::CreatesEvents, "cuEventCreate has no place in Begin"),
        (Mistake::PollsMore, "cuEventQuery\"] in Harvest, not"),
    ] {
        let failure = found(mistake, Look::Everywhere);
        assert!(failure.difference.contains(rule), "{mistake:?}: {failure}");
    }
}

/// The sequences that are kept with the name of a mistake show it.
#[test]
fn kept_scripts_show_the_mistakes_that_they_are_named_after() {
    let bench = Bench::default();
    for (mistake, name) in SEEN {
        let folder = env!("CARGO_MANIFEST_DIR");
        let path = format!("{folder}/regressions/{name}.json");
        let text = std::fs::read_to_string(&path).expect("it can be read");
        let sequence: Sequence = serde_json::from_str(&text).expect("it is a sequence");
        let (difference, _) = bench.compare(&sequence, mistake, Look::AtTheApplication);
        assert!(difference.is_some(), "{name}");
    }
}
