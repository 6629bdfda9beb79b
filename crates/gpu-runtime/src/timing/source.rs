// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a recorder adds to the snapshots of its telemetry.

use super::shared::Shared;
use metrale_telemetry::kernel::{LANES, OldestSpans, SpanKey};
use metrale_telemetry::snapshot::{
    KernelName, OldestSpanSnapshot, RecorderSnapshot, RowKind, Source,
};

impl Source for Shared {
    fn recorder(&self) -> RecorderSnapshot {
        let mut snapshot = RecorderSnapshot::default();
        snapshot.label.clone_from(&self.label);
        snapshot.gpu.clone_from(&self.gpu.id);
        snapshot.lane_ledger = self.lanes.ledger();
        snapshot.kernel_ledger = self.kernels.ledger();
        snapshot.health = self.watch.health(self.names.lost()).into();
        snapshot.oldest = self.oldest();
        snapshot
    }

    fn name(&self, func: u64) -> Option<KernelName> {
        let name = self.names.of_row(func)?;
        Some(KernelName {
            text: name.text,
            kind: if name.is_graph {
                RowKind::Graph
            } else {
                RowKind::Kernel
            },
        })
    }
}

impl Shared {
    fn oldest(&self) -> Vec<OldestSpanSnapshot> {
        let now_ns = self.watch.pace.now();
        let mut found = Vec::new();
        for (ring, name) in [(&self.lanes, "lanes"), (&self.kernels, "kernels")] {
            let OldestSpans { open, closed } = ring.oldest(now_ns);
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
                snapshot.stream = span.stream;
                snapshot.is_open = is_open;
                snapshot.age_ns = span.age_ns;
                found.push(snapshot);
            }
        }
        found
    }
}
