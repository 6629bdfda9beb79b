// SPDX-License-Identifier: MIT OR Apache-2.0
//! What became of every attempt to time something.

use serde::{Deserialize, Serialize};

/// The ledger of a ring. At rest it closes:
/// `attempts = begun + dropped + refused` and
/// `begun = landed + failed + cancelled + reclaimed + in_flight`.
/// While spans are recorded a reading may be off by the operations in progress.
///
/// ```
/// # use metrale_telemetry::kernel::{Edge, EventOps, SpanPoll};
/// # struct Ideal;
/// # impl EventOps for Ideal {
/// #     fn record(&self, _slot: usize, _edge: Edge, _stream: u64) -> bool { true }
/// #     fn poll(&self, _slot: usize) -> SpanPoll { SpanPoll::Ready(1_000) }
/// # }
/// use metrale_telemetry::kernel::{KernelInstruments, SpanKey, SpanRing};
///
/// static INSTRUMENTS: KernelInstruments = KernelInstruments::new();
/// let ring = SpanRing::new(Ideal, 1);
/// let _first = ring.begin(SpanKey::Kernel(1), 7, &INSTRUMENTS);
/// assert!(ring.begin(SpanKey::Kernel(2), 7, &INSTRUMENTS).is_none());
/// let ledger = ring.ledger();
/// assert_eq!((ledger.attempts, ledger.begun, ledger.dropped), (2, 1, 1));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ledger {
    /// Calls of `begin`.
    pub attempts: u64,
    /// Slots claimed.
    pub begun: u64,
    /// Spans whose GPU time was read.
    pub landed: u64,
    /// Attempts that found their slot in use.
    pub dropped: u64,
    /// Attempts turned away before a slot was claimed: the stream captures, the
    /// recorder is quarantined, or there is no such lane.
    pub refused: u64,
    /// Spans begun whose start, end or reading failed.
    pub failed: u64,
    /// Spans given up by their caller.
    pub cancelled: u64,
    /// Spans left open that the ring took back.
    pub reclaimed: u64,
    /// Slots in use, counted from their states.
    pub in_flight: u64,
    /// Ends and cancels of spans that were already over, or of another ring.
    pub stale_ends: u64,
    /// Harvest passes made; 0 says that nobody harvests.
    pub passes: u64,
}

impl Ledger {
    /// Whether the two sums hold.
    #[must_use]
    pub fn closes(&self) -> bool {
        self.attempts == self.begun + self.dropped + self.refused
            && self.begun
                == self.landed + self.failed + self.cancelled + self.reclaimed + self.in_flight
    }

    /// Adds another ring's ledger.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            attempts: self.attempts + other.attempts,
            begun: self.begun + other.begun,
            landed: self.landed + other.landed,
            dropped: self.dropped + other.dropped,
            refused: self.refused + other.refused,
            failed: self.failed + other.failed,
            cancelled: self.cancelled + other.cancelled,
            reclaimed: self.reclaimed + other.reclaimed,
            in_flight: self.in_flight + other.in_flight,
            stale_ends: self.stale_ends + other.stale_ends,
            passes: self.passes + other.passes,
        }
    }
}
