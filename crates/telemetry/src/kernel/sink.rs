// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a span is, and where it goes when it is over.

/// What a span times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKey {
    /// A lane of the step, by its index in [`LANES`](super::LANES).
    Lane(usize),
    /// A kernel, by its function handle.
    Kernel(u64),
}

/// What the caller knows of a span besides its key; it comes back when the
/// span lands. The default says nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpanTag {
    /// The step is armed: its kernels are timed too.
    pub armed: bool,
    /// The lane that a kernel was launched in, by its index.
    pub lane: Option<usize>,
}

/// A span whose GPU time is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Landed {
    /// What it timed.
    pub key: SpanKey,
    /// What the caller said of it.
    pub tag: SpanTag,
    /// GPU nanoseconds between its events.
    pub ns: u64,
    /// GPU nanoseconds from the end of the span before it on the same stream;
    /// `None` where that is unknown or not asked for.
    pub gap_ns: Option<u64>,
}

/// Where a ring reports what became of its spans.
pub trait SpanSink {
    /// A span landed.
    fn landed(&self, span: Landed);
    /// An attempt found its slot in use.
    fn dropped(&self);
    /// A span was begun and cannot be timed.
    fn failed(&self);
}

/// Key and tag in two words, so that a slot can hold them in atomics.
#[derive(Clone, Copy)]
pub(super) struct Packed {
    /// The function handle, or the lane's index.
    pub(super) value: u64,
    /// Bit 0: a lane, not a kernel. Bit 1: armed. From bit 8: lane + 1.
    pub(super) flags: u64,
}

impl Packed {
    #[inline]
    pub(super) fn new(key: SpanKey, tag: SpanTag) -> Self {
        let (value, lane_bit) = match key {
            SpanKey::Lane(lane) => (lane as u64, 1),
            SpanKey::Kernel(func) => (func, 0),
        };
        // A lane index too large to pack is outside the lanes: as good as none.
        let lane = tag
            .lane
            .map_or(0, |lane| (lane as u64).saturating_add(1).min(u64::MAX >> 8));
        Self {
            value,
            flags: lane_bit | u64::from(tag.armed) << 1 | lane << 8,
        }
    }

    #[inline]
    pub(super) fn key(self) -> SpanKey {
        if self.flags & 1 == 1 {
            SpanKey::Lane(self.value as usize)
        } else {
            SpanKey::Kernel(self.value)
        }
    }

    #[inline]
    pub(super) fn tag(self) -> SpanTag {
        let lane = self.flags >> 8;
        SpanTag {
            armed: self.flags & 2 != 0,
            lane: lane.checked_sub(1).map(|lane| lane as usize),
        }
    }
}
