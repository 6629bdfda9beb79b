// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs random sequences with and without the recorder, and random programs with graphs
//! with and without twins, and prints what it ran.
//!
//! Exit codes: 0 no difference, 1 one was found, 2 the command line was wrong.

mod flags;

use flags::MetraleDifferential;
use metrale_differential::graphs::try_programs;
use metrale_differential::guest::Mistake;
use metrale_differential::{Bench, Look};
use std::fmt::Display;
use std::process::ExitCode;

fn main() -> ExitCode {
    // Who reads no further ends it, as any program in a pipe.
    sigpipe::reset();
    let flags = match MetraleDifferential::from_env() {
        Ok(flags) => flags,
        Err(err) if err.is_help() => err.exit(),
        Err(err) => return wrong(err),
    };
    let (seed, count) = (flags.seed.unwrap_or(0), flags.sequences.unwrap_or(1_000));
    if count == 0 {
        return wrong("--sequences 0 would show nothing; it starts at 1");
    }
    match run(seed, count) {
        Ok(()) => {
            println!("differential: no difference, no rule broken");
            ExitCode::SUCCESS
        }
        Err(difference) => {
            println!("differential: a difference, as small as it gets:\n{difference}");
            ExitCode::FAILURE
        }
    }
}

fn run(seed: u64, count: u32) -> Result<(), String> {
    println!("differential: {count} sequences of seed {seed}, without and with the recorder");
    // What holds the simulator is dropped before the programs take it.
    let tried = Bench::default().try_sequences(seed, count, Mistake::None, Look::Everywhere);
    println!("{}", tried.map_err(|failure| failure.to_string())?);
    println!("differential: {count} programs with graphs, without and with their twins");
    println!("  {:?}", try_programs(seed, count)?);
    Ok(())
}

fn wrong(why: impl Display) -> ExitCode {
    eprintln!("differential: {why}; --help tells the options");
    ExitCode::from(2)
}
