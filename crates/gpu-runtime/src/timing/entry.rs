// SPDX-License-Identifier: MIT OR Apache-2.0
//! Begins and ends on a default stream, which is one of whatever context is
//! current.
//!
//! 1. Where the caller knows that the stream is of the recorder's context (a
//!    `&CudaStream` does), that context is made current for the recorder's own
//!    calls, and the thread then has again what it had. Of a raw handle nobody
//!    knows it: nothing is made current, and the span is refused.
//! 2. A ring passes on a bare handle, so what is known goes beside it, by
//!    thread, for the time of one begin or end. The context is pushed only when
//!    the ring asks for the stream, as the end of a span that is over costs no
//!    call, and popped by the entry that it was pushed in, on whatever path.
//! 3. The per-thread stream is another one on each thread under one handle, so it
//!    goes through a ring under a number of the thread's.
//! 4. The pop is made after a quarantine too: the thread is the application's.

use super::events::CudaEvents;
use super::handles::StreamRef;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The handle that means another stream on each thread; those below mean the
/// legacy one.
pub(super) const PER_THREAD: u64 = 2;

/// What the number of a per-thread stream has, and no handle.
const OF_THREAD: u64 = 1 << 63;

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing is known of the stream.
    Unknown,
    /// A default stream of the recorder's context.
    Own,
    /// The same, and the context was pushed.
    Pushed,
}

thread_local! {
    // Without a destructor: spans end while threads do.
    static STATE: Cell<State> = const { Cell::new(State::Unknown) };
    // 0: it has none yet.
    static THREAD: Cell<u64> = const { Cell::new(0) };
}

/// What a ring knows a stream by: its handle, but for a per-thread stream a number
/// that no other thread's has.
#[inline]
pub(super) fn number_of(handle: u64) -> u64 {
    if handle == PER_THREAD { OF_THREAD | this_thread() } else { handle }
}

/// Undoes [`number_of`].
#[inline]
pub(super) fn handle_of(stream: u64) -> u64 {
    if is_per_thread(stream) { PER_THREAD } else { stream }
}

#[inline]
pub(super) fn is_per_thread(stream: u64) -> bool {
    stream & OF_THREAD != 0
}

/// Whether a stream is one of whatever context is current.
#[inline]
pub(super) fn is_default(stream: u64) -> bool {
    stream < PER_THREAD || is_per_thread(stream)
}

/// A number for a default stream that is no stream's number of the driver's,
/// which are counted up.
#[inline]
pub(super) fn identity_of_default(stream: u64) -> u64 {
    stream | OF_THREAD >> 1
}

#[cold]
fn this_thread() -> u64 {
    static MET: AtomicU64 = AtomicU64::new(0);
    if THREAD.get() == 0 {
        THREAD.set(MET.fetch_add(1, Relaxed) + 1);
    }
    THREAD.get()
}

/// A begin or end on a default stream that is known to be the recorder's.
pub(super) struct Entry<'a> {
    events: &'a CudaEvents,
    outer: State,
}

impl<'a> Entry<'a> {
    /// `None` for every other stream.
    #[inline]
    pub(super) fn of(stream: StreamRef<'_>, events: &'a CudaEvents) -> Option<Self> {
        stream.is_default_of(events.context()).then(|| Self::open(events))
    }

    #[cold]
    fn open(events: &'a CudaEvents) -> Self {
        let outer = STATE.replace(State::Own);
        Self { events, outer }
    }
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        if STATE.replace(self.outer) == State::Pushed {
            self.events.pop_context();
        }
    }
}

/// Makes the context of the pool current, if the entry that this thread is in
/// says that the stream is of it; whether it is now.
#[cold]
pub(super) fn push_own(events: &CudaEvents) -> bool {
    let is_pushed = STATE.get() == State::Own && events.push_context();
    if is_pushed {
        STATE.set(State::Pushed);
    }
    is_pushed
}
