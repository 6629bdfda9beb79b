// SPDX-License-Identifier: MIT OR Apache-2.0
//! The demo: the replay binary on the simulated driver, or on a GPU where there
//! is one. Which of the two is the binary's choice; it prints the driver's path.

use std::{ffi::OsString, os::unix::process::CommandExt, process::Command};

use crate::{
    cargo,
    error::{Error, Result},
    sim,
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

/// Becomes the replay binary, in the caller's folder: its exit code, its signals
/// and its terminal are then the caller's. Returns only where that fails.
pub(crate) fn exec(args: &[OsString]) -> Error {
    match command(args) {
        Ok(mut command) => Error::Io {
            source: command.exec(),
            what: format!("run {}", command.get_program().display()),
        },
        Err(err) => err,
    }
}
