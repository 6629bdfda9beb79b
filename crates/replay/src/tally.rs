// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a replay came to, from the recorders' instruments.

use std::collections::HashMap;

use metrale_telemetry::kernel::LANES;
use metrale_telemetry::snapshot::LaneSnapshot;
use metrale_telemetry::{Snapshot, Telemetry};

use crate::driver::Running;
use crate::model;
use crate::options::Stamps;
use crate::play::{Player, Settings, number};
use crate::report::{self, Check, GraphRow, KernelRow, LaneRow, Report, SCHEMA, Shown};
use crate::simulator::Simulator;

/// What all devices measured, as one.
pub(crate) fn snapshot(telemetry: &[&'static Telemetry]) -> Snapshot {
    let mut all = telemetry.iter().map(|it| it.snapshot());
    let mut merged = all.next().unwrap_or_else(|| Telemetry::new().snapshot());
    for other in all {
        // All are of this process, and so of one version.
        let _ = merged.merge(&other);
    }
    merged
}

impl Player<'_> {
    /// The report of a plan that is played; its timed kernels ran for
    /// `planned_ns` by the plan.
    pub(crate) fn report(&self, running: &Running, settings: Settings, planned_ns: u64) -> Report {
        let kernels = self.kernel_rows();
        let read_ns: u64 = kernels.iter().map(|row| row.total_ns).sum();
        let snapshot = snapshot(&self.telemetry);
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
            lanes: self.lane_rows(&snapshot),
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

    fn kernel_rows(&self) -> Vec<KernelRow> {
        let mut rows: Vec<KernelRow> = (self.plan.kernels.iter())
            .map(|name| KernelRow {
                name: name.clone(),
                ..KernelRow::default()
            })
            .collect();
        for (device, telemetry) in self.devices.iter().zip(&self.telemetry) {
            let kernel_of = device.kernels_by_handle();
            for time in telemetry.instruments().kernels() {
                if let Some(row) = kernel_of.get(&time.func).and_then(|&at| rows.get_mut(at)) {
                    row.samples += time.samples;
                    row.total_ns += time.total_ns;
                }
            }
        }
        rows.retain(|row| row.samples > 0);
        rows
    }

    fn lane_rows(&self, snapshot: &Snapshot) -> Vec<LaneRow> {
        let row = |(lane, measured): (usize, &LaneSnapshot)| {
            let spans = &measured.gpu;
            let planned = self
                .plan
                .spans
                .iter()
                .filter(|span| number(span.lane) == lane);
            LaneRow {
                lane: measured.lane.clone(),
                spans: spans.count(),
                total_ns: spans.sum_ns(),
                p50_ns: spans.quantile(0.5).unwrap_or(0),
                p99_ns: spans.quantile(0.99).unwrap_or(0),
                gap_ns: measured.gap.sum_ns(),
                overlap_ns: planned.map(|span| span.overlap_ns).sum(),
            }
        };
        snapshot.lanes.iter().enumerate().map(row).collect()
    }

    /// What was read against what an in-order device makes of the plan.
    fn check(&self, report: &Report) -> Check {
        let outcome = model::run(self.plan);
        let mut lanes = [0u64; LANES.len()];
        for (span, ns) in self.plan.spans.iter().zip(&outcome.spans) {
            lanes[number(span.lane)] += ns;
        }
        let lane_off = report
            .lanes
            .iter()
            .zip(lanes)
            .map(|(row, ns)| row.total_ns.abs_diff(ns));
        let kernels_off_ns = (report.every == 1).then(|| {
            let read: HashMap<&str, u64> = report
                .kernels
                .iter()
                .map(|row| (row.name.as_str(), row.total_ns))
                .collect();
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
