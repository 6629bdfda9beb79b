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
        |_, context| Naive::make(Mistake::None, context),
        Look::Everywhere,
    );
    assert!(failure.is_none(), "{}", failure.unwrap().difference);
}

#[test]
fn the_application_sees_an_unguarded_poll() {
    seen(|_, context| Naive::make(Mistake::PollsUnguarded, context));
}

#[test]
fn the_application_sees_a_poll_in_the_thread_local_mode() {
    seen(|_, context| Naive::make(Mistake::PollsThreadLocal, context));
}

#[test]
fn the_application_sees_a_record_beside_a_capture() {
    seen(|_, context| Naive::make(Mistake::RecordsUnasked, context));
}

#[test]
fn the_application_sees_a_mode_that_was_not_restored() {
    seen(|_, context| Naive::make(Mistake::KeepsMode, context));
}

#[test]
fn the_application_sees_a_context_that_was_left_current() {
    seen(|_, context| Naive::make(Mistake::KeepsContext, context));
}

#[test]
fn the_application_sees_a_wait() {
    seen(|_, context| Naive::make(Mistake::Waits, context));
}

#[test]
fn the_log_shows_events_made_in_steady_state() {
    let rule = "cuEventCreate has no place in Begin";
    told(
        |_, context| Naive::make(Mistake::CreatesEvents, context),
        rule,
    );
}

#[test]
fn the_log_shows_polls_beyond_the_budget() {
    let rule = "cuEventQuery\"] in Harvest, not";
    told(|_, context| Naive::make(Mistake::PollsAll, context), rule);
}

#[test]
fn the_simulator_shows_a_stream_that_was_kept() {
    let rule = "stale handles";
    told(
        |_, context| Naive::make(Mistake::KeepsStreams, context),
        rule,
    );
}

/// The scripts that are kept with the name of a mistake show it.
#[test]
fn kept_scripts_show_the_mistakes_that_they_are_named_after() {
    let kept: [(&str, Maker); 7] = [
        ("unguarded_poll", |_, context| {
            Naive::make(Mistake::PollsUnguarded, context)
        }),
        ("thread_local_poll", |_, context| {
            Naive::make(Mistake::PollsThreadLocal, context)
        }),
        ("unasked_record", |_, context| {
            Naive::make(Mistake::RecordsUnasked, context)
        }),
        ("kept_mode", |_, context| {
            Naive::make(Mistake::KeepsMode, context)
        }),
        ("kept_context", |_, context| {
            Naive::make(Mistake::KeepsContext, context)
        }),
        ("wait", |_, context| Naive::make(Mistake::Waits, context)),
        ("kept_stream", |_, context| {
            Naive::make(Mistake::KeepsStreams, context)
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
