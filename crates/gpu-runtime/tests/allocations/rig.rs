// SPDX-License-Identifier: MIT OR Apache-2.0
//! A driver, a clock and an allocator that count, by thread.

use metrale_gpu_runtime::timing::{ContextRef, Driver, Harvest, Recorder, RecorderConfig};
use metrale_telemetry::{Telemetry, TelemetryConfig};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ffi::{CStr, c_char, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

struct Counting;

thread_local! {
    pub(super) static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    pub(super) static DRIVER_CALLS: Cell<u64> = const { Cell::new(0) };
    pub(super) static CLOCK_READS: Cell<u64> = const { Cell::new(0) };
}

/// A clock that counts who asks it: a microsecond for each read by this thread.
fn clock() -> u64 {
    CLOCK_READS.set(CLOCK_READS.get() + 1);
    CLOCK_READS.get() * 1_000
}

fn count() {
    // A thread that ends may allocate after its locals are gone.
    let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
}

// SAFETY: passes everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count();
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's promise is passed on.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations, and what was freed, while `act` runs.
pub(super) fn allocations(act: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    act();
    ALLOCATIONS.get() - before
}

/// A driver that answers success to everything, and counts its calls.
mod idle {
    use super::{AtomicU64, DRIVER_CALLS, Ordering, c_char};

    static NEXT: AtomicU64 = AtomicU64::new(0x1000);

    fn called() {
        DRIVER_CALLS.set(DRIVER_CALLS.get() + 1);
    }

    /// For every function whose first argument, if any, nobody reads.
    pub(super) extern "C" fn nothing() -> u32 {
        called();
        0
    }
    /// # Safety
    /// `out` is good to write.
    pub(super) unsafe extern "C" fn version(out: *mut i32) -> u32 {
        called();
        // SAFETY: promised by the caller.
        unsafe { out.write(13_000) };
        0
    }
    /// # Safety
    /// `out` is good to write.
    pub(super) unsafe extern "C" fn handle(out: *mut u64) -> u32 {
        called();
        // SAFETY: promised by the caller.
        unsafe { out.write(NEXT.fetch_add(0x80, Ordering::Relaxed)) };
        0
    }
    /// # Safety
    /// `out` is good to write.
    pub(super) unsafe extern "C" fn name(out: *mut *const c_char) -> u32 {
        called();
        // SAFETY: promised by the caller.
        unsafe { out.write(c"_Z9attentionv".as_ptr()) };
        0
    }
    /// Stream 7 captures.
    ///
    /// # Safety
    /// `out` is good to write.
    pub(super) unsafe extern "C" fn is_capturing(stream: u64, out: *mut u32) -> u32 {
        called();
        // SAFETY: promised by the caller.
        unsafe { out.write(u32::from(stream == 7)) };
        0
    }
    /// # Safety
    /// `out` is good to write.
    pub(super) unsafe extern "C" fn elapsed(out: *mut f32) -> u32 {
        called();
        // SAFETY: promised by the caller.
        unsafe { out.write(0.001) };
        0
    }
}

/// A recorder of that driver; every step is armed.
pub(super) fn recorder() -> Recorder {
    let find = |name: &CStr| -> *const c_void {
        match name.to_bytes() {
            b"cuDriverGetVersion" | b"cuDeviceGetCount" => idle::version as *const c_void,
            b"cuEventCreate" => idle::handle as *const c_void,
            b"cuFuncGetName" => idle::name as *const c_void,
            b"cuStreamIsCapturing" => idle::is_capturing as *const c_void,
            b"cuEventElapsedTime" => idle::elapsed as *const c_void,
            b"cuEventElapsedTime_v2" | b"sim_version" => std::ptr::null(),
            _ => idle::nothing as *const c_void,
        }
    };
    // SAFETY: each function reads no more arguments than the driver's takes.
    let driver = unsafe { Driver::from_symbols("a driver that does nothing", find) };
    let telemetry = Telemetry::with_clock(clock).leak();
    let every_step = TelemetryConfig { every: 1, ..TelemetryConfig::DEFAULT };
    telemetry.configure(every_step).unwrap();
    let config = RecorderConfig { harvest: Harvest::Explicit, clock, ..RecorderConfig::default() };
    // SAFETY: this driver reads no context.
    unsafe {
        Recorder::from_raw(
            Arc::new(driver.unwrap()),
            ContextRef::from_raw(0x100),
            telemetry,
            config,
        )
    }
    .unwrap()
}

/// Allocations, driver calls and clock reads of this thread so far.
pub(super) fn cost() -> [u64; 3] {
    [ALLOCATIONS.get(), DRIVER_CALLS.get(), CLOCK_READS.get()]
}
