// SPDX-License-Identifier: MIT OR Apache-2.0
//! Real time for a plan that is played at its recorded pace.

use std::time::{Duration, Instant};

/// Being early by less than this is on time: a sleep takes longer.
const EARLY: Duration = Duration::from_millis(1);

/// The time that a run of the plan began at, and when it has to end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    began: Instant,
    until: Option<Instant>,
}

impl Pace {
    /// A run that begins now.
    pub(crate) fn new(until: Option<Instant>) -> Self {
        Self {
            began: Instant::now(),
            until,
        }
    }

    /// Waits until the run is `at_ns` old; `false` where it has to end.
    pub(crate) fn wait(&self, at_ns: u64) -> bool {
        let now = Instant::now();
        // A time too far away to be told is never reached.
        let due = self.began.checked_add(Duration::from_nanos(at_ns));
        let due = match (due, self.until) {
            (Some(due), Some(until)) => Some(due.min(until)),
            (due, until) => due.or(until),
        };
        let early = due.map_or(Duration::MAX, |due| due.saturating_duration_since(now));
        if early >= EARLY {
            std::thread::sleep(early);
        }
        self.until.is_none_or(|until| Instant::now() < until)
    }
}
