// SPDX-License-Identifier: MIT OR Apache-2.0
//! `metrale-gpu-bench`: metrale measured on a GPU, or on the simulated driver to
//! see that the measuring works. `docs/benchmarking.md` says how to run it.
//!
//! Each section has a process of its own, which opens the device, measures and
//! rewrites the page with each row. Every section has its time and its counts.
//!
//! - `options`, `driver`, `machine`: what is asked for, of which driver and machine.
//! - `run`, `page`: the processes, and what they write.
//! - `device` with `cuda` and `ptx`: a device as an application holds it.
//! - `graphs`: graphs with marks, by the driver's own calls.
//! - `rig`: recorders and steps; `timer`, `stats`, `budget`: figures.
//! - `sections`: what is measured.

mod budget;
mod cuda;
mod device;
mod driver;
mod graphs;
mod machine;
mod options;
mod page;
mod ptx;
mod rig;
mod run;
mod sections;
mod stats;
mod timer;

use metrale_gpu_sys::cuda::{DriverError, Status};
use options::MetraleGpuBench;
use std::ffi::CStr;
use std::path::PathBuf;
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
    /// There is no driver, or it cannot be used.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// The machine's driver is the simulated one.
    #[error(
        "{} exports sim_* functions: it is the simulated driver, whose numbers are no GPU's; take its folder off the library path, or say --driver sim",
        .0.display()
    )]
    Simulated(PathBuf),
    /// What should be the simulated driver is another one.
    #[error("{} is no simulated driver: it exports no sim_* functions", .0.display())]
    NotSimulated(PathBuf),
    /// It is not said where the simulated driver is.
    #[error(
        "--driver sim: {} is not set to the simulated driver's folder; `cargo xtask sim` prints it",
        driver::SIM_DIR
    )]
    NoSimDir,
    /// There is no such device.
    #[error("--device {asked}: there are devices 0 to {}", .found - 1)]
    NoDevice {
        /// The one asked for.
        asked: u32,
        /// How many there are.
        found: u32,
    },
    /// Anything else, in words.
    #[error("{0}")]
    Other(String),
}

impl Failure {
    fn other(error: impl std::fmt::Display) -> Self {
        Self::Other(error.to_string())
    }
}

/// The program.
#[must_use]
pub fn main() -> ExitCode {
    let flags = match MetraleGpuBench::from_env() {
        Ok(flags) => flags,
        Err(error) if error.is_help() => error.exit(),
        Err(error) => return refuse(format!("{error} (see --help)")),
    };
    let ids: Vec<&str> = sections::ALL.iter().map(|section| section.id).collect();
    if let Some(unknown) = flags.only.iter().find(|id| !ids.contains(&id.as_str())) {
        return refuse(format!("--only {unknown:?}: no such section of {}", ids.join(", ")));
    }
    match (driver::choose(flags.driver.unwrap_or_default()), &flags.section) {
        (Err(error), _) => refuse(error),
        (Ok(driver), Some(id)) => run::section(driver, &flags, id),
        (Ok(driver), None) => run::all(&driver, &flags),
    }
}

/// One line and exit code 2: nothing is measured.
fn refuse(line: impl std::fmt::Display) -> ExitCode {
    eprintln!("metrale-gpu-bench: {line}");
    ExitCode::from(2)
}
