// SPDX-License-Identifier: MIT OR Apache-2.0
//! Real time for a plan that is played at its recorded pace.

use std::time::{Duration, Instant};

/// Being early by less than this is on time: a sleep takes longer.
const EARLY: Duration = Duration::from_millis(1);
/// The longest sleep: a server harvests as often.
const NAP: Duration = Duration::from_millis(10);

/// The time that a run of the plan began at, and when it has to end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    began: Instant,
    until: Option<Instant>,
}

impl Pace {
    /// A run that begins now.
    pub(crate) fn new(until: Option<Instant>) -> Self {
        Self { began: Instant::now(), until }
    }

    /// Sleeps for a moment where the run is not `at_ns` old yet, and returns
    /// how old it is then, at most that; `None` where it is that old, or over.
    pub(crate) fn sleep_towards(&self, at_ns: u64) -> Option<u64> {
        let at = Duration::from_nanos(at_ns);
        let early = at.saturating_sub(self.began.elapsed());
        if early < EARLY || self.is_over() {
            return None;
        }
        std::thread::sleep(early.min(NAP));
        let now = self.began.elapsed().min(at);
        Some(u64::try_from(now.as_nanos()).unwrap_or(at_ns))
    }

    /// Whether the run has to end.
    pub(crate) fn is_over(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }
}
