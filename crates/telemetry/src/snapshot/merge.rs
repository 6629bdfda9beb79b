// SPDX-License-Identifier: MIT OR Apache-2.0
//! Snapshots of several processes or devices as one.
//!
//! 1. Counts and sums of a merge are the sums of its parts'; where one is too
//!    large for its number, it is the largest, and the snapshot says so.
//! 2. So are estimated totals. Shares are of the lane time of those parts that
//!    took samples in the lane.
//! 3. Parts are separate samples: the error of a total is the root of their
//!    summed squares. A part that had the lane and has no error of its own, or
//!    too few steps, leaves none.
//! 4. The order of parts, and which are merged first, matters to no whole number
//!    and to no list; to floats in the last digits only.

use super::steps::keep_slowest;
use super::{GraphSnapshot, KernelLane, KernelSnapshot, LaneSnapshot, RowKind, Snapshot};
use crate::floor::Floor;
use crate::kernel::{
    ENOUGH_STEPS, Estimate, LANES, LaneEstimate, LaneFigures, ShapeTimes, StandardError,
};
use crate::series::OTHER_KERNELS;
use crate::sums::Adding;
use std::collections::BTreeMap;

/// Snapshots that cannot be merged; nothing was changed.
///
/// ```
/// use metrale_telemetry::Telemetry;
/// use metrale_telemetry::snapshot::{MergeError, SNAPSHOT_VERSION};
///
/// let mut ours = Telemetry::new().snapshot();
/// let mut theirs = ours.clone();
/// theirs.version += 1;
/// let expected = MergeError::Version { ours: SNAPSHOT_VERSION, theirs: SNAPSHOT_VERSION + 1 };
/// assert_eq!(ours.merge(&theirs), Err(expected));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MergeError {
    /// They have different shapes.
    #[error(
        "a snapshot of version {theirs} cannot be merged into one of version {ours}; take both with the same version"
    )]
    Version {
        /// The version of the one that was to take the other in.
        ours: u32,
        /// The version of the other.
        theirs: u32,
    },
    /// An estimate in one of them is no number, or infinite.
    #[error(
        "a snapshot with an estimate that is no finite number cannot be merged; it was not made by `Telemetry::snapshot`"
    )]
    NotFinite,
}

/// How two estimates add up.
#[derive(Clone, Copy)]
pub(super) enum Chances {
    /// They are of the same steps: two handles of one kernel.
    Shared,
    /// They are of separate ones.
    Separate,
}

impl Snapshot {
    /// Adds what `other` holds: another process, or another device.
    ///
    /// ```
    /// use metrale_telemetry::Telemetry;
    ///
    /// let [one, other] = [Telemetry::new(), Telemetry::new()];
    /// one.step_begin();
    /// other.step_begin();
    /// let mut both = one.snapshot();
    /// both.merge(&other.snapshot())?;
    /// assert_eq!((both.sources, both.steps), (2, 2));
    /// # Ok::<(), metrale_telemetry::snapshot::MergeError>(())
    /// ```
    ///
    /// # Errors
    /// [`MergeError`], where the two are of different versions, or one of them
    /// has an estimate that is no finite number.
    pub fn merge(&mut self, other: &Self) -> Result<(), MergeError> {
        if self.version != other.version {
            return Err(MergeError::Version { ours: self.version, theirs: other.version });
        }
        if !self.is_finite() || !other.is_finite() {
            return Err(MergeError::NotFinite);
        }
        let adding = &mut Adding::default();
        adding.add(&mut self.sources, other.sources);
        self.labels.retain(|label, value| other.labels.get(label) == Some(value));
        self.start_unix_ns = self.start_unix_ns.max(other.start_unix_ns);
        if self.config != other.config {
            self.config = None;
        }
        adding.add(&mut self.steps, other.steps);
        adding.add(&mut self.armed_steps, other.armed_steps);
        adding.add(&mut self.sampled_launches, other.sampled_launches);
        let (ours, theirs) = (&mut self.host, &other.host);
        ours.step_wall.add_all(&theirs.step_wall, adding);
        adding.add(&mut ours.launches, theirs.launches);
        adding.add(&mut ours.graph_launches, theirs.graph_launches);
        // Before the lanes: who had a lane at all decides what is known of it.
        self.merge_kernels(other, adding);
        for theirs in &other.lanes {
            match self.lanes.iter_mut().find(|ours| ours.lane == theirs.lane) {
                Some(ours) => ours.merge(theirs, adding),
                None => self.lanes.push(theirs.clone()),
            }
        }
        self.lanes.sort_by_cached_key(|lane| lane_order(&lane.lane));
        for kernel in &mut self.kernels {
            kernel.share_of(&self.lanes);
        }
        add_figures(&mut self.device, other.device, adding);
        self.slowest_steps.extend(other.slowest_steps.iter().cloned());
        keep_slowest(&mut self.slowest_steps);
        adding.add(&mut self.lane_gap_unknown, other.lane_gap_unknown);
        for theirs in &other.kernel_series {
            let mut ours = self.kernel_series.iter_mut();
            match ours.find(|ours| (ours.kind, &ours.label) == (theirs.kind, &theirs.label)) {
                Some(ours) => {
                    adding.add(&mut ours.total_ns, theirs.total_ns);
                    adding.add(&mut ours.samples, theirs.samples);
                }
                None => self.kernel_series.push(theirs.clone()),
            }
        }
        let is_other = |label: &str| label == OTHER_KERNELS;
        self.kernel_series.sort_by_cached_key(|series| {
            (is_other(&series.label), series.label.clone(), series.kind)
        });
        self.losses.add_all(&other.losses, adding);
        adding.add(&mut self.table_full, other.table_full);
        adding.add(&mut self.spans_dropped, other.spans_dropped);
        adding.add(&mut self.span_failures, other.span_failures);
        self.floor = largest(self.floor, other.floor);
        self.merge_graphs(other, adding);
        self.recorders.extend(other.recorders.iter().cloned());
        self.recorders.sort();
        self.saturated |= other.saturated || adding.is_saturated;
        self.sort();
        Ok(())
    }

    fn merge_kernels(&mut self, other: &Self, adding: &mut Adding) {
        let mut pairs: BTreeMap<_, [KernelSnapshot; 2]> = BTreeMap::new();
        let parts = [std::mem::take(&mut self.kernels), other.kernels.clone()];
        for (part, rows) in parts.into_iter().enumerate() {
            for row in joined(rows.into_iter()) {
                let pair = pairs.entry((row.name.clone(), row.kind)).or_default();
                pair[part] = row;
            }
        }
        for ((name, kind), [mut ours, theirs]) in pairs {
            ours.merge(&theirs, [&self.lanes, &other.lanes], adding);
            self.kernels.push(KernelSnapshot { name, kind, ..ours });
        }
    }

    fn is_finite(&self) -> bool {
        let covered = self.lanes.iter().filter_map(|lane| lane.estimate.covered);
        let kernels = self.kernels.iter().flat_map(|kernel| &kernel.lanes);
        let is_finite = |graph: &GraphSnapshot| graph.figures.is_finite();
        if !self.graphs.iter().all(is_finite) {
            return false;
        }
        let mut all = covered.chain(kernels.map(|lane| lane.estimate));
        all.all(|estimate| {
            let StandardError { total_ns, share } = estimate.error.unwrap_or_default();
            [estimate.total_ns, estimate.share, total_ns, share]
                .iter()
                .all(|value| value.is_finite())
        })
    }

    /// Sorts the kernels.
    pub(super) fn sort(&mut self) {
        self.kernels.sort_by(|a, b| {
            let by_time = b.total_ns.cmp(&a.total_ns);
            by_time.then_with(|| a.key().cmp(&b.key()))
        });
    }
}

/// One row of each name and kind: a kernel may have several handles. No name is
/// empty.
pub(super) fn joined(
    rows: impl Iterator<Item = KernelSnapshot>,
) -> impl Iterator<Item = KernelSnapshot> {
    let mut joined: BTreeMap<(Option<String>, RowKind), KernelSnapshot> = BTreeMap::new();
    for mut row in rows {
        row.name = row.name.filter(|name| !name.is_empty());
        match joined.get_mut(&(row.name.clone(), row.kind)) {
            Some(known) => known.join(&row),
            None => drop(joined.insert((row.name.clone(), row.kind), row)),
        }
    }
    joined.into_values()
}

/// The three lanes in their order, then others by name.
fn lane_order(lane: &str) -> (usize, String) {
    let known = LANES.iter().position(|known| *known == lane);
    (known.unwrap_or(LANES.len()), lane.to_owned())
}

/// Figures of those of which they are known.
fn add_figures(ours: &mut Option<LaneFigures>, theirs: Option<LaneFigures>, adding: &mut Adding) {
    match (ours, theirs) {
        (Some(ours), Some(theirs)) => ours.add_all(&theirs, adding),
        (ours, theirs) => *ours = ours.or(theirs),
    }
}

fn largest(ours: Floor, theirs: Floor) -> Floor {
    Floor {
        pair_ns: ours.pair_ns.max(theirs.pair_ns),
        begin_ns: ours.begin_ns.max(theirs.begin_ns),
        end_ns: ours.end_ns.max(theirs.end_ns),
        harvest_ns: ours.harvest_ns.max(theirs.harvest_ns),
        poll_ns: ours.poll_ns.max(theirs.poll_ns),
    }
}

impl LaneSnapshot {
    fn merge(&mut self, other: &Self, adding: &mut Adding) {
        self.gpu.add_all(&other.gpu, adding);
        self.gap.add_all(&other.gap, adding);
        self.wall.add_all(&other.wall, adding);
        adding.add(&mut self.lost_spans, other.lost_spans);
        add_figures(&mut self.figures, other.figures, adding);
        self.incomplete.add_all(&other.incomplete, adding);
        for theirs in &other.shapes {
            let same = |ours: &&mut ShapeTimes| ours.key() == theirs.key();
            match self.shapes.iter_mut().find(same) {
                Some(ours) => {
                    adding.add(&mut ours.steps, theirs.steps);
                    adding.add(&mut ours.ns, theirs.ns);
                    adding.add(&mut ours.tokens, theirs.tokens);
                }
                None => self.shapes.push(*theirs),
            }
        }
        self.shapes.sort_by_key(ShapeTimes::key);
        let (ours, theirs) = (&mut self.estimate, &other.estimate);
        // Of a part that had the lane it may not be known, nor then of both.
        let part = |of: &LaneEstimate| (of.total_ns > 0).then_some(of.covered);
        ours.covered = match (part(ours), part(theirs)) {
            (Some(one), Some(other)) => {
                one.zip(other).map(|(one, other)| one.plus(other, Chances::Separate, adding))
            }
            (one, other) => one.or(other).flatten(),
        };
        ours.add_all(theirs, adding);
        ours.covered = ours.covered.map(|covered| covered.of_lane(ours.total_ns));
    }
}

impl LaneEstimate {
    fn add_all(&mut self, other: &Self, adding: &mut Adding) {
        adding.add(&mut self.total_ns, other.total_ns);
        adding.add(&mut self.unsampled_ns, other.unsampled_ns);
        adding.add(&mut self.lost_spans, other.lost_spans);
        adding.add(&mut self.lost_steps, other.lost_steps);
        adding.add(&mut self.left_out, other.left_out);
        adding.add(&mut self.steps, other.steps);
        adding.add(&mut self.armed_steps, other.armed_steps);
        adding.add(&mut self.armed_ns, other.armed_ns);
    }
}

impl KernelSnapshot {
    fn key(&self) -> (Option<&str>, RowKind) {
        (self.name.as_deref(), self.kind)
    }

    fn lane(&self, lane: &str) -> Option<Estimate> {
        let found = self.lanes.iter().find(|own| own.lane == lane);
        found.map(|own| own.estimate)
    }

    /// Adds what was timed under another handle of the same name.
    fn join(&mut self, other: &Self) {
        let adding = &mut Adding::default();
        for theirs in &other.lanes {
            let (shared, estimate) = (Chances::Shared, theirs.estimate);
            match self.lanes.iter_mut().find(|ours| ours.lane == theirs.lane) {
                Some(ours) => ours.estimate = ours.estimate.plus(estimate, shared, adding),
                None => self.lanes.push(theirs.clone()),
            }
        }
        self.add_sums(other, adding);
    }

    /// Adds another part's row; `lanes` are those of both parts.
    fn merge(&mut self, other: &Self, lanes: [&[LaneSnapshot]; 2], adding: &mut Adding) {
        let names = self.lanes.iter().chain(&other.lanes);
        let mut names: Vec<_> = names.map(|own| own.lane.clone()).collect();
        names.sort_by_cached_key(|name| lane_order(name));
        names.dedup();
        let merged = names.into_iter().map(|lane| {
            let part = |row: &Self, lanes| Estimate::of_part(row.lane(&lane), &lane, lanes);
            let (ours, theirs) = (part(self, lanes[0]), part(other, lanes[1]));
            let estimate = ours.plus(theirs, Chances::Separate, adding);
            KernelLane { lane, estimate }
        });
        self.lanes = merged.collect();
        self.add_sums(other, adding);
    }

    fn add_sums(&mut self, other: &Self, adding: &mut Adding) {
        let series = [&self.series, &other.series].into_iter().flatten();
        self.series = series.min().cloned();
        adding.add(&mut self.total_ns, other.total_ns);
        adding.add(&mut self.samples, other.samples);
        adding.add(&mut self.lost_spans, other.lost_spans);
        self.figures.add_all(&other.figures, adding);
    }

    fn share_of(&mut self, lanes: &[LaneSnapshot]) {
        for own in &mut self.lanes {
            if let Some(lane) = lanes.iter().find(|lane| lane.lane == own.lane) {
                let LaneEstimate { total_ns, unsampled_ns, .. } = lane.estimate;
                own.estimate = own.estimate.of_lane(total_ns.saturating_sub(unsampled_ns));
            }
        }
    }
}

impl Estimate {
    /// What a part of a merge adds for `lane`: a row that was never seen there
    /// took nothing, for certain only where the part had no such lane.
    fn of_part(seen: Option<Self>, lane: &str, lanes: &[LaneSnapshot]) -> Self {
        let had_lane = |part: &LaneSnapshot| part.lane == lane && part.estimate.total_ns > 0;
        match seen {
            Some(seen) => Self { error: seen.error.filter(|_| seen.steps >= ENOUGH_STEPS), ..seen },
            None if lanes.iter().any(had_lane) => Self::default(),
            None => Self { error: Some(StandardError::default()), ..Self::default() },
        }
    }

    /// Both as one; the share is to be taken anew where the chances are separate.
    pub(super) fn plus(self, other: Self, chances: Chances, adding: &mut Adding) -> Self {
        let errors = self.error.zip(other.error);
        let error = errors.map(|(one, other)| {
            let mut sum = |one: f64, other: f64| {
                adding.float(match chances {
                    Chances::Shared => one + other,
                    Chances::Separate => one.hypot(other),
                })
            };
            StandardError {
                total_ns: sum(one.total_ns, other.total_ns),
                share: sum(one.share, other.share),
            }
        });
        let steps = match chances {
            Chances::Shared => self.steps.max(other.steps),
            Chances::Separate => {
                let mut steps = self.steps;
                adding.add(&mut steps, other.steps);
                steps
            }
        };
        Self {
            steps,
            total_ns: adding.float(self.total_ns + other.total_ns),
            share: adding.float(self.share + other.share),
            error,
        }
    }

    /// Together with another of the same steps and lane.
    #[cfg(feature = "prometheus")]
    pub(crate) fn of_same_steps(self, other: Self) -> Self {
        self.plus(other, Chances::Shared, &mut Adding::default())
    }

    /// With its shares taken of a lane time of `lane_ns`.
    fn of_lane(self, lane_ns: u64) -> Self {
        self.of_whole(lane_ns as f64)
    }

    /// With its shares taken of `whole_ns`.
    pub(super) fn of_whole(self, whole_ns: f64) -> Self {
        if whole_ns == 0.0 {
            return self;
        }
        let share = |ns: f64| ns / whole_ns;
        Self {
            share: share(self.total_ns),
            error: self.error.map(|error| StandardError { share: share(error.total_ns), ..error }),
            ..self
        }
    }
}
