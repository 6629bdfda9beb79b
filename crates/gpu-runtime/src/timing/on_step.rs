// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records handed on to the application, after each harvest, by the thread that
//! harvested.
//!
//! 1. The callback runs outside every lock that a harvest, a reader or a serving
//!    thread takes, and outside of what an exit waits for.
//! 2. It runs on one thread at a time, and not within itself: where a harvest finds
//!    it running, its records are handed on by whoever runs it.
//! 3. What it does to a harvest is counted: panics, which go no further, and calls
//!    that take long.

use super::health::Health;
use super::shared::Shared;
use metrale_telemetry::Telemetry;
use metrale_telemetry::instrument::Counter;
use metrale_telemetry::kernel::{RECENT_STEPS, StepCursor, StepRecord};
use metrale_telemetry::runtime::unless_held;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

/// A call that takes longer is counted as slow.
const SLOW_NS: u64 = 1_000_000;

/// Is called with the record of each step, in the order in which they are over, on
/// the thread that harvests: the recorder's own, or the application's where that
/// harvests, drains or closes. The harvest waits for it, so it should be quick: hand
/// the record on, and do the work elsewhere. Records that are overwritten
/// meanwhile, slow calls (over a millisecond) and panics are counted in
/// [`Health`](super::Health).
///
/// A telemetry that several recorders measure for has one log of steps: each of
/// them hands on all records.
///
/// ```
/// use metrale_gpu_runtime::timing::{OnStep, RecorderConfig};
///
/// let (sender, slow) = std::sync::mpsc::sync_channel(64);
/// let config = RecorderConfig {
///     on_step: Some(OnStep::new(move |step| {
///         if step.gpu_ns() > 50_000_000 {
///             let _ = sender.try_send(*step);
///         }
///     })),
///     ..RecorderConfig::default()
/// };
/// # drop((config, slow));
/// ```
#[derive(Clone)]
pub struct OnStep(Arc<dyn Fn(&StepRecord) + Send + Sync>);

impl OnStep {
    /// Has `callback` called.
    pub fn new(callback: impl Fn(&StepRecord) + Send + Sync + 'static) -> Self {
        Self(Arc::new(callback))
    }
}

impl fmt::Debug for OnStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnStep(..)")
    }
}

/// The callback of a recorder, and how far it is.
pub(super) struct Handing {
    on_step: OnStep,
    cursor: Mutex<StepCursor>,
    missed: Counter,
    slow: Counter,
    panics: Counter,
}

impl Handing {
    /// From the next record of `telemetry` on.
    pub(super) fn new(on_step: OnStep, telemetry: &Telemetry) -> Self {
        let mut cursor = StepCursor::default();
        while telemetry.next_record(&mut cursor).is_some() {}
        Self {
            on_step,
            cursor: Mutex::new(cursor),
            missed: Counter::new(),
            slow: Counter::new(),
            panics: Counter::new(),
        }
    }

    pub(super) fn add_to(&self, health: &mut Health) {
        health.records_missed = self.missed.get();
        health.slow_callbacks = self.slow.get();
        health.callback_panics = self.panics.get();
    }
}

impl Shared {
    /// Gives the callback the records that it has not seen, as many as the log
    /// holds: more come with the next harvest.
    pub(super) fn hand_on(&self) {
        let Some(handing) = &self.handing else {
            return;
        };
        // A child takes no lock; a process that exits is left alone.
        if self.watch.is_over() {
            return;
        }
        let Some(mut cursor) = unless_held(handing.cursor.try_lock()) else {
            return;
        };
        let missed = cursor.missed();
        for _ in 0..RECENT_STEPS {
            let Some(record) = self.telemetry.next_record(&mut cursor) else {
                break;
            };
            let began_ns = self.watch.pace.now();
            let call = || handing.on_step.0(&record);
            if catch_unwind(AssertUnwindSafe(call)).is_err() {
                handing.panics.add(1);
            }
            if self.watch.pace.now().saturating_sub(began_ns) > SLOW_NS {
                handing.slow.add(1);
            }
        }
        handing.missed.add(cursor.missed() - missed);
    }
}
