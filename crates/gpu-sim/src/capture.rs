// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stream capture: who may do what meanwhile, and what breaks a capture.
//!
//! Rules, from NVIDIA's comments on `cuThreadExchangeStreamCaptureMode` and
//! from public reports:
//! - A potentially unsafe call is prohibited to a thread in GLOBAL mode while
//!   it has a non-relaxed capture or another thread has a GLOBAL one; to a
//!   thread in THREAD_LOCAL mode only by a non-relaxed capture of its own; to a
//!   thread in RELAXED mode never. A prohibited call answers 900 and
//!   invalidates the captures that prohibited it. In a strict driver
//!   (`sim_set_strict_captures`) no mode lets a thread off another's GLOBAL one.
//! - What conflicts with a capture by nature (waiting for or asking about a
//!   capturing stream or a captured event) is refused in every mode.
//! - Work on the legacy stream while a blocking stream of the context captures
//!   answers 906 and invalidates that capture; asking whether it captures
//!   answers 906 and harms nothing.

use metrale_gpu_sys::cuda::Status;

use crate::event::State;
use crate::graph::Kind;
use crate::stream::Joined;
use crate::thread::{GLOBAL, RELAXED, THREAD_LOCAL, Thread};
use crate::world::{Outcome, World};

#[derive(Debug)]
pub(crate) struct Capture {
    /// Unique for ever.
    pub(crate) id: u64,
    pub(crate) context: u64,
    /// The stream it was begun on.
    pub(crate) origin: u64,
    /// The thread that began it.
    pub(crate) thread: u64,
    pub(crate) mode: u32,
    pub(crate) is_valid: bool,
    /// The graph it fills; the caller's only once the capture ends well.
    pub(crate) graph: u64,
}

/// Where work given to a stream goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// To the device.
    Device,
    /// Into the graph of the capture of this id.
    Capture(u64),
}

impl World {
    pub(crate) fn capture(&self, id: u64) -> Option<&Capture> {
        self.captures.iter().find(|capture| capture.id == id)
    }

    /// Breaks a capture; nothing if it ended already.
    pub(crate) fn invalidate(&mut self, id: u64) {
        for capture in self.captures.iter_mut().filter(|c| c.id == id) {
            capture.is_valid = false;
        }
    }

    /// Breaks the captures that `conflicts` picks; the status if there is any.
    fn refuse(&mut self, status: Status, conflicts: impl Fn(&Capture) -> bool) -> Outcome {
        let mut outcome = Ok(());
        for capture in self.captures.iter_mut().filter(|c| conflicts(c)) {
            capture.is_valid = false;
            outcome = Err(status);
        }
        outcome
    }

    /// A potentially unsafe call by this thread.
    pub(crate) fn unsafe_call(&mut self, thread: Thread) -> Outcome {
        if self.captures.is_empty() {
            return Ok(());
        }
        let (mode, strict) = (thread.mode(), self.config.strict_captures);
        self.refuse(Status::ERROR_STREAM_CAPTURE_UNSUPPORTED, |capture| {
            let own = capture.thread == thread.id && capture.mode != RELAXED;
            let foreign = capture.thread != thread.id && capture.mode == GLOBAL;
            match mode {
                RELAXED => strict && foreign,
                THREAD_LOCAL => own || (strict && foreign),
                _ => own || foreign,
            }
        })
    }

    /// A wait for the whole context: refused by any capture in it, in every mode.
    pub(crate) fn context_wait(&mut self, context: u64) -> Outcome {
        self.refuse(Status::ERROR_STREAM_CAPTURE_UNSUPPORTED, |capture| capture.context == context)
    }

    /// A wait for or a question about one stream: refused in every mode if it
    /// captures, or is the legacy stream beside a blocking capture; else an
    /// unsafe call.
    pub(crate) fn stream_wait(&mut self, thread: Thread, key: u64) -> Outcome {
        self.legacy_work(key)?;
        if let Some(joined) = &self.stream(key)?.joined {
            let capture = joined.capture;
            self.invalidate(capture);
            return Err(Status::ERROR_STREAM_CAPTURE_UNSUPPORTED);
        }
        self.unsafe_call(thread)
    }

    /// Whether the key is a legacy stream beside a capture of a blocking stream.
    pub(crate) fn is_implicitly_captured(&self, key: u64) -> bool {
        !self.captures.is_empty()
            && self.streams.get(key).is_some_and(|stream| {
                stream.is_legacy && self.blocking_captures(stream.context).next().is_some()
            })
    }

    fn blocking_captures(&self, context: u64) -> impl Iterator<Item = u64> {
        self.streams
            .iter()
            .filter(move |(_, stream)| stream.context == context && stream.is_blocking)
            .filter_map(|(_, stream)| stream.joined.as_ref().map(|joined| joined.capture))
    }

    /// Work on this stream, if it is a legacy one: 906 beside a blocking capture.
    pub(crate) fn legacy_work(&mut self, key: u64) -> Outcome {
        if !self.is_implicitly_captured(key) {
            return Ok(());
        }
        let context = self.stream(key)?.context;
        let broken: Vec<u64> = self.blocking_captures(context).collect();
        self.refuse(Status::ERROR_STREAM_CAPTURE_IMPLICIT, |capture| broken.contains(&capture.id))
    }

    /// Where work on this stream goes.
    pub(crate) fn target(&mut self, key: u64) -> Result<Target, Status> {
        self.legacy_work(key)?;
        let Some(joined) = &self.stream(key)?.joined else {
            return Ok(Target::Device);
        };
        let id = joined.capture;
        match self.capture(id) {
            Some(capture) if capture.is_valid => Ok(Target::Capture(id)),
            _ => Err(Status::ERROR_STREAM_CAPTURE_INVALIDATED),
        }
    }

    /// Adds a node to a capture, after the stream's last ones.
    pub(crate) fn add_node(&mut self, id: u64, key: u64, kind: Kind) -> Outcome {
        let graph = self.capture(id).map_or(0, |capture| capture.graph);
        let deps = match &self.stream(key)?.joined {
            Some(joined) => joined.deps.clone(),
            None => Vec::new(),
        };
        let graph = self.graphs.get_mut(graph).ok_or(Status::ERROR_UNKNOWN)?;
        let node = graph.add_after(kind, &deps);
        if let Some(joined) = &mut self.stream(key)?.joined {
            joined.deps = vec![node];
        }
        Ok(())
    }

    pub(crate) fn begin_capture(&mut self, thread: Thread, key: u64, mode: u32) -> Outcome {
        let stream = self.stream(key)?;
        if stream.is_legacy || mode > RELAXED {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        if stream.joined.is_some() {
            return Err(Status::ERROR_ILLEGAL_STATE);
        }
        let context = stream.context;
        self.ids.capture += 1;
        let id = self.ids.capture;
        let graph = self.new_graph();
        self.captures.push(Capture {
            id,
            context,
            origin: key,
            thread: thread.id,
            mode,
            is_valid: true,
            graph,
        });
        self.stream(key)?.joined = Some(Joined { capture: id, deps: Vec::new() });
        Ok(())
    }

    /// Ends the capture begun on this stream; the graph, if all went well. A
    /// capture that ends with 901 or 904 is over all the same.
    pub(crate) fn end_capture(&mut self, thread: Thread, key: u64) -> Result<u64, Status> {
        let Some(joined) = self.stream(key)?.joined.clone() else {
            return Err(Status::ERROR_ILLEGAL_STATE);
        };
        let Some(place) = self.captures.iter().position(|c| c.id == joined.capture) else {
            return Err(Status::ERROR_ILLEGAL_STATE);
        };
        let capture = self.captures.get(place).ok_or(Status::ERROR_UNKNOWN)?;
        if capture.origin != key {
            return Err(Status::ERROR_STREAM_CAPTURE_UNMATCHED);
        }
        if capture.mode != RELAXED && capture.thread != thread.id {
            return Err(Status::ERROR_STREAM_CAPTURE_WRONG_THREAD);
        }
        let capture = self.captures.swap_remove(place);
        let mut ends = Vec::new();
        for (_, stream) in self.streams.iter_mut() {
            if let Some(left) = stream.joined.take_if(|j| j.capture == capture.id) {
                ends.extend(left.deps);
            }
        }
        let outcome = match self.graphs.get(capture.graph) {
            _ if !capture.is_valid => Err(Status::ERROR_STREAM_CAPTURE_INVALIDATED),
            Some(graph) if !graph.covers(&joined.deps, &ends) => {
                Err(Status::ERROR_STREAM_CAPTURE_UNJOINED)
            }
            _ => Ok(capture.graph),
        };
        if outcome.is_err() {
            self.remove_graph(capture.graph);
        }
        outcome
    }

    /// Destroys a stream; a capture that it takes part in is broken, one that
    /// was begun on it is gone.
    pub(crate) fn destroy_stream(&mut self, key: u64) {
        let Some(stream) = self.streams.remove(key) else {
            return;
        };
        let Some(joined) = stream.joined else {
            return;
        };
        self.invalidate(joined.capture);
        let place = self.captures.iter().position(|c| c.origin == key);
        if let Some(capture) = place.map(|place| self.captures.swap_remove(place)) {
            self.remove_graph(capture.graph);
            for (_, other) in self.streams.iter_mut() {
                other.joined.take_if(|j| j.capture == capture.id);
            }
        }
    }

    /// Makes a stream wait for an event, in or out of a capture.
    pub(crate) fn wait_event(&mut self, key: u64, event: u64, is_external: bool) -> Outcome {
        let target = self.target(key)?;
        let state = self.events.get(event).map(|event| event.state.clone());
        match (target, state) {
            (_, None) => Err(self.stale()),
            // Nothing to wait for.
            (_, Some(State::Never)) => Ok(()),
            (Target::Device, Some(State::Recorded(at))) => self.hold(key, &at),
            (Target::Capture(id), Some(State::Recorded(_))) if is_external => {
                self.add_node(id, key, Kind::WaitEvent(event))
            }
            (Target::Capture(id), Some(State::Recorded(_))) => {
                self.invalidate(id);
                Err(Status::ERROR_STREAM_CAPTURE_ISOLATION)
            }
            (target, Some(State::Captured { capture, deps })) => {
                self.join(key, target, capture, &deps)
            }
        }
    }

    /// A stream waits for an event of a capture: it joins that capture.
    fn join(&mut self, key: u64, target: Target, capture: u64, deps: &[usize]) -> Outcome {
        match self.capture(capture) {
            // Over: the marker leads nowhere.
            None => return Err(Status::ERROR_INVALID_VALUE),
            Some(found) if !found.is_valid => {
                return Err(Status::ERROR_STREAM_CAPTURE_INVALIDATED);
            }
            Some(_) => {}
        }
        if let Target::Capture(own) = target
            && own != capture
        {
            self.invalidate(own);
            self.invalidate(capture);
            return Err(Status::ERROR_STREAM_CAPTURE_MERGE);
        }
        let stream = self.stream(key)?;
        if stream.is_legacy {
            self.invalidate(capture);
            return Err(Status::ERROR_STREAM_CAPTURE_IMPLICIT);
        }
        let joined = stream.joined.get_or_insert(Joined { capture, deps: Vec::new() });
        for dep in deps {
            if !joined.deps.contains(dep) {
                joined.deps.push(*dep);
            }
        }
        Ok(())
    }
}
