// SPDX-License-Identifier: MIT OR Apache-2.0
//! The demo: the replay binary on the simulated driver, or on a GPU where there
//! is one. Which of the two is the binary's choice; it prints the driver's path.

use std::{ffi::OsString, process::Command};

use crate::{
    cargo,
    error::{Error, Result},
    program, sim,
};

const REPLAY: &str = "metrale-replay";

/// The replay binary, built, as a command with `args` and the simulator's folder.
pub(crate) fn command(args: &[OsString]) -> Result<Command> {
    let packages = ["build", "--package", sim::PACKAGE, "--package", REPLAY];
    let artifacts = cargo::build(&packages, &[])?;
    let mut command = Command::new(cargo::binary(&artifacts, REPLAY)?);
    command.args(args).env(sim::VAR, sim::lay_out(&artifacts)?);
    Ok(command)
}

/// Becomes the replay binary.
pub(crate) fn exec(args: &[OsString]) -> Error {
    program::exec(command(args))
}
