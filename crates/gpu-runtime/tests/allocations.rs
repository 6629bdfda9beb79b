// SPDX-License-Identifier: MIT OR Apache-2.0
//! The hot path allocates nothing: begins, ends, armed launches of functions
//! and graphs met before, refusals, and harvests that land them. At level `Off`
//! it calls neither clock nor driver and counts nothing either. Over a driver
//! that does nothing, as the simulated one allocates for itself.

use metrale_gpu_runtime::timing::{
    self, Driver, FuncRef, Harvest, KernelRef, Recorder, RecorderConfig, StreamRef,
};
use metrale_telemetry::kernel::{LANE_ADMIT, LANE_DECODE};
use metrale_telemetry::{Level, Step, Telemetry, TelemetryConfig};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ffi::{CStr, c_char, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    static DRIVER_CALLS: Cell<u64> = const { Cell::new(0) };
    static CLOCK_READS: Cell<u64> = const { Cell::new(0) };
}

/// A clock that counts who asks it.
fn clock() -> u64 {
    CLOCK_READS.set(CLOCK_READS.get() + 1);
    static NOW: AtomicU64 = AtomicU64::new(0);
    NOW.fetch_add(1_000, Ordering::Relaxed)
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
fn allocations(act: impl FnOnce()) -> u64 {
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

fn recorder() -> Recorder {
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
    let telemetry = Box::leak(Box::new(Telemetry::new()));
    let every_step = TelemetryConfig {
        every: 1,
        ..TelemetryConfig::DEFAULT
    };
    telemetry.configure(every_step).unwrap();
    let config = RecorderConfig {
        harvest: Harvest::Explicit,
        clock,
        ..RecorderConfig::default()
    };
    // SAFETY: this driver reads no context.
    unsafe { Recorder::from_raw(Arc::new(driver.unwrap()), 0x100, telemetry, config) }.unwrap()
}

#[test]
fn the_hot_path_allocates_nothing() {
    let recorder = recorder();
    // SAFETY: this driver reads no stream.
    let stream = unsafe { StreamRef::from_raw(0x80) };
    // SAFETY: as above.
    let capturing = unsafe { StreamRef::from_raw(7) };
    // SAFETY: this driver reads no function.
    let attention = unsafe { KernelRef::from_raw(0x5000) };
    let graph = recorder.graph("decode");
    let serve = |steps: u64| {
        for _ in 0..steps {
            let step = recorder.step();
            let lane = step.lane(LANE_DECODE, stream);
            drop(lane.launch(attention));
            drop(lane.launch(FuncRef::from_raw(0x6000)));
            drop(lane.graph(graph));
            lane.launch_on(attention, stream).cancel();
            drop(lane.launch_on(attention, capturing));
            drop(lane);
            recorder.harvest();
            let _ = (recorder.health(), recorder.lane_ledger());
        }
    };
    assert!(
        allocations(|| serve(1)) > 0,
        "a function that is met has its name copied"
    );
    assert_eq!(allocations(|| serve(2_000)), 0);
    // Not where the ring is full either, nor at the other levels.
    let overflow = || {
        for _ in 0..20_000 {
            let step = recorder.step();
            drop(step.lane(LANE_DECODE, stream).launch(attention));
        }
    };
    assert_eq!(allocations(overflow), 0);
    assert!(recorder.lane_ledger().dropped > 0 && recorder.kernel_ledger().dropped > 0);
    for level in [Level::Off, Level::Basic] {
        recorder.telemetry().set_level(level);
        assert_eq!(allocations(|| serve(10)), 0, "{level}");
    }
    let ledger = recorder.kernel_ledger();
    assert!(ledger.closes() && ledger.landed > 6_000, "{ledger:?}");
    assert_eq!((ledger.cancelled, ledger.refused), (2_001, 2_001));
}

/// Everything that is counted anywhere.
fn counted(recorder: &Recorder) -> String {
    let (telemetry, instruments) = (recorder.telemetry(), recorder.telemetry().instruments());
    format!(
        "{:?}",
        (
            recorder.lane_ledger(),
            recorder.kernel_ledger(),
            recorder.health(),
            telemetry,
            instruments.kernels(),
            &instruments.lane_kernel_ns,
        )
    )
}

#[test]
fn off_costs_nothing() {
    timing::install(recorder()).unwrap();
    let recorder = timing::installed().unwrap();
    // SAFETY: this driver reads no stream.
    let stream = unsafe { StreamRef::from_raw(0x80) };
    let attention = FuncRef::from_raw(0x5000);
    let graph = recorder.graph("decode");
    let armed = Step {
        number: Some(1),
        armed: true,
    };
    // Every entry point of a serving thread, guards, tokens and functions.
    let serve = || {
        let step = recorder.step();
        let lane = step.lane(LANE_DECODE, stream);
        drop(lane.launch(attention));
        drop(lane.graph(graph));
        lane.launch_on(attention, stream).cancel();
        drop(lane);
        drop(step);
        for kernel in [attention.into(), KernelRef::from(graph)] {
            if let Some(token) = recorder.begin_launch(armed, LANE_DECODE, kernel, stream) {
                recorder.end_launch(token, stream);
            }
        }
        if let Some(token) = recorder.begin_lane(armed, LANE_DECODE, stream) {
            recorder.end_lane(token, stream);
        }
        for lane in [LANE_ADMIT, LANE_DECODE] {
            timing::lane_begin(lane, stream);
            if let Some(token) = timing::launch_begin(attention, stream) {
                timing::launch_end(token, stream);
            }
            timing::lane_end(lane, stream);
        }
        recorder.harvest() + timing::harvest()
    };
    let cost = || (ALLOCATIONS.get(), DRIVER_CALLS.get(), CLOCK_READS.get());
    let (before, counts) = (cost(), counted(recorder));
    assert!(serve() > 0);
    assert!(cost().1 > before.1 && cost().2 > before.2, "{:?}", cost());
    assert_ne!(counted(recorder), counts);

    recorder.telemetry().set_level(Level::Off);
    let counts = counted(recorder);
    let before = cost();
    for _ in 0..100 {
        assert_eq!(serve(), 0);
    }
    assert_eq!(cost(), before, "allocations, driver calls, clock reads");
    assert_eq!(counted(recorder), counts);

    // What was open when the level changed is ended and harvested.
    recorder.telemetry().set_level(Level::Kernel);
    timing::lane_begin(LANE_DECODE, stream);
    let step = recorder.step();
    let lane = step.lane(LANE_DECODE, stream);
    let launch = lane.launch(attention);
    recorder.telemetry().set_level(Level::Off);
    drop(launch);
    drop(lane);
    timing::lane_end(LANE_DECODE, stream);
    assert_eq!(recorder.harvest(), 3);
    let whole = recorder.lane_ledger().plus(recorder.kernel_ledger());
    assert!(whole.closes() && whole.in_flight == 0, "{whole:?}");
}

#[test]
fn levels_change_under_open_spans() {
    const THREADS: u64 = 3;
    const STEPS: u64 = 4_000;
    let recorder = recorder();
    let stop = AtomicBool::new(false);
    std::thread::scope(|threads| {
        let serving: Vec<_> = (0..THREADS)
            .map(|n| {
                let recorder = &recorder;
                threads.spawn(move || {
                    // SAFETY: this driver reads no stream.
                    let stream = unsafe { StreamRef::from_raw(0x80 + n) };
                    let function = FuncRef::from_raw(0x5000 + n);
                    for number in 0..STEPS {
                        let step = recorder.step();
                        let lane = step.lane(LANE_DECODE, stream);
                        let launch = lane.launch(function);
                        if number % 7 == n {
                            let level = Level::ALL[(number / 7 % 3) as usize];
                            recorder.telemetry().set_level(level);
                        }
                        if number % 5 == 0 {
                            launch.cancel();
                        } else {
                            drop(launch);
                        }
                        drop(lane);
                        if number % 11 == 0 {
                            recorder.harvest();
                        }
                    }
                })
            })
            .collect();
        threads.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                recorder.harvest();
                std::thread::yield_now();
            }
        });
        for thread in serving {
            thread.join().unwrap();
        }
        stop.store(true, Ordering::Relaxed);
    });
    recorder.telemetry().set_level(Level::Off);
    recorder.harvest();
    for ledger in [recorder.lane_ledger(), recorder.kernel_ledger()] {
        assert!(ledger.closes() && ledger.landed > 0, "{ledger:?}");
        let over = (ledger.in_flight, ledger.failed, ledger.stale_ends);
        assert_eq!(over, (0, 0, 0));
    }
    let steps = recorder.telemetry().steps();
    assert!(0 < steps && steps < THREADS * STEPS, "{steps}");
}
