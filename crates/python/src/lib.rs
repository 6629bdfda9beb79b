// SPDX-License-Identifier: MIT OR Apache-2.0
//! The native part of the Python package `metrale`.
//!
//! 1. Nothing here raises for what a machine lacks, nor for figures that make no
//!    sense: a server serves on. What a program does wrong in its source (a type, an
//!    option) raises at once.
//! 2. Python's lock is held while what belongs to this module is touched, and given
//!    back around whatever may call the driver: a record that waits for room in a
//!    full queue must not keep a host callback in Python from running.
//! 3. What is open ends at its exit, at the latest with its object of Python. Others
//!    know it by a key (`open`).
#![deny(missing_docs)]
// It runs in somebody else's process: it neither prints nor panics.
#![deny(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::unreachable,
    clippy::disallowed_macros
)]

mod installed;
mod lane;
mod open;
mod report;
mod span;
mod step;
mod stream;
mod twin;

/// The module `metrale._metrale`.
#[pyo3::pymodule(gil_used = true)]
mod _metrale {
    #[pymodule_export]
    use crate::installed::{
        after_fork, close, drain, driver, forget, harvest, install, name, set_level,
    };
    #[pymodule_export]
    use crate::lane::{Lane, lane};
    #[pymodule_export]
    use crate::report::{merge, prometheus_text, snapshot};
    #[pymodule_export]
    use crate::span::{Span, graph, launch, region};
    #[pymodule_export]
    use crate::step::{Step, step};
    #[pymodule_export]
    use crate::twin::{Twin, twin};
}
