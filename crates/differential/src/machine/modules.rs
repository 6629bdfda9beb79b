// SPDX-License-Identifier: MIT OR Apache-2.0
//! Modules, functions and launches.

use super::{MAX_OBJECTS, Machine, Module, Owned, pick};
use crate::guest::What;
use crate::rules::Entry;
use crate::sequence::Timing;
use metrale_gpu_sys::cuda::Status;
use std::ffi::{CStr, c_char, c_void};

/// The NULL stream.
pub(super) const NULL: u64 = 0;
/// `CU_STREAM_PER_THREAD`.
pub(super) const PER_THREAD: u64 = 2;

const PTX: &CStr = c"
.version 6.0
.target sm_50
.address_size 64
.visible .entry spin(.param .u64 duration_ns) { ret; }
.visible .entry other(.param .u64 duration_ns) { ret; }
.visible .entry plain() { ret; }
";
const ENTRIES: [&CStr; 3] = [c"spin", c"other", c"plain"];

/// A prohibited call, which did not act.
const REFUSED: Status = Status::ERROR_STREAM_CAPTURE_UNSUPPORTED;

impl Machine {
    pub(super) fn module_load(&mut self) {
        if self.modules.len() >= MAX_OBJECTS {
            return;
        }
        let mut handle = 0;
        let loaded = call!(self, "cuModuleLoadData", &raw mut handle => *mut u64,
            PTX.as_ptr() => *const c_char);
        if !loaded.is_success() {
            return;
        }
        let context = self.current();
        let mut functions = Vec::new();
        for name in ENTRIES {
            let mut function = 0;
            let found = call!(self, "cuModuleGetFunction", &raw mut function => *mut u64,
                handle => u64, name.as_ptr() => *const c_char);
            if found.is_success() {
                functions.push(function);
            }
        }
        self.modules.push(Module { handle, context, functions });
    }

    pub(super) fn module_unload(&mut self, m: u8) {
        let Some(module) = pick(&self.modules, m) else {
            return;
        };
        let (handle, functions) = (module.handle, module.functions.clone());
        for place in 0..self.installed.len() {
            self.enter(place, Entry::Quiet, None, |guest| {
                functions.iter().for_each(|function| guest.forget(*function));
            });
        }
        let is_acted = self.fault.is_none();
        let unloaded = call!(self, "cuModuleUnload", handle => u64);
        if is_acted && unloaded != REFUSED {
            self.modules.retain(|known| known.handle != handle);
        }
    }

    pub(super) fn function(&self, choice: u8) -> Option<u64> {
        let functions: Vec<u64> =
            self.modules.iter().flat_map(|module| module.functions.iter().copied()).collect();
        pick(&functions, choice).copied()
    }

    pub(super) fn func_name(&mut self, f: u8) {
        let Some(function) = self.function(f) else {
            return;
        };
        let mut name: *const c_char = std::ptr::null();
        let status =
            call!(self, "cuFuncGetName", &raw mut name => *mut *const c_char, function => u64);
        if status.is_success() {
            // SAFETY: the driver gave a C string that is good while the
            // function is loaded.
            let name = unsafe { CStr::from_ptr(name) };
            self.see("the function's name", 0, name.count_bytes() as u64);
        }
    }

    /// How long work is to take.
    pub(super) fn duration(&self, ns: u32) -> u64 {
        if self.setup.timing == Timing::Instant { 0 } else { u64::from(ns) }
    }

    /// One launch, without a span.
    pub(super) fn launch(&mut self, function: u64, stream: u64, ns: u64) -> Status {
        let duration = &raw const ns;
        let mut parameters = [duration.cast_mut().cast::<c_void>()];
        let (parameters, none) = (parameters.as_mut_ptr(), std::ptr::null_mut());
        macro_rules! launch {
            ($name:literal, $stream:expr) => {
                call!(self, $name, function => u64,
                    1 => u32, 1 => u32, 1 => u32, 1 => u32, 1 => u32, 1 => u32, 0 => u32,
                    $stream => u64, parameters => *mut *mut c_void, none => *mut *mut c_void)
            };
        }
        match stream {
            PER_THREAD => launch!("cuLaunchKernel_ptsz", NULL),
            _ => launch!("cuLaunchKernel", stream),
        }
    }

    pub(super) fn launch_on(&mut self, f: u8, s: u8, ns: u32, span: bool) {
        let Some(function) = self.function(f) else {
            return;
        };
        let (stream, ns) = (self.stream(s), self.duration(ns));
        let what = What::Kernel(function);
        self.within_span(what, stream, span, |app| app.launch(function, stream.handle, ns));
    }

    /// Launches `launch` within a span, if that is wanted and there is a guest.
    pub(super) fn within_span(
        &mut self,
        what: What,
        stream: Owned,
        wanted: bool,
        launch: impl FnOnce(&mut Self) -> Status,
    ) {
        let place = self.home(stream).filter(|_| wanted && self.may_span(stream));
        let begun =
            place.and_then(|place| Some((place, self.begin(place, what, true, stream.at())?)));
        let status = launch(self);
        if let Some((place, span)) = begun {
            if status.is_success() {
                self.end(place, what, span, stream);
            } else {
                self.enter(place, Entry::Quiet, None, |guest| guest.cancel(what, span));
            }
        }
    }
}
