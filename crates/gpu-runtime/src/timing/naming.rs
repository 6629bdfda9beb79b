// SPDX-License-Identifier: MIT OR Apache-2.0
//! The recorder's side of names: kernels are met at their first armed launch,
//! named and forgotten by the application, and listed with their names.

use super::entry::Entry;
use super::events::CudaEvents;
use super::handles::{FuncRef, GraphRef, KernelRef, StreamRef};
use super::names::Known;
use super::recorder::Recorder;
use super::shared::Shared;
use super::verdict::Verdict;
use metrale_gpu_sys::cuda::{CUfunction, Status};
use metrale_telemetry::Step;
use metrale_telemetry::kernel::EventOps;
use metrale_telemetry::snapshot::RowKind;
use std::ffi::CStr;
use std::sync::Arc;

/// GPU time of one kernel, graph, region or copy, with its name.
///
/// ```
/// # use metrale_gpu_runtime::timing::{Recorder, demangle};
/// # let recorder = Recorder::disabled();
/// for kernel in recorder.kernels() {
///     let name = kernel.name.as_deref().unwrap_or("(no name)");
///     println!("{}: {} ns, {} timed", demangle(name), kernel.total_ns, kernel.samples);
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NamedKernel {
    /// The row, as [`KernelTime::func`](metrale_telemetry::kernel::KernelTime)
    /// gives it: the function's handle, or a number with the top bit set for
    /// everything else and for a handle that was forgotten and used again.
    pub func: u64,
    /// The application's name, else the driver's: whole, and mangled where the
    /// driver's is. `None` where nobody gave one. See
    /// [`demangle`](super::demangle()) for people.
    pub name: Option<Arc<str>>,
    /// What it is.
    pub kind: RowKind,
    /// GPU nanoseconds of its timed launches.
    pub total_ns: u64,
    /// How many launches were timed.
    pub samples: u64,
}

impl Recorder {
    /// Names a function. It may allocate; the driver is not asked for the name
    /// then. A second name takes the place of the first one.
    pub fn name(&self, func: impl Into<FuncRef>, name: &str) {
        let func = func.into().handle();
        if let Some(shared) = self.shared().filter(|_| func != 0) {
            shared.names.meet(func, Known::Application(name.into()));
        }
    }

    /// Says that a function is gone, because its module is unloaded: another
    /// kernel may get its handle. Call it before the unload. What was timed
    /// keeps its row and its name; spans in flight still land there.
    pub fn forget(&self, func: impl Into<FuncRef>) {
        if let Some(shared) = self.shared() {
            shared.names.forget(func.into().handle());
        }
    }

    /// The graph of that name, for
    /// [`LaneGuard::launch`](super::LaneGuard::launch). The same name gives the
    /// same graph. It takes a lock and may allocate: keep what it returns
    /// beside the graph, and call it when that is made, not when it is launched.
    #[must_use]
    pub fn graph(&self, name: &str) -> GraphRef {
        GraphRef(self.shared().map_or(0, |shared| shared.names.numbered(RowKind::Graph, name)))
    }

    /// Every row with at least one sample in this recorder's
    /// telemetry, with its name; the longest total first.
    #[must_use]
    pub fn kernels(&self) -> Vec<NamedKernel> {
        let Some(shared) = self.shared() else {
            return Vec::new();
        };
        let rows = shared.telemetry.instruments().kernels();
        let named = rows.into_iter().map(|row| {
            let name = shared.names.of_row(row.func);
            NamedKernel {
                func: row.func,
                kind: name.as_ref().map_or(RowKind::Kernel, |name| name.kind),
                name: name.map(|name| name.text),
                total_ns: row.total_ns,
                samples: row.samples,
            }
        });
        let mut named: Vec<_> = named.collect();
        named.sort_by_key(|kernel| (std::cmp::Reverse(kernel.total_ns), kernel.func));
        named
    }
}

impl Shared {
    /// The row of a kernel that was not met before. The driver is asked for its
    /// name only where a span could begin: not beside a capture on its stream.
    #[cold]
    pub(super) fn meet(
        &self,
        kernel: KernelRef<'_>,
        (step, lane): (Step, Option<usize>),
        stream: StreamRef<'_>,
    ) -> Option<u64> {
        let func = kernel.handle();
        if !kernel.is_loaded() {
            return Some(self.names.meet(func, Known::Nothing));
        }
        let ops = self.kernels.ops();
        let _entry = Entry::of(stream, ops);
        if !ops.admits(stream.number_in(self.context)) {
            self.refuse(&self.kernels, step, lane);
            return None;
        }
        // SAFETY: whoever made the reference says that the function is loaded.
        let known = unsafe { ops.function_name(func) };
        Some(self.names.meet(func, known))
    }
}

impl CudaEvents {
    /// The driver's name of a function, copied; `Nothing` where it could not be
    /// asked for it.
    ///
    /// # Safety
    /// The function is loaded.
    pub(super) unsafe fn function_name(&self, function: u64) -> Known {
        let Some(func_get_name) = self.api().func_get_name else {
            return Known::Driver(None);
        };
        let Some(_busy) = self.watch.busy().filter(|_| !self.watch.is_silent()) else {
            return Known::Nothing;
        };
        let mut name = std::ptr::null();
        let status = self.in_relaxed_mode(|| {
            // SAFETY: promised by the caller; the pointer is to a live pointer.
            unsafe { func_get_name(&raw mut name, function as CUfunction) }
        });
        match status {
            Status::SUCCESS if !name.is_null() => {
                // SAFETY: the driver gave a C string that is good while the
                // function is loaded.
                let name = unsafe { CStr::from_ptr(name) };
                Known::Driver(Some(name.to_bytes().to_vec()))
            }
            // A function without a name harms nothing.
            Status::ERROR_NOT_FOUND
            | Status::ERROR_NOT_SUPPORTED
            | Status::ERROR_FUNCTION_NOT_LOADED => Known::Driver(None),
            status => match self.note(status) {
                Verdict::Done | Verdict::Drop => Known::Driver(None),
                Verdict::Wait | Verdict::BackOff | Verdict::Quarantine => Known::Nothing,
            },
        }
    }
}
