// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which driver is measured.
//!
//! Invariant: nobody measures the simulated driver by mistake, nor another one
//! while asking for it.

use super::options::Which;
use metrale_gpu_sys::cuda::{Driver, DriverError};
use std::path::{Path, PathBuf};

/// The folder that holds the simulated driver; `cargo xtask` names it.
const SIM_DIR: &str = "METRALE_SIM_DIR";

/// Why nothing can be measured.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoDriver {
    /// There is none, or it cannot be used.
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
        "--driver sim: {SIM_DIR} is not set to the simulated driver's folder; `cargo xtask sim` prints it"
    )]
    NoSimDir,
    /// It lacks a function, or `cuInit` failed.
    #[error("{}: {why}", path.display())]
    Unusable {
        /// The driver.
        path: PathBuf,
        /// What is missing, or what it answered.
        why: String,
    },
    /// There is no such device.
    #[error("--device {asked}: there are devices 0 to {}", .found - 1)]
    NoDevice {
        /// The one asked for.
        asked: u32,
        /// How many there are.
        found: u32,
    },
}

/// The driver, loaded. Nothing of it is called but its version.
pub(crate) fn choose(which: Which) -> Result<Driver, NoDriver> {
    match which {
        Which::Cuda => {
            let driver = Driver::system()?;
            if driver.is_simulated() {
                return Err(NoDriver::Simulated(driver.origin().path().to_owned()));
            }
            Ok(driver)
        }
        Which::Sim => {
            let folder = std::env::var_os(SIM_DIR).ok_or(NoDriver::NoSimDir)?;
            let path = Path::new(&folder).join("libcuda.so.1");
            // SAFETY: the caller names this file as the simulated driver.
            let driver = unsafe { Driver::open(&path) }?;
            if !driver.is_simulated() {
                return Err(NoDriver::NotSimulated(path));
            }
            Ok(driver)
        }
    }
}
