// SPDX-License-Identifier: MIT OR Apache-2.0
//! Landing all that the GPU has finished, where somebody waits for the figures.

use super::recorder::Recorder;
use super::shared::Shared;
use std::time::{Duration, Instant};

/// Between two harvests: a harvest of the recorder's own thread may end
/// meanwhile.
const PAUSE: Duration = Duration::from_millis(1);

/// What [`Recorder::drain`] came to.
///
/// ```
/// # use metrale_gpu_runtime::timing::Recorder;
/// # use std::time::Duration;
/// # let recorder = Recorder::disabled();
/// let drained = recorder.drain(Duration::from_secs(1));
/// if drained.left > 0 {
///     println!("{} spans are not over", drained.left);
/// }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Drained {
    /// Spans that landed meanwhile, by whoever harvested them.
    pub landed: u64,
    /// Spans that have not landed: nobody ended them, the GPU has not come to
    /// their end, or the driver could not be asked in time.
    pub left: u64,
}

impl Recorder {
    /// Lands every span that was ended, also those that the recorder's own thread
    /// is about to land, and lays out the steps that are over. It asks again and
    /// again until none is left, for as long as `within`, and goes on for the
    /// [harvest](Self::harvest) that it is in then. It never waits for the GPU by
    /// a call of the driver, so synchronise first: then it returns as soon as all
    /// has landed.
    ///
    /// It keeps the pace of polling: where the driver is slow, refuses or hangs,
    /// spans may be left.
    pub fn drain(&self, within: Duration) -> Drained {
        let Some(shared) = self.shared() else {
            return Drained::default();
        };
        let (began, before) = (Instant::now(), shared.flow());
        // Bounded by count too.
        for _ in 0..=within.as_millis() {
            shared.harvest_and_hand_on();
            if shared.watch.is_over() || shared.is_drained() {
                break;
            }
            let Some(rest) = within.checked_sub(began.elapsed()) else {
                break;
            };
            std::thread::sleep(PAUSE.min(rest));
        }
        let now = shared.flow();
        Drained { landed: now.landed.saturating_sub(before.landed), left: now.left }
    }
}

impl Shared {
    /// Landed so far, and not yet.
    fn flow(&self) -> Drained {
        let both = self.lanes.ledger().plus(self.kernels.ledger());
        Drained { landed: both.landed, left: both.in_flight }
    }

    /// Whether nothing is left that a harvest could land or lay out. A step whose
    /// span nobody ended could not.
    fn is_drained(&self) -> bool {
        let oldest = [&self.lanes, &self.kernels].map(|ring| ring.oldest(0));
        let is_closed_left = oldest.iter().any(|left| left.closed.is_some());
        let is_open_left = oldest.iter().any(|left| left.open.is_some());
        !is_closed_left && (is_open_left || self.is_idle())
    }
}
