// SPDX-License-Identifier: MIT OR Apache-2.0
//! The mistakes that a twin must not make, one at a time in a scratch copy. Random
//! programs (`crates/differential`) or the runtime's tests must catch each.

use std::{ffi::OsString, path::PathBuf, time::Instant};

use crate::{
    cargo,
    error::{Error, Result},
    loom::edited,
    scratch::{Scratch, fails},
    tidy::tree::{File, Tree},
};

/// A file, a function in it, code that it holds once, and what stands there instead.
type Edit = (&'static str, &'static str, &'static str, &'static str);

/// A mistake, the runtime's test that is to catch it, and what makes it.
type Mistake = (&'static str, &'static str, &'static [Edit]);

const LIFE: &str = "crates/gpu-runtime/src/timing/twin/life.rs";
const REPLAY: &str = "crates/gpu-runtime/src/timing/twin/replay.rs";
const SEATS: &str = "crates/gpu-runtime/src/timing/twin/seats.rs";
const MARKED: &str = "crates/gpu-runtime/src/timing/twin/marked.rs";
const CALLS: &str = "crates/gpu-runtime/src/timing/twin/calls.rs";

#[rustfmt::skip]
const ALL: &[Mistake] = &[
    ("a stale twin is launched", "twin_order::a_twin_that_missed_an_update_is_launched_no_more", &[
        (LIFE, "follow", "self.state.set(TwinState::Stale);", ""),
    ]),
    ("no wait on the other stream", "twin_order::a_launch_on_another_stream_waits_for_the_twin", &[
        (REPLAY, "prepare", "self.wait_for_twin(stream);", ""),
    ]),
    ("a wait on a capturing stream",
        "twin_order::a_capture_on_another_stream_survives_and_waits_for_nobody", &[
        (REPLAY, "wait_for_twin",
            "if !asked.is_success() || capture != CAPTURE_STATUS_NONE { return; }", ""),
    ]),
    ("a twin in a capture", "twin_order::no_twin_goes_into_a_capture", &[
        (REPLAY, "twin_for", "let Some(token) = span.filter(|_| !own.watch.is_silent()) else {
                return Err(Plain::Span);
            };", "let token = span.unwrap_or(SpanToken::from_bits(0));"),
    ]),
    ("a twin on another stream than the last launch",
        "twin_order::a_twin_is_launched_only_where_the_last_launch_was", &[
        (REPLAY, "twin_for", "if !is_same { return Err(Plain::Stream); }", ""),
    ]),
    ("a launch that failed is taken for the last",
        "twin_order::after_a_launch_that_failed_nobody_knows_which_stream_was_last", &[
        (REPLAY, "launch_noted", "launched.is_ok() && (is_same || span.is_some())",
            "is_same || span.is_some()"),
    ]),
    ("an event is read in flight", "twins::no_mark_is_read_in_flight", &[
        (SEATS, "fly", "self.set(State::Flying);", "self.set(State::Over);"),
    ]),
    ("a twin is launched twice unread", "twin_order::a_launch_on_another_stream_waits_for_the_twin", &[
        (REPLAY, "twin_for", "_ => return Err(Plain::Unread),", "_ => {}"),
    ]),
    ("an edge of a mark is dropped",
        "twin_edges::what_is_ordered_is_ordered_in_the_twin_and_nothing_else_is", &[
        (MARKED, "instantiate", "(&after, &before)", "(&after, &[])"),
    ]),
    ("an edge of the application is dropped",
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

/// Makes each, and tells what caught it.
pub(crate) fn run() -> Result<()> {
    let tree = Tree::read(cargo::root())?;
    let scratch = Scratch::new(&tree.files)?;
    let target: PathBuf = cargo::metadata()?.target_directory.join("mistakes").into();
    let envs = [
        // A change may leave something unused.
        ("RUSTFLAGS", OsString::from("-Awarnings")),
        ("CARGO_TARGET_DIR", target.into()),
        ("CARGO_TERM_QUIET", "true".into()),
    ];
    if let (programs, Some(test)) = caught(&scratch, &envs, "twin")? {
        let what = format!("the unchanged sources fail: programs {programs}, {test}");
        return Err(Error::Weaken(what));
    }
    println!("{:<48}{:<10}{:<72} seconds", "mistake", "programs", "test");
    let mut missed = 0;
    for (name, test, edits) in ALL {
        let start = Instant::now();
        let changed = changed(&tree.files, name, edits)?;
        let (programs, by) = scratch.with(&changed, || caught(&scratch, &envs, test))?;
        missed += usize::from(!programs && by.is_none());
        let programs = if programs { "caught" } else { "-" };
        let seconds = start.elapsed().as_secs();
        println!("{name:<48}{programs:<10}{:<72} {seconds:>7}", by.unwrap_or("-"));
    }
    match missed {
        0 => Ok(()),
        _ => Err(Error::Weaken(format!("{missed} of {} mistakes were not caught", ALL.len()))),
    }
}

/// The files with the mistake made.
fn changed(files: &[File], name: &str, edits: &[Edit]) -> Result<Vec<(String, String)>> {
    let mut changed = Vec::new();
    for (path, function, from, to) in edits {
        let file = files.iter().find(|file| file.path == *path);
        let text = file.map_or("", |file| &file.text);
        let edited = edited(text, function, from, to).map_err(|found| {
            let what = format!("mistake {name}: {path}: {function} has `{from}` {found} times");
            Error::Weaken(what)
        })?;
        changed.push(((*path).to_owned(), edited));
    }
    Ok(changed)
}

/// Whether the programs catch what is built now, and the test of that name if it does.
fn caught<'t>(
    scratch: &Scratch,
    envs: &[(&str, OsString)],
    test: &'t str,
) -> Result<(bool, Option<&'t str>)> {
    let fails_in = |package, tests, args: &[&str]| {
        let build = ["test", "--package", package, "--test", tests, "--no-run"];
        let built = cargo::build_in(scratch.root(), &build, envs)?;
        let binary = built.into_iter().filter(|artifact| artifact.profile.test);
        let binary = binary.filter_map(|artifact| artifact.executable).next();
        fails(binary.ok_or(Error::NoModels)?.as_std_path(), args)
    };
    let programs = fails_in("metrale-differential", "graphs", &[])?.is_some();
    let by = fails_in("metrale-gpu-runtime", "integration", &[test])?;
    Ok((programs, by.map(|_| test)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mistake_is_the_source_with_a_change() {
        let mut files = Tree::read(cargo::root()).expect("the tree").files;
        files.retain(|file| file.path.starts_with("crates/gpu-"));
        for (name, _, edits) in ALL {
            let changed = changed(&files, name, edits).unwrap_or_else(|misfit| panic!("{misfit}"));
            assert_eq!(changed.len(), edits.len());
        }
    }
}
