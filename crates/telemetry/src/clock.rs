// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where time comes from. A clock is a plain function, so that a replay can
//! give host and GPU one and the same virtual clock.

use std::sync::OnceLock;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Nanoseconds since some fixed moment; never goes back.
pub type Clock = fn() -> u64;

/// The operating system's monotonic clock, in nanoseconds since the first call
/// in this process.
#[must_use]
pub fn monotonic_ns() -> u64 {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    u64::try_from(ORIGIN.get_or_init(Instant::now).elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// The calendar's time in nanoseconds since 1970; `None` where it is set to
/// before that.
pub(crate) fn unix_ns() -> Option<u64> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    u64::try_from(since.as_nanos()).ok()
}
