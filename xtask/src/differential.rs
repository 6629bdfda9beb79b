// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random sequences of an application's calls, with and without the recorder.
//! What ran, and a sequence that differs as small as it gets, is printed.

use xshell::cmd;

use crate::{cargo, error::Result};

/// Runs so many sequences, the first with this seed; 1000 from seed 0 unless told.
pub(crate) fn run(sequences: Option<u64>, seed: Option<u64>) -> Result<()> {
    let sh = cargo::shell()?;
    let mut args = Vec::new();
    for (flag, number) in [("--sequences", sequences), ("--seed", seed)] {
        if let Some(number) = number {
            args.extend([flag.to_owned(), number.to_string()]);
        }
    }
    Ok(cmd!(sh, "cargo run --quiet --package metrale-differential -- {args...}").run()?)
}
