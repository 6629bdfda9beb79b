// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a span is, and where it goes when it is over.

use super::LANES;
use super::batch::Batch;

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
    /// The lane that a kernel was launched in, by its index in
    /// [`LANES`](super::LANES); one outside them comes back as `None`.
    pub lane: Option<usize>,
    /// The step's number, under 2^60; `None` where no step is known.
    pub step: Option<u64>,
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

/// How a pass hands on what it lands.
pub(super) trait Landing {
    /// A span landed.
    fn landed(&self, batch: &mut Batch, span: Packed, ns: u64, gap_ns: Option<u64>);
    /// A span cannot be read.
    fn failed(&self);
    /// The pass is over: leaves the batch empty.
    fn finish(&self, batch: &mut Batch);
}

/// Each span at once, to any sink.
pub(super) struct Each<'a, S: ?Sized>(pub(super) &'a S);

impl<S: SpanSink + ?Sized> Landing for Each<'_, S> {
    #[inline]
    fn landed(&self, _: &mut Batch, span: Packed, ns: u64, gap_ns: Option<u64>) {
        self.0.landed(Landed {
            key: span.key(),
            tag: span.tag(),
            ns,
            gap_ns,
        });
    }

    fn failed(&self) {
        self.0.failed();
    }

    fn finish(&self, _: &mut Batch) {}
}

/// Key and tag in two words, so that a slot can hold them in atomics.
#[derive(Clone, Copy)]
pub(super) struct Packed {
    /// The function handle, or the lane's index.
    pub(super) value: u64,
    /// Bit 0: a lane, not a kernel. Bit 1: armed. Bits 2 and 3: the tag's
    /// lane + 1. From bit 4: step + 1. No lane and no step is 0.
    pub(super) flags: u64,
}

impl Packed {
    #[inline]
    pub(super) fn new(key: SpanKey, tag: SpanTag) -> Self {
        let (value, lane_bit) = match key {
            SpanKey::Lane(lane) => (lane as u64, 1),
            SpanKey::Kernel(func) => (func, 0),
        };
        let lane = tag.lane.filter(|lane| *lane < LANES.len());
        let lane = lane.map_or(0, |lane| lane as u64 + 1);
        let step = tag.step.map_or(0, |step| step.wrapping_add(1));
        Self {
            value,
            flags: lane_bit | u64::from(tag.armed) << 1 | lane << 2 | step << 4,
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

    /// Whether both are of one step, which is armed.
    #[inline]
    pub(super) fn is_of_armed_step(self, other: Self) -> bool {
        let steps = [self.flags >> 4, other.flags >> 4];
        self.flags & other.flags & 2 != 0 && steps[0] != 0 && steps[0] == steps[1]
    }

    #[inline]
    pub(super) fn tag(self) -> SpanTag {
        let lane = (self.flags >> 2) & 3;
        SpanTag {
            armed: self.flags & 2 != 0,
            lane: lane.checked_sub(1).map(|lane| lane as usize),
            step: (self.flags >> 4).checked_sub(1),
        }
    }
}

#[cfg(all(test, not(metrale_loom)))]
mod tests {
    use super::{Packed, SpanKey, SpanTag};

    #[test]
    fn a_tag_comes_back_from_its_two_words() {
        for key in [SpanKey::Lane(2), SpanKey::Kernel(u64::MAX)] {
            for armed in [false, true] {
                for lane in [None, Some(0), Some(1), Some(2)] {
                    for step in [None, Some(0), Some((1 << 60) - 2)] {
                        let tag = SpanTag { armed, lane, step };
                        let packed = Packed::new(key, tag);
                        assert_eq!((packed.key(), packed.tag()), (key, tag));
                    }
                }
            }
        }
        let stray = SpanTag {
            lane: Some(usize::MAX),
            ..SpanTag::default()
        };
        assert_eq!(Packed::new(SpanKey::Kernel(1), stray).tag().lane, None);
    }
}
