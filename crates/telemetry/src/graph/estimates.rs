// SPDX-License-Identifier: MIT OR Apache-2.0
//! Readings of a twin, added up by row.
//!
//! A row's share of its graph is a ratio of two sums over the same readings: the
//! time of those of its nodes that were measured, and the time of the launch
//! once for each; times the nodes that it has. Readings of one plan are alike in
//! what they measure and close in time, so it is plans that the error is taken
//! over; where a plan measures all, its launches. Plans that follow each other
//! are compared, not each with the mean: load that drifts slowly is seen by all
//! of them, and is no error. What the nodes of one row differ by is in it, though
//! whole rounds even that out: the error is rather too large.
//!
//! 1. Memory is taken when it is made: a reading that lands takes none.
//! 2. What marks cost is taken off what they measure and off the launch, and
//!    told beside it.

use super::figures::{GraphFigures, GraphRow, NodeKind};
use super::plan::Between;
use super::planner::Rows;
use super::reading::Reading;
use super::shape::NodeRow;
use crate::kernel::estimates::{KernelSums, LaneSums, ratio};
use crate::kernel::records::GraphPart;
use crate::kernel::{ENOUGH_STEPS, Estimate, StandardError};

/// Below so many plans no error is claimed, as too few readings are alike.
pub const ENOUGH_PLANS: u64 = 6;

/// What a graph took, on launches of the plain one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GraphTotal {
    /// GPU nanoseconds.
    pub ns: f64,
    /// Its standard error; `None`: not known.
    pub error_ns: Option<f64>,
}

/// The sums of a row over one plan.
#[derive(Clone, Copy, Default)]
struct Open {
    samples: u64,
    ns: u64,
    marks_ns: u64,
    /// The launches' own time, once for each sample.
    whole_ns: u64,
}

#[derive(Clone, Copy)]
struct RowSums {
    row: NodeRow,
    nodes: u64,
    samples: u64,
    serialised: u64,
    launches: u64,
    /// The last launch that measured it, counted from 1.
    last: u64,
    marks_ns: u64,
    is_overcorrected: bool,
    open: Open,
    /// Own and whole time of the last plan that was closed.
    previous: Option<(f64, f64)>,
    /// Sums over plans; squares and products are of distances, see `add`.
    own: KernelSums,
    whole: LaneSums,
}

impl RowSums {
    /// Adds the open plan to the others.
    fn close(&mut self) {
        let open = std::mem::take(&mut self.open);
        if open.samples > 0 {
            self.is_overcorrected |= open.marks_ns > open.ns;
            let own_ns = open.ns.saturating_sub(open.marks_ns);
            self.add(own_ns, open.whole_ns);
            self.marks_ns = self.marks_ns.saturating_add(open.marks_ns);
        }
    }

    /// Adds a plan. Its distance from the one before stands for its distance
    /// from the mean, of which it has twice the square.
    fn add(&mut self, own_ns: u64, whole_ns: u64) {
        let (own, whole) = (&mut self.own, &mut self.whole);
        (own.steps, whole.steps) = (own.steps + 1, whole.steps + 1);
        own.sum_ns = own.sum_ns.saturating_add(own_ns);
        whole.ns = whole.ns.saturating_add(whole_ns);
        let plan = (own_ns as f64, whole_ns as f64);
        if let Some(previous) = self.previous.replace(plan) {
            let (own_off, whole_off) = (plan.0 - previous.0, plan.1 - previous.1);
            own.squares += own_off * own_off / 2.0;
            own.products += own_off * whole_off / 2.0;
            whole.squares += whole_off * whole_off / 2.0;
        }
    }

    fn told(
        mut self,
        total: GraphTotal,
        name_of: impl Fn(u64) -> Option<String>,
    ) -> Option<GraphRow> {
        self.close();
        let (share, error) = ratio(&self.own, &self.whole)?;
        let nodes = self.nodes as f64;
        let share = nodes * share;
        let is_enough = self.launches >= ENOUGH_STEPS && self.own.steps >= ENOUGH_PLANS;
        let error = is_enough.then(|| nodes * error * widened(self.own.steps));
        let error = error.zip(total.error_ns);
        let estimate = Estimate {
            steps: self.launches,
            total_ns: (share * total.ns).round(),
            share,
            error: error.map(|(error, total_error)| StandardError {
                total_ns: (error * total.ns).hypot(share * total_error),
                share: error,
            }),
        };
        let (kind, width, name) = match self.row {
            NodeRow::Kernel(func) => (NodeKind::Kernel, 1, name_of(func)),
            NodeRow::Copy => (NodeKind::Copy, 1, None),
            NodeRow::Set => (NodeKind::Set, 1, None),
            NodeRow::Host => (NodeKind::Host, 1, None),
            NodeRow::Child => (NodeKind::Child, 1, None),
            NodeRow::Other => (NodeKind::Other, 1, None),
            NodeRow::SideBySide(width) => (NodeKind::SideBySide, width, None),
        };
        Some(GraphRow {
            kind,
            name,
            series: None,
            width: u64::from(width),
            nodes: self.nodes,
            samples: self.samples,
            sampled_ns: self.own.sum_ns,
            marks_ns: self.marks_ns,
            serialised: self.serialised,
            overcorrected: self.is_overcorrected,
            estimate,
        })
    }
}

/// How much wider Student's distribution is than the normal one, at two errors,
/// for a spread over `n` values (Cornish and Fisher's expansion). Spreads of
/// neighbours tell as much as those of two thirds as many values.
fn widened(n: u64) -> f64 {
    let rest = 1.5 / n.saturating_sub(1).max(1) as f64;
    1.0 + rest * (1.25 + rest * (1.5 + rest * 1.4))
}

/// What the readings of a graph's twin say together.
pub struct GraphEstimates {
    nodes: u64,
    rows: Vec<RowSums>,
    /// The plan that is open.
    plan: Option<u64>,
    plans: u64,
    twin_launches: u64,
    twin_ns: u64,
    /// What marks took of that.
    marks_ns: u64,
    plain_launches: u64,
    plain_ns: u64,
    /// Readings that told what a mark costs, and the sum of it.
    mark_readings: u64,
    mark_ns: u64,
}

impl GraphEstimates {
    pub(super) fn new(nodes: u64, rows: &Rows) -> Self {
        let row = |&(row, nodes): &(NodeRow, u64)| RowSums {
            row,
            nodes,
            samples: 0,
            serialised: 0,
            launches: 0,
            last: 0,
            marks_ns: 0,
            is_overcorrected: false,
            open: Open::default(),
            previous: None,
            own: KernelSums::NONE,
            whole: LaneSums::NONE,
        };
        Self {
            nodes,
            rows: rows.rows.iter().map(row).collect(),
            plan: None,
            plans: 0,
            twin_launches: 0,
            twin_ns: 0,
            marks_ns: 0,
            plain_launches: 0,
            plain_ns: 0,
            mark_readings: 0,
            mark_ns: 0,
        }
    }

    /// Adds a timed launch of the plain graph.
    pub fn add_plain(&mut self, ns: u64) {
        self.plain_launches += 1;
        self.plain_ns = self.plain_ns.saturating_add(ns);
    }

    /// GPU time of all launches that were added, nanoseconds.
    #[must_use]
    pub fn timed_ns(&self) -> u64 {
        self.twin_ns.saturating_add(self.plain_ns)
    }

    /// Adds a launch of the twin: its reading, and its GPU time measured as that
    /// of plain ones is, `ns`.
    pub fn add(&mut self, reading: &Reading<'_>, ns: u64) {
        let number = reading.plan.number();
        let is_other = self.plan != Some(number);
        self.plans += u64::from(is_other);
        if is_other || reading.plan.is_complete() {
            self.rows.iter_mut().for_each(RowSums::close);
        }
        self.plan = Some(number);
        self.twin_launches += 1;
        self.twin_ns = self.twin_ns.saturating_add(ns);
        let mark_ns = reading.mark_ns();
        self.mark_readings += u64::from(mark_ns.is_some());
        let mark_ns = mark_ns.unwrap_or(0);
        self.mark_ns = self.mark_ns.saturating_add(mark_ns);
        // The first mark is part of the launch, and not of the span behind it.
        let (span_ns, marks_ns) = (reading.span_ns(), reading.marks_ns());
        let whole_ns = ns.saturating_sub(mark_ns).max(span_ns);
        let whole_ns = whole_ns.saturating_sub(marks_ns);
        self.marks_ns = self.marks_ns.saturating_add(ns.saturating_sub(whole_ns));
        for (end, from_ns, to_ns) in reading.each() {
            let row = end.row.and_then(|row| self.rows.get_mut(row as usize));
            let Some(row) = row else { continue };
            row.samples += 1;
            row.launches += u64::from(row.last != self.twin_launches);
            row.last = self.twin_launches;
            row.serialised +=
                u64::from(matches!(end.between, Between::Node { is_serialised: true, .. }));
            row.open.samples += 1;
            row.open.ns = row.open.ns.saturating_add(to_ns - from_ns);
            row.open.marks_ns = row.open.marks_ns.saturating_add(mark_ns);
            row.open.whole_ns = row.open.whole_ns.saturating_add(whole_ns);
        }
    }

    /// The parts of a launch, as a timeline takes them.
    pub fn parts(&self, reading: &Reading<'_>) -> impl Iterator<Item = GraphPart> {
        let end_ns = reading.end_ns();
        reading.each().filter_map(move |(end, from_ns, to_ns)| {
            let row = end.row.and_then(|row| self.rows.get(row as usize));
            let func = row.and_then(|row| match row.row {
                NodeRow::Kernel(func) => Some(func),
                _ => None,
            });
            let nodes = match end.between {
                Between::Node { .. } => 1,
                Between::Block { nodes } | Between::Rest { nodes } => nodes,
                Between::Mark => return None,
            };
            let (before_end_ns, ns) = (end_ns - to_ns, to_ns - from_ns);
            Some(GraphPart { before_end_ns, ns, func, nodes })
        })
    }

    /// What is known, where the graph took `total`; `name_of` names a kernel by
    /// its handle.
    #[must_use]
    pub fn figures(
        &self,
        total: GraphTotal,
        name_of: impl Fn(u64) -> Option<String>,
    ) -> GraphFigures {
        let total = GraphTotal { ns: total.ns.round(), ..total };
        let told = self.rows.iter().filter_map(|row| row.told(total, &name_of));
        let mut rows: Vec<GraphRow> = told.collect();
        rows.sort_by(|one, other| other.estimate.total_ns.total_cmp(&one.estimate.total_ns));
        let mean = |ns: u64, of: u64| (of > 0).then(|| ns as f64 / of as f64);
        let twin = mean(self.twin_ns, self.twin_launches);
        let plain = mean(self.plain_ns, self.plain_launches).filter(|plain| *plain > 0.0);
        GraphFigures {
            nodes: self.nodes,
            plans: self.plans,
            twin_launches: self.twin_launches,
            twin_ns: self.twin_ns,
            marks_ns: self.marks_ns,
            plain_launches: self.plain_launches,
            plain_ns: self.plain_ns,
            perturbation: twin.zip(plain).map(|(twin, plain)| twin / plain),
            mark_ns: mean(self.mark_ns, self.mark_readings),
            total_ns: total.ns,
            remainder_ns: total.ns - rows.iter().map(|row| row.estimate.total_ns).sum::<f64>(),
            rows,
        }
    }
}
