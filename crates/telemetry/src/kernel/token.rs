// SPDX-License-Identifier: MIT OR Apache-2.0
//! The name of an open span.

/// Bits of a token that name the slot: rings have at most 2^24 slots.
pub(super) const SLOT_BITS: u32 = 24;
/// Bits that name the lap. A slot used twelve times a second meets its own
/// stale token again after 250 days.
pub(super) const LAP_BITS: u32 = 28;
const RING_SHIFT: u32 = SLOT_BITS + LAP_BITS;
/// Ring numbers run from 1 to this and then repeat; 0 says "any ring".
pub(super) const RINGS: u64 = (1 << (64 - RING_SHIFT)) - 1;

/// An open span: which ring, which slot, and which of the slot's spans. It is
/// one word, for a caller that parks it in an atomic.
///
/// ```
/// # use metrale_telemetry::kernel::{Edge, EventOps, SpanPoll};
/// # struct Ideal;
/// # impl EventOps for Ideal {
/// #     fn record(&self, _slot: usize, _edge: Edge, _stream: u64) -> bool { true }
/// #     fn poll(&self, _slot: usize) -> SpanPoll { SpanPoll::Ready(1_000) }
/// # }
/// use metrale_telemetry::kernel::{KernelInstruments, SpanKey, SpanRing, SpanToken};
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// static INSTRUMENTS: KernelInstruments = KernelInstruments::new();
/// static PARKED: AtomicU64 = AtomicU64::new(0);
/// let (ring, stream) = (SpanRing::new(Ideal, 8), 7);
/// if let Some(span) = ring.begin(SpanKey::Kernel(0xf00d), stream, &INSTRUMENTS) {
///     PARKED.store(span.to_bits(), Ordering::Relaxed);
/// }
/// // Later, where only the word is at hand:
/// let span = SpanToken::from_bits(PARKED.load(Ordering::Relaxed));
/// ring.end(span, stream, &INSTRUMENTS);
/// assert_eq!(ring.harvest(&INSTRUMENTS), 1);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanToken(u64);

impl SpanToken {
    #[inline]
    pub(super) fn new(ring: u64, lap: u64, slot: usize) -> Self {
        let lap = lap & ((1 << LAP_BITS) - 1);
        Self(ring << RING_SHIFT | lap << SLOT_BITS | slot as u64)
    }

    /// The slot's number.
    #[must_use]
    #[inline]
    pub const fn slot(self) -> usize {
        (self.0 & ((1 << SLOT_BITS) - 1)) as usize
    }

    /// Names whatever span is open in that slot when the token is used, of
    /// whatever ring it is given to. Numbers beyond 2^24 - 1 name that last
    /// one.
    #[must_use]
    pub const fn from_slot(slot: usize) -> Self {
        const LAST: usize = (1 << SLOT_BITS) - 1;
        Self(if slot > LAST { LAST as u64 } else { slot as u64 })
    }

    /// Ring, slot and generation in one word; [`from_bits`](Self::from_bits)
    /// gives the token back. The ring and the generation are kept to 12 and 28
    /// bits: a token that outlives 2^28 uses of its slot may name another span.
    #[must_use]
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// The token that [`to_bits`](Self::to_bits) gave. Any word is safe to
    /// use: what names no open span is refused and counted.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// Whether the token may name a span of ring `ring`.
    #[inline]
    pub(super) const fn is_of(self, ring: u64) -> bool {
        let own = self.0 >> RING_SHIFT;
        own == 0 || own == ring
    }

    /// Whether the token may name the span of lap `lap` in its slot.
    #[inline]
    pub(super) const fn is_lap(self, lap: u64) -> bool {
        self.0 >> RING_SHIFT == 0 || (self.0 >> SLOT_BITS ^ lap) & ((1 << LAP_BITS) - 1) == 0
    }
}
