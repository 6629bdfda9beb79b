// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is measured on the host, from level `Basic` on: no driver call, no GPU
//! time. A step's wall time says how long the host was busy with it or waited
//! in it; the GPU may run on after the end.

use crate::instrument::{Counter, NanosHistogram};
use crate::kernel::LANES;
use crate::lanes::LaneNames;
use crate::sync::{array_of, const_fn};
use std::sync::OnceLock;

/// Wall time and launches as the host saw them. `const`, fixed size.
///
/// ```
/// use metrale_telemetry::HostInstruments;
///
/// let host = HostInstruments::new();
/// host.launched(40, 1);
/// host.step_wall.observe(8_000_000);
/// assert_eq!((host.launches.get(), host.graph_launches.get()), (40, 1));
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct HostInstruments {
    /// Nanoseconds of host time from a step's begin to its end.
    pub step_wall: NanosHistogram,
    /// Nanoseconds of host time from a lane's begin to its end, by lane.
    pub lane_wall: [NanosHistogram; LANES.len()],
    /// The same, of lanes that the application named.
    own_lane_wall: OnceLock<Box<[NanosHistogram]>>,
    /// Kernel launches, timed or not.
    pub launches: Counter,
    /// Launches of whole graphs, timed or not.
    pub graph_launches: Counter,
}

impl HostInstruments {
    const_fn! {
        /// Instruments with nothing in them.
        #[must_use]
        pub const fn new() -> Self {
            Self {
                step_wall: NanosHistogram::new(),
                lane_wall: array_of!(NanosHistogram::new()),
                own_lane_wall: OnceLock::new(),
                launches: Counter::new(),
                graph_launches: Counter::new(),
            }
        }
    }

    /// Takes lanes on, once.
    pub(crate) fn name_lanes(&self, names: &LaneNames<'_>) {
        let own = names.iter().map(|_| NanosHistogram::new());
        let _ = self.own_lane_wall.set(own.collect());
    }

    /// Host time of a lane, whichever it is.
    #[must_use]
    pub fn lane_walls(&self, lane: usize) -> Option<&NanosHistogram> {
        let own = || self.own_lane_wall.get()?.get(lane.checked_sub(LANES.len())?);
        self.lane_wall.get(lane).or_else(own)
    }

    /// Counts a lane's wall time; an index that is no lane's is ignored.
    pub fn lane_took(&self, lane: usize, ns: u64) {
        if let Some(histogram) = self.lane_walls(lane) {
            histogram.observe(ns);
        }
    }

    /// Counts launches of kernels and of graphs: nothing is written for none.
    pub fn launched(&self, kernels: u64, graphs: u64) {
        for (counter, n) in [(&self.launches, kernels), (&self.graph_launches, graphs)] {
            if n > 0 {
                counter.add(n);
            }
        }
    }
}

impl Default for HostInstruments {
    fn default() -> Self {
        Self::new()
    }
}
