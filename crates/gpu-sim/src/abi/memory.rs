// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory and copies.
//!
//! The synchronous forms run on the legacy stream and wait for it.
#![allow(non_snake_case, reason = "the driver's own names")]

use std::ffi::{c_uint, c_void};

use metrale_gpu_sys::cuda::Status;

use super::{Out, put, some};
use crate::capture::Target;
use crate::graph::Kind;
use crate::memory::{DEVICE_BYTES, Transfer};
use crate::symbols::Symbol;
use crate::thread::Thread;
use crate::world::{Outcome, World};

exports! {
    fn cuMemGetInfo_v2(free: Out<'_, usize>, total: Out<'_, usize>)
    in call(0, 0) |world, thread| {
        world.current(thread)?;
        put(free, world.memory.free_bytes())?;
        put(total, DEVICE_BYTES)
    }

    fn cuMemAlloc_v2(out: Out<'_, u64>, bytes: usize) in call(0, 0) |world, thread| {
        some(&out)?;
        let context = world.current(thread)?;
        world.unsafe_call(thread)?;
        let address = world.memory.allocate(context, bytes)?;
        put(out, address)
    }

    fn cuMemFree_v2(address: u64) in call(address, 0) |world, thread| {
        world.current(thread)?;
        world.unsafe_call(thread)?;
        world.memory.free(address)
    }

    /// 0 bytes give NULL. In a capture the memory is there at once and stays; the
    /// graph gets a node for it that takes no time.
    fn cuMemAllocAsync(out: Out<'_, u64>, bytes: usize, stream: u64)
    in call(0, stream) |world, thread| {
        some(&out)?;
        let key = world.stream_key(thread, stream, false)?;
        let context = world.stream(key)?.context;
        let target = world.target(key)?;
        let address = if bytes == 0 { 0 } else { world.memory.allocate(context, bytes)? };
        match target {
            Target::Device => world.submit(key, 0).map(|_| ())?,
            Target::Capture(id) => world.add_node(id, key, Kind::Allocate)?,
        }
        put(out, address)
    }

    /// In a capture the graph gets a node and the memory stays.
    fn cuMemFreeAsync(address: u64, stream: u64) in call(address, stream) |world, thread| {
        let key = world.stream_key(thread, stream, false)?;
        match world.target(key)? {
            Target::Device => {
                world.memory.free(address)?;
                world.submit(key, 0).map(|_| ())
            }
            Target::Capture(_) if address != 0 && !world.memory.is_allocated(address) => {
                Err(Status::ERROR_INVALID_VALUE)
            }
            Target::Capture(id) => world.add_node(id, key, Kind::Release),
        }
    }

    /// Memory that the host reads and writes too: `flags` say from where else, and 0 gives 1.
    fn cuMemAllocManaged(out: Out<'_, u64>, bytes: usize, flags: c_uint)
    in call(0, 0) |world, thread| {
        some(&out)?;
        let context = world.current(thread)?;
        world.unsafe_call(thread)?;
        if !(1..=2).contains(&flags) {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        let address = world.memory.allocate_managed(context, bytes)?;
        put(out, address)
    }

    /// Which stream may touch managed memory is not kept: nothing comes of it here.
    fn cuStreamAttachMemAsync(stream: u64, address: u64, _bytes: usize, flags: c_uint)
    in call(address, stream) |world, thread| {
        let key = world.stream_key(thread, stream, false)?;
        if !matches!(flags, 1 | 2 | 4) || !world.memory.is_allocated(address) {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        match world.target(key)? {
            Target::Device => world.submit(key, 0).map(|_| ()),
            Target::Capture(_) => Err(Status::ERROR_STREAM_CAPTURE_UNSUPPORTED),
        }
    }
}

fn host(world: &mut World, thread: Thread, out: Out<'_, *mut u8>, bytes: usize) -> Outcome {
    some(&out)?;
    world.current(thread)?;
    world.unsafe_call(thread)?;
    let address = world.memory.allocate_host(bytes)?;
    put(out, address)
}

exports! {
    fn cuMemAllocHost_v2(out: Out<'_, *mut u8>, bytes: usize) in call(0, 0) |world, thread| {
        host(world, thread, out, bytes)
    }

    fn cuMemHostAlloc(out: Out<'_, *mut u8>, bytes: usize, _flags: c_uint)
    in call(0, 0) |world, thread| {
        host(world, thread, out, bytes)
    }

    fn cuMemFreeHost(address: *mut c_void) in call(0, 0) |world, thread| {
        world.current(thread)?;
        world.unsafe_call(thread)?;
        world.memory.free_host(address.expose_provenance())
    }
}

/// A transfer given to a stream.
fn enqueue(world: &mut World, key: u64, transfer: Transfer) -> Outcome {
    match world.target(key)? {
        Target::Device => {
            world.memory.run(transfer)?;
            world.submit(key, world.config.copy_ns).map(|_| ())
        }
        Target::Capture(id) => {
            world.memory.check(transfer)?;
            world.add_node(id, key, Kind::Copy(transfer))
        }
    }
}

fn asynchronous(world: &mut World, thread: Thread, stream: u64, transfer: Transfer) -> Outcome {
    let key = world.stream_key(thread, stream, false)?;
    enqueue(world, key, transfer)
}

/// On the legacy stream, and waited for: an unsafe call during a capture.
fn synchronous(world: &mut World, thread: Thread, transfer: Transfer) -> Outcome {
    let key = world.stream_key(thread, 0, false)?;
    world.stream_wait(thread, key)?;
    enqueue(world, key, transfer)?;
    let end = world.completion(key);
    world.wait(end);
    Ok(())
}

exports! {
    fn cuMemsetD8_v2(to: u64, value: u8, bytes: usize) in call(0, 0) |world, thread| {
        synchronous(world, thread, Transfer::Fill { to, value, bytes })
    }

    fn cuMemsetD8Async(to: u64, value: u8, bytes: usize, stream: u64)
    in call(0, stream) |world, thread| {
        asynchronous(world, thread, stream, Transfer::Fill { to, value, bytes })
    }

    /// # Safety
    /// `from` is good for `bytes`.
    unsafe fn cuMemcpyHtoD_v2(to: u64, from: *const c_void, bytes: usize)
    in call(0, 0) |world, thread| {
        let from = from.expose_provenance();
        synchronous(world, thread, Transfer::ToDevice { to, from, bytes })
    }

    /// # Safety
    /// `from` is good for `bytes`, in a capture at every launch of its graph.
    unsafe fn cuMemcpyHtoDAsync_v2(to: u64, from: *const c_void, bytes: usize, stream: u64)
    in call(0, stream) |world, thread| {
        let from = from.expose_provenance();
        asynchronous(world, thread, stream, Transfer::ToDevice { to, from, bytes })
    }

    /// # Safety
    /// `to` is good for `bytes`.
    unsafe fn cuMemcpyDtoH_v2(to: *mut c_void, from: u64, bytes: usize)
    in call(0, 0) |world, thread| {
        let to = to.expose_provenance();
        synchronous(world, thread, Transfer::ToHost { to, from, bytes })
    }

    /// # Safety
    /// `to` is good for `bytes`, in a capture at every launch of its graph.
    unsafe fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: u64, bytes: usize, stream: u64)
    in call(0, stream) |world, thread| {
        let to = to.expose_provenance();
        asynchronous(world, thread, stream, Transfer::ToHost { to, from, bytes })
    }

    fn cuMemcpyDtoD_v2(to: u64, from: u64, bytes: usize) in call(0, 0) |world, thread| {
        synchronous(world, thread, Transfer::Within { to, from, bytes })
    }

    fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: usize, stream: u64)
    in call(0, stream) |world, thread| {
        asynchronous(world, thread, stream, Transfer::Within { to, from, bytes })
    }
}
