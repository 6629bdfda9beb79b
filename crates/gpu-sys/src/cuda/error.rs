// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why there is no usable driver.

use super::status::Status;
use std::path::PathBuf;

/// Why a driver cannot be used. In every case the application can run on, with
/// nothing measured.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DriverError {
    /// The library could not be loaded.
    #[error("no CUDA driver: {asked} could not be loaded ({reason}); install the NVIDIA driver")]
    NoLibrary {
        /// What was asked for.
        asked: String,
        /// What the dynamic loader said.
        reason: String,
    },
    /// The library is the toolkit's stub, which only serves to link against.
    #[error(
        "{} is the CUDA toolkit's stub, not a driver; take its folder off the library path",
        origin.display()
    )]
    Stub {
        /// Where the library was found.
        origin: PathBuf,
    },
    /// The driver is too old.
    #[error(
        "{} is a driver for CUDA {}.{}; metrale needs 11.4 or newer",
        origin.display(), found / 1000, found % 1000 / 10
    )]
    TooOld {
        /// Where the library was found.
        origin: PathBuf,
        /// Its version: 1000 * major + 10 * minor.
        found: i32,
    },
    /// The library lacks a function that every supported driver has.
    #[error("{} has no {symbol}; metrale needs a driver for CUDA 11.4 or newer", origin.display())]
    MissingSymbol {
        /// Where the library was found.
        origin: PathBuf,
        /// The function's name.
        symbol: &'static str,
    },
    /// The driver does not tell its version.
    #[error("{} does not tell its version: {status}", origin.display())]
    NoVersion {
        /// Where the library was found.
        origin: PathBuf,
        /// What it answered.
        status: Status,
    },
    /// The driver answers, and there is no device to use.
    #[error("{} has no usable device: {status}; was cuInit called, and is there a GPU?", origin.display())]
    NoDevice {
        /// Where the library was found.
        origin: PathBuf,
        /// What it answered; success with no device counted is `NO_DEVICE`.
        status: Status,
    },
}
