// SPDX-License-Identifier: MIT OR Apache-2.0
//! Each mistake that a guest can make is found: by what the application sees
//! where it can see it, else by the rules.

use metrale_differential::guest::Maker;
use metrale_differential::naive::{Mistake, Naive};
use metrale_differential::script::Script;
use metrale_differential::{Bench, Failure, Look};

/// Sequences that are tried at most.
const SEQUENCES: u64 = 400;

fn found(maker: Maker, look: Look) -> Option<Box<Failure>> {
    let tried = Bench::new().try_seeds(0, SEQUENCES, maker, look, |_| ());
    tried.err()
}

fn seen(maker: Maker) {
    let failure = found(maker, Look::AtTheApplication).expect("the mistake is found");
    let data = failure.script.to_data();
    assert!(failure.script.turns.len() <= 10, "{data}");
}

fn told(maker: Maker, rule: &str) {
    let failure = found(maker, Look::Everywhere).expect("the mistake is found");
    let told = failure.difference.to_string();
    assert!(told.contains(rule), "{told}");
}

#[test]
fn nobody_notices_a_guest_without_a_mistake() {
    let failure = found(
        |setup, context| Naive::make(Mistake::None, setup, context),
        Look::Everywhere,
    );
    assert!(failure.is_none(), "{}", failure.unwrap().difference);
}

#[test]
fn the_application_sees_an_unguarded_poll() {
    seen(|setup, context| Naive::make(Mistake::PollsUnguarded, setup, context));
}

#[test]
fn the_application_sees_a_poll_in_the_thread_local_mode() {
    seen(|setup, context| Naive::make(Mistake::PollsThreadLocal, setup, context));
}

#[test]
fn the_application_sees_a_record_beside_a_capture() {
    seen(|setup, context| Naive::make(Mistake::RecordsUnasked, setup, context));
}

#[test]
fn the_application_sees_a_mode_that_was_not_restored() {
    seen(|setup, context| Naive::make(Mistake::KeepsMode, setup, context));
}

#[test]
fn the_application_sees_a_context_that_was_left_current() {
    seen(|setup, context| Naive::make(Mistake::KeepsContext, setup, context));
}

#[test]
fn the_application_sees_a_context_that_was_entered_and_not_left() {
    seen(|setup, context| Naive::make(Mistake::StaysEntered, setup, context));
}

#[test]
fn the_application_sees_a_wait() {
    seen(|setup, context| Naive::make(Mistake::Waits, setup, context));
}

#[test]
fn the_log_shows_events_made_in_steady_state() {
    let rule = "cuEventCreate has no place in Begin";
    told(
        |setup, context| Naive::make(Mistake::CreatesEvents, setup, context),
        rule,
    );
}

#[test]
fn the_log_shows_polls_beyond_the_budget() {
    let rule = "cuEventQuery\"] in Harvest, not";
    told(
        |setup, context| Naive::make(Mistake::PollsAll, setup, context),
        rule,
    );
}

#[test]
fn the_simulator_shows_a_stream_that_was_kept() {
    let rule = "stale handles";
    told(
        |setup, context| Naive::make(Mistake::KeepsStreams, setup, context),
        rule,
    );
}

/// The scripts that are kept with the name of a mistake show it.
#[test]
fn kept_scripts_show_the_mistakes_that_they_are_named_after() {
    let kept: [(&str, Maker); 8] = [
        ("unguarded_poll", |setup, context| {
            Naive::make(Mistake::PollsUnguarded, setup, context)
        }),
        ("thread_local_poll", |setup, context| {
            Naive::make(Mistake::PollsThreadLocal, setup, context)
        }),
        ("unasked_record", |setup, context| {
            Naive::make(Mistake::RecordsUnasked, setup, context)
        }),
        ("kept_mode", |setup, context| {
            Naive::make(Mistake::KeepsMode, setup, context)
        }),
        ("kept_context", |setup, context| {
            Naive::make(Mistake::KeepsContext, setup, context)
        }),
        ("kept_entry", |setup, context| {
            Naive::make(Mistake::StaysEntered, setup, context)
        }),
        ("wait", |setup, context| {
            Naive::make(Mistake::Waits, setup, context)
        }),
        ("kept_stream", |setup, context| {
            Naive::make(Mistake::KeepsStreams, setup, context)
        }),
    ];
    let bench = Bench::new();
    for (name, maker) in kept {
        let folder = env!("CARGO_MANIFEST_DIR");
        let path = format!("{folder}/regressions/{name}.json");
        let text = std::fs::read_to_string(&path).expect("it can be read");
        let script = Script::from_data(&text).expect("it is a script");
        let (difference, _) = bench.compare(&script, maker, Look::AtTheApplication);
        assert!(difference.is_some(), "{name}");
    }
}
