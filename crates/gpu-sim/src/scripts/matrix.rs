// SPDX-License-Identifier: MIT OR Apache-2.0
//! A query of an event that has nothing to do with a capture, in every mode of
//! the capture, from the capturing and from another thread, under every mode of
//! the querying thread. Only a relaxed thread is safe in all of them.

use super::Script;

/// Capture's mode, whose thread queries, that thread's mode, the query's
/// status, the capture's status when it ends.
type Case = (&'static str, &'static str, &'static str, u32, u32);

const CASES: [Case; 18] = [
    ("global", "same", "global", 900, 901),
    ("global", "same", "local", 900, 901),
    ("global", "same", "relaxed", 0, 0),
    ("global", "other", "global", 900, 901),
    ("global", "other", "local", 0, 0),
    ("global", "other", "relaxed", 0, 0),
    ("local", "same", "global", 900, 901),
    ("local", "same", "local", 900, 901),
    ("local", "same", "relaxed", 0, 0),
    ("local", "other", "global", 0, 0),
    ("local", "other", "local", 0, 0),
    ("local", "other", "relaxed", 0, 0),
    ("relaxed", "same", "global", 0, 0),
    ("relaxed", "same", "local", 0, 0),
    ("relaxed", "same", "relaxed", 0, 0),
    ("relaxed", "other", "global", 0, 0),
    ("relaxed", "other", "local", 0, 0),
    ("relaxed", "other", "relaxed", 0, 0),
];

/// One script for each case.
pub(super) fn scripts() -> impl Iterator<Item = Script> {
    CASES.iter().map(|(capture, whose, mode, query, end)| {
        let thread = if *whose == "other" { "@2" } else { "" };
        let graph = if *end == 0 { "graph" } else { "NULL" };
        let steps = format!(
            "context
             stream s nonblocking
             stream apart nonblocking
             event e timed
             record e apart
             sync-event e
             begin s {capture}
             {thread} mode {mode} -> 0 global
             {thread} query e -> {query}
             {thread} mode global -> 0 {mode}
             end s g -> {end} {graph}
             query e -> 0"
        );
        Script {
            name: format!("query_under_{mode}_by_{whose}_thread_during_{capture}_capture").into(),
            hardware: true,
            own_process: false,
            steps: steps.into(),
        }
    })
}
