// SPDX-License-Identifier: MIT OR Apache-2.0
//! The application's own events.

use super::modules::{NULL, PER_THREAD};
use super::{Event, MAX_OBJECTS, Machine, pick};

/// `CU_EVENT_DISABLE_TIMING`.
const DISABLE_TIMING: u32 = 2;

impl Machine {
    pub(super) fn event_create(&mut self, is_timed: bool) {
        if self.events.len() >= MAX_OBJECTS {
            return;
        }
        let flags = if is_timed { 0 } else { DISABLE_TIMING };
        let mut handle = 0;
        let made = call!(self, "cuEventCreate", &raw mut handle => *mut u64, flags => u32);
        if made.is_success() {
            let context = self.current();
            self.events.push(Event { handle, context, is_timed, is_pinned: false });
        }
    }

    pub(super) fn event_destroy(&mut self, e: u8) {
        let free = self.events.iter().filter(|event| !event.is_pinned);
        let candidates: Vec<u64> = free.map(|event| event.handle).collect();
        let Some(&event) = pick(&candidates, e) else {
            return;
        };
        let is_acted = self.fault.is_none();
        call!(self, "cuEventDestroy_v2", event => u64);
        if is_acted {
            self.events.retain(|known| known.handle != event);
        }
    }

    /// A graph may use the event for ever.
    pub(super) fn pin_event(&mut self, event: u64) {
        let Some(found) = self.events.iter_mut().find(|known| known.handle == event) else {
            return;
        };
        found.is_pinned = true;
        let context = found.context;
        self.pin(context);
    }

    pub(super) fn event_record(&mut self, e: u8, s: u8, external: bool) {
        let stream = self.stream(s).handle;
        let Some(event) = self.event(e) else {
            return;
        };
        if external {
            self.pin_event(event);
            call!(self, "cuEventRecordWithFlags", event => u64, stream => u64, 1 => u32);
        } else if stream == PER_THREAD {
            // As an application built with per-thread default streams does.
            call!(self, "cuEventRecord_ptsz", event => u64, NULL => u64);
        } else {
            call!(self, "cuEventRecord", event => u64, stream => u64);
        }
    }

    pub(super) fn event(&self, choice: u8) -> Option<u64> {
        pick(&self.events, choice).map(|event| event.handle)
    }

    pub(super) fn event_query(&mut self, e: u8) {
        if let Some(event) = self.event(e) {
            call!(self, "cuEventQuery", event => u64);
        }
    }

    pub(super) fn event_synchronize(&mut self, e: u8) {
        if let Some(event) = self.event(e) {
            call!(self, "cuEventSynchronize", event => u64);
        }
    }

    pub(super) fn elapsed(&mut self, from: u8, to: u8) {
        if let (Some(from), Some(to)) = (self.event(from), self.event(to)) {
            self.elapsed_between(from, to);
        }
    }

    pub(super) fn elapsed_between(&mut self, from: u64, to: u64) {
        let mut milliseconds = f32::NAN;
        let status = call!(self, "cuEventElapsedTime", &raw mut milliseconds => *mut f32,
            from => u64, to => u64);
        let bits = u64::from(milliseconds.to_bits());
        self.see("the time between", status.0, bits);
    }

    /// Pairs of timed events that follow each other.
    pub(super) fn timed_pairs(&self) -> Vec<(u64, u64)> {
        let timed: Vec<u64> =
            self.events.iter().filter(|event| event.is_timed).map(|event| event.handle).collect();
        timed.windows(2).map(|pair| (pair[0], pair[1])).collect()
    }
}
