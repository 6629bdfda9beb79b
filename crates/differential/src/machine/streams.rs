// SPDX-License-Identifier: MIT OR Apache-2.0
//! Streams, and the begins and ends of captures on them.

use super::{MAX_OBJECTS, Machine, Owned, pick};
use crate::cuda::CUDA;
use crate::sequence::Timing;
use metrale_gpu_sys::cuda::Status;

impl Machine {
    pub(super) fn stream_create(&mut self, blocking: bool) {
        if self.streams.len() >= MAX_OBJECTS {
            return;
        }
        let is_blocking = blocking && self.setup.timing != Timing::NoBlocking;
        let (mut handle, flags) = (0, u32::from(!is_blocking));
        let made = self.call(&CUDA.stream_create, |call| call(&mut handle, flags));
        if made.is_success() {
            let (context, serial) = (self.current(), self.next_serial());
            self.streams.push(Owned { handle, context, is_blocking, serial });
        }
    }

    pub(super) fn stream_destroy(&mut self, s: u8) {
        let Some(&stream) = pick(&self.streams, s) else {
            return;
        };
        // A stream of a context that met an error is destroyed all the same.
        let is_acted = self.fault.is_none();
        self.call(&CUDA.stream_destroy, |call| call(stream.handle));
        if is_acted {
            self.streams.retain(|owned| owned.serial != stream.serial);
            self.capturing.retain(|known| *known != stream.handle);
        }
    }

    pub(super) fn stream_query(&mut self, s: u8) {
        let stream = self.stream(s).handle;
        self.call(&CUDA.stream_query, |call| call(stream));
    }

    pub(super) fn stream_synchronize(&mut self, s: u8) {
        let stream = self.stream(s).handle;
        self.call(&CUDA.stream_synchronize, |call| call(stream));
    }

    pub(super) fn stream_wait(&mut self, s: u8, e: u8, external: bool) {
        let stream = self.stream(s).handle;
        let Some(event) = pick(&self.events, e).map(|event| event.handle) else {
            return;
        };
        if external {
            self.pin_event(event);
        }
        let flags = u32::from(external);
        self.call(&CUDA.stream_wait, |call| call(stream, event, flags));
    }

    pub(super) fn stream_ctx(&mut self, s: u8) {
        let (stream, mut context) = (self.stream(s).handle, 0);
        let status = self.call(&CUDA.stream_ctx, |call| call(stream, &mut context));
        let number = self.number(context);
        self.see("the stream's context", status.0, number);
    }

    /// Numbers of streams are unique in the process, so only the status is seen.
    pub(super) fn stream_id(&mut self, s: u8) {
        let (stream, mut id) = (self.stream(s).handle, 0);
        self.call(&CUDA.stream_id, |call| call(stream, &mut id));
    }

    pub(super) fn is_capturing(&mut self, s: u8) {
        let stream = self.stream(s).handle;
        self.is_handle_capturing(stream);
    }

    pub(super) fn is_handle_capturing(&mut self, stream: u64) {
        let mut capturing = 9;
        let status = self.call(&CUDA.is_capturing, |call| call(stream, &mut capturing));
        self.see("whether it captures", status.0, u64::from(capturing));
    }

    pub(super) fn capture_info(&mut self, s: u8) {
        let stream = self.stream(s).handle;
        let (mut capturing, mut deps) = (9, 0);
        let status = self.call(&CUDA.capture_info, |call| {
            call(stream, &mut capturing, None, None, None, &mut deps)
        });
        let value = deps as u64 * 10 + u64::from(capturing);
        self.see("the capture's last nodes", status.0, value);
    }

    pub(super) fn capture_begin(&mut self, s: u8, mode: u8) {
        let (stream, mode) = (self.stream(s).handle, u32::from(mode % 3));
        let begun = self.call(&CUDA.capture_begin, |call| call(stream, mode));
        if begun.is_success() {
            self.capturing.push(stream);
        }
    }

    /// Of a capture that was begun, if there is one.
    pub(super) fn capture_end(&mut self, s: u8) {
        let begun = pick(&self.capturing, s).copied();
        let stream = begun.unwrap_or(self.stream(s).handle);
        self.end_capture_of(stream);
    }

    pub(super) fn end_capture_of(&mut self, stream: u64) {
        let mut graph = 0;
        let ended = self.call(&CUDA.capture_end, |call| call(stream, &mut graph));
        // Wherever it failed otherwise, the capture goes on.
        if ended.is_success() || ended == Status::ERROR_STREAM_CAPTURE_INVALIDATED {
            self.capturing.retain(|known| *known != stream);
        }
        if ended.is_success() {
            self.see_graph(graph);
            self.graphs.push(graph);
        }
    }
}
