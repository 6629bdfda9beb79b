// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a replay came to, from the recorders' instruments.

use std::collections::HashMap;

use metrale_telemetry::kernel::LANES;
use metrale_telemetry::snapshot::{LaneSnapshot, RowKind};
use metrale_telemetry::{Snapshot, Telemetry};

use crate::driver::Running;
use crate::model;
use crate::options::Stamps;
use crate::plan::LaneSpan;
use crate::play::{Player, Settings, number};
use crate::report::{self, Check, DeviceRow, GraphRow, KernelRow, LaneRow, Report, SCHEMA, Shown};
use crate::simulator::Simulator;

/// What all devices measured, as one.
pub(crate) fn snapshot(telemetry: &[&'static Telemetry]) -> Snapshot {
    merged(telemetry.iter().map(|telemetry| telemetry.snapshot()))
}

fn merged(mut all: impl Iterator<Item = Snapshot>) -> Snapshot {
    let mut merged = all.next().unwrap_or_default();
    for other in all {
        // All are of this process, and so of one version.
        let _ = merged.merge(&other);
    }
    merged
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

impl Player<'_> {
    /// The report of a plan that is played; its timed kernels ran for
    /// `planned_ns` by the plan.
    pub(crate) fn report(&self, running: &Running, settings: Settings, planned_ns: u64) -> Report {
        let devices: Vec<Snapshot> = (self.telemetry.iter())
            .map(|telemetry| telemetry.snapshot())
            .collect();
        let kernels = self.kernel_rows(&devices);
        let read_ns: u64 = (kernels.iter())
            .filter(|row| row.kind == RowKind::Kernel.as_str())
            .map(|row| row.total_ns)
            .sum();
        let snapshot = merged(devices.iter().cloned());
        let (launches, in_graphs) = self.plan.graph_totals();
        let (driver, stamps) = match (&running.simulator, settings.stamps) {
            (None, _) => (report::Driver::Cuda, report::Stamps::Device),
            (Some(_), Stamps::Ideal) => (report::Driver::Simulated, report::Stamps::Ideal),
            (Some(_), Stamps::Honest) => (report::Driver::Simulated, report::Stamps::Honest),
        };
        let mut report = Report {
            schema: SCHEMA,
            driver,
            driver_path: running.path.display().to_string(),
            device: self
                .devices
                .first()
                .map_or_else(String::new, |device| device.name.clone()),
            trace: settings.trace,
            every: settings.every,
            stamps,
            steps: self.telemetry.first().map_or(0, |it| it.steps()),
            armed_steps: self.telemetry.first().map_or(0, |it| it.armed_steps()),
            lanes: self.lane_rows(&devices),
            devices: (0..).zip(&devices).map(device_row).collect(),
            kernels,
            graphs: GraphRow {
                launches,
                kernels: in_graphs,
            },
            ledger: self.ledger_row(snapshot.table_full),
            driver_calls: running
                .simulator
                .iter()
                .flat_map(|simulator| self.calls_since(simulator))
                .collect(),
            shown: Shown {
                snapshot,
                waiting_ns: (stamps != report::Stamps::Ideal)
                    .then(|| read_ns.saturating_sub(planned_ns)),
                check: None,
                notes: self.plan.notes.clone(),
            },
        };
        if stamps == report::Stamps::Ideal {
            report.shown.check = Some(self.check(&report));
        }
        report.sort_kernels();
        report
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

    fn kernel_rows(&self, devices: &[Snapshot]) -> Vec<KernelRow> {
        let mut rows = Vec::new();
        for (device, snapshot) in (0..).zip(devices) {
            for kernel in &snapshot.kernels {
                rows.push(KernelRow {
                    name: kernel.name.clone().unwrap_or_default(),
                    samples: kernel.samples,
                    total_ns: kernel.total_ns,
                    kind: kernel.kind.as_str(),
                    device,
                    in_graph: false,
                    busy_start_samples: kernel.figures.busy_start_samples,
                });
            }
        }
        rows
    }

    fn lane_rows(&self, devices: &[Snapshot]) -> Vec<LaneRow> {
        let mut rows = Vec::new();
        for lane in 0..LANES.len() {
            for (device, snapshot) in (0..).zip(devices) {
                let row = self.lane_row(lane, device, &snapshot.lanes[lane]);
                if device == 0 || row.spans > 0 {
                    rows.push(row);
                }
            }
        }
        rows
    }

    fn lane_row(&self, lane: usize, device: u32, measured: &LaneSnapshot) -> LaneRow {
        let is_here = |span: &&LaneSpan| {
            let stream = self.plan.streams.get(span.stream as usize);
            number(span.lane) == lane && stream.is_some_and(|stream| stream.device == device)
        };
        let planned = self.plan.spans.iter().filter(is_here);
        let spans = &measured.gpu;
        let figures = measured.figures.unwrap_or_default();
        LaneRow {
            lane: measured.lane.clone(),
            spans: spans.count(),
            total_ns: spans.sum_ns(),
            p50_ns: spans.quantile(0.5).unwrap_or(0),
            p99_ns: spans.quantile(0.99).unwrap_or(0),
            gap_ns: measured.gap.sum_ns(),
            overlap_ns: planned.map(|span| span.overlap_ns).sum(),
            device,
            armed_ns: figures.time_ns,
            busy_ns: figures.busy_ns,
            idle_ns: figures.idle_ns(),
            lead_ns: figures.lead_ns,
            waited_ns: figures.waited_ns,
            tail_ns: figures.tail_ns,
            overlap_busy_ns: figures.overlap_ns,
            incomplete_steps: measured.incomplete.steps,
            incomplete_ns: measured.incomplete.ns,
            outside_ns: figures.outside_ns,
        }
    }

    /// What was read against what an in-order device makes of the plan.
    fn check(&self, report: &Report) -> Check {
        let outcome = model::run(self.plan);
        let mut lanes = [0u64; LANES.len()];
        for (span, ns) in self.plan.spans.iter().zip(&outcome.spans) {
            lanes[number(span.lane)] += ns;
        }
        let read = |lane: &str| -> u64 {
            let rows = report.lanes.iter().filter(|row| row.lane == lane);
            rows.map(|row| row.total_ns).sum()
        };
        let lane_off = (LANES.iter().zip(lanes)).map(|(lane, ns)| read(lane).abs_diff(ns));
        let kernels_off_ns = (report.every == 1).then(|| {
            let mut read: HashMap<&str, u64> = HashMap::new();
            let is_kernel = |row: &&KernelRow| row.kind == RowKind::Kernel.as_str();
            for row in report.kernels.iter().filter(is_kernel) {
                *read.entry(&row.name).or_default() += row.total_ns;
            }
            let off = |(name, sum): (&String, &model::KernelSum)| {
                read.get(name.as_str())
                    .copied()
                    .unwrap_or(0)
                    .abs_diff(sum.total_ns)
            };
            self.plan
                .kernels
                .iter()
                .zip(&outcome.kernels)
                .map(off)
                .sum()
        });
        Check {
            lanes_ns: lanes.iter().sum(),
            lanes_off_ns: lane_off.sum(),
            kernels_off_ns,
        }
    }

    fn ledger_row(&self, table_full: u64) -> report::Ledger {
        let ledger = self.ledger();
        report::Ledger {
            attempts: ledger.attempts,
            begun: ledger.begun,
            landed: ledger.landed,
            dropped: ledger.dropped,
            refused: ledger.refused,
            failed: ledger.failed,
            cancelled: ledger.cancelled,
            reclaimed: ledger.reclaimed,
            in_flight: ledger.in_flight,
            stale_ends: ledger.stale_ends,
            table_full,
        }
    }
}
