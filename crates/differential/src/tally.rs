// SPDX-License-Identifier: MIT OR Apache-2.0
//! What was run: calls by name, entries of the guest, the fate of its spans.

use crate::follow::OfAnchors;
use crate::guest::Ledgers;
use crate::rules::Entry;
use metrale_gpu_sys::cuda::Status;
use metrale_telemetry::kernel::Ledger;
use std::collections::BTreeMap;
use std::fmt;

/// Counts over any number of sequences.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Sequences.
    pub sequences: u64,
    /// Their operations.
    pub operations: u64,
    /// The application's calls beside the guest: made, and those that succeeded.
    pub app: BTreeMap<&'static str, (u64, u64)>,
    /// Statuses other than success that it got.
    pub statuses: BTreeMap<u32, u64>,
    /// Entries of the guest, and the driver calls made in them.
    pub guest: BTreeMap<&'static str, (u64, u64)>,
    /// Guests that left, and those that had fallen silent.
    pub left: (u64, u64),
    /// The calls about anchors.
    pub anchors: OfAnchors,
    /// The fate of all spans.
    pub ledger: Ledger,
}

impl Tally {
    pub(crate) fn app(&mut self, name: &'static str, status: Status) {
        let (made, good) = self.app.entry(name).or_default();
        *made += 1;
        if status.is_success() {
            *good += 1;
        } else {
            *self.statuses.entry(status.0).or_default() += 1;
        }
    }

    pub(crate) fn guest(&mut self, entry: Entry, calls: usize) {
        let (entries, made) = self.guest.entry(name(entry)).or_default();
        *entries += 1;
        *made += calls as u64;
    }

    pub(crate) fn ledgers(&mut self, ledgers: Ledgers) {
        self.left.0 += 1;
        self.left.1 += u64::from(ledgers.silent);
        self.ledger = self.ledger.plus(ledgers.lanes).plus(ledgers.launches);
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.sequences += other.sequences;
        self.operations += other.operations;
        for (name, (made, good)) in &other.app {
            let sum = self.app.entry(name).or_default();
            *sum = (sum.0 + made, sum.1 + good);
        }
        for (status, count) in &other.statuses {
            *self.statuses.entry(*status).or_default() += count;
        }
        for (entry, (entries, calls)) in &other.guest {
            let sum = self.guest.entry(entry).or_default();
            *sum = (sum.0 + entries, sum.1 + calls);
        }
        self.left = (self.left.0 + other.left.0, self.left.1 + other.left.1);
        self.anchors = self.anchors.plus(other.anchors);
        self.ledger = self.ledger.plus(other.ledger);
    }
}

fn name(entry: Entry) -> &'static str {
    match entry {
        Entry::Install => "install",
        Entry::Leave => "leave",
        Entry::BeginLane => "begin lane",
        Entry::BeginLaunch => "begin launch",
        Entry::End => "end",
        Entry::Open => "step, lane and launch begin",
        Entry::Close => "step, lane and launch end",
        Entry::Harvest => "harvest",
        Entry::Quiet => "cancel, read, forget",
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (calls, good) =
            self.app.values().fold((0, 0), |sum, counts| (sum.0 + counts.0, sum.1 + counts.1));
        writeln!(f, "{} sequences, {} operations", self.sequences, self.operations)?;
        writeln!(f, "the application: {calls} driver calls, {good} succeeded")?;
        for (name, (made, good)) in &self.app {
            writeln!(f, "  {name:<36}{made:>10}{good:>10}")?;
        }
        write!(f, "  other statuses:")?;
        for (status, count) in &self.statuses {
            write!(f, " {status}×{count}")?;
        }
        writeln!(f, "\nthe recorder: entries, and driver calls made in them")?;
        for (name, (entries, calls)) in &self.guest {
            writeln!(f, "  {name:<36}{entries:>10}{calls:>10}")?;
        }
        let (left, silent) = self.left;
        writeln!(f, "  {left} recorders, {silent} of them quarantined")?;
        let anchors = self.anchors;
        writeln!(
            f,
            "  {} anchors, asked about {} times, {} places read",
            anchors.records, anchors.queries, anchors.reads
        )?;
        let spans = &self.ledger;
        write!(
            f,
            "  spans: {} attempted, {} begun, {} landed, {} dropped, {} refused, {} failed, \
             {} cancelled, {} reclaimed, {} open at the end; {} stale ends",
            spans.attempts,
            spans.begun,
            spans.landed,
            spans.dropped,
            spans.refused,
            spans.failed,
            spans.cancelled,
            spans.reclaimed,
            spans.in_flight,
            spans.stale_ends
        )
    }
}
