// SPDX-License-Identifier: MIT OR Apache-2.0
//! Graphs that had a twin, and what became of replays, as plain data.
//!
//! Rows inside a graph are *of which*: their time is in the graph's own row among the
//! kernels, and is never added to it.

use super::merge::Chances;
use super::{GraphFigures, GraphRow, NodeKind, Snapshot};
use crate::graph::GraphTotal;
use crate::kernel::{Estimate, KernelEstimate};
use crate::sums::{Adding, sums};
use serde::{Deserialize, Serialize};

/// A graph that had a twin.
///
/// ```
/// # fn read(snapshot: &metrale_telemetry::Snapshot) {
/// for graph in &snapshot.graphs {
///     for row in &graph.figures.rows {
///         println!("{:?} in {:?}: {} ns", row.name, graph.name, row.estimate.total_ns);
///     }
/// }
/// # }
/// # read(&metrale_telemetry::Telemetry::new().snapshot());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct GraphSnapshot {
    /// The application's name for it; null where there was no room for it.
    pub name: Option<String>,
    /// What its marks say. A graph of the same name and another shape has an entry
    /// of its own.
    #[serde(flatten)]
    pub figures: GraphFigures,
}

impl GraphSnapshot {
    /// Of a graph of that name.
    #[doc(hidden)]
    #[must_use]
    pub fn new(name: Option<String>, figures: GraphFigures) -> Self {
        Self { name, figures }
    }
}

sums! {
    /// What became of replays of graphs on armed steps: each is one of `launched` or of
    /// the plain ones, by reason; one launched is `read`, `lost` or in flight.
    ///
    /// ```
    /// # fn read(snapshot: &metrale_telemetry::Snapshot) {
    /// for recorder in &snapshot.recorders {
    ///     println!("{} twins, {} plain", recorder.replays.launched, recorder.replays.plain());
    /// }
    /// # }
    /// # read(&metrale_telemetry::Telemetry::new().snapshot());
    /// ```
    pub struct TwinLedger {
        /// The twin was launched.
        pub launched: u64,
        /// Launches of twins that were read to the last mark.
        pub read: u64,
        /// Launches of twins that can never be read.
        pub lost: u64,
        /// Plain: it was the plain executable's turn.
        pub by_turn: u64,
        /// Plain: the twin's last launch was not read yet, or it was not on the device.
        pub unread: u64,
        /// Plain: the plan has had its launches.
        pub plan_spent: u64,
        /// Plain: the last launch was on another stream, or none was known.
        pub other_stream: u64,
        /// Plain: no span could be had.
        pub no_span: u64,
        /// Plain: the twin was stale.
        pub stale: u64,
        /// Plain: there was no twin.
        pub no_twin: u64,
        /// Plain: the twin's launch failed, and the plain one followed.
        pub launch_failed: u64,
        /// Launches that waited on the GPU for a twin on another stream.
        pub waits: u64,
        /// Updates that an executable took and its twin did not.
        pub updates_failed: u64,
    }
}

impl TwinLedger {
    /// Armed replays that launched the plain executable.
    #[must_use]
    pub const fn plain(&self) -> u64 {
        let not_now = self.by_turn + self.unread + self.plan_spent + self.other_stream;
        not_now + self.no_span + self.stale + self.no_twin + self.launch_failed
    }
}

/// What a row took on all steps, of its estimates by lane.
pub(crate) fn total_of(estimates: &[KernelEstimate], row: u64) -> GraphTotal {
    let own = estimates.iter().filter(|lane| lane.func == row);
    let none = GraphTotal { ns: 0.0, error_ns: Some(0.0) };
    let total = own.fold(none, |sum, lane| GraphTotal {
        ns: sum.ns + lane.estimate.total_ns,
        error_ns: sum
            .error_ns
            .zip(lane.estimate.error)
            .map(|(sum, error)| sum.hypot(error.total_ns)),
    });
    GraphTotal { error_ns: total.error_ns.filter(|_| total.ns > 0.0), ..total }
}

impl GraphFigures {
    /// Adds those of another part. What follows of sums is taken anew.
    pub(crate) fn merge(&mut self, other: &Self, adding: &mut Adding) {
        let weight = |part: &Self| part.mark_ns.map(|ns| (ns, part.twin_launches as f64));
        self.mark_ns = match (weight(self), weight(other)) {
            (Some((one, by)), Some((other, and))) if by + and > 0.0 => {
                Some(one.mul_add(by, other * and) / (by + and))
            }
            (one, other) => one.or(other).map(|(ns, _)| ns),
        };
        let theirs = [
            (&mut self.plans, other.plans),
            (&mut self.twin_launches, other.twin_launches),
            (&mut self.twin_ns, other.twin_ns),
            (&mut self.marks_ns, other.marks_ns),
            (&mut self.plain_launches, other.plain_launches),
            (&mut self.plain_ns, other.plain_ns),
        ];
        for (ours, theirs) in theirs {
            adding.add(ours, theirs);
        }
        let mean = |ns: u64, of: u64| (of > 0 && ns > 0).then(|| ns as f64 / of as f64);
        let twin = mean(self.twin_ns, self.twin_launches);
        let plain = mean(self.plain_ns, self.plain_launches);
        self.perturbation = twin.zip(plain).map(|(twin, plain)| twin / plain);
        self.total_ns = adding.float(self.total_ns + other.total_ns);
        self.remainder_ns = adding.float(self.remainder_ns + other.remainder_ns);
        for theirs in &other.rows {
            match self.rows.iter_mut().find(|ours| ours.key() == theirs.key()) {
                Some(ours) => ours.merge(theirs, adding),
                None => self.rows.push(theirs.clone()),
            }
        }
        for row in &mut self.rows {
            row.estimate = row.estimate.of_whole(self.total_ns);
        }
        self.rows.sort_by(|one, other| {
            let by_time = other.estimate.total_ns.total_cmp(&one.estimate.total_ns);
            by_time.then_with(|| one.key().cmp(&other.key()))
        });
    }

    pub(super) fn is_finite(&self) -> bool {
        let rows = self.rows.iter().flat_map(|row| {
            let error = row.estimate.error.unwrap_or_default();
            let Estimate { total_ns, share, .. } = row.estimate;
            [total_ns, share, error.total_ns, error.share]
        });
        let own = [self.total_ns, self.remainder_ns];
        let known = [self.mark_ns, self.perturbation].into_iter().flatten();
        rows.chain(own).chain(known).all(f64::is_finite)
    }
}

impl GraphRow {
    fn key(&self) -> (NodeKind, Option<&str>, u64) {
        (self.kind, self.name.as_deref(), self.width)
    }

    fn merge(&mut self, other: &Self, adding: &mut Adding) {
        let theirs = [
            (&mut self.samples, other.samples),
            (&mut self.sampled_ns, other.sampled_ns),
            (&mut self.marks_ns, other.marks_ns),
            (&mut self.serialised, other.serialised),
        ];
        for (ours, theirs) in theirs {
            adding.add(ours, theirs);
        }
        self.series = self.series.take().or_else(|| other.series.clone());
        self.nodes = self.nodes.max(other.nodes);
        self.overcorrected |= other.overcorrected;
        self.estimate = self.estimate.plus(other.estimate, Chances::Separate, adding);
    }
}

impl Snapshot {
    /// Adds the graphs of another part: those of one name and as many nodes are one.
    pub(super) fn merge_graphs(&mut self, other: &Self, adding: &mut Adding) {
        for theirs in &other.graphs {
            let is_same = |ours: &&mut GraphSnapshot| {
                ours.name == theirs.name && ours.figures.nodes == theirs.figures.nodes
            };
            match self.graphs.iter_mut().find(is_same) {
                Some(ours) => ours.figures.merge(&theirs.figures, adding),
                None => self.graphs.push(theirs.clone()),
            }
        }
        self.sort_graphs();
    }

    /// The longest first.
    pub(super) fn sort_graphs(&mut self) {
        self.graphs.sort_by(|one, other| {
            let by_time = other.figures.total_ns.total_cmp(&one.figures.total_ns);
            by_time
                .then_with(|| one.name.cmp(&other.name))
                .then_with(|| one.figures.nodes.cmp(&other.figures.nodes))
        });
    }
}
