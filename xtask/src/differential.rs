// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random sequences of an application's calls, with and without the recorder.
//! What ran, and a sequence that differs as small as it gets, is printed.

use std::ffi::OsString;

use xshell::cmd;

use crate::{cargo, error::Result};

/// Runs the binary; `args` are its.
pub(crate) fn run(args: &[OsString]) -> Result<()> {
    let sh = cargo::shell()?;
    Ok(cmd!(sh, "cargo run --quiet --package metrale-differential -- {args...}").run()?)
}
