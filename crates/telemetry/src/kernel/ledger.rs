// SPDX-License-Identifier: MIT OR Apache-2.0
//! What became of every attempt to time something.

use crate::sums::sums;

sums! {
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
}

impl Ledger {
    /// Whether the two sums hold.
    #[must_use]
    pub fn closes(&self) -> bool {
        let sum = |parts: &[u64]| parts.iter().try_fold(0, |sum: u64, part| sum.checked_add(*part));
        let Self { begun, landed, failed, cancelled, reclaimed, in_flight, .. } = *self;
        sum(&[begun, self.dropped, self.refused]) == Some(self.attempts)
            && sum(&[landed, failed, cancelled, reclaimed, in_flight]) == Some(begun)
    }

    /// What became of attempts, by name. The rest says how many there were, where
    /// they are now, and who called.
    #[cfg(feature = "prometheus")]
    pub(crate) fn outcomes(self) -> impl Iterator<Item = (&'static str, u64)> {
        let others = ["attempts", "begun", "in_flight", "stale_ends", "passes"];
        let all = self.each().into_iter();
        all.filter(move |(field, _)| !others.contains(field))
    }
}
