// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events: what was last recorded on them, and when it completes.

use metrale_gpu_sys::cuda::Status;

use crate::clock::elapsed_ms;
use crate::moment::Moment;
use crate::world::World;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// An empty set of work: a query says done, a time there is none.
    Never,
    /// Complete from this time on.
    Recorded(Moment),
    /// Last recorded in a capture, after these nodes: a marker, not a time.
    Captured { capture: u64, deps: Vec<usize> },
}

#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) context: u64,
    pub(crate) is_timed: bool,
    pub(crate) state: State,
    /// Last recorded by a graph's node, and no time was read since.
    pub(crate) is_unread_mark: bool,
}

impl World {
    /// When the event completes, `None` if it was never recorded; 907 if it was
    /// last recorded in a capture, which that attempt breaks.
    pub(crate) fn event_time(&mut self, handle: u64) -> Result<Option<Moment>, Status> {
        match self.events.get(handle).map(|event| &event.state) {
            None => Err(self.stale()),
            Some(State::Never) => Ok(None),
            Some(State::Recorded(at)) => Ok(Some(at.clone())),
            Some(State::Captured { capture, .. }) => {
                let capture = *capture;
                self.invalidate(capture);
                Err(Status::ERROR_CAPTURED_EVENT)
            }
        }
    }

    /// Milliseconds between two completed, timed events of one context.
    pub(crate) fn elapsed(&mut self, start: u64, end: u64) -> Result<f32, Status> {
        let from = self.event_time(start)?;
        let to = self.event_time(end)?;
        let (Some(first), Some(last)) = (self.events.get(start), self.events.get(end)) else {
            return Err(Status::ERROR_INVALID_HANDLE);
        };
        let (Some(from), Some(to)) = (from, to) else {
            return Err(Status::ERROR_INVALID_HANDLE);
        };
        if !first.is_timed || !last.is_timed || first.context != last.context {
            return Err(Status::ERROR_INVALID_HANDLE);
        }
        let now = self.clock.now();
        let is_pending = [&from, &to].map(|at| !at.is_past(now));
        if is_pending != [false; 2] {
            let is_mark = [first, last].map(|event| event.is_unread_mark);
            if is_pending.iter().zip(is_mark).any(|(pending, mark)| *pending && mark) {
                self.watch.counts.reads_in_flight += 1;
            }
            return Err(Status::ERROR_NOT_READY);
        }
        for event in [start, end] {
            if let Some(read) = self.events.get_mut(event) {
                read.is_unread_mark = false;
            }
        }
        Ok(elapsed_ms(from.earliest(), to.earliest(), self.config.quantum_ns))
    }
}
