// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rows that read too long: a span around a launch on an idle stream also reads
//! the launch's latency.

use metrale_telemetry::Snapshot;
use metrale_telemetry::snapshot::KernelSnapshot;

use super::text::Page;
use super::{count, percent};

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

/// How many rows are marked, and why.
pub(super) fn latency(snapshot: &Snapshot, out: &mut Page) {
    let rows = snapshot.kernels.iter();
    let marked = rows.filter_map(|row| excess(row, snapshot.floor.pair_ns));
    let (known, unknown): (Vec<_>, Vec<_>) = marked.partition(|excess| excess.is_known);
    let largest = |rows: &[Excess]| {
        let shares = rows.iter().map(|excess| excess.share);
        percent(shares.fold(0.0, f64::max))
    };
    let mut told = Vec::new();
    if !known.is_empty() {
        told.push(format!(
            "{} (*) also read their launches' latency: by their samples on a busy stream it is \
             up to {} of what they read",
            rows_of(known.len()),
            largest(&known)
        ));
    }
    if !unknown.is_empty() {
        told.push(format!(
            "{} (*) may also read their launches' latency: too few samples are known to have \
             begun on a busy stream, and on an idle one empty spans alone would read up to {} of \
             what they did",
            rows_of(unknown.len()),
            largest(&unknown)
        ));
    }
    if !told.is_empty() {
        out.fact("latency", &told.join("; "));
    }
}

fn rows_of(n: usize) -> String {
    match n {
        1 => "1 row".to_owned(),
        n => format!("{} rows", count(n as u64)),
    }
}
