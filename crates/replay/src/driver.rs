// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which driver this process runs on.
//!
//! A process cannot change its driver: cudarc opens the library by name, once.
//! To run on the simulated one, the program starts anew with the simulator's
//! folder ahead on the library path.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use cudarc::driver::result;
use metrale_gpu_sys::cuda;

use crate::options::{DriverChoice, Options};
use crate::simulator::Simulator;

/// The folder that holds the simulated driver; `cargo xtask` names it.
const SIM_DIR: &str = "METRALE_SIM_DIR";
/// Set for the process that was started anew.
const STARTED_ANEW: &str = "METRALE_REPLAY_ON_SIMULATOR";

/// The driver that runs the replay.
#[derive(Debug)]
pub struct Running {
    /// The library's path.
    pub path: PathBuf,
    /// The controls, where it is the simulated one.
    pub simulator: Option<Simulator>,
}

/// Why there is no driver to run on.
#[derive(Debug, thiserror::Error)]
pub enum NoDriver {
    /// `--driver cuda`, and no GPU.
    #[error("--driver cuda needs a GPU: {0}")]
    NoGpu(String),
    /// The simulated driver cannot be found.
    #[error("{why}: start it by `cargo xtask demo`, or set {SIM_DIR} to its folder")]
    NoSimulator {
        /// What is missing.
        why: String,
    },
    /// Stamps are given for a GPU.
    #[error("--stamps is for the simulated driver: a GPU has its own times")]
    StampsOnGpu,
}

/// Decides which driver to run on. Where that is the simulated one and this
/// process is not on it yet, the process is replaced by one that is.
///
/// # Errors
/// [`NoDriver`].
pub fn choose(options: &Options) -> Result<Running, NoDriver> {
    if std::env::var_os(STARTED_ANEW).is_some() {
        return on_simulator();
    }
    if options.driver == DriverChoice::Cuda && options.stamps.is_some() {
        return Err(NoDriver::StampsOnGpu);
    }
    // Stamps ask for the simulator.
    let asked = match options.driver {
        DriverChoice::Auto if options.stamps.is_some() => DriverChoice::Sim,
        asked => asked,
    };
    match (asked, gpu()) {
        (DriverChoice::Sim, _) | (DriverChoice::Auto, Err(_)) => Err(start_anew()),
        (DriverChoice::Cuda, Err(why)) => Err(NoDriver::NoGpu(why)),
        (DriverChoice::Auto | DriverChoice::Cuda, Ok(path)) => {
            Ok(Running { path, simulator: None })
        }
    }
}

/// The path of a driver with a GPU.
fn gpu() -> Result<PathBuf, String> {
    let driver = cuda::Driver::system().map_err(|error| error.to_string())?;
    let path = driver.origin().path().to_owned();
    if driver.is_simulated() {
        return Err(format!("{} is the simulated driver", path.display()));
    }
    // The library is loaded, so cudarc finds one.
    result::init().map_err(|error| format!("cuInit of {}: {:?}", path.display(), error.0))?;
    driver.device_count().map_err(|error| error.to_string())?;
    Ok(path)
}

fn on_simulator() -> Result<Running, NoDriver> {
    let no_simulator = |why: String| NoDriver::NoSimulator { why };
    let driver = cuda::Driver::system().map_err(|error| no_simulator(error.to_string()))?;
    let path = driver.origin().path().to_owned();
    if !driver.is_simulated() {
        return Err(no_simulator(format!("{} is a real driver", path.display())));
    }
    let controls = Simulator::of(&path).map_err(|error| no_simulator(error.to_string()))?;
    Ok(Running { path, simulator: Some(controls) })
}

/// Replaces this process; returns only where that fails.
fn start_anew() -> NoDriver {
    let no_simulator = |why: String| NoDriver::NoSimulator { why };
    let Some(folder) = std::env::var_os(SIM_DIR) else {
        return no_simulator(format!("{SIM_DIR} is not set"));
    };
    if !PathBuf::from(&folder).join("libcuda.so.1").is_file() {
        return no_simulator(format!("no libcuda.so.1 in {}", folder.display()));
    }
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(error) => return no_simulator(format!("cannot start anew ({error})")),
    };
    let mut command = std::process::Command::new(program);
    command
        .args(std::env::args_os().skip(1))
        .env(STARTED_ANEW, "1")
        .env("LD_LIBRARY_PATH", library_path(&folder, std::env::var_os("LD_LIBRARY_PATH")));
    no_simulator(format!("cannot start anew ({})", replace(&mut command)))
}

#[cfg(unix)]
fn replace(command: &mut std::process::Command) -> std::io::Error {
    std::os::unix::process::CommandExt::exec(command)
}

#[cfg(not(unix))]
fn replace(_: &mut std::process::Command) -> std::io::Error {
    std::io::ErrorKind::Unsupported.into()
}

fn library_path(folder: &OsStr, before: Option<OsString>) -> OsString {
    let mut path = folder.to_owned();
    // An empty entry would mean the working folder.
    if let Some(before) = before.filter(|before| !before.is_empty()) {
        path.push(":");
        path.push(before);
    }
    path
}

#[cfg(test)]
mod tests {
    use super::library_path;

    #[test]
    fn the_simulator_comes_first_and_no_entry_is_empty() {
        assert_eq!(library_path("/sim".as_ref(), None), "/sim");
        assert_eq!(library_path("/sim".as_ref(), Some("".into())), "/sim");
        assert_eq!(library_path("/sim".as_ref(), Some("/a:/b".into())), "/sim:/a:/b");
    }
}
