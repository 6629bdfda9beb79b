// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a replay came to, from the recorders' instruments.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use metrale_http::merged;
use metrale_telemetry::Snapshot;
use metrale_telemetry::kernel::SLOWEST_STEPS;
use metrale_telemetry::snapshot::{LaneSnapshot, RowKind, TwinLedger};

use crate::check::{self, Check};
use crate::device::COPIES;
use crate::driver::Running;
use crate::plan::{Launched, RowKey, Timing};
use crate::play::{Player, Settings};
use crate::report::{
    DeviceRow, DriverKind, GraphTotals, KernelRow, LaneRow, LedgerTotals, Report, SCHEMA, Shown,
    SlowStepRow, Stamps, excess, is_recorded,
};
use crate::serve::Asked;
use crate::simulator::Simulator;
use crate::steps::Lane;

/// The slowest steps of all devices.
fn slowest(devices: &[Snapshot]) -> Vec<SlowStepRow> {
    let mut steps: Vec<_> = (0..)
        .zip(devices)
        .flat_map(|(device, snapshot)| {
            let steps = snapshot.slowest_steps.iter().cloned();
            steps.map(move |step| SlowStepRow { device, step })
        })
        .collect();
    // Stable: of equals those of the first device first.
    steps.sort_by_key(|row| (row.step.marked, Reverse(row.step.gpu_ns), row.step.number));
    steps.truncate(SLOWEST_STEPS);
    steps
}

fn device_row((device, snapshot): (u32, &Snapshot)) -> DeviceRow {
    let figures = snapshot.device.unwrap_or_default();
    DeviceRow {
        device,
        span_ns: figures.time_ns,
        busy_ns: figures.busy_ns,
        idle_ns: figures.idle_ns(),
    }
}

/// What a mark took in the graphs of a snapshot.
fn mark_ns(snapshot: &Snapshot) -> Option<u64> {
    let of = snapshot.graphs.iter().map(|graph| &graph.figures);
    let of = of.filter_map(|figures| Some((figures.mark_ns?, figures.twin_launches as f64)));
    let (ns, launches) = of.fold((0.0, 0.0), |sum, (ns, by)| (ns.mul_add(by, sum.0), sum.1 + by));
    (launches > 0.0).then(|| (ns / launches).round() as u64)
}

impl Player<'_> {
    /// The report of a plan that was played once.
    pub(crate) fn report(&self, running: &Running, settings: Settings, asked: Asked) -> Report {
        let devices: Vec<Snapshot> =
            (self.telemetry.iter()).map(|telemetry| telemetry.snapshot()).collect();
        let snapshot = merged(devices.iter().cloned());
        let (launches, in_graphs) = self.plan.graph_totals();
        let (driver, stamps) = match (&running.simulator, settings.timing) {
            (None, _) => (DriverKind::Cuda, Stamps::Device),
            (Some(_), Timing::Ideal) => (DriverKind::Simulated, Stamps::Ideal),
            (Some(_), Timing::Honest) => (DriverKind::Simulated, Stamps::Honest),
        };
        let lanes = self.lane_rows(&devices);
        let mut kernels = self.inside_rows(&devices, &settings, &asked.launches);
        kernels.extend(self.kernel_rows(&devices, asked.launches));
        kernels.sort_by(|a, b| {
            let by_time = b.total_ns.cmp(&a.total_ns);
            by_time.then_with(|| (a.key(), a.in_graph).cmp(&(b.key(), b.in_graph)))
        });
        let check = (stamps == Stamps::Ideal).then(|| Check {
            lanes: check::lanes(self.plan, &lanes),
            kernels: (settings.every == 1).then(|| check::kernels(self.plan, &kernels)),
        });
        let (first, telemetry) = (self.devices.first(), self.telemetry.first());
        Report {
            schema: SCHEMA,
            driver,
            driver_path: running.path.display().to_string(),
            device: first.map_or_else(String::new, |device| device.name.clone()),
            trace: settings.trace,
            every: settings.every,
            stamps,
            steps: telemetry.map_or(0, |telemetry| telemetry.steps()),
            armed_steps: telemetry.map_or(0, |telemetry| telemetry.armed_steps()),
            lanes,
            devices: (0..).zip(&devices).map(device_row).collect(),
            kernels,
            graphs: GraphTotals { launches, kernels: in_graphs, mark_ns: mark_ns(&snapshot) },
            twins: settings.twins.then(|| self.twins()),
            ledger: LedgerTotals { spans: self.ledger(), table_full: snapshot.table_full },
            driver_calls: (running.simulator.iter())
                .flat_map(|simulator| self.calls_since(simulator))
                .collect(),
            check,
            slowest_steps: slowest(&devices),
            notes: self.plan.notes.clone(),
            shown: Shown { snapshot, planned_ns: asked.planned_ns },
        }
    }

    /// The driver's calls since the recorders were made.
    fn calls_since(&self, simulator: &Simulator) -> Vec<(String, u64)> {
        let mut calls = simulator.calls();
        for (name, count) in &mut calls {
            *count -= self.calls_before.get(name).unwrap_or(&0);
        }
        calls.retain(|(_, count)| *count > 0);
        calls
    }

    /// The rows of kernels and graphs.
    fn kernel_rows(
        &self,
        devices: &[Snapshot],
        asked: BTreeMap<(u32, Launched), u64>,
    ) -> Vec<KernelRow> {
        let mut asked: BTreeMap<RowKey, u64> = self.plan.by_row(asked);
        let overruns = (self.plan.overruns.iter())
            .map(|overrun| ((self.plan.device(overrun.stream), overrun.launched), 1));
        let overruns: BTreeMap<RowKey, u64> = self.plan.by_row(overruns);
        let mut rows = Vec::new();
        for (device, snapshot) in (0..).zip(devices) {
            for kernel in &snapshot.kernels {
                rows.push(KernelRow {
                    name: kernel.name.clone().unwrap_or_default(),
                    samples: kernel.samples,
                    total_ns: kernel.total_ns,
                    kind: kernel.kind,
                    device,
                    busy_start_samples: kernel.figures.busy_start_samples,
                    lanes: kernel.lanes.clone(),
                    excess: excess(kernel, snapshot.floor.pair_ns),
                    ..KernelRow::default()
                });
            }
        }
        for row in &mut rows {
            let asked = asked.remove(&row.key()).unwrap_or(0);
            row.missed = asked.saturating_sub(row.samples);
        }
        rows.extend(asked.into_iter().map(|((device, kind, name), missed)| KernelRow {
            name,
            missed,
            kind,
            device,
            ..KernelRow::default()
        }));
        for row in &mut rows {
            row.overruns = overruns.get(&row.key()).copied().unwrap_or(0);
        }
        rows
    }

    /// The rows of what is in graphs, but for what runs side by side on too many
    /// branches to be told apart. Samples are missed where every launch was to be seen.
    fn inside_rows(
        &self,
        devices: &[Snapshot],
        settings: &Settings,
        asked: &BTreeMap<(u32, Launched), u64>,
    ) -> Vec<KernelRow> {
        let mut rows: BTreeMap<RowKey, KernelRow> = BTreeMap::new();
        for (device, snapshot) in (0..).zip(devices) {
            let of = snapshot.graphs.iter().flat_map(|graph| &graph.figures.rows);
            for inside in of.filter(|inside| is_recorded(inside)) {
                let Some(name) = &inside.name else { continue };
                let kind = if name == COPIES { RowKind::Copy } else { RowKind::Kernel };
                let row = rows.entry((device, kind, name.clone())).or_default();
                row.samples += inside.samples;
                row.total_ns += inside.sampled_ns;
                row.marks_ns += inside.marks_ns;
            }
        }
        if settings.twins && settings.every == 1 {
            for ((device, launched), launches) in asked {
                let Launched::Graph(graph) = launched else { continue };
                for (kernel, ..) in self.plan.graphs[*graph as usize].inside() {
                    let name = self.plan.kernels[kernel as usize].clone();
                    let row = rows.entry((*device, RowKind::Kernel, name)).or_default();
                    row.missed += launches;
                }
            }
        }
        let rows = rows.into_iter().map(|((device, kind, name), row)| KernelRow {
            device,
            kind,
            name,
            in_graph: true,
            missed: row.missed.saturating_sub(row.samples),
            ..row
        });
        rows.collect()
    }

    /// What became of launches of graphs.
    fn twins(&self) -> TwinLedger {
        let each = self.devices.iter().map(|device| device.recorder.twin_ledger());
        each.fold(TwinLedger::default(), TwinLedger::plus)
    }

    fn lane_rows(&self, devices: &[Snapshot]) -> Vec<LaneRow> {
        let mut rows = Vec::new();
        // All devices have the same lanes.
        let lanes = devices.first().map_or(0, |snapshot| snapshot.lanes.len());
        for lane in 0..lanes {
            for (device, snapshot) in (0..).zip(devices) {
                let row = self.lane_row(lane, device, &snapshot.lanes[lane]);
                if device == 0 || row.spans + row.missed > 0 {
                    rows.push(row);
                }
            }
        }
        rows
    }

    fn lane_row(&self, lane: usize, device: u32, measured: &LaneSnapshot) -> LaneRow {
        let mut row = LaneRow { lane: measured.lane.clone(), device, ..LaneRow::default() };
        let is_here = |of: Lane, stream| of.index() == lane && self.plan.device(stream) == device;
        for span in &self.plan.spans {
            if is_here(span.lane, span.stream) {
                row.missed += 1;
                row.overlap_ns += span.overlap_ns;
                row.overlap_lanes_ns += span.overlap_lanes_ns;
            }
        }
        let overruns = self.plan.overruns.iter();
        let here = overruns.filter(|overrun| is_here(overrun.lane, overrun.stream));
        row.overruns = here.count() as u64;

        let spans = &measured.gpu;
        row.spans = spans.count();
        row.missed = row.missed.saturating_sub(row.spans);
        row.total_ns = spans.sum_ns();
        row.p50_ns = spans.quantile(0.5).unwrap_or(0);
        row.p99_ns = spans.quantile(0.99).unwrap_or(0);
        row.gaps = measured.gap.count();
        row.gap_ns = measured.gap.sum_ns();
        row.gap_p50_ns = measured.gap.quantile(0.5).unwrap_or(0);
        let figures = measured.figures.unwrap_or_default();
        row.armed_ns = figures.time_ns;
        row.busy_ns = figures.busy_ns;
        row.idle_ns = figures.idle_ns();
        row.lead_ns = figures.lead_ns;
        row.waited_ns = figures.waited_ns;
        row.tail_ns = figures.tail_ns;
        row.overlap_busy_ns = figures.overlap_ns;
        row.outside_ns = figures.outside_ns;
        row.incomplete_steps = measured.incomplete.steps;
        row.incomplete_ns = measured.incomplete.ns;
        row
    }
}
