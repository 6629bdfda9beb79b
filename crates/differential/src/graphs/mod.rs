// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shows that an application's graphs do the same with twins and without.
//!
//! A program makes graphs (chains, forks, joins, children, copies, programmatic
//! edges), launches them on several streams, updates them between launches and
//! captures their launches. It runs once by itself and once with a recorder that
//! makes twins. Every status must be the same, every node have run as often with the
//! same parameters, memory and the clock end the same; and no mistake may be made
//! that a driver answers with success: a launch beside one of the same graph, an
//! event read in flight, marks recorded anew unread, old parameters.

mod build;
mod program;
mod run;

use crate::compare::first_difference;
use crate::search::search;
use metrale_gpu_runtime::timing::TwinLedger;
use program::Program;
use proptest::arbitrary::any;
use run::run;
use std::cell::Cell;
use std::fmt::Write;

/// Runs so many programs from a seed, with twins and without; what became of all
/// replays.
///
/// # Errors
/// The first program that differs, as small as it gets, and in what.
pub fn try_programs(seed: u64, programs: u32) -> Result<TwinLedger, String> {
    let all = Cell::new(TwinLedger::default());
    let tried = search(seed, programs, &any::<Program>(), |program| {
        all.set(all.get().plus(compare(&program)?));
        Ok(())
    });
    match tried {
        Ok(()) => Ok(all.get()),
        Err((why, program)) => Err(format!("{why}\n{program:?}")),
    }
}

/// What became of replays; else what differs.
fn compare(program: &Program) -> Result<TwinLedger, String> {
    let (bare, _) = run(program, false);
    let (mut with, ledger) = run(program, true);
    if ledger.lost > 0 {
        // A launch is lost whole: marks behind the one that failed are not read.
        with.mistakes.unread_marks = bare.mistakes.unread_marks;
    }
    let mut told = String::new();
    if let Some((bare, with)) = first_difference(&bare.seen, &with.seen) {
        let _ = writeln!(told, "seen without: {bare:?}\nseen with:    {with:?}");
    }
    if bare != with {
        let short = |mut outcome: run::Outcome| {
            outcome.seen.clear();
            format!("{outcome:?}")
        };
        let _ = writeln!(told, "without: {}\nwith:    {}", short(bare), short(with));
    }
    if told.is_empty() { Ok(ledger) } else { Err(told) }
}
