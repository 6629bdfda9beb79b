// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the ring asks of the device: record an event, ask whether a pair is
//! done. No method may wait for the GPU.

/// Which end of a span an event marks.
///
/// ```
/// use metrale_telemetry::kernel::Edge;
///
/// /// Where the two events of a slot lie in a pool that keeps pairs together.
/// fn event(slot: usize, edge: Edge) -> usize {
///     2 * slot + usize::from(edge == Edge::End)
/// }
/// assert_eq!(event(3, Edge::End), 7);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edge {
    /// The event before the work.
    Start,
    /// The event after the work.
    End,
}

/// The state of a span's pair of events.
///
/// ```
/// use metrale_telemetry::kernel::SpanPoll;
///
/// /// From milliseconds, as a driver tells them; what cannot be a time is a failure.
/// fn ready(ms: f32) -> SpanPoll {
///     let ns = f64::from(ms) * 1e6;
///     if (0.0..1e18).contains(&ns) { SpanPoll::Ready(ns.round() as u64) } else { SpanPoll::Failed }
/// }
/// assert_eq!(ready(0.5), SpanPoll::Ready(500_000));
/// assert_eq!(ready(f32::NAN), SpanPoll::Failed);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanPoll {
    /// Done: GPU nanoseconds between the two events.
    Ready(u64),
    /// The GPU has not reached the end event.
    Pending,
    /// The pair can never be read.
    Failed,
}

/// Where in its step a span began.
///
/// ```
/// use metrale_telemetry::kernel::Place;
///
/// /// A span's start, less that of another of the same step.
/// fn between(first: Place, second: Place) -> Option<i64> {
///     match (first, second) {
///         (Place::At(first), Place::At(second)) => Some(second - first),
///         _ => None,
///     }
/// }
/// assert_eq!(between(Place::At(-250), Place::At(4_750)), Some(5_000));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Signed GPU nanoseconds from the step's anchor.
    At(i64),
    /// The anchor is not done: the span is asked about again later.
    Pending,
    /// It has no place, or none that can be read.
    Unknown,
}

/// A pool of event pairs, one to a slot of the ring.
///
/// The ring never calls `record` and a poll for one slot at the same time, nor
/// two of either; [`gap`](Self::gap) has a rule of its own. Two methods are
/// required; the others have defaults and exist for drivers where polling needs
/// a bracket or a cheaper form, and for what else events can tell.
///
/// ```
/// use metrale_telemetry::kernel::{Edge, EventOps, SpanPoll};
///
/// /// Every pair is done at once and reads a microsecond.
/// struct Ideal;
///
/// impl EventOps for Ideal {
///     fn record(&self, _slot: usize, _edge: Edge, _stream: u64) -> bool {
///         true
///     }
///     fn poll(&self, _slot: usize) -> SpanPoll {
///         SpanPoll::Ready(1_000)
///     }
/// }
/// ```
pub trait EventOps: Send + Sync {
    /// Records the slot's event for `edge` on `stream`. `false`: it was not
    /// recorded, and the span fails.
    fn record(&self, slot: usize, edge: Edge, stream: u64) -> bool;

    /// Asks about the slot's pair, without waiting.
    fn poll(&self, slot: usize) -> SpanPoll;

    /// Whether a span may begin on `stream` now. Asked before a slot is taken;
    /// `false` counts the attempt as refused. An implementation that checks
    /// the stream here need not do so again for the start event.
    fn admits(&self, stream: u64) -> bool {
        let _ = stream;
        true
    }

    /// Opens a bracket of polls on the calling thread. `false`: no polls now,
    /// and no [`pass_end`](Self::pass_end) follows.
    fn pass_begin(&self) -> bool {
        true
    }

    /// Closes the bracket that [`pass_begin`](Self::pass_begin) opened.
    fn pass_end(&self) {}

    /// As [`poll`](Self::poll), inside a bracket, for the first span of a
    /// stream in this pass: the place to surface the stream's errors.
    fn poll_first(&self, slot: usize) -> SpanPoll {
        self.poll(slot)
    }

    /// As [`poll`](Self::poll), inside a bracket, for a span of a stream whose
    /// span before it was done a moment ago.
    fn poll_next(&self, slot: usize) -> SpanPoll {
        self.poll(slot)
    }

    /// GPU nanoseconds from the end event of `prev` to the start event of
    /// `slot`, inside a bracket; both are recorded and done, and their spans
    /// ended on one stream. Negative: the spans overlap. `None`: unknown. Of
    /// `prev` nothing but the end may be looked at: its slot may be taken again at
    /// any moment, and an answer that came too late is thrown away.
    fn gap(&self, prev: usize, slot: usize) -> Option<i64> {
        let _ = (prev, slot);
        None
    }

    /// From the anchor of the step on `track` to the start event of `slot`,
    /// inside a bracket; the pair was just read as done.
    fn place(&self, track: u32, slot: usize) -> Place {
        let _ = (track, slot);
        Place::Unknown
    }
}

impl<T: EventOps + ?Sized> EventOps for std::sync::Arc<T> {
    fn record(&self, slot: usize, edge: Edge, stream: u64) -> bool {
        (**self).record(slot, edge, stream)
    }
    fn poll(&self, slot: usize) -> SpanPoll {
        (**self).poll(slot)
    }
    fn admits(&self, stream: u64) -> bool {
        (**self).admits(stream)
    }
    fn pass_begin(&self) -> bool {
        (**self).pass_begin()
    }
    fn pass_end(&self) {
        (**self).pass_end();
    }
    fn poll_first(&self, slot: usize) -> SpanPoll {
        (**self).poll_first(slot)
    }
    fn poll_next(&self, slot: usize) -> SpanPoll {
        (**self).poll_next(slot)
    }
    fn gap(&self, prev: usize, slot: usize) -> Option<i64> {
        (**self).gap(prev, slot)
    }
    fn place(&self, track: u32, slot: usize) -> Place {
        (**self).place(track, slot)
    }
}
