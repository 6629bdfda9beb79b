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

/// Runs the replay binary.
pub(crate) fn run(args: &[OsString]) -> Result<()> {
    let words: Vec<_> = args.iter().map(|arg| arg.to_string_lossy()).collect();
    let words = words.join(" ");
    println!("$ demo {words}");
    program::run(command(args)?, &format!("`demo {words}`"))
}

/// Becomes the replay binary.
pub(crate) fn exec(args: &[OsString]) -> Error {
    program::exec(command(args))
}
