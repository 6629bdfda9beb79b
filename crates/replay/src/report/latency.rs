// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rows that read too long: a span around a launch on an idle stream also reads
//! the launch's latency.

use metrale_telemetry::snapshot::KernelSnapshot;

use super::text::Page;
use super::{number, percent};

/// A row is marked where latency is more than one part in this many of what it
/// reads, or may be.
const MARKED_PART: f64 = 20.0;

/// By how much a row reads too long.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Excess {
    /// Of what it reads.
    pub share: f64,
    /// By the row's own samples on a busy stream. Else the row has too few of
    /// them, and `share` is what empty spans on an idle stream would read in the
    /// place of the samples not known to have begun on a busy one.
    pub is_known: bool,
}

/// By how much a row reads too long; `None`: by less than is worth a mark.
/// `floor_ns` is what an empty span reads.
pub fn excess(kernel: &KernelSnapshot, floor_ns: Option<u64>) -> Option<Excess> {
    let figures = &kernel.figures;
    let (ns, read_ns, is_known) = match figures.latency_ns() {
        Some(ns) => {
            let read_ns = figures.busy_start_ns.saturating_add(figures.idle_start_ns);
            (ns, read_ns, true)
        }
        None => {
            // The first of a step on its stream is not known to be of either.
            let others = kernel.samples.saturating_sub(figures.busy_start_samples);
            let ns = floor_ns?.saturating_mul(others);
            (ns as f64, kernel.total_ns, false)
        }
    };
    let share = (ns / read_ns as f64).min(1.0);
    (read_ns > 0 && share > 1.0 / MARKED_PART).then_some(Excess { share, is_known })
}

/// How many rows of the table are marked, and why.
pub(super) fn latency(marked: Vec<Excess>, out: &mut Page) {
    let (known, unknown): (Vec<_>, Vec<_>) = marked.into_iter().partition(|row| row.is_known);
    let told = [
        (known, "read", "by what they read on a busy stream"),
        (unknown, "may read", "by what an empty span reads"),
    ];
    let told: Vec<String> = (told.iter())
        .filter(|(rows, ..)| !rows.is_empty())
        .map(|(rows, read, by)| {
            let largest = rows.iter().map(|row| row.share).fold(0.0, f64::max);
            let rows = number(rows.len() as u64, "row");
            format!("{rows} (*) {read} up to {} too long, {by}", percent(largest))
        })
        .collect();
    if !told.is_empty() {
        let text = format!(
            "on an idle stream a span also reads the wait for its launch: {}",
            told.join("; ")
        );
        out.fact("latency", &text);
    }
}
