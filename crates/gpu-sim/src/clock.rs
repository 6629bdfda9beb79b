// SPDX-License-Identifier: MIT OR Apache-2.0
//! The process's one clock, in nanoseconds.
//!
//! Virtual (the default): it moves only by explicit advance, by waits and by
//! the cost of calls, so a run is deterministic. Real time: it follows the
//! host's monotonic clock from wherever it stood. It never goes backwards.

use std::time::Instant;

#[derive(Debug)]
pub(crate) struct Clock {
    base_ns: u64,
    /// Set in real time: the host's instant at which the clock read `base_ns`.
    follows: Option<Instant>,
}

impl Clock {
    pub(crate) const fn new() -> Self {
        Self { base_ns: 0, follows: None }
    }

    /// Now, in ns.
    pub(crate) fn now(&self) -> u64 {
        match self.follows {
            None => self.base_ns,
            Some(since) => {
                let passed = u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX);
                self.base_ns.saturating_add(passed)
            }
        }
    }

    /// Moves the clock forward; in real time it runs ahead of the host by that much.
    pub(crate) const fn advance(&mut self, ns: u64) {
        self.base_ns = self.base_ns.saturating_add(ns);
    }

    /// Moves the clock forward to `ns`; does nothing if it is already later.
    pub(crate) fn advance_to(&mut self, ns: u64) {
        let ahead = ns.saturating_sub(self.now());
        self.advance(ahead);
    }

    pub(crate) fn set_real_time(&mut self, on: bool) {
        self.base_ns = self.now();
        self.follows = on.then(Instant::now);
    }

    pub(crate) const fn is_real_time(&self) -> bool {
        self.follows.is_some()
    }
}

/// Milliseconds from one timestamp to another as the driver reports them: each
/// rounded down to the event tick, the difference rounded to `f32`.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "the driver's own rounding is what is simulated"
)]
pub(crate) fn elapsed_ms(start_ns: u64, end_ns: u64, quantum_ns: u64) -> f32 {
    let tick = |ns: u64| ns - ns % quantum_ns.max(1);
    let difference = i128::from(tick(end_ns)) - i128::from(tick(start_ns));
    (difference as f64 / 1e6) as f32
}

#[cfg(test)]
mod tests {
    use super::{Clock, elapsed_ms};

    #[test]
    fn virtual_time_moves_only_when_told_and_never_back() {
        let mut clock = Clock::new();
        assert_eq!(clock.now(), 0);
        clock.advance(5);
        clock.advance_to(3);
        assert_eq!(clock.now(), 5);
        clock.advance_to(9);
        assert_eq!(clock.now(), 9);
        clock.advance(u64::MAX);
        assert_eq!(clock.now(), u64::MAX);
    }

    #[test]
    fn real_time_starts_where_virtual_time_stood() {
        let mut clock = Clock::new();
        clock.advance(1_000);
        clock.set_real_time(true);
        let first = clock.now();
        assert!(first >= 1_000);
        clock.advance(1_000_000);
        let second = clock.now();
        assert!(second >= first + 1_000_000);
        clock.set_real_time(false);
        let stopped = clock.now();
        assert!(stopped >= second);
        assert_eq!(clock.now(), stopped);
    }

    #[test]
    fn elapsed_is_rounded_as_the_driver_rounds() {
        assert_eq!(elapsed_ms(0, 50_000, 1).to_bits(), 0.05_f32.to_bits());
        assert_eq!(elapsed_ms(50_000, 0, 1).to_bits(), (-0.05_f32).to_bits());
        // 1000 ns and 2600 ns fall on ticks 0 and 2048 of a 1024 ns clock.
        assert_eq!(elapsed_ms(1_000, 2_600, 1_024).to_bits(), 0.002_048_f32.to_bits());
        // One nanosecond is lost beside a minute: f32 has 24 bits.
        assert_eq!(elapsed_ms(0, 60_000_000_001, 1).to_bits(), 60_000.0_f32.to_bits());
    }
}
