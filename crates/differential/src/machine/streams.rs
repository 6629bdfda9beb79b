// SPDX-License-Identifier: MIT OR Apache-2.0
//! Streams, and the begins and ends of captures on them.

use super::{MAX_OBJECTS, Machine, Owned, pick};
use crate::sequence::Timing;
use metrale_gpu_sys::cuda::Status;

impl Machine {
    pub(super) fn stream_create(&mut self, blocking: bool) {
        if self.streams.len() >= MAX_OBJECTS {
            return;
        }
        let is_blocking = blocking && self.setup.timing != Timing::NoBlocking;
        let (mut handle, flags) = (0, u32::from(!is_blocking));
        let made = call!(self, "cuStreamCreate", &raw mut handle => *mut u64, flags => u32);
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
        call!(self, "cuStreamDestroy_v2", stream.handle => u64);
        if is_acted {
            self.streams.retain(|owned| owned.serial != stream.serial);
            self.capturing.retain(|known| *known != stream.handle);
        }
    }

    pub(super) fn stream_wait(&mut self, s: u8, e: u8, external: bool) {
        let stream = self.stream(s).handle;
        let Some(event) = self.event(e) else {
            return;
        };
        if external {
            self.pin_event(event);
        }
        let flags = u32::from(external);
        call!(self, "cuStreamWaitEvent", stream => u64, event => u64, flags => u32);
    }

    pub(super) fn stream_ctx(&mut self, s: u8) {
        let (stream, mut context) = (self.stream(s).handle, 0);
        let status = call!(self, "cuStreamGetCtx", stream => u64, &raw mut context => *mut u64);
        let number = self.number(context);
        self.see("the stream's context", status.0, number);
    }

    /// Numbers of streams are unique in the process, so only the status is seen.
    pub(super) fn stream_id(&mut self, s: u8) {
        let (stream, mut id) = (self.stream(s).handle, 0);
        call!(self, "cuStreamGetId", stream => u64, &raw mut id => *mut u64);
    }

    pub(super) fn is_capturing(&mut self, stream: u64) {
        let mut capturing = 9;
        let status =
            call!(self, "cuStreamIsCapturing", stream => u64, &raw mut capturing => *mut u32);
        self.see("whether it captures", status.0, u64::from(capturing));
    }

    pub(super) fn capture_info(&mut self, s: u8) {
        let stream = self.stream(s).handle;
        let (mut capturing, mut deps) = (9u32, 0usize);
        let none = std::ptr::null_mut::<u64>();
        let status = call!(self, "cuStreamGetCaptureInfo_v2", stream => u64,
            &raw mut capturing => *mut u32, none => *mut u64, none => *mut u64,
            none.cast() => *mut *const u64, &raw mut deps => *mut usize);
        let value = deps as u64 * 10 + u64::from(capturing);
        self.see("the capture's last nodes", status.0, value);
    }

    pub(super) fn capture_begin(&mut self, s: u8, mode: u8) {
        let (stream, mode) = (self.stream(s).handle, u32::from(mode % 3));
        if call!(self, "cuStreamBeginCapture_v2", stream => u64, mode => u32).is_success() {
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
        let ended = call!(self, "cuStreamEndCapture", stream => u64, &raw mut graph => *mut u64);
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
