// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether a recorder may call the driver, and what it met there.

use super::fork;
use metrale_gpu_sys::cuda::Status;
use metrale_telemetry::instrument::Counter;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// How a recorder gets on with the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Health {
    /// The status that stopped the recorder: it makes no driver call any more.
    pub quarantined: Option<Status>,
    /// Polls that the driver did not allow; their spans are kept.
    pub polls_refused: u64,
    /// Times that were negative, infinite or not a number: failed spans, and
    /// gaps left out.
    pub invalid_times: u64,
}

/// Shared by the pools of one recorder.
#[derive(Debug)]
pub(super) struct Watch {
    /// 0, or the status that quarantined: success never does.
    cause: AtomicU32,
    closed: AtomicBool,
    born: u32,
    pub(super) polls_refused: Counter,
    pub(super) invalid_times: Counter,
}

impl Watch {
    pub(super) fn new() -> Self {
        Self {
            cause: AtomicU32::new(0),
            closed: AtomicBool::new(false),
            born: fork::generation(),
            polls_refused: Counter::new(),
            invalid_times: Counter::new(),
        }
    }

    /// Whether no driver call may be made: quarantined, closed, or a child.
    pub(super) fn is_silent(&self) -> bool {
        self.cause.load(Ordering::Relaxed) != 0
            || self.closed.load(Ordering::Relaxed)
            || fork::is_child_of(self.born)
    }

    /// Stops the recorder; the first cause is kept.
    pub(super) fn quarantine(&self, status: Status) {
        let _ = self
            .cause
            .compare_exchange(0, status.0, Ordering::Relaxed, Ordering::Relaxed);
    }

    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_child(&self) -> bool {
        fork::is_child_of(self.born)
    }

    pub(super) fn health(&self) -> Health {
        let cause = self.cause.load(Ordering::Relaxed);
        Health {
            quarantined: (cause != 0).then_some(Status(cause)),
            polls_refused: self.polls_refused.get(),
            invalid_times: self.invalid_times.get(),
        }
    }
}
