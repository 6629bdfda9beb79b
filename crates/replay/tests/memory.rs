// SPDX-License-Identifier: MIT OR Apache-2.0
//! Peak memory of reading and planning: at most 48 MiB and four times the
//! unpacked file, also for the densest events that a file can hold.

use std::alloc::{GlobalAlloc, Layout, System};
use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use metrale_replay::plan::{self, Timing};
use metrale_replay::steps::Patterns;
use metrale_replay::trace::{self, Limits};

struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);
/// One measurement at a time: the counts are the process's.
static ONE: Mutex<()> = Mutex::new(());

fn grow(size: usize) {
    let live = LIVE.fetch_add(size, Relaxed) + size;
    PEAK.fetch_max(live, Relaxed);
}

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grow(layout.size());
        // SAFETY: the caller's promise about `layout` is passed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the block came from `System` with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Both blocks may exist at once.
        grow(size);
        // SAFETY: the block came from `System` with this layout.
        let moved = unsafe { System.realloc(pointer, layout, size) };
        LIVE.fetch_sub(layout.size(), Relaxed);
        moved
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Reads and plans a trace written to a file, and holds the peak to the bound.
fn measure(name: &str, write: impl FnOnce(&mut String)) {
    let _one = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut text = String::new();
    write(&mut text);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("trace.json");
    std::fs::write(&path, &text).expect("written");
    let before = LIVE.load(Relaxed);
    PEAK.store(before, Relaxed);
    let trace = trace::read(&path, &Limits::default(), &mut |_, _| {}).expect("a good trace");
    let read = PEAK.load(Relaxed) - before;
    let plan = plan::build(&trace, &Patterns::default(), Timing::Honest);
    let planned = PEAK.load(Relaxed) - before;
    let bound = (48 << 20) + 4 * text.len();
    println!(
        "{name}: {} bytes of {} events; peak {read} read, {planned} planned, bound {bound}",
        text.len(),
        trace.events
    );
    assert!(!plan.ops.is_empty());
    assert!(planned <= bound, "{name}: {planned} of {bound}");
}

#[test]
fn ordinary_events() {
    measure("ordinary_events", |text| {
        text.push_str("{\"traceEvents\":[\n");
        for i in 0..60_000 {
            let at = 10 * i;
            let _ = writeln!(
                text,
                r#"{{"ph":"X","cat":"cpu_op","name":"aten::linear","pid":1,"tid":1,"ts":{at}.5,"dur":3,"args":{{"Input Dims":[[1,2],[3]]}}}},
{{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":{at}.125,"dur":4,"args":{{"correlation":{i}}}}},
{{"ph":"X","cat":"kernel","name":"void some::kernel<{}>(int*)","pid":0,"tid":7,"ts":{at}.875,"dur":7.25,"args":{{"device":0,"stream":7,"correlation":{i}}}}},"#,
                i % 50
            );
        }
        text.push_str("{}]}");
    });
}

#[test]
fn the_densest_kernels() {
    measure("the_densest_kernels", |text| {
        text.push('[');
        for i in 1..400_000 {
            let _ = write!(text, r#"{{"ph":"X","cat":"kernel","name":"k","ts":{i},"dur":1}},"#);
        }
        text.push_str("{}]");
    });
}

#[test]
fn every_kernel_a_name() {
    measure("every_kernel_a_name", |text| {
        text.push('[');
        for i in 1..300_000 {
            let _ = write!(text, r#"{{"ph":"X","cat":"kernel","name":"k{i}","ts":{i},"dur":1}},"#);
        }
        text.push_str("{}]");
    });
}

#[test]
fn every_kernel_a_graph() {
    measure("every_kernel_a_graph", |text| {
        text.push('[');
        for i in 1..200_000 {
            let _ = write!(
                text,
                r#"{{"ph":"X","cat":"cuda_runtime","name":"cudaGraphLaunch","ts":{i},"args":{{"correlation":{i}}}}},{{"ph":"X","cat":"kernel","name":"k","ts":{i},"dur":{i},"args":{{"correlation":{i}}}}},"#,
            );
        }
        text.push_str("{}]");
    });
}
