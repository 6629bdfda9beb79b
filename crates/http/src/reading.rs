// SPDX-License-Identifier: MIT OR Apache-2.0
//! A snapshot of every telemetry, taken together.

use metrale_telemetry::{Snapshot, Telemetry};

/// Several snapshots as one.
///
/// ```
/// use metrale_telemetry::Telemetry;
///
/// let gpus = [Telemetry::new(), Telemetry::new()];
/// gpus.each_ref().map(Telemetry::step_begin);
/// let both = metrale_http::merged(gpus.iter().map(Telemetry::snapshot));
/// assert_eq!((both.sources, both.steps), (2, 2));
/// ```
#[must_use]
pub fn merged(snapshots: impl IntoIterator<Item = Snapshot>) -> Snapshot {
    let mut all = snapshots.into_iter();
    let mut merged = all.next().unwrap_or_default();
    for other in all {
        // One that cannot be merged, of another version say, is left out.
        let _ = merged.merge(&other);
    }
    merged
}

/// What answers are made from.
#[derive(Debug)]
pub(crate) struct Reading {
    /// When it was taken, by the clock of the first telemetry: what GPU time can
    /// be held against.
    pub(crate) clock_ns: u64,
    /// One of each telemetry, in their order.
    pub(crate) each: Vec<Snapshot>,
    pub(crate) merged: Snapshot,
}

impl Reading {
    pub(crate) fn take(telemetry: &[&'static Telemetry]) -> Self {
        let clock_ns = telemetry.first().map_or(0, |first| first.now_ns());
        let each: Vec<_> = telemetry.iter().map(|of| of.snapshot()).collect();
        let merged = merged(each.iter().cloned());
        Self { clock_ns, each, merged }
    }
}
