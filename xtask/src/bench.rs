// SPDX-License-Identifier: MIT OR Apache-2.0
//! Benchmarks: the short form of every criterion group with ratios
//! ([`ratios`]), and gates that give the same answer on every machine
//! ([`mod@gates`]). `docs/benchmarking.md` says how to read them.

pub(crate) mod gates;
mod ratios;
mod share;

use crate::{error::Result, flags::Bench};

/// The package of the benchmarks.
pub(crate) const PACKAGE: &str = "metrale-bench";

/// Runs what `flags` ask for.
pub(crate) fn run(flags: &Bench) -> Result<()> {
    if flags.gates { gates::run() } else { ratios::run(flags.filter.as_deref()) }
}
