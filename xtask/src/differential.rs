// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random sequences of an application's calls, with and without the recorder.
//! What ran, and a sequence that differs as small as it gets, is printed.

use std::{ffi::OsString, process::Command};

use crate::{
    cargo,
    error::{Error, Result},
    program,
};

const PACKAGE: &str = "metrale-differential";

/// The binary, built, with `args`.
fn command(args: &[OsString]) -> Result<Command> {
    let artifacts = cargo::build(&["build", "--package", PACKAGE], &[])?;
    let mut command = Command::new(cargo::binary(&artifacts, PACKAGE)?);
    command.args(args);
    Ok(command)
}

/// Runs the binary as CI does.
pub(crate) fn run() -> Result<()> {
    program::run(command(&[])?, PACKAGE)
}

/// Becomes the binary.
pub(crate) fn exec(args: &[OsString]) -> Error {
    program::exec(command(args))
}
