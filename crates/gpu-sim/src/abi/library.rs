// SPDX-License-Identifier: MIT OR Apache-2.0
//! Libraries: code that is loaded once for all contexts, and its kernels.
#![allow(non_snake_case, reason = "the driver's own names")]

use std::ffi::{c_char, c_uint, c_void};

use metrale_gpu_sys::cuda::Status;

use super::graph::fill;
use super::module::{string, text};
use super::{Out, put, some};
use crate::module::LibraryKernel;
use crate::symbols::Symbol;
use crate::world::World;

exports! {
    /// Options are ignored.
    ///
    /// # Safety
    /// `image` is NULL or a C string.
    unsafe fn cuLibraryLoadData(
        out: Out<'_, u64>,
        image: *const c_void,
        _options: *mut c_uint,
        _values: *mut *mut c_void,
        _count: c_uint,
        _library_options: *mut c_uint,
        _library_values: *mut *mut c_void,
        _library_count: c_uint,
    ) in call(0, 0) |world, _| {
        // SAFETY: this function's contract.
        let image = unsafe { string(image.cast()) }?;
        some(&out)?;
        world.ready()?;
        let library = world.load_library(text(image.to_bytes())?)?;
        put(out, library)
    }

    fn cuLibraryUnload(library: u64) in call(library, 0) |world, thread| {
        world.library(library)?;
        world.unsafe_call(thread)?;
        world.unload_library(library);
        Ok(())
    }

    /// 500 where the library has no such kernel.
    ///
    /// # Safety
    /// `name` is NULL or a C string.
    unsafe fn cuLibraryGetKernel(out: Out<'_, u64>, library: u64, name: *const c_char)
    in call(library, 0) |world, _| {
        // SAFETY: this function's contract.
        let name = unsafe { string(name) }?;
        let kernels = world.library(library)?.kernels.clone();
        let mut named = kernels.into_iter().filter(|kernel| {
            let found = world.kernels.get(*kernel);
            found.is_some_and(|found| found.c_name.as_c_str() == name)
        });
        put(out, named.next().ok_or(Status::ERROR_NOT_FOUND)?)
    }

    fn cuLibraryGetKernelCount(out: Out<'_, c_uint>, library: u64)
    in call(library, 0) |world, _| {
        let count = c_uint::try_from(world.library(library)?.kernels.len());
        put(out, count.unwrap_or(c_uint::MAX))
    }

    /// # Safety
    /// `out` is NULL or good for `count` handles.
    unsafe fn cuLibraryEnumerateKernels(out: *mut u64, count: c_uint, library: u64)
    in call(library, 0) |world, _| {
        if out.is_null() {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        let room = usize::try_from(count).unwrap_or(usize::MAX);
        let kernels = &world.library(library)?.kernels;
        // SAFETY: the caller promises room for `count` handles.
        unsafe { fill(out, room.min(kernels.len()), kernels) };
        Ok(())
    }

    /// The library's module in the current context.
    fn cuLibraryGetModule(out: Out<'_, u64>, library: u64) in call(library, 0) |world, thread| {
        some(&out)?;
        let context = world.current(thread)?;
        let module = world.library_module(library, context)?;
        put(out, module)
    }
}

/// A live kernel: NULL and dead ones give 400.
fn live(world: &mut World, kernel: u64) -> Result<&mut LibraryKernel, Status> {
    world.ready()?;
    world.kernels.find(kernel, Status::ERROR_INVALID_HANDLE, &mut world.stale_uses)
}

exports! {
    /// The kernel's function in the current context.
    fn cuKernelGetFunction(out: Out<'_, u64>, kernel: u64) in call(kernel, 0) |world, thread| {
        some(&out)?;
        live(world, kernel)?;
        let context = world.current(thread)?;
        let function = world.function_of(kernel, context)?;
        put(out, function)
    }

    /// The name stays good until the library is unloaded.
    fn cuKernelGetName(out: Out<'_, *const c_char>, kernel: u64) in call(kernel, 0) |world, _| {
        put(out, live(world, kernel)?.c_name.as_ptr())
    }
}
