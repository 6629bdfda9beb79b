// SPDX-License-Identifier: MIT OR Apache-2.0
//! `metrale-gpu-bench`: metrale measured on a GPU, or on the simulated driver to
//! see that the measuring works. `docs/benchmarking.md` says how to run it.
//!
//! One process writes the page and starts another for each section, which opens
//! the device, measures and tells what it found, line by line. The page is
//! rewritten with each line. Every section has its time and its counts.
//!
//! - `options`, `driver`: what is asked for, and which driver that is.
//! - `parent`, `page`, `item`: the run, the page, and what goes there.
//! - `device` with `cuda` and `ptx`: a device as an application holds it.
//! - `graphs`: graphs with marks, by the driver's own calls.
//! - `rig`: recorders and steps; `timer`, `stats`, `budget`: figures.
//! - `sections`: what is measured.

mod budget;
mod cuda;
mod device;
mod driver;
mod graphs;
mod item;
mod options;
mod page;
mod parent;
mod ptx;
mod rig;
mod run;
mod sections;
mod stats;
mod timer;

use metrale_gpu_sys::cuda::Status;
use options::{NoOptions, Options};
use std::ffi::{CStr, OsString};
use std::process::ExitCode;

/// Why something could not be measured.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The driver refused a call.
    #[error("{}: {status}", call.to_string_lossy())]
    Call {
        /// The function.
        call: &'static CStr,
        /// What it answered.
        status: Status,
    },
    /// The driver lacks a function.
    #[error("the driver has no {}", .0.to_string_lossy())]
    Missing(&'static CStr),
    /// Anything else, in words.
    #[error("{0}")]
    Other(String),
}

/// The program, with the arguments after its name.
#[must_use]
pub fn main(arguments: Vec<OsString>) -> ExitCode {
    let ids: Vec<&str> = sections::ALL.iter().map(|section| section.id).collect();
    let options = match options::parse(arguments, &ids) {
        Ok(options) => options,
        Err(NoOptions::Help(text)) => {
            println!("{text}");
            return ExitCode::SUCCESS;
        }
        Err(NoOptions::Wrong(line)) => return refuse(line),
    };
    match driver::choose(options.driver) {
        Err(error) => refuse(error),
        Ok(driver) if options.part.is_some() => run::part(driver, &options),
        Ok(driver) => run::all(&driver, &options),
    }
}

/// One line and exit code 2: nothing is measured.
fn refuse(line: impl std::fmt::Display) -> ExitCode {
    eprintln!("metrale-gpu-bench: {line}");
    ExitCode::from(2)
}
