// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a recorder adds to the snapshots of its telemetry.

use super::entry;
use super::health::Health;
use super::shared::Shared;
use metrale_telemetry::kernel::{LANES, OldestSpan, OldestSpans, SpanKey};
use metrale_telemetry::runtime::{KernelName, RecorderSource};
use metrale_telemetry::snapshot::{OldestSpanSnapshot, RecorderSnapshot};
use std::time::Duration;

impl RecorderSource for Shared {
    fn recorder(&self) -> RecorderSnapshot {
        let mut snapshot = RecorderSnapshot::default();
        snapshot.label.clone_from(&self.label);
        snapshot.gpu.clone_from(&self.gpu.id);
        snapshot.lane_ledger = self.lanes.ledger();
        snapshot.kernel_ledger = self.kernels.ledger();
        snapshot.health = self.watch.health(self.names.lost()).into();
        snapshot.oldest = self.oldest_spans();
        snapshot
    }

    fn name(&self, func: u64) -> Option<KernelName> {
        self.names.of_row(func)
    }
}

impl Shared {
    /// Of the lanes' ring and of the kernels' ring. None of a recorder that is
    /// closed; nor in a forked child, where nobody lets go of what another thread
    /// of the parent held.
    fn oldest(&self) -> Option<[OldestSpans; 2]> {
        if self.watch.is_ended() {
            return None;
        }
        let now_ns = self.watch.pace.now();
        Some([&self.lanes, &self.kernels].map(|ring| ring.oldest(now_ns)))
    }

    pub(super) fn health(&self) -> Health {
        let mut health = self.watch.health(self.names.lost());
        let age = |span: Option<OldestSpan>| span?.age_ns.map(Duration::from_nanos);
        for OldestSpans { open, closed } in self.oldest().into_iter().flatten() {
            health.oldest_open = health.oldest_open.max(age(open));
            health.oldest_closed = health.oldest_closed.max(age(closed));
        }
        health
    }

    pub(super) fn oldest_spans(&self) -> Vec<OldestSpanSnapshot> {
        let mut found = Vec::new();
        let rings = self.oldest().into_iter().flatten();
        for (OldestSpans { open, closed }, name) in rings.zip(["lanes", "kernels"]) {
            for (span, is_open) in [(open, true), (closed, false)] {
                let Some(span) = span else {
                    continue;
                };
                let mut snapshot = OldestSpanSnapshot::default();
                snapshot.ring = name.to_owned();
                snapshot.name = match span.key {
                    SpanKey::Lane(lane) => LANES.get(lane).map(|lane| (*lane).to_owned()),
                    SpanKey::Kernel(row) => {
                        self.names.of_row(row).map(|name| name.text.to_string())
                    }
                };
                snapshot.stream = span.stream.map(entry::handle_of);
                snapshot.is_open = is_open;
                snapshot.age_ns = span.age_ns;
                found.push(snapshot);
            }
        }
        found
    }
}
