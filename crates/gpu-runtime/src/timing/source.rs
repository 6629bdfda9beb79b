// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a recorder adds to the snapshots of its telemetry.

use super::entry;
use super::health::Health;
use super::labels::kernel_label;
use super::shared::Shared;
use metrale_telemetry::kernel::{OldestSpan, OldestSpans, SpanKey};
use metrale_telemetry::runtime::{GraphTotal, KernelName, RecorderSource};
use metrale_telemetry::snapshot::{
    GraphFigures, GraphSnapshot, OldestSpanSnapshot, RecorderSnapshot, TwinLedger,
};
use std::time::Duration;

impl RecorderSource for Shared {
    fn recorder(&self) -> RecorderSnapshot {
        let mut snapshot = RecorderSnapshot::default();
        snapshot.label.clone_from(&self.label);
        snapshot.gpu.clone_from(&self.gpu.id);
        snapshot.lane_ledger = self.lanes.ledger();
        snapshot.kernel_ledger = self.kernels.ledger();
        let twins = self.twins.as_ref();
        snapshot.replays = twins.map_or_else(TwinLedger::default, |twins| twins.counts.read());
        snapshot.health = self.health_without_ages().into();
        snapshot.oldest = self.oldest_spans();
        snapshot
    }

    fn graphs(&self, total_of: &dyn Fn(u64) -> GraphTotal) -> Vec<GraphSnapshot> {
        // In a forked child another thread of the parent may hold the lock.
        let Some(twins) = self.twins.as_ref().filter(|_| !self.watch.is_over()) else {
            return Vec::new();
        };
        let name_of = |row| Some(self.names.of_row(row)?.text.to_string());
        let of = |(row, mut figures): (u64, GraphFigures)| {
            for row in &mut figures.rows {
                let label = |name: &String| kernel_label(name).replace(char::is_control, "?");
                row.series = row.name.as_ref().map(label);
            }
            GraphSnapshot::new(name_of(row), figures)
        };
        twins.graphs.figures(total_of, name_of).into_iter().map(of).collect()
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

    fn health_without_ages(&self) -> Health {
        let mut health = self.watch.health(self.names.lost());
        if let Some(handing) = &self.handing {
            handing.add_to(&mut health);
        }
        health
    }

    pub(super) fn health(&self) -> Health {
        let mut health = self.health_without_ages();
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
                    SpanKey::Lane(lane) => self.telemetry.lane_name(lane).map(str::to_owned),
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
