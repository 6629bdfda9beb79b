// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs random sequences with and without the recorder, and prints what it ran.
//!
//! Exit codes: 0 no difference, 1 one was found, 2 the command line was wrong.

mod flags;

use flags::MetraleDifferential;
use metrale_differential::guest::Maker;
use metrale_differential::{Bench, Failure, Look, Tally};
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
    match Bench::new().try_seeds(seed, sequences, Maker::Recorder, Look::Everywhere, progress) {
        Ok(tally) => ran(&tally),
        Err(failure) => failed(&failure),
    }
}

fn ran(tally: &Tally) -> ExitCode {
    println!("{tally}");
    println!("differential: no difference, no rule broken");
    ExitCode::SUCCESS
}

fn failed(failure: &Failure) -> ExitCode {
    println!("differential: seed {} differs", failure.seed);
    println!("{}", failure.difference);
    println!("as small as it gets, for crates/differential/regressions:");
    print!("{}", failure.sequence.to_data());
    ExitCode::FAILURE
}
