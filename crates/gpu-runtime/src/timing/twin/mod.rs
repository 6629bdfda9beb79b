// SPDX-License-Identifier: MIT OR Apache-2.0
//! Twins: a second executable of an application's graph, with event-record nodes
//! (*marks*) between some of its nodes, launched in place of the plain one on some
//! armed steps. So kernels inside a graph get rows.
//!
//! 1. Whenever there is a doubt the plain executable is launched, and the ledger says
//!    why. A launch path makes nothing: no event, no executable.
//! 2. Graph objects are not thread-safe. A [`Twin`] stays on its thread, and all calls
//!    about its objects, and about the application's in its making, are made there:
//!    when it is made, renewed, replaced, retired or dropped, and in
//!    [`follow`](Twin::follow). The harvest thread knows events only.
//! 3. Marks are added to a clone; no edge of the application is removed or changed.
//! 4. A twin is launched only where nothing else of its graph can run: on the stream
//!    of the last launch, and once its own last launch was read. A launch elsewhere
//!    first waits, on the GPU, for the twin.
//! 5. Its objects go in this order: executable, clone, the application's graph.

mod calls;
mod config;
mod error;
mod graphs;
mod ledger;
mod life;
mod marked;
mod raw;
mod replay;
mod seats;

pub use config::TwinsConfig;
pub use error::{NodeType, TwinError};
pub use life::{Twin, TwinState, Updates};
pub use metrale_telemetry::snapshot::TwinLedger;
pub use raw::{GraphLaunch, RawGraph};
pub(super) use seats::{Tag, Twins};
