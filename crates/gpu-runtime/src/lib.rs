// SPDX-License-Identifier: MIT OR Apache-2.0
//! Times GPU work with pooled CUDA event pairs inside somebody else's process.
//!
//! What it promises its host: it never waits for the GPU, never synchronises,
//! never calls `cuInit` or makes a context, never creates or destroys an event
//! after set-up, never breaks a graph capture, and never panics.
//!
//! A server makes one [`Recorder`](timing::Recorder) to a GPU and puts guards around
//! steps, lanes and launches. Where none can be made it serves on with one that
//! measures nothing, as this program does on a machine without a GPU:
//!
//! ```
//! use metrale_gpu_runtime::timing::{FuncRef, Recorder, StreamRef};
//! use metrale_telemetry::kernel::LANE_DECODE;
//! use std::{error::Error, time::Duration};
//!
//! # #[cfg(not(feature = "cudarc"))]
//! # fn recorder() -> Result<Recorder, Box<dyn Error>> { Ok(Recorder::disabled()) }
//! # #[cfg(feature = "cudarc")]
//! fn recorder() -> Result<Recorder, Box<dyn Error>> {
//!     use metrale_gpu_runtime::timing::{Driver, RecorderConfig};
//!     Driver::system()?; // where there is no driver `CudaContext::new` panics
//!     let context = cudarc::driver::CudaContext::new(0)?;
//!     let telemetry = metrale_telemetry::global();
//!     Ok(Recorder::new(&context, telemetry, RecorderConfig::default())?)
//! }
//!
//! let recorder = recorder()
//!     .inspect_err(|error| eprintln!("not timed: {error}"))
//!     .unwrap_or_default();
//! // SAFETY: a default stream is always there. cudarc's streams are taken as they are.
//! let stream = unsafe { StreamRef::from_raw(0) };
//! let attention = FuncRef::from_raw(0x5000); // and so are cudarc's functions
//! for _ in 0..1_000 {
//!     let step = recorder.step();
//!     let decode = step.lane(LANE_DECODE, stream); // timed on every step
//!     decode.launch(attention, || launch_attention())?; // timed on one step in 64
//! }
//! println!("{:?}", recorder.drain(Duration::from_secs(1)));
//! println!("{:?}", recorder.kernels());
//! # fn launch_attention() -> Result<(), std::fmt::Error> { Ok(()) }
//! # Ok::<(), std::fmt::Error>(())
//! ```
#![deny(missing_docs)]
// It runs in somebody else's process: it neither prints nor panics.
#![cfg_attr(
    not(test),
    deny(
        clippy::print_stdout,
        clippy::print_stderr,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable,
        clippy::disallowed_macros
    )
)]

pub mod timing;
