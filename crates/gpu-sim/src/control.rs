// SPDX-License-Identifier: MIT OR Apache-2.0
//! Steering the simulator from Rust: time, faults, the machine it pretends to
//! be, and the log.
//!
//! These act on the simulator linked into this program. A program that loaded
//! the shared library reaches the same through the `sim_*` functions, found by
//! name; each is listed with the function here that it stands for. A name that
//! is no driver function is an error, so that a test cannot count calls of a
//! misspelt name and find none.

pub mod graphs;

use metrale_gpu_sys::cuda::Status;

use crate::faults::{self, Faults, Plan};
use crate::host;
use crate::symbols::Symbol;
use crate::thread::Thread;
use crate::world;

/// The version of this interface, `sim_version`.
pub const VERSION: u32 = 1;

/// Stands for every call in [`set_call_cost`] and for every kernel without a
/// duration of its own in [`set_kernel_duration`].
pub const ALL: &str = "*";

/// A name that is no exported driver function.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the simulator exports no driver function {0:?}; exported names carry their version suffix, as in cuEventDestroy_v2"
)]
pub struct UnknownCall(pub String);

fn named(name: &str) -> Result<Symbol, UnknownCall> {
    Symbol::named(name).ok_or_else(|| UnknownCall(name.to_owned()))
}

/// Puts everything back as at the start of a process: no objects, virtual time
/// 0, no faults, no log, `cuInit` not called. Ids of streams, contexts and
/// captures go on and are never used twice. Calls that hang go on. Host functions that
/// have not begun never do; one that runs is waited for, but not by itself.
/// C: `sim_reset(void)`.
pub fn reset() {
    faults::release_all();
    host::forget(world::lock()).reset();
}

/// The clock, ns since the start. C: `uint64_t sim_now_ns(void)`.
#[must_use]
pub fn now_ns() -> u64 {
    world::lock().clock.now()
}

/// Moves the clock forward. C: `sim_advance_ns(uint64_t ns)`.
pub fn advance_ns(ns: u64) {
    let mut world = world::lock();
    world.clock.advance(ns);
    world.wake();
}

/// Moves the clock forward to `ns`; does nothing if it is later already.
/// C: `sim_advance_to_ns(uint64_t ns)`.
pub fn advance_to_ns(ns: u64) {
    let mut world = world::lock();
    world.clock.advance_to(ns);
    world.wake();
}

/// Lets the clock follow the host's, from where it stands, and waits really
/// sleep; or stops it again. C: `sim_set_real_time(uint32_t on)`.
pub fn set_real_time(on: bool) {
    let mut world = world::lock();
    world.clock.set_real_time(on);
    world.wake();
}

/// What each call of that name, or of [`ALL`], costs the host in ns of the
/// clock; 0 at first. C: `uint32_t sim_set_call_cost(const char *name, uint64_t ns)`.
///
/// # Errors
/// [`UnknownCall`].
pub fn set_call_cost(name: &str, ns: u64) -> Result<(), UnknownCall> {
    let mut world = world::lock();
    if name == ALL {
        world.config.call_cost_ns.fill(ns);
        return Ok(());
    }
    let symbol = named(name)?;
    if let Some(cost) = world.config.call_cost_ns.get_mut(symbol.index()) {
        *cost = ns;
    }
    Ok(())
}

/// The next `count` calls of that name take `ns` longer, as behind a lock that
/// another thread holds. C: `uint32_t sim_slow(const char *name, uint64_t ns, uint64_t count)`.
///
/// # Errors
/// [`UnknownCall`].
pub fn slow(name: &str, ns: u64, count: u64) -> Result<(), UnknownCall> {
    let symbol = named(name)?;
    let plan = Plan { what: ns, symbol: Some(symbol), thread: None, skip: 0, count };
    world::lock().faults.delays.add(plan);
    Ok(())
}

/// The duration of kernels of that name that bring none in an argument; with
/// [`ALL`], of those without an entry (1,000 ns at first).
/// C: `sim_set_kernel_duration(const char *name, uint64_t ns)`.
pub fn set_kernel_duration(name: &str, ns: u64) {
    let mut world = world::lock();
    if name == ALL {
        world.config.default_kernel_ns = ns;
    } else {
        world.config.kernel_ns.insert(name.to_owned(), ns);
    }
}

/// The duration of each copy and fill, 0 at first. C: `sim_set_copy_duration(uint64_t ns)`.
pub fn set_copy_duration(ns: u64) {
    world::lock().config.copy_ns = ns;
}

/// The tick of event timestamps, 1 ns at first. C: `sim_set_event_quantum(uint64_t ns)`.
pub fn set_event_quantum(ns: u64) {
    world::lock().config.quantum_ns = ns.max(1);
}

/// What each event recorded on a stream takes there before it is stamped, 0 at
/// first. C: `sim_set_event_duration(uint64_t ns)`.
pub fn set_event_duration(ns: u64) {
    world::lock().config.event_ns = ns;
}

/// Of the elapsed reads that succeed from now on, the first `skip_first` tell
/// the truth and the next `count` tell `ms`, whatever that is.
/// C: `sim_tell_elapsed(float ms, uint64_t skip_first, uint64_t count)`.
pub fn tell_elapsed(ms: f32, skip_first: u64, count: u64) {
    let plan = Plan { what: ms, symbol: None, thread: None, skip: skip_first, count };
    world::lock().faults.elapsed.add(plan);
}

/// An elapsed read on a thread without a current context answers 201. Off at
/// first: NVIDIA lists the status, and nobody saw it.
/// C: `sim_set_elapsed_needs_context(uint32_t on)`.
pub fn set_elapsed_needs_context(on: bool) {
    world::lock().config.elapsed_needs_context = on;
}

/// An unsafe call breaks the global captures of other threads in whatever mode
/// its own thread is. Off at first: NVIDIA says that the mode protects them.
/// C: `sim_set_strict_captures(uint32_t on)`.
pub fn set_strict_captures(on: bool) {
    world::lock().config.strict_captures = on;
}

/// Makes the devices MIG instances, or whole again: an instance has a UUID of
/// its own, which only `cuDeviceGetUuid_v2` tells. C: `sim_set_mig(uint32_t on)`.
pub fn set_mig(on: bool) {
    world::lock().config.mig = on;
}

/// How many devices the next first `cuInit` finds, 1 at first; with 0 it
/// answers 100. C: `sim_set_device_count(uint32_t devices)`.
pub fn set_device_count(devices: u32) {
    world::lock().config.devices = devices;
}

/// What `cuDriverGetVersion` tells, 13000 at first. Hides nothing by itself.
/// C: `sim_set_driver_version(int32_t version)`.
pub fn set_driver_version(version: i32) {
    world::lock().config.driver_version = version;
}

/// Acts as the toolkit's stub library: every call answers 34.
/// C: `sim_set_stub(uint32_t on)`.
pub fn set_stub(on: bool) {
    world::lock().config.stub = on;
}

/// Functions of modules loaded from now on are loaded at their first launch,
/// an unsafe call during a capture. Off at first.
/// C: `sim_set_lazy_loading(uint32_t on)`.
pub fn set_lazy_loading(on: bool) {
    world::lock().config.lazy_loading = on;
}

/// Hides a function from [`crate::symbol`] and `cuGetProcAddress`. The dynamic
/// linker still finds it. C: `uint32_t sim_hide_symbol(const char *name)`.
///
/// # Errors
/// [`UnknownCall`].
pub fn hide_symbol(name: &str) -> Result<(), UnknownCall> {
    let symbol = named(name)?;
    if let Some(hidden) = world::lock().config.hidden.get_mut(symbol.index()) {
        *hidden = true;
    }
    Ok(())
}

/// Hides every function that came after that CUDA version (11040 = 11.4), and
/// shows the others. C: `sim_hide_newer_than(uint32_t version)`.
pub fn hide_newer_than(version: u32) {
    let mut world = world::lock();
    for (hidden, symbol) in world.config.hidden.iter_mut().zip(Symbol::ALL) {
        *hidden = symbol.since() > version;
    }
}

/// A status that some calls return without acting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault<'a> {
    /// The driver function, as exported.
    pub call: &'a str,
    /// What it returns.
    pub status: Status,
    /// How many calls still act first.
    pub skip_first: u64,
    /// How many calls then fail; `u64::MAX` for all.
    pub count: u64,
    /// Whether only calls by the calling thread count.
    pub this_thread_only: bool,
}

/// Puts in a fault. Of several for one function the oldest acts first.
/// C: `uint32_t sim_fault(const char *name, uint32_t status, uint64_t skip_first,
/// uint64_t count, uint32_t this_thread_only)`.
///
/// # Errors
/// [`UnknownCall`].
pub fn fault(fault: Fault<'_>) -> Result<(), UnknownCall> {
    let symbol = named(fault.call)?;
    world::lock().faults.statuses.add(Plan {
        what: fault.status,
        symbol: Some(symbol),
        thread: fault.this_thread_only.then(Thread::current_id),
        skip: fault.skip_first,
        count: fault.count,
    });
    Ok(())
}

/// Takes away all faults, delays and untrue times. C: `sim_clear_faults(void)`.
pub fn clear_faults() {
    world::lock().faults = Faults::new();
}

/// From now on every call that concerns this context, or with 0 any context
/// there is, returns that status; success heals. Returns how many contexts that
/// are. `cuEventElapsedTime_v2` does not tell: it need not.
/// C: `uint64_t sim_set_sticky(uint64_t context, uint32_t status)`.
pub fn set_sticky(context: u64, status: Status) -> u64 {
    let mut world = world::lock();
    let mut met = 0;
    for (handle, found) in world.contexts.iter_mut() {
        if context == 0 || context == handle {
            found.sticky = status;
            met += 1;
        }
    }
    met
}

/// Calls of that name block from now on, for real, before they act, as behind
/// a full queue. They hold nothing: other calls go on.
/// C: `uint32_t sim_hang(const char *name)`.
///
/// # Errors
/// [`UnknownCall`].
pub fn hang(name: &str) -> Result<(), UnknownCall> {
    faults::set_hang(named(name)?, true);
    Ok(())
}

/// Lets calls of that name go on. C: `uint32_t sim_release(const char *name)`.
///
/// # Errors
/// [`UnknownCall`].
pub fn release(name: &str) -> Result<(), UnknownCall> {
    faults::set_hang(named(name)?, false);
    Ok(())
}

/// How many calls of that name hang now. C: `uint64_t sim_hung_calls(const char *name)`,
/// all ones for an unknown name.
///
/// # Errors
/// [`UnknownCall`].
pub fn hung_calls(name: &str) -> Result<u64, UnknownCall> {
    named(name).map(faults::waiting)
}

/// How often a handle was used that names nothing: the real driver would
/// likely have crashed. C: `uint64_t sim_stale_handle_uses(void)`.
#[must_use]
pub fn stale_handle_uses() -> u64 {
    world::lock().stale_uses
}

/// The calling thread's number in the log. C: `uint64_t sim_thread_id(void)`.
#[must_use]
pub fn thread_id() -> u64 {
    Thread::current_id()
}

/// How often that function was called since the start or the last reset, log
/// or no log. C: `uint64_t sim_call_count(const char *name)`, all ones for an
/// unknown name.
///
/// # Errors
/// [`UnknownCall`].
pub fn call_count(name: &str) -> Result<u64, UnknownCall> {
    let symbol = named(name)?;
    let world = world::lock();
    Ok(world.counts.get(symbol.index()).copied().unwrap_or(0))
}

/// One call, from the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Place in the order of all calls, from 1, logged or not.
    pub sequence: u64,
    /// The caller's [`thread_id`].
    pub thread: u64,
    /// The driver function, as exported.
    pub name: &'static str,
    /// The event, function, module, context, graph or memory given, else 0. Of
    /// an elapsed read the start event.
    pub handle: u64,
    /// The stream given, as given, else 0.
    pub stream: u64,
    /// What the call returned.
    pub status: Status,
    /// The thread's capture mode after the call: 0 global, 1 thread-local, 2 relaxed.
    pub mode: u32,
    /// The clock after the call, ns.
    pub time_ns: u64,
}

/// Starts keeping calls, after those kept already. C: `sim_log_start(void)`.
pub fn log_start() {
    world::lock().log.set_on(true);
}

/// Stops keeping calls. C: `sim_log_stop(void)`.
pub fn log_stop() {
    world::lock().log.set_on(false);
}

/// Forgets the calls kept. C: `sim_log_clear(void)`.
pub fn log_clear() {
    world::lock().log.clear();
}

/// The calls kept, oldest first, at most 1,048,576.
/// C: `uint64_t sim_log_len(void)` and
/// `uint32_t sim_log_get(uint64_t index, struct sim_call *out)`.
#[must_use]
pub fn log() -> Vec<Call> {
    world::lock().log.calls().to_vec()
}

/// How many calls came after the log was full. C: `uint64_t sim_log_not_kept(void)`.
#[must_use]
pub fn log_not_kept() -> u64 {
    world::lock().log.not_kept()
}
