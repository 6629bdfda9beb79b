// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which driver is measured.
//!
//! Invariant: nobody measures the simulated driver by mistake, nor another one
//! while asking for it.

use super::Failure;
use super::options::Which;
use metrale_gpu_sys::cuda::Driver;
use std::path::Path;

/// The folder that holds the simulated driver; `cargo xtask` names it.
pub(super) const SIM_DIR: &str = "METRALE_SIM_DIR";

/// The driver, loaded. Nothing of it is called but its version.
pub(crate) fn choose(which: Which) -> Result<Driver, Failure> {
    match which {
        Which::Cuda => {
            let driver = Driver::system()?;
            if driver.is_simulated() {
                return Err(Failure::Simulated(driver.origin().path().to_owned()));
            }
            Ok(driver)
        }
        Which::Sim => {
            let folder = std::env::var_os(SIM_DIR).ok_or(Failure::NoSimDir)?;
            let path = Path::new(&folder).join("libcuda.so.1");
            // SAFETY: the caller names this file as the simulated driver.
            let driver = unsafe { Driver::open(&path) }?;
            if !driver.is_simulated() {
                return Err(Failure::NotSimulated(path));
            }
            Ok(driver)
        }
    }
}
