// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether a recorder may call the driver, and what it met there.

use super::pace::Pace;
use super::process;
use metrale_gpu_sys::cuda::Status;
use metrale_telemetry::instrument::Counter;
use metrale_telemetry::snapshot::RecorderHealth;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

/// How a recorder gets on with the driver. Counts are since it was made.
///
/// ```
/// # let recorder = metrale_gpu_runtime::timing::Recorder::disabled();
/// let health = recorder.health();
/// if let Some(status) = health.quarantined {
///     println!("the recorder stopped: {status}");
/// }
/// let waits = health.oldest_closed.is_some_and(|age| age.as_secs() > 30);
/// # assert!(!waits);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Health {
    /// The status that stopped the recorder: it makes no driver call any more.
    pub quarantined: Option<Status>,
    /// Polls that the driver did not allow; their spans are kept.
    pub polls_refused: u64,
    /// Polls that took over a millisecond, each of which halved the rate.
    pub slow_polls: u64,
    /// How often three polls over 100 ms stopped polling for ten seconds.
    pub polling_stops: u64,
    /// Harvests that polled nothing, because polls were slow or refused.
    pub harvests_skipped: u64,
    /// The least time between two harvests now; zero at the full rate.
    pub harvest_interval: Duration,
    /// Times that cannot be: negative, infinite, not a number, longer than an hour
    /// or than the span can have taken since the pass before its begin (a gap:
    /// since the recorder was made). Failed spans, and gaps left out.
    pub invalid_times: u64,
    /// Names of kernels and graphs that found no room, or were too long.
    pub names_lost: u64,
    /// Records that were overwritten before
    /// [`RecorderConfig::on_step`](super::RecorderConfig::on_step) got them.
    pub records_missed: u64,
    /// Its calls that took over a millisecond.
    pub slow_callbacks: u64,
    /// Its calls that panicked.
    pub callback_panics: u64,
    /// How long the oldest span of both rings waits that was begun and not
    /// ended, since a harvest first saw it; `None` where none waits.
    pub oldest_open: Option<Duration>,
    /// The same of those that were ended and did not land: work that never
    /// ends, or a call into the driver that does not come back. It grows while a
    /// harvest hangs.
    pub oldest_closed: Option<Duration>,
}

impl From<Health> for RecorderHealth {
    fn from(health: Health) -> Self {
        let interval = health.harvest_interval.as_nanos();
        let mut record = Self::default();
        record.quarantined = health.quarantined.map(|status| status.0);
        record.polls_refused = health.polls_refused;
        record.slow_polls = health.slow_polls;
        record.polling_stops = health.polling_stops;
        record.harvests_skipped = health.harvests_skipped;
        record.harvest_interval_ns = u64::try_from(interval).unwrap_or(u64::MAX);
        record.invalid_times = health.invalid_times;
        record.names_lost = health.names_lost;
        record.records_missed = health.records_missed;
        record.slow_callbacks = health.slow_callbacks;
        record.callback_panics = health.callback_panics;
        record
    }
}

/// Shared by the pools of one recorder.
#[derive(Debug)]
pub(super) struct Watch {
    /// 0, or the status that quarantined: success never does.
    cause: AtomicU32,
    closed: AtomicBool,
    born: u32,
    pub(super) pace: Pace,
    /// A poll was refused because its thread had no current context.
    pub(super) lacks_context: AtomicBool,
    pub(super) invalid_times: Counter,
}

impl Watch {
    pub(super) fn new(pace: Pace) -> Self {
        Self {
            cause: AtomicU32::new(0),
            closed: AtomicBool::new(false),
            born: process::generation(),
            pace,
            lacks_context: AtomicBool::new(false),
            invalid_times: Counter::new(),
        }
    }

    /// Whether no driver call may be made: quarantined, closed, a child, or at
    /// exit.
    pub(super) fn is_silent(&self) -> bool {
        self.is_quarantined() || self.is_ended()
    }

    /// Whether nobody waits for its spans: closed, a child, or at exit.
    pub(super) fn is_ended(&self) -> bool {
        self.closed.load(Ordering::Relaxed) || self.is_over()
    }

    pub(super) fn is_quarantined(&self) -> bool {
        self.cause().is_some()
    }

    /// The status that stopped the recorder.
    pub(super) fn cause(&self) -> Option<Status> {
        let cause = self.cause.load(Ordering::Relaxed);
        (cause != 0).then_some(Status(cause))
    }

    /// Stops the recorder; the first cause is kept.
    pub(super) fn quarantine(&self, status: Status) {
        let _ = self.cause.compare_exchange(0, status.0, Ordering::Relaxed, Ordering::Relaxed);
    }

    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }

    /// Whether this is a forked child, or the process exits: every handle is
    /// to be leaked.
    pub(super) fn is_over(&self) -> bool {
        process::is_over(self.born)
    }

    /// Held by a thread while it may call the driver for us; `None` where it may
    /// not.
    pub(super) fn busy(&self) -> Option<process::Busy> {
        process::busy(self.born)
    }

    /// Without the ages of spans, and without the callback.
    pub(super) fn health(&self, names_lost: u64) -> Health {
        Health {
            quarantined: self.cause(),
            polls_refused: self.pace.refused.get(),
            slow_polls: self.pace.slow_polls.get(),
            polling_stops: self.pace.stops.get(),
            harvests_skipped: self.pace.rounds_skipped.get(),
            harvest_interval: Duration::from_nanos(self.pace.interval_ns()),
            invalid_times: self.invalid_times.get(),
            names_lost,
            records_missed: 0,
            slow_callbacks: 0,
            callback_panics: 0,
            oldest_open: None,
            oldest_closed: None,
        }
    }
}
