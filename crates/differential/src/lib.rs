// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shows that an application cannot tell whether it is recorded.
//!
//! A sequence of driver calls runs twice on the simulated driver, with a recorder
//! at level `Kernel` and without. Every status that the application gets, all
//! that it is told and the state that it ends in must be the same; and the
//! recorder's own calls must keep the [`rules`].
//!
//! Graphs and their twins are compared by programs of their own: [`graphs`].
//!
//! What makes the two comparable: calls cost no virtual time, only the sequence
//! and the application's own waits move it; threads step by baton; a fault
//! meets one call of the application, or one of the recorder, never whichever
//! comes first; handles are compared by order of creation.
//!
//! Two things a record does show, as on a real driver, and they are kept out of
//! the comparison: it is a piece of work between a legacy stream and blocking
//! ones ([`sequence::Timing`]); and on the legacy stream it breaks a capture that
//! another thread begins between the recorder's question and its record, which
//! threads that step by baton never do.
#![deny(missing_docs)]

mod baton;
mod compare;
mod follow;
pub mod graphs;
pub mod guest;
pub mod machine;
pub mod rules;
mod search;
pub mod sequence;
mod tally;

pub use compare::{Bench, Difference, Failure, Look};
pub use tally::Tally;
