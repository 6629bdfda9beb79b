// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a span is, and what became of it.

use super::MAX_LANES;
use super::timeline::NO_LANE;

/// What a span times.
///
/// ```
/// use metrale_telemetry::kernel::{KernelInstruments, SpanKey};
///
/// let instruments = Box::new(KernelInstruments::new());
/// instruments.record(SpanKey::Kernel(0xf00d), 2_500);
/// assert_eq!(instruments.kernels()[0].func, 0xf00d);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKey {
    /// A lane of the step, by its index.
    Lane(usize),
    /// A kernel, by its function handle.
    Kernel(u64),
}

/// The first row of a region. A recorder gives regions the numbers from here on;
/// no function handle is as high, nor any other row.
pub const FIRST_REGION: u64 = 3 << 62;

/// Whether a row is a region's: its spans may have others within them.
#[inline]
pub(crate) const fn is_region(row: u64) -> bool {
    row >= FIRST_REGION
}

/// What the caller knows of a span besides its key; it comes back when the
/// span is over. The default says nothing.
///
/// ```
/// # use metrale_telemetry::kernel::{Edge, EventOps, SpanPoll};
/// # struct Ideal;
/// # impl EventOps for Ideal {
/// #     fn record(&self, _slot: usize, _edge: Edge, _stream: u64) -> bool { true }
/// #     fn poll(&self, _slot: usize) -> SpanPoll { SpanPoll::Ready(1_000) }
/// # }
/// use metrale_telemetry::kernel::{
///     Harvested, KernelInstruments, LANE_DECODE, SpanKey, SpanRing, SpanTag, StepId,
/// };
///
/// static INSTRUMENTS: KernelInstruments = KernelInstruments::new();
/// let (ring, stream) = (SpanRing::new(Ideal, 8), 7);
/// let tag = SpanTag { lane: Some(LANE_DECODE), armed: true, step: StepId::Number(12) };
/// let span = ring.begin_tagged(SpanKey::Kernel(0xf00d), tag, stream)?;
/// ring.end(span, stream, &INSTRUMENTS);
/// ring.harvest_with(|harvested| {
///     let Harvested::Landed(span) = harvested else { return };
///     assert_eq!((span.ns, span.tag()), (1_000, tag));
/// });
/// # Ok::<(), metrale_telemetry::kernel::NotBegun>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpanTag {
    /// The lane that a kernel was launched in, or the lane itself, by its index;
    /// one from [`MAX_LANES`](super::MAX_LANES) on comes back as `None`.
    pub lane: Option<usize>,
    /// The step is armed: its kernels are timed too.
    pub armed: bool,
    /// The step.
    pub step: StepId,
}

/// How a span's tag names its step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StepId {
    /// No step is known.
    #[default]
    Unknown,
    /// The step's number, under 2^56 - 1.
    Number(u64),
    /// The track of a step that a [`StepTable`](crate::runtime::StepTable) follows.
    Track(u32),
}

/// A span whose GPU time is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Landed {
    /// What it timed.
    pub key: SpanKey,
    /// What the caller said of it.
    pub(super) flags: Flags,
    /// The stream that its end was recorded on.
    pub stream: u64,
    /// GPU nanoseconds between its events.
    pub ns: u64,
    /// GPU nanoseconds from the end of the span before it on the same stream;
    /// `None` where that is unknown or not asked for.
    pub gap_ns: Option<u64>,
    /// GPU nanoseconds from its step's anchor to its start; `None` where that
    /// is unknown or not asked for.
    pub start_ns: Option<i64>,
}

impl Landed {
    /// What the caller said of it.
    #[must_use]
    #[inline]
    pub fn tag(&self) -> SpanTag {
        self.flags.tag()
    }
}

/// What a harvest pass found of a span that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Harvested {
    /// Its time was read.
    Landed(Landed),
    /// Its time can never be read.
    Failed(Lost),
    /// It was left open for too long, and the ring took it back.
    Reclaimed(Lost),
}

/// A span that is over without a time.
///
/// ```
/// # use metrale_telemetry::kernel::{Edge, EventOps, SpanPoll};
/// # struct Broken;
/// # impl EventOps for Broken {
/// #     fn record(&self, _slot: usize, edge: Edge, _stream: u64) -> bool { edge == Edge::Start }
/// #     fn poll(&self, _slot: usize) -> SpanPoll { SpanPoll::Failed }
/// # }
/// use metrale_telemetry::kernel::{Lost, NotEnded, SpanKey, SpanRing, SpanTag};
///
/// let ring = SpanRing::new(Broken, 1); // its events record no end
/// let token = ring.begin_tagged(SpanKey::Kernel(1), SpanTag::default(), 7)?;
/// let lost = Lost { key: SpanKey::Kernel(1), tag: SpanTag::default() };
/// assert_eq!(ring.end_span(token, 7), Err(NotEnded::Failed(lost)));
/// # Ok::<(), metrale_telemetry::kernel::NotBegun>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// What it was to time.
    pub key: SpanKey,
    /// What the caller said of it.
    pub tag: SpanTag,
}

/// Why a span was not begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotBegun {
    /// The stream admits no span now: it captures, or the recorder is silent.
    #[error("the stream admits no span now")]
    Refused,
    /// The slot whose turn it is is still in use.
    #[error("the ring's next slot is still in use; harvest more often or take more slots")]
    Dropped,
    /// The start event could not be recorded.
    #[error("the start event could not be recorded")]
    Failed,
}

/// Why a span was not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotEnded {
    /// The token's span is already over, or of another ring.
    #[error("the token names no open span of this ring")]
    Stale,
    /// The end event could not be recorded; the span is over.
    #[error("the end event could not be recorded")]
    Failed(Lost),
}

/// Key and tag in two words, so that a slot can hold them in atomics.
#[derive(Clone, Copy)]
pub(super) struct Packed {
    /// The function handle, or the lane's index.
    pub(super) value: u64,
    pub(super) flags: Flags,
}

/// All of a span's key and tag but the handle. Bit 0: a lane, not a kernel.
/// Bits 1 to 5: the tag's lane, or [`NO_LANE`]. Bit 6: armed. Bit 7: bits 32 to 63 are a
/// track; else bits 8 to 63 are the step's number + 1, or 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Flags(pub(super) u64);

const IS_LANE: u64 = 1;
const LANE_SHIFT: u32 = 1;
const LANE_MASK: u64 = 0x1f;
const ARMED: u64 = 1 << 6;
const HAS_TRACK: u64 = 1 << 7;
const NUMBER_SHIFT: u32 = 8;
const TRACK_SHIFT: u32 = 32;
#[allow(clippy::disallowed_macros, reason = "asked at compile time")]
const _: () = assert!(MAX_LANES < LANE_MASK as usize);

impl Flags {
    /// Of no span.
    pub(super) const NONE: Self = Self(u64::MAX);

    #[inline]
    fn new(is_lane: bool, tag: SpanTag) -> Self {
        let lane = tag.lane.filter(|lane| *lane < MAX_LANES);
        let lane = lane.map_or(u64::from(NO_LANE), |lane| lane as u64);
        let armed = if tag.armed { ARMED } else { 0 };
        let step = match tag.step {
            StepId::Unknown => 0,
            StepId::Number(number) => number.wrapping_add(1) << NUMBER_SHIFT,
            StepId::Track(track) => HAS_TRACK | u64::from(track) << TRACK_SHIFT,
        };
        Self(u64::from(is_lane) | lane << LANE_SHIFT | armed | step)
    }

    /// The tag's lane.
    #[inline]
    pub(super) fn lane(self) -> Option<usize> {
        Some(usize::from(self.lane_index())).filter(|lane| *lane < MAX_LANES)
    }

    /// The lane's index, or [`NO_LANE`].
    #[inline]
    pub(super) fn lane_index(self) -> u8 {
        (self.0 >> LANE_SHIFT & LANE_MASK) as u8
    }

    #[inline]
    pub(super) fn tag(self) -> SpanTag {
        let step = match self.track() {
            Some(track) => StepId::Track(track),
            None => match (self.0 >> NUMBER_SHIFT).checked_sub(1) {
                Some(number) => StepId::Number(number),
                None => StepId::Unknown,
            },
        };
        SpanTag { lane: self.lane(), armed: self.0 & ARMED != 0, step }
    }

    #[inline]
    pub(super) fn track(self) -> Option<u32> {
        (self.0 & HAS_TRACK != 0).then_some((self.0 >> TRACK_SHIFT) as u32)
    }
}

impl Packed {
    #[inline]
    pub(super) fn new(key: SpanKey, tag: SpanTag) -> Self {
        let (value, is_lane) = match key {
            SpanKey::Lane(lane) => (lane as u64, true),
            SpanKey::Kernel(func) => (func, false),
        };
        Self { value, flags: Flags::new(is_lane, tag) }
    }

    pub(super) fn lost(self) -> Lost {
        Lost { key: self.key(), tag: self.flags.tag() }
    }

    #[inline]
    pub(super) fn key(self) -> SpanKey {
        if self.flags.0 & IS_LANE != 0 {
            SpanKey::Lane(self.value as usize)
        } else {
            SpanKey::Kernel(self.value)
        }
    }
}

#[cfg(all(test, not(metrale_loom)))]
mod tests {
    use super::{MAX_LANES, Packed, SpanKey, SpanTag, StepId};

    #[test]
    fn a_tag_comes_back_from_its_words() {
        let steps = [
            StepId::Unknown,
            StepId::Number(0),
            StepId::Number((1 << 56) - 2),
            StepId::Track(0),
            StepId::Track(u32::MAX),
        ];
        for key in [SpanKey::Lane(2), SpanKey::Kernel(u64::MAX)] {
            for armed in [false, true] {
                for lane in [None, Some(0), Some(2), Some(15)] {
                    for step in steps {
                        let tag = SpanTag { lane, armed, step };
                        let packed = Packed::new(key, tag);
                        assert_eq!((packed.key(), packed.flags.tag()), (key, tag));
                    }
                }
            }
        }
        for stray in [MAX_LANES, usize::MAX] {
            let stray = SpanTag { lane: Some(stray), ..SpanTag::default() };
            let packed = Packed::new(SpanKey::Kernel(1), stray);
            assert_eq!(packed.flags.tag().lane, None);
        }
    }
}
