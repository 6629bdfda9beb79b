// SPDX-License-Identifier: MIT OR Apache-2.0
//! Since when a ring's oldest spans wait: so that a kernel that never ends
//! shows, and a poll that hangs in the driver.
//!
//! A pass notes the oldest that it leaves behind, with the time of the pass that
//! first did. While a pass asks the driver it says since when, and takes that back at
//! its end: a span that no pass has left behind yet waits since then. An age is
//! computed when it is read, so it grows while a pass hangs.

use super::ops::EventOps;
use super::ring::SpanRing;
use super::slot::State;
use super::span::SpanKey;
use crate::sync::Ordering;
use crate::sync::relaxed::{AtomicU64, Mutex, lock, try_lock};

/// Spans that have not landed, the one of each kind that was begun first.
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
/// let ring = SpanRing::new(Ideal, 8);
/// let _left_open = ring.begin(SpanKey::Kernel(0xf00d), 7, &INSTRUMENTS);
/// ring.harvest(&INSTRUMENTS);
/// let now_ns = metrale_telemetry::clock::monotonic_ns();
/// let open = ring.oldest(now_ns).open.ok_or("it is open")?;
/// assert_eq!(open.key, SpanKey::Kernel(0xf00d));
/// # Ok::<(), &str>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OldestSpans {
    /// Begun and not ended.
    pub open: Option<OldestSpan>,
    /// Ended, and the GPU has not reached its end, or nobody could ask.
    pub closed: Option<OldestSpan>,
}

/// A span that has not landed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OldestSpan {
    /// What it times.
    pub key: SpanKey,
    /// The stream of its end; `None` while it is open.
    pub stream: Option<u64>,
    /// Nanoseconds since a pass first left it behind as the oldest of its kind,
    /// by the ring's clock, or since the pass that asks now began to; `None`
    /// before that.
    pub age_ns: Option<u64>,
}

/// A ticket, and when a pass first saw its span.
#[derive(Clone, Copy)]
struct Left {
    ticket: u64,
    since_ns: u64,
}

/// The tickets that a pass leaves behind, the oldest open and closed one.
#[derive(Clone, Copy, Default)]
pub(super) struct Leaves {
    pub(super) open: Option<u64>,
    pub(super) closed: Option<u64>,
}

impl Leaves {
    pub(super) fn note(&mut self, ticket: u64, is_closed: bool) {
        let kind = if is_closed { &mut self.closed } else { &mut self.open };
        *kind = Some(kind.map_or(ticket, |oldest| oldest.min(ticket)));
    }

    pub(super) fn is_empty(self) -> bool {
        self.open.is_none() && self.closed.is_none()
    }
}

/// See the module.
pub(super) struct OldestLeft {
    /// Open, closed. A pass does not wait for a reader: the next one comes.
    left: Mutex<[Option<Left>; 2]>,
    /// When the pass that is asking began to, plus 1; 0: none is.
    asking_ns: AtomicU64,
}

impl OldestLeft {
    pub(super) fn new() -> Self {
        Self { left: Mutex::new([None; 2]), asking_ns: AtomicU64::new(0) }
    }

    /// A pass begins to ask the driver.
    pub(super) fn ask(&self, now_ns: u64) {
        // Relaxed: a time, good by itself.
        self.asking_ns.store(now_ns.saturating_add(1), Ordering::Relaxed);
    }

    /// A pass is over, and left that behind.
    pub(super) fn leave(&self, leaves: Leaves, now_ns: impl FnOnce() -> u64) {
        // Relaxed: a time, good by itself.
        self.asking_ns.store(0, Ordering::Relaxed);
        let Some(mut left) = try_lock(&self.left) else {
            return;
        };
        if leaves.is_empty() {
            *left = [None; 2];
            return;
        }
        let now_ns = now_ns();
        for (left, ticket) in left.iter_mut().zip([leaves.open, leaves.closed]) {
            let known = left.filter(|left| Some(left.ticket) == ticket);
            *left = known.or(ticket.map(|ticket| Left { ticket, since_ns: now_ns }));
        }
    }

    fn since_ns(&self, ticket: u64, is_closed: bool) -> Option<u64> {
        // Only of its kind: a span may have been open for long before its end.
        let left = lock(&self.left)[usize::from(is_closed)];
        match left {
            Some(left) if left.ticket == ticket => Some(left.since_ns),
            // Relaxed: a time, good by itself.
            _ => self.asking_ns.load(Ordering::Relaxed).checked_sub(1),
        }
    }
}

impl<E: EventOps> SpanRing<E> {
    /// The spans that wait longest, at `now_ns` of the ring's clock. It looks
    /// at every slot, and stops nobody.
    #[must_use]
    pub fn oldest(&self, now_ns: u64) -> OldestSpans {
        let mut found = Leaves::default();
        for (index, slot) in self.slots.iter().enumerate() {
            let word = slot.peek();
            if !word.is_free() {
                let ticket = self.laps.ticket(index, word.lap());
                found.note(ticket, word.state() == State::Closed);
            }
        }
        let look = |ticket: Option<u64>| {
            let (index, lap) = self.laps.of(ticket?);
            let (packed, state, stream) = self.slots[index].describe_if(lap)?;
            let is_closed = state == State::Closed;
            let since_ns = self.waiting.since_ns(ticket?, is_closed);
            Some(OldestSpan {
                key: packed.key(),
                stream: is_closed.then_some(stream),
                age_ns: since_ns.map(|since_ns| now_ns.saturating_sub(since_ns)),
            })
        };
        OldestSpans { open: look(found.open), closed: look(found.closed) }
    }
}
