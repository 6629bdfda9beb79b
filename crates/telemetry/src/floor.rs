// SPDX-License-Identifier: MIT OR Apache-2.0
//! What measuring costs on this machine, and what an empty pair of events
//! reads: the least that a span can say.

use crate::sync::Ordering;
use crate::sync::relaxed::AtomicU64;
use serde::{Deserialize, Serialize};

/// Measured once, when a recorder is made. `None`: not measured, or the device
/// did not answer in time; never 0 for that.
///
/// ```
/// use metrale_telemetry::Telemetry;
///
/// let floor = Telemetry::new().floor(); // no recorder measured it yet
/// assert_eq!(floor.pair_ns, None);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Floor {
    /// GPU nanoseconds that a pair of events with nothing between them reads:
    /// the median. A span of up to three times this says little of its work.
    pub pair_ns: Option<u64>,
    /// Host nanoseconds that beginning a span takes.
    pub begin_ns: Option<u64>,
    /// Host nanoseconds that ending a span takes.
    pub end_ns: Option<u64>,
    /// Host nanoseconds that a harvest takes for each span that it lands.
    pub harvest_ns: Option<u64>,
    /// Host nanoseconds that a poll without an answer takes.
    pub poll_ns: Option<u64>,
}

/// A [`Floor`] that any thread may read and set; each figure by itself.
#[derive(Debug)]
pub(crate) struct FloorCell([AtomicU64; 5]);

/// No figure.
const UNKNOWN: u64 = u64::MAX;

impl FloorCell {
    pub(crate) const fn new() -> Self {
        Self([const { AtomicU64::new(UNKNOWN) }; 5])
    }

    pub(crate) fn set(&self, floor: Floor) {
        let figures =
            [floor.pair_ns, floor.begin_ns, floor.end_ns, floor.harvest_ns, floor.poll_ns];
        for (cell, ns) in self.0.iter().zip(figures) {
            cell.store(ns.unwrap_or(UNKNOWN), Ordering::Relaxed);
        }
    }

    pub(crate) fn get(&self) -> Floor {
        let figures = self.0.each_ref().map(|cell| {
            let ns = cell.load(Ordering::Relaxed);
            (ns != UNKNOWN).then_some(ns)
        });
        let [pair_ns, begin_ns, end_ns, harvest_ns, poll_ns] = figures;
        Floor { pair_ns, begin_ns, end_ns, harvest_ns, poll_ns }
    }
}

#[cfg(all(test, not(metrale_loom)))]
mod tests {
    use super::{Floor, FloorCell};

    #[test]
    fn what_is_not_known_is_none_and_never_0() {
        let cell = FloorCell::new();
        assert_eq!(cell.get(), Floor::default());
        let floor = Floor { pair_ns: Some(0), end_ns: Some(900), ..Floor::default() };
        cell.set(floor);
        assert_eq!(cell.get(), floor);
        let json = serde_json::to_string(&floor).unwrap();
        assert!(json.contains("\"begin_ns\":null"), "{json}");
    }
}
