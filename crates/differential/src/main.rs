// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs random sequences with and without the recorder, and random programs with graphs
//! with and without twins, and prints what it ran.
//!
//! Exit codes: 0 no difference, 1 one was found, 2 the command line was wrong.

mod flags;

use flags::MetraleDifferential;
use metrale_differential::graphs::try_programs;
use metrale_differential::guest::Maker;
use metrale_differential::{Bench, Failure, Look};
use std::process::ExitCode;

fn main() -> ExitCode {
    // Who reads no further ends it, as any program in a pipe.
    sigpipe::reset();
    let flags = match MetraleDifferential::from_env() {
        Ok(flags) => flags,
        Err(err) if err.is_help() => err.exit(),
        Err(err) => {
            eprintln!("differential: {err}; --help tells the options");
            return ExitCode::from(2);
        }
    };
    let (seed, sequences) = (flags.seed.unwrap_or(0), flags.sequences.unwrap_or(1_000));
    if sequences == 0 {
        eprintln!("differential: --sequences 0 would show nothing; it starts at 1");
        return ExitCode::from(2);
    }
    println!(
        "differential: {sequences} sequences from seed {seed}, each without and with the recorder"
    );
    let every = (sequences / 10).max(1_000);
    let progress = |done: u64| {
        if done.is_multiple_of(every) && done < sequences {
            println!("differential: {done} of {sequences}, no difference");
        }
    };
    let bench = Bench::new();
    let tried = bench.try_seeds(seed, sequences, Maker::Recorder, Look::Everywhere, progress);
    // It holds the simulator.
    drop(bench);
    match tried {
        Ok(tally) => println!("{tally}"),
        Err(failure) => return failed(&failure),
    }
    let programs = u32::try_from(sequences).unwrap_or(u32::MAX);
    println!("differential: {programs} programs with graphs, each without and with their twins");
    match try_programs(seed, programs) {
        Ok(ledger) => {
            println!("  {ledger:?}");
            println!("differential: no difference, no rule broken");
            ExitCode::SUCCESS
        }
        Err(failure) => {
            println!("differential: a program differs, as small as it gets:\n{failure}");
            ExitCode::FAILURE
        }
    }
}

fn failed(failure: &Failure) -> ExitCode {
    println!("differential: seed {} differs", failure.seed);
    println!("{}", failure.difference);
    println!("as small as it gets, for crates/differential/regressions:");
    print!("{}", failure.sequence.to_data());
    ExitCode::FAILURE
}
