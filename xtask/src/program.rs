// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs of this machine: whether one is there, whether it must be, and
//! becoming one.

use std::{
    os::unix::process::CommandExt,
    process::{Command, Stdio},
};

use crate::error::{Context, Error, Result, failed};

/// Whether the program runs with these arguments, which ask for its version.
pub(crate) fn runs(program: &str, args: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(args).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Whether what is missing here fails, and is not skipped.
pub(crate) fn is_ci() -> bool {
    std::env::var_os("CI").is_some_and(|ci| ci == "true")
}

/// Runs the program to its end, which must be a good one.
pub(crate) fn run(mut command: Command, what: &str) -> Result<()> {
    let status = command.status().context(|| format!("run {what}"))?;
    match status.success() {
        true => Ok(()),
        false => failed(format!("{what} ended with {status}")),
    }
}

/// Becomes the program, in the caller's folder: its exit code, its signals and
/// its terminal are then the caller's. Returns only where that fails.
pub(crate) fn exec(command: Result<Command>) -> Error {
    match command {
        Ok(mut command) => Error::Io {
            source: command.exec(),
            what: format!("run {}", command.get_program().display()),
        },
        Err(err) => err,
    }
}
