// SPDX-License-Identifier: MIT OR Apache-2.0
//! Contexts, capture modes, and how an application starts.

use super::{Context, MAX_OBJECTS, Machine, Owned, pick};
use crate::guest::DEVICES;
use crate::sequence::Timing;
use metrale_gpu_sim::control;

/// Contexts pushed by one thread, in all: its stack is bounded.
const MAX_PUSHES: u32 = 20;
/// Time of a copy, ns, where work takes time.
const COPY_NS: u64 = 300;

/// How a destroyed context is seen.
const GONE: u64 = 99;

impl Machine {
    /// The application starts: devices, primary contexts, a module, a stream.
    pub(crate) fn start(&mut self) {
        let is_instant = self.setup.timing == Timing::Instant;
        control::set_device_count(DEVICES as u32);
        control::set_lazy_loading(self.setup.lazy);
        control::set_kernel_duration(control::ALL, if is_instant { 0 } else { 1_000 });
        control::set_copy_duration(if is_instant { 0 } else { COPY_NS });
        control::log_start();
        call!(self, "cuInit", 0 => u32);
        for device in [0, 1] {
            let mut handle = 0;
            call!(self, "cuDevicePrimaryCtxRetain", &raw mut handle => *mut u64, device => i32);
            let device = device as usize;
            self.contexts.push(Context { handle, device, is_primary: true, is_pinned: true });
        }
        self.ctx_set(0);
        self.module_load();
        self.stream_create(false);
        self.mem_alloc(0, false);
        self.mem_alloc(0, false);
        if self.setup.early {
            self.install(0);
        }
    }

    /// A context, by order of creation.
    pub(super) fn number(&self, context: u64) -> u64 {
        if context == 0 {
            return 0;
        }
        let place = self.contexts.iter().position(|known| known.handle == context);
        place.map_or(GONE, |place| place as u64 + 1)
    }

    pub(super) fn context(&self, choice: u8) -> u64 {
        pick(&self.contexts, choice).map_or(0, |context| context.handle)
    }

    /// The current context, as the driver tells it.
    pub(super) fn current(&mut self) -> u64 {
        let mut context = 0;
        call!(self, "cuCtxGetCurrent", &raw mut context => *mut u64);
        let number = self.number(context);
        self.see("the current context", 0, number);
        context
    }

    pub(crate) fn ctx_set(&mut self, c: u8) {
        // One choice more: none.
        let context = match usize::from(c) % (self.contexts.len() + 1) {
            place if place == self.contexts.len() => 0,
            place => self.contexts[place].handle,
        };
        call!(self, "cuCtxSetCurrent", context => u64);
    }

    fn may_push(&mut self) -> bool {
        let pushes = &mut self.pushes[self.thread];
        *pushes += 1;
        *pushes <= MAX_PUSHES
    }

    pub(super) fn ctx_push(&mut self, c: u8) {
        if self.may_push() {
            let context = self.context(c);
            call!(self, "cuCtxPushCurrent_v2", context => u64);
        }
    }

    pub(super) fn ctx_pop(&mut self) {
        let mut context = 0;
        call!(self, "cuCtxPopCurrent_v2", &raw mut context => *mut u64);
        let number = self.number(context);
        self.see("the context popped", 0, number);
    }

    pub(super) fn ctx_create(&mut self, device: u8) {
        if self.contexts.len() >= MAX_OBJECTS || !self.may_push() {
            return;
        }
        let (mut handle, device) = (0, i32::from(device) % 2);
        let made =
            call!(self, "cuCtxCreate_v2", &raw mut handle => *mut u64, 0 => u32, device => i32);
        if made.is_success() {
            let device = device as usize;
            self.contexts.push(Context { handle, device, is_primary: false, is_pinned: false });
        }
    }

    pub(super) fn ctx_destroy(&mut self, c: u8) {
        let free = |context: &&Context| !context.is_primary && !context.is_pinned;
        let candidates: Vec<u64> =
            self.contexts.iter().filter(free).map(|known| known.handle).collect();
        let Some(&context) = pick(&candidates, c) else {
            return;
        };
        self.evict(context);
        if call!(self, "cuCtxDestroy_v2", context => u64).is_success() {
            self.contexts.retain(|known| known.handle != context);
            self.streams.retain(|owned| owned.context != context);
            let lives = |stream: &u64| self.streams.iter().any(|owned| owned.handle == *stream);
            self.capturing.retain(lives);
            self.events.retain(|known| known.context != context);
            self.modules.retain(|known| known.context != context);
        }
    }

    /// A graph may use an event of this context for ever.
    pub(super) fn pin(&mut self, context: u64) {
        let mut contexts = self.contexts.iter_mut();
        if let Some(found) = contexts.find(|known| known.handle == context) {
            found.is_pinned = true;
        }
    }

    pub(super) fn mode(&mut self, mode: u32) {
        let mut exchanged = mode;
        let status =
            call!(self, "cuThreadExchangeStreamCaptureMode", &raw mut exchanged => *mut u32);
        if status.is_success() {
            self.see("the capture mode before", 0, u64::from(exchanged));
            self.modes[self.thread] = mode;
        }
    }

    /// A stream by choice: the default streams that are used, and live ones.
    pub(super) fn stream(&self, choice: u8) -> Owned {
        let defaults = self.setup.timing.default_streams();
        let place = usize::from(choice) % (self.streams.len() + defaults.len());
        match self.streams.get(place) {
            Some(owned) => *owned,
            None => {
                let handle = defaults[place - self.streams.len()];
                Owned { handle, is_blocking: true, ..Owned::default() }
            }
        }
    }
}
