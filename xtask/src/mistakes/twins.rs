// SPDX-License-Identifier: MIT OR Apache-2.0
//! The mistakes that a twin must not make, one at a time in a scratch copy. Random
//! programs (`crates/differential`) or the runtime's tests must catch each.

use super::{
    Mistake, check, mistake,
    scratch::{self, Scratch},
};
use crate::{
    cargo,
    error::{Result, failed},
    tidy::tree::Tree,
};

const LIFE: &str = "crates/gpu-runtime/src/timing/twin/life.rs";
const REPLAY: &str = "crates/gpu-runtime/src/timing/twin/replay.rs";
const SEATS: &str = "crates/gpu-runtime/src/timing/twin/seats.rs";
const MARKED: &str = "crates/gpu-runtime/src/timing/twin/marked.rs";
const CALLS: &str = "crates/gpu-runtime/src/timing/twin/calls.rs";

#[rustfmt::skip]
pub(super) const ALL: &[Mistake] = &[
    mistake("a stale twin is launched", "twin_order::a_twin_that_missed_an_update_is_launched_no_more", &[
        (LIFE, "follow", "self.state.set(TwinState::Stale);", ""),
    ]),
    mistake("no wait on the other stream", "twin_order::a_launch_on_another_stream_waits_for_the_twin", &[
        (REPLAY, "prepare", "self.wait_for_twin(stream);", ""),
    ]),
    mistake("a wait on a capturing stream",
        "twin_order::a_capture_on_another_stream_survives_and_waits_for_nobody", &[
        (REPLAY, "wait_for_twin",
            "if !asked.is_success() || capture != CAPTURE_STATUS_NONE { return; }", ""),
    ]),
    mistake("a twin in a capture", "twin_order::no_twin_goes_into_a_capture", &[
        (REPLAY, "twin_for", "let Some(token) = span.filter(|_| !own.watch.is_silent()) else {
                return Err(Plain::Span);
            };", "let token = span.unwrap_or(SpanToken::from_bits(0));"),
    ]),
    mistake("a twin on another stream than the last launch",
        "twin_order::a_twin_is_launched_only_where_the_last_launch_was", &[
        (REPLAY, "twin_for", "if !is_same { return Err(Plain::Stream); }", ""),
    ]),
    mistake("a launch that failed is taken for the last",
        "twin_order::after_a_launch_that_failed_nobody_knows_which_stream_was_last", &[
        (REPLAY, "launch_noted", "launched.is_ok() && (is_same || span.is_some())",
            "is_same || span.is_some()"),
    ]),
    mistake("an event is read in flight", "twins::no_mark_is_read_in_flight", &[
        (SEATS, "fly", "self.set(State::Flying);", "self.set(State::Over);"),
    ]),
    mistake("a twin is launched twice unread", "twin_order::a_launch_on_another_stream_waits_for_the_twin", &[
        (REPLAY, "twin_for", "_ => return Err(Plain::Unread),", "_ => {}"),
    ]),
    mistake("an edge of a mark is dropped",
        "twin_edges::what_is_ordered_is_ordered_in_the_twin_and_nothing_else_is", &[
        (MARKED, "instantiate", "(&after, &before)", "(&after, &[])"),
    ]),
    mistake("an edge of the application is dropped",
        "twin_edges::what_is_ordered_is_ordered_in_the_twin_and_nothing_else_is", &[
        ("crates/gpu-sys/src/cuda/graphs.rs", "", "get_nodes = c\"cuGraphGetNodes\":",
            "remove_dependencies = c\"cuGraphRemoveDependencies\":
                fn(CUgraph, *const CUgraphNode, *const CUgraphNode, usize);
            /// Another.
            get_nodes = c\"cuGraphGetNodes\":"),
        (CALLS, "copy", "Ok(copy)",
            "let (mut from, mut to, mut count) = (null_mut(), null_mut(), 1);
            let _ = unsafe {
                (self.api.get_edges)(copy, &raw mut from, &raw mut to, &raw mut count)
            };
            let _ = unsafe {
                (self.api.remove_dependencies)(copy, &raw const from, &raw const to, count)
            };
            Ok(copy)"),
    ]),
];

/// What catches a mistake beside its test.
const PROGRAMS: &str = "programs";

/// Makes each, and tells what caught it.
pub(crate) fn run() -> Result<()> {
    let files = Tree::read(cargo::root())?.files;
    let made: Result<Vec<_>> = ALL.iter().map(|mistake| mistake.made(&files)).collect();
    let scratch = Scratch::new(&files, "mistakes", &[])?;
    let unchanged = caught(&scratch, "twin")?;
    if !unchanged.is_empty() {
        return failed(format!("the unchanged sources fail: {}", unchanged.join(", ")));
    }
    check(&made?, |variant| {
        let test = variant.test.as_deref().unwrap_or_default();
        scratch.with(&variant.files, || caught(&scratch, test))
    })
}

/// Which of the programs and the test of that name catch what is built now.
fn caught(scratch: &Scratch, test: &str) -> Result<Vec<String>> {
    let fails = |package, tests, args: &[&str]| {
        let binary = scratch.tests(&["--package", package, "--test", tests])?;
        scratch::fails(&binary, args).map(|failed| failed.is_some())
    };
    let programs = fails("metrale-differential", "graphs", &[])?;
    let by = fails("metrale-gpu-runtime", "integration", &[test])?;
    let caught = [by.then(|| test.to_owned()), programs.then(|| PROGRAMS.to_owned())];
    Ok(caught.into_iter().flatten().collect())
}
