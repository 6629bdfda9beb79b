// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why a recorder could not be made.

use metrale_gpu_sys::cuda::{DriverError, Status};
use metrale_telemetry::snapshot::OtherGpuError;

/// Why a recorder could not be made. The application can run on without it, or
/// with [`Recorder::disabled`](super::Recorder::disabled).
///
/// ```
/// use metrale_gpu_runtime::timing::{Driver, InstallError};
/// if let Err(error) = Driver::system() {
///     println!("{}", InstallError::from(error)); // what is missing
/// }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InstallError {
    /// There is no usable driver or device.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// A ring was asked for with no slots, or more than 2^24.
    #[error("{ring} asks for {asked} slots; a ring has 1 to 16777216")]
    Slots {
        /// Which option of the configuration.
        ring: &'static str,
        /// What it asked for.
        asked: usize,
    },
    /// Twins were asked for with an option that is out of its range.
    #[error("{option} is {asked}; a twin has 5 to 65536 marks, a recorder 1 to 1024 twins")]
    Twins {
        /// Which option of the configuration.
        option: &'static str,
        /// What it was.
        asked: usize,
    },
    /// The context could not be made current.
    #[error("the context could not be made current: {status}")]
    Context {
        /// What the driver answered.
        status: Status,
    },
    /// The events could not be made; those that were are destroyed again.
    #[error("{made} of {asked} events were made, then: {status}; ask for fewer slots")]
    Events {
        /// How many were asked for.
        asked: usize,
        /// How many were made.
        made: usize,
        /// What the driver answered.
        status: Status,
    },
    /// The telemetry has recorders of another GPU.
    #[error(transparent)]
    OtherGpu(#[from] OtherGpuError),
    /// The harvest thread could not be started.
    #[error("the harvest thread could not be started: {0}; harvest explicitly instead")]
    Thread(#[source] std::io::Error),
}
