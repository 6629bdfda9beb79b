// SPDX-License-Identifier: MIT OR Apache-2.0
//! Options of a recorder.

use super::harvester::Harvest;
use super::on_step::OnStep;
use super::twin::TwinsConfig;
use metrale_telemetry::clock::{Clock, monotonic_ns};
use std::time::Duration;

/// Default slots for kernels: an eager step of 4,155 launches, the longest
/// seen in published traces, fits twice.
pub const SPAN_SLOTS: usize = 8192;
/// Default slots for lanes: three seconds of a server with three lanes and
/// ten-millisecond steps.
pub const LANE_SLOTS: usize = 1024;

/// Options of a recorder. Options are added: write `..RecorderConfig::default()`.
///
/// ```
/// use metrale_gpu_runtime::timing::{Harvest, RecorderConfig};
/// let config = RecorderConfig {
///     harvest: Harvest::Explicit,
///     label: "1".to_owned(),
///     ..RecorderConfig::default()
/// };
/// ```
#[derive(Clone, Debug)]
pub struct RecorderConfig {
    /// Slots of the lane ring.
    pub lane_slots: usize,
    /// Slots of the kernel ring.
    pub kernel_slots: usize,
    /// Who harvests.
    pub harvest: Harvest,
    /// How long [`Recorder::harvest`](super::Recorder::harvest) polls on its
    /// caller's thread: lanes for so long, and kernels for so long. The span that
    /// is being asked about then is the last one, with its place and the gap before
    /// it; the next harvest begins with what was left. The recorder's own thread
    /// has no such budget.
    pub harvest_budget: Duration,
    /// Refuses spans on the legacy default stream. A capture that another
    /// thread begins between our check and our record is broken by a record on
    /// that stream, and on no other.
    pub refuse_legacy_streams: bool,
    /// Spans left open for this long are given up.
    pub reclaim_after: Duration,
    /// The clock that ages of spans, and times that polls take, are measured by.
    pub clock: Clock,
    /// Tells recorders of one process apart.
    pub label: String,
    /// What [`Recorder::gpu`](super::Recorder::gpu) says; `None`: the driver is asked.
    pub gpu: Option<String>,
    /// Measures, when the recorder is made, what an empty span reads and what
    /// measuring costs here: [`Telemetry::floor`](metrale_telemetry::Telemetry::floor). That makes a stream of our
    /// own, records 32 pairs of events on it, asks for them at most 10,000 times
    /// in at most 50 ms, and destroys the stream; it never waits for the GPU.
    /// Make the recorder before any capture, as for the events.
    pub measure_floor: bool,
    /// Is given the record of each step, by whoever harvests.
    pub on_step: Option<OnStep>,
    /// Rows for kernels inside graphs ([`Recorder::twin_raw`](super::Recorder::twin_raw));
    /// `None`: there are none.
    pub twins: Option<TwinsConfig>,
}

impl Default for RecorderConfig {
    fn default() -> Self {
        Self {
            lane_slots: LANE_SLOTS,
            kernel_slots: SPAN_SLOTS,
            harvest: Harvest::default(),
            harvest_budget: Duration::from_millis(5),
            refuse_legacy_streams: false,
            reclaim_after: Duration::from_secs(60),
            clock: monotonic_ns,
            label: "0".to_owned(),
            gpu: None,
            measure_floor: true,
            on_step: None,
            twins: None,
        }
    }
}
