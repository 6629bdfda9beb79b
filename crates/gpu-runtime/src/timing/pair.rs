// SPDX-License-Identifier: MIT OR Apache-2.0
//! A slot's two events, and what is known of the span that uses them: how long
//! ago it began at most, and between which streams it lies.
//!
//! Whoever owns the slot writes here, and the ring's word hands it on: all of it
//! is Relaxed. `ended_on` of a span that landed is read as its end event is,
//! while the slot may be taken again; the ring then throws away what comes of it.

use super::entry::is_per_thread;
use super::twin::Tag;
use metrale_gpu_sys::cuda::CUevent;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// The identity of a stream of which nothing tells whether it is another one's.
pub(super) const UNKNOWN: u64 = u64::MAX;

/// Event handles as numbers: they are opaque, and used from any thread.
pub(super) struct Pair {
    start: usize,
    end: usize,
    /// A moment before the span began.
    after_ns: AtomicU64,
    /// The start's stream, as rings know it.
    stream: AtomicU64,
    /// What tells the start's stream, and the end's, from all others that the
    /// context has or had; or [`UNKNOWN`].
    began_on: AtomicU64,
    ended_on: AtomicU64,
    /// The replay that the span is of, as [`Tag`] has it.
    replay: AtomicU32,
}

impl Pair {
    pub(super) fn new(start: usize, end: usize) -> Self {
        Self {
            start,
            end,
            after_ns: AtomicU64::new(0),
            stream: AtomicU64::new(0),
            began_on: AtomicU64::new(UNKNOWN),
            ended_on: AtomicU64::new(UNKNOWN),
            replay: AtomicU32::new(Tag::NONE),
        }
    }

    /// The same events, for as long as nobody uses this.
    pub(super) fn lend(&self) -> Self {
        Self::new(self.start, self.end)
    }

    pub(super) fn start(&self) -> CUevent {
        self.start as CUevent
    }
    pub(super) fn end(&self) -> CUevent {
        self.end as CUevent
    }
    pub(super) fn events(&self) -> [usize; 2] {
        [self.start, self.end]
    }

    /// A span begins now, which is after `after_ns`.
    #[inline]
    pub(super) fn begin(&self, after_ns: u64, stream: u64, identity: u64) {
        self.after_ns.store(after_ns, Relaxed);
        self.stream.store(stream, Relaxed);
        self.began_on.store(identity, Relaxed);
    }

    /// Whether the span may end on `stream`: not on the per-thread stream of
    /// another thread than it began on.
    #[inline]
    pub(super) fn end_on(&self, stream: u64) -> bool {
        let began_on = self.stream.load(Relaxed);
        let identity = if stream == began_on {
            self.began_on.load(Relaxed)
        } else if is_per_thread(stream) && is_per_thread(began_on) {
            return false;
        } else {
            UNKNOWN
        };
        self.ended_on.store(identity, Relaxed);
        true
    }

    /// Says that the span, which is open, is of a replay.
    pub(super) fn tag(&self, replay: u32) {
        self.replay.store(replay, Relaxed);
    }

    /// The replay that the span is of, and no later one is.
    #[inline]
    pub(super) fn take_tag(&self) -> Option<u32> {
        let is_tagged = self.replay.load(Relaxed) != Tag::NONE;
        is_tagged.then(|| self.replay.swap(Tag::NONE, Relaxed))
    }

    /// A moment before the span began.
    pub(super) fn after_ns(&self) -> u64 {
        self.after_ns.load(Relaxed)
    }

    /// Whether `next` is known to have begun on the stream that this ended on.
    pub(super) fn precedes(&self, next: &Self) -> bool {
        let ended_on = self.ended_on.load(Relaxed);
        ended_on != UNKNOWN && ended_on == next.began_on.load(Relaxed)
    }
}
