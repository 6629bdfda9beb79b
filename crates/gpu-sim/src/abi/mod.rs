// SPDX-License-Identifier: MIT OR Apache-2.0
//! The exported C functions, one file for each part of the driver API.
//!
//! Signatures follow NVIDIA's driver API reference. An out pointer is an
//! `Option` of a reference: the caller of a C function promises that it is NULL
//! or good to write. Every function goes through [`call`], which counts, logs,
//! injects faults and lets no panic out; `exports!` declares most of them.

/// Exports driver functions, each by its one name: `fn cuName(…) in call(handle, stream)` goes
/// through [`call`], `in graph_call(…)` through [`graph_call`]. Of `fn cuName / cuName_ptsz(…)`
/// the body runs for both, and is told whether it is the per-thread twin.
macro_rules! exports {
    () => {};
    (@ $meta:tt $safety:tt $name:ident / $twin:ident $args:tt in $call:ident $keys:tt
        |$world:pat_param, $thread:pat_param, $is_twin:ident| $body:block $($rest:tt)*) => {
        exports!(@ $meta $safety $name $args in $call $keys
            |$world, $thread| { let $is_twin = false; $body });
        exports!(@ $meta $safety $twin $args in $call $keys
            |$world, $thread| { let $is_twin = true; $body });
        exports!($($rest)*);
    };
    (@ [$(#[$meta:meta])*] [$($safety:ident)?] $name:ident($($arg:ident: $kind:ty),* $(,)?)
        in $call:ident($handle:expr, $stream:expr)
        |$world:pat_param, $thread:pat_param| $body:block $($rest:tt)*) => {
        $(#[$meta])*
        #[unsafe(no_mangle)]
        pub(crate) $($safety)? extern "C" fn $name($($arg: $kind),*) -> u32 {
            super::$call(Symbol::$name, $handle, $stream, |$world, $thread| $body)
        }
        exports!($($rest)*);
    };
    ($(#[$meta:meta])* fn $($rest:tt)*) => { exports!(@ [$(#[$meta])*] [] $($rest)*); };
    ($(#[$meta:meta])* unsafe fn $($rest:tt)*) => {
        exports!(@ [$(#[$meta])*] [unsafe] $($rest)*);
    };
}

pub(crate) mod capture;
pub(crate) mod context;
pub(crate) mod device;
pub(crate) mod event;
pub(crate) mod exec;
pub(crate) mod exec_update;
pub(crate) mod function;
pub(crate) mod graph;
pub(crate) mod graph_edges;
pub(crate) mod graph_nodes;
pub(crate) mod launch;
pub(crate) mod library;
pub(crate) mod lookup;
pub(crate) mod memory;
pub(crate) mod module;
pub(crate) mod stream;
pub(crate) mod user_object;

use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};

use metrale_gpu_sys::cuda::Status;

use crate::control::Call;
use crate::faults;
use crate::host;
use crate::symbols::Symbol;
use crate::thread::Thread;
use crate::watch::Use;
use crate::world::{self, Outcome, World};

/// An out pointer of a C function.
pub(crate) type Out<'a, T> = Option<&'a mut MaybeUninit<T>>;

/// Writes to an out pointer: 1 if it is NULL.
pub(crate) fn put<T>(out: Out<'_, T>, value: T) -> Outcome {
    out.ok_or(Status::ERROR_INVALID_VALUE)?.write(value);
    Ok(())
}

/// Writes to an out pointer that may be NULL.
pub(crate) fn put_if<T>(out: Out<'_, T>, value: T) {
    if let Some(out) = out {
        out.write(value);
    }
}

/// 1 if the out pointer is NULL, before anything is done.
pub(crate) fn some<T>(out: &Out<'_, T>) -> Outcome {
    match out {
        Some(_) => Ok(()),
        None => Err(Status::ERROR_INVALID_VALUE),
    }
}

/// Runs one call under the world's lock. `handle` and `stream` are only for
/// the log, 0 where the call has none.
pub(crate) fn call(
    symbol: Symbol,
    handle: u64,
    stream: u64,
    body: impl FnOnce(&mut World, Thread) -> Outcome,
) -> u32 {
    let outcome = catch_unwind(AssertUnwindSafe(|| guarded(symbol, handle, stream, body)));
    outcome.unwrap_or(Status::ERROR_UNKNOWN).0
}

/// As [`call`], for a call on a graph, a node's graph or an executable: none may
/// be used by two threads at once.
pub(crate) fn graph_call(
    symbol: Symbol,
    object: u64,
    stream: u64,
    body: impl FnOnce(&mut World, Thread) -> Outcome,
) -> u32 {
    let _use = Use::begin(object);
    call(symbol, object, stream, body)
}

fn guarded(
    symbol: Symbol,
    handle: u64,
    stream: u64,
    body: impl FnOnce(&mut World, Thread) -> Outcome,
) -> Status {
    faults::pass_gate(symbol);
    if world::is_forked_child() {
        return Status::ERROR_NOT_INITIALIZED;
    }
    let mut guard = world::lock();
    let world = &mut *guard;
    let thread = Thread::current(world.epoch);
    let index = symbol.index();
    world.calls += 1;
    if let Some(count) = world.counts.get_mut(index) {
        *count += 1;
    }
    let cost = world.config.call_cost_ns.get(index).copied().unwrap_or(0);
    let delay = world.faults.delays.take(symbol, thread.id).unwrap_or(0);
    world.clock.advance(cost.saturating_add(delay));
    let fault = world.faults.statuses.take(symbol, thread.id);
    let status = if thread.is_in_callback {
        Status::ERROR_NOT_PERMITTED
    } else if world.config.stub {
        Status::ERROR_STUB_LIBRARY
    } else if let Some(status) = fault {
        status
    } else {
        body(world, thread).err().unwrap_or(Status::SUCCESS)
    };
    let (sequence, time_ns) = (world.calls, world.clock.now());
    world.log.push(|| Call {
        sequence,
        thread: thread.id,
        name: symbol.name(),
        handle,
        stream,
        status,
        mode: thread.mode(),
        time_ns,
    });
    let waiting = world.waiting.take();
    let destructors = std::mem::take(&mut world.destructors);
    world.wake();
    drop(guard);
    for destructor in destructors {
        destructor.run();
    }
    if let Some(number) = waiting {
        host::wait(number);
    }
    status
}
