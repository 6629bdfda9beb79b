// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which driver is measured.
//!
//! Invariant: nobody measures the simulated driver by mistake, nor another one
//! while asking for it.

use super::options::Which;
use metrale_gpu_sys::cuda::{Driver, DriverError, Status};
use std::ffi::OsString;
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
    /// `cuInit` failed.
    #[error("{}: cuInit: {status}", path.display())]
    Init {
        /// The driver.
        path: PathBuf,
        /// What it answered.
        status: Status,
    },
    /// It lacks a function.
    #[error("{}: {why}", path.display())]
    Incomplete {
        /// The driver.
        path: PathBuf,
        /// What is missing.
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
        Which::Cuda => real(Driver::system()?),
        Which::Sim => simulated(std::env::var_os(SIM_DIR)),
    }
}

fn real(driver: Driver) -> Result<Driver, NoDriver> {
    if driver.is_simulated() {
        return Err(NoDriver::Simulated(driver.origin().path().to_owned()));
    }
    Ok(driver)
}

fn simulated(folder: Option<OsString>) -> Result<Driver, NoDriver> {
    let folder = folder.ok_or(NoDriver::NoSimDir)?;
    let path = Path::new(&folder).join("libcuda.so.1");
    // SAFETY: the caller names this file as the simulated driver.
    let driver = unsafe { Driver::open(&path) }?;
    if driver.is_simulated() {
        Ok(driver)
    } else {
        Err(NoDriver::NotSimulated(path))
    }
}

#[cfg(test)]
mod tests {
    use super::{NoDriver, real, simulated};
    use metrale_gpu_sim::app::{DriverError, driver};
    use std::sync::Arc;

    #[test]
    fn a_simulated_driver_is_refused_where_a_gpu_is_asked_for() {
        let error = real(Arc::into_inner(driver().expect("complete")).expect("unshared"))
            .expect_err("refused");
        assert!(matches!(error, NoDriver::Simulated(_)));
        assert!(error.to_string().contains("--driver sim"), "{error}");
    }

    #[test]
    fn the_simulated_one_must_be_named_and_there() {
        assert!(matches!(simulated(None), Err(NoDriver::NoSimDir)));
        let nowhere = simulated(Some("/nowhere".into()));
        let Err(NoDriver::Driver(DriverError::NoLibrary { asked, .. })) = nowhere else {
            panic!("{nowhere:?}")
        };
        assert_eq!(asked, "/nowhere/libcuda.so.1");
    }
}
