// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `sim_*` C functions: [`crate::control`] for a program that loaded the
//! shared library. A `name` that is NULL, no UTF-8 or no driver function is
//! answered 1 where a status is returned, all ones where a number is. Each is documented
//! where its body leads.

use std::ffi::{CStr, c_char, c_void};

use metrale_gpu_sys::cuda::Status;

use crate::abi::Out;
use crate::control::{self, Call, Fault, graphs};
use crate::symbols::Symbol;
use crate::world;

/// One call, as `sim_log_get` writes it; the fields are those of
/// [`control::Call`], the name a C string that lives for ever.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SimCall {
    /// Place in the order of all calls.
    pub sequence: u64,
    /// The caller's `sim_thread_id`.
    pub thread: u64,
    /// The driver function, as exported.
    pub name: *const c_char,
    /// The object given, else 0.
    pub handle: u64,
    /// The stream given, else 0.
    pub stream: u64,
    /// What the call returned.
    pub status: u32,
    /// The thread's capture mode after the call.
    pub mode: u32,
    /// The clock after the call, ns.
    pub time_ns: u64,
}

/// A C string as text, empty (which names nothing) if it is none.
///
/// # Safety
/// `name` is NULL or a C string that outlives the use.
unsafe fn text<'a>(name: *const c_char) -> &'a str {
    if name.is_null() {
        return "";
    }
    // SAFETY: not NULL; the rest is this function's contract.
    let name = unsafe { CStr::from_ptr(name) };
    name.to_str().unwrap_or("")
}

fn code<E>(outcome: Result<(), E>) -> u32 {
    u32::from(outcome.is_err())
}

macro_rules! controls {
    ($(
        $(#[$meta:meta])*
        fn $name:ident($($arg:ident: $kind:ty),*) $(-> $out:ty)? $body:block
    )*) => {
        $(
            $(#[$meta])*
            ///
            /// # Safety
            /// Pointers are NULL or good; names are C strings.
            #[unsafe(no_mangle)]
            pub(crate) unsafe extern "C" fn $name($($arg: $kind),*) $(-> $out)? $body
        )*

        /// The address of a `sim_*` function.
        pub(crate) fn address(name: &str) -> Option<*const c_void> {
            match name {
                $(stringify!($name) => Some($name as *const c_void),)*
                _ => None,
            }
        }
    };
}

controls! {
    fn sim_version() -> u32 { control::VERSION }
    fn sim_reset() { control::reset(); }
    fn sim_now_ns() -> u64 { control::now_ns() }
    fn sim_advance_ns(ns: u64) { control::advance_ns(ns); }
    fn sim_advance_to_ns(ns: u64) { control::advance_to_ns(ns); }
    fn sim_set_real_time(on: u32) { control::set_real_time(on != 0); }
    fn sim_set_call_cost(name: *const c_char, ns: u64) -> u32 {
        // SAFETY: this function's contract.
        code(control::set_call_cost(unsafe { text(name) }, ns))
    }
    fn sim_slow(name: *const c_char, ns: u64, count: u64) -> u32 {
        // SAFETY: this function's contract.
        code(control::slow(unsafe { text(name) }, ns, count))
    }
    fn sim_set_kernel_duration(name: *const c_char, ns: u64) {
        // SAFETY: this function's contract.
        control::set_kernel_duration(unsafe { text(name) }, ns);
    }
    fn sim_set_copy_duration(ns: u64) { control::set_copy_duration(ns); }
    fn sim_set_event_quantum(ns: u64) { control::set_event_quantum(ns); }
    fn sim_set_event_duration(ns: u64) { control::set_event_duration(ns); }
    fn sim_set_graph_mark(ns: u64) { graphs::set_mark_duration(ns); }
    fn sim_set_graph_leaf_lag(ns: u64) { graphs::set_leaf_lag(ns); }
    fn sim_set_graph_gap(ns: u64) { graphs::set_kernel_gap(ns); }
    fn sim_set_graph_overlap(ns: u64) { graphs::set_overlap(ns); }
    fn sim_set_graph_instantiation(ns: u64) { graphs::set_instantiation_cost(ns); }
    fn sim_set_graph_node_bytes(bytes: u64) {
        graphs::set_node_bytes(usize::try_from(bytes).unwrap_or(usize::MAX));
    }
    fn sim_graph_mistakes(out: Out<'_, graphs::Mistakes>) {
        if let Some(out) = out {
            out.write(graphs::mistakes());
        }
    }
    fn sim_tell_elapsed(ms: f32, skip_first: u64, count: u64) {
        control::tell_elapsed(ms, skip_first, count);
    }
    fn sim_set_elapsed_needs_context(on: u32) { control::set_elapsed_needs_context(on != 0); }
    fn sim_set_strict_captures(on: u32) { control::set_strict_captures(on != 0); }
    fn sim_set_mig(on: u32) { control::set_mig(on != 0); }
    fn sim_set_device_count(devices: u32) { control::set_device_count(devices); }
    fn sim_set_driver_version(version: i32) { control::set_driver_version(version); }
    fn sim_set_stub(on: u32) { control::set_stub(on != 0); }
    fn sim_set_lazy_loading(on: u32) { control::set_lazy_loading(on != 0); }
    fn sim_hide_symbol(name: *const c_char) -> u32 {
        // SAFETY: this function's contract.
        code(control::hide_symbol(unsafe { text(name) }))
    }
    fn sim_hide_newer_than(version: u32) { control::hide_newer_than(version); }
    fn sim_fault(
        name: *const c_char,
        status: u32,
        skip_first: u64,
        count: u64,
        this_thread_only: u32
    ) -> u32 {
        code(control::fault(Fault {
            // SAFETY: this function's contract.
            call: unsafe { text(name) },
            status: Status(status),
            skip_first,
            count,
            this_thread_only: this_thread_only != 0,
        }))
    }
    fn sim_clear_faults() { control::clear_faults(); }
    fn sim_set_sticky(context: u64, status: u32) -> u64 {
        control::set_sticky(context, Status(status))
    }
    fn sim_hang(name: *const c_char) -> u32 {
        // SAFETY: this function's contract.
        code(control::hang(unsafe { text(name) }))
    }
    fn sim_release(name: *const c_char) -> u32 {
        // SAFETY: this function's contract.
        code(control::release(unsafe { text(name) }))
    }
    fn sim_hung_calls(name: *const c_char) -> u64 {
        // SAFETY: this function's contract.
        control::hung_calls(unsafe { text(name) }).unwrap_or(u64::MAX)
    }
    fn sim_stale_handle_uses() -> u64 { control::stale_handle_uses() }
    fn sim_thread_id() -> u64 { control::thread_id() }
    fn sim_call_count(name: *const c_char) -> u64 {
        // SAFETY: this function's contract.
        control::call_count(unsafe { text(name) }).unwrap_or(u64::MAX)
    }
    /// The name of driver function `index`, for `sim_call_count`; NULL after
    /// the last.
    fn sim_call_name(index: u64) -> *const c_char {
        let symbol = usize::try_from(index).ok().and_then(|index| Symbol::ALL.get(index));
        symbol.map_or(std::ptr::null(), |symbol| symbol.c_name().as_ptr())
    }
    fn sim_log_start() { control::log_start(); }
    fn sim_log_stop() { control::log_stop(); }
    fn sim_log_clear() { control::log_clear(); }
    /// How many calls [`control::log`] holds.
    fn sim_log_len() -> u64 { world::lock().log.calls().len() as u64 }
    fn sim_log_not_kept() -> u64 { control::log_not_kept() }
    /// Writes one call of [`control::log`]; 1 if there is none of that index.
    fn sim_log_get(index: u64, out: Out<'_, SimCall>) -> u32 {
        let world = world::lock();
        let index = usize::try_from(index).ok();
        let call = index.and_then(|index| world.log.calls().get(index));
        let (Some(call), Some(out)) = (call, out) else {
            return 1;
        };
        let Call { sequence, thread, handle, stream, mode, time_ns, .. } = *call;
        let name = Symbol::named(call.name).map_or(std::ptr::null(), |symbol| symbol.c_name().as_ptr());
        let status = call.status.0;
        out.write(SimCall { sequence, thread, name, handle, stream, status, mode, time_ns });
        0
    }
}
