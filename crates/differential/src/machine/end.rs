// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state that a sequence ends in, looked at through the driver.

use super::Machine;
use metrale_gpu_sim::{app, control};

/// After this, ns, all work is done.
pub(crate) const LATER_NS: u64 = 1 << 40;

impl Machine {
    /// The state of this thread.
    pub(crate) fn see_thread(&mut self) {
        self.current();
        let mode = self.modes[self.thread];
        self.mode(mode);
    }

    /// The rest, on the first thread. Guests leave; captures end; time passes.
    pub(crate) fn see_end(&mut self) {
        self.see("the clock", 0, control::now_ns());
        let streams: Vec<u64> = self.streams.iter().map(|owned| owned.handle).collect();
        for stream in &streams {
            self.is_capturing(*stream);
        }
        // Nothing of what follows may be refused for a capture's sake.
        self.mode(app::RELAXED);
        for stream in &streams {
            self.end_capture_of(*stream);
            call!(self, "cuStreamQuery", *stream => u64);
        }
        control::advance_ns(LATER_NS);
        self.evict_all();
        self.see_thread();
        let events: Vec<u64> = self.events.iter().map(|event| event.handle).collect();
        for event in events {
            call!(self, "cuEventQuery", event => u64);
        }
        for (from, to) in self.timed_pairs() {
            self.elapsed_between(from, to);
        }
        self.see_memory();
        self.see("stale handles", 0, control::stale_handle_uses());
        self.see("the clock", 0, control::now_ns());
    }
}
