// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a snapshot is taken.

use super::{
    HostSnapshot, KernelLane, KernelSnapshot, LaneSnapshot, RowKind, SNAPSHOT_VERSION, Snapshot,
    graphs::total_of, merge::joined,
};
use crate::kernel::{FoldedCopy, KernelEstimate, SpanKey};
use crate::telemetry::Telemetry;

impl Telemetry {
    /// Everything that was measured so far. It allocates, and stops nobody.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let instruments = self.instruments();
        let config = self.config();
        let folded = instruments.copy_folded();
        let estimates = folded.kernel_estimates(config.sampling, config.every);
        let exposed = self.exposed.read(instruments);
        let known = self.recorders.read();
        let recorders = known.recorders();
        let first = known.first();
        let gpu = first.filter(|first| !first.gpu.is_empty());
        let gpu = gpu.map(|first| ("gpu".to_owned(), first.gpu.clone()));
        let start_unix_ns = first.and_then(|first| first.start_unix_ns);
        let kernels = exposed.kernels.into_iter().map(|row| {
            let named = known.name(row.func);
            let series = named.as_ref().and_then(|name| exposed.labels.get(name));
            KernelSnapshot {
                name: named.as_ref().map(|name| name.text.as_ref().to_owned()),
                kind: named.as_ref().map_or(RowKind::Kernel, |name| name.kind),
                series: series.cloned(),
                total_ns: row.total_ns,
                samples: row.samples,
                lost_spans: instruments.lost_of(SpanKey::Kernel(row.func)),
                figures: folded.row(row.func),
                lanes: self.lanes_of(row.func, &estimates),
            }
        });
        let kernels = joined(kernels).collect();
        let graphs = known.graphs(&|row| total_of(&estimates, row));
        drop(known);
        let host = self.host();
        let mut snapshot = Snapshot {
            version: SNAPSHOT_VERSION,
            sources: 1,
            saturated: false,
            labels: gpu.into_iter().collect(),
            start_unix_ns,
            config: Some(config),
            steps: self.steps(),
            armed_steps: self.armed_steps(),
            sampled_launches: self.sampled_launches(),
            host: HostSnapshot {
                step_wall: host.step_wall.snapshot(),
                launches: host.launches.get(),
                graph_launches: host.graph_launches.get(),
            },
            lanes: (0..self.lanes()).filter_map(|lane| self.lane(lane, &folded)).collect(),
            device: folded.device(),
            lane_gap_unknown: instruments.lane_gap_unknown.get(),
            kernels,
            graphs,
            slowest_steps: self.slowest_of_all(),
            kernel_series: exposed.series,
            losses: folded.losses(),
            table_full: instruments.table_full.get(),
            spans_dropped: instruments.spans_dropped.get(),
            span_failures: instruments.span_failures.get(),
            floor: self.floor(),
            recorders,
        };
        snapshot.sort();
        snapshot.sort_graphs();
        snapshot
    }

    fn lane(&self, lane: usize, folded: &FoldedCopy) -> Option<LaneSnapshot> {
        let (instruments, host) = (self.instruments(), self.host());
        Some(LaneSnapshot {
            lane: self.lane_name(lane)?.to_owned(),
            gpu: instruments.lane_times(lane)?.snapshot(),
            gap: instruments.lane_gaps(lane)?.snapshot(),
            wall: host.lane_walls(lane)?.snapshot(),
            lost_spans: instruments.lost_of(SpanKey::Lane(lane)),
            figures: folded.lane(lane),
            incomplete: folded.incomplete(lane),
            estimate: folded.lane_estimate(lane),
            shapes: folded.shapes(lane),
        })
    }

    fn lanes_of(&self, func: u64, estimates: &[KernelEstimate]) -> Vec<KernelLane> {
        let own = estimates.iter().filter(|row| row.func == func);
        let of = |row: &KernelEstimate| {
            Some(KernelLane { lane: self.lane_name(row.lane)?.to_owned(), estimate: row.estimate })
        };
        own.filter_map(of).collect()
    }
}
