// SPDX-License-Identifier: MIT OR Apache-2.0
//! Modules and functions.
#![allow(non_snake_case, reason = "the driver's own names")]

use std::ffi::{CStr, c_char, c_uint, c_void};

use metrale_gpu_sys::cuda::Status;

use super::graph::fill;
use super::launch::live;
use super::{Out, put, put_if, some};
use crate::symbols::Symbol;
use crate::thread::Thread;
use crate::world::{Outcome, World};

/// A C string, 1 if NULL.
///
/// # Safety
/// `text` is NULL or a C string that outlives the call.
pub(super) unsafe fn string<'a>(text: *const c_char) -> Result<&'a CStr, Status> {
    if text.is_null() {
        return Err(Status::ERROR_INVALID_VALUE);
    }
    // SAFETY: not NULL; the rest is this function's contract.
    Ok(unsafe { CStr::from_ptr(text) })
}

/// Loading is an unsafe call during a capture.
fn load(world: &mut World, thread: Thread, out: Out<'_, u64>, image: &[u8]) -> Outcome {
    some(&out)?;
    let context = world.current(thread)?;
    world.unsafe_call(thread)?;
    let module = world.load(context, text(image)?)?;
    put(out, module)
}

/// PTX text of an image: 200 for device code already compiled.
pub(super) fn text(image: &[u8]) -> Result<&str, Status> {
    if is_binary(image) {
        return Err(Status::ERROR_INVALID_IMAGE);
    }
    str::from_utf8(image).map_err(|_| Status::ERROR_INVALID_PTX)
}

/// Device code already compiled, as an ELF file or a fat binary: not simulated.
fn is_binary(image: &[u8]) -> bool {
    image.starts_with(b"\x7fELF") || image.starts_with(&[0x50, 0xed, 0x55, 0xba])
}

exports! {
    /// # Safety
    /// `file` is NULL or a C string.
    unsafe fn cuModuleLoad(out: Out<'_, u64>, file: *const c_char)
    in call(0, 0) |world, thread| {
        // SAFETY: this function's contract.
        let file = unsafe { string(file) }?;
        let file = file.to_str().map_err(|_| Status::ERROR_FILE_NOT_FOUND)?;
        let image = std::fs::read(file).map_err(|_| Status::ERROR_FILE_NOT_FOUND)?;
        load(world, thread, out, &image)
    }

    /// # Safety
    /// `image` is NULL or a C string.
    unsafe fn cuModuleLoadData(out: Out<'_, u64>, image: *const c_void)
    in call(0, 0) |world, thread| {
        // SAFETY: this function's contract.
        let image = unsafe { string(image.cast()) }?;
        load(world, thread, out, image.to_bytes())
    }

    /// Options are ignored.
    ///
    /// # Safety
    /// `image` is NULL or a C string.
    unsafe fn cuModuleLoadDataEx(
        out: Out<'_, u64>,
        image: *const c_void,
        _count: c_uint,
        _options: *mut c_uint,
        _values: *mut *mut c_void,
    ) in call(0, 0) |world, thread| {
        // SAFETY: this function's contract.
        let image = unsafe { string(image.cast()) }?;
        load(world, thread, out, image.to_bytes())
    }
}

/// The functions of a live module: NULL gives 400.
fn functions(world: &mut World, module: u64) -> Result<Vec<u64>, Status> {
    world.ready()?;
    let null = Status::ERROR_INVALID_HANDLE;
    let found = world.modules.find(module, null, &mut world.stale_uses)?;
    let (context, functions) = (found.context, found.functions.clone());
    world.healthy(context).map(|()| functions)
}

exports! {
    fn cuModuleUnload(module: u64) in call(module, 0) |world, thread| {
        let known = functions(world, module).map(|_| ());
        world.unsafe_call(thread)?;
        world.unload(module);
        known
    }

    /// 500 where the module has no such entry.
    ///
    /// # Safety
    /// `name` is NULL or a C string.
    unsafe fn cuModuleGetFunction(out: Out<'_, u64>, module: u64, name: *const c_char)
    in call(module, 0) |world, _| {
        // SAFETY: this function's contract.
        let name = unsafe { string(name) }?;
        some(&out)?;
        let functions = functions(world, module)?;
        let is_it = |function: &u64| {
            let found = world.functions.get(*function);
            found.is_some_and(|found| found.c_name.as_c_str() == name)
        };
        let function = functions.into_iter().find(is_it);
        put(out, function.ok_or(Status::ERROR_NOT_FOUND)?)
    }

    fn cuModuleGetFunctionCount(out: Out<'_, c_uint>, module: u64)
    in call(module, 0) |world, _| {
        let count = c_uint::try_from(functions(world, module)?.len());
        put(out, count.unwrap_or(c_uint::MAX))
    }

    /// # Safety
    /// `out` is NULL or good for `count` handles.
    unsafe fn cuModuleEnumerateFunctions(out: *mut u64, count: c_uint, module: u64)
    in call(module, 0) |world, _| {
        if out.is_null() {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        let room = usize::try_from(count).unwrap_or(usize::MAX);
        let functions = functions(world, module)?;
        // SAFETY: the caller promises room for `count` handles.
        unsafe { fill(out, room.min(functions.len()), &functions) };
        Ok(())
    }

    /// The name stays good until the module is unloaded. NULL gives 1, even
    /// before `cuInit`.
    fn cuFuncGetName(out: Out<'_, *const c_char>, function: u64)
    in call(function, 0) |world, _| {
        if function == 0 {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        world.ready()?;
        put(out, live(world, function)?.c_name.as_ptr())
    }

    fn cuFuncGetModule(out: Out<'_, u64>, function: u64) in call(function, 0) |world, _| {
        world.ready()?;
        put(out, live(world, function)?.module)
    }

    /// 500 where the module has no such variable; either answer may be left out.
    ///
    /// # Safety
    /// `name` is NULL or a C string.
    unsafe fn cuModuleGetGlobal_v2(
        address: Out<'_, u64>,
        bytes: Out<'_, usize>,
        module: u64,
        name: *const c_char,
    ) in call(module, 0) |world, _| {
        // SAFETY: this function's contract.
        let name = unsafe { string(name) }?;
        functions(world, module)?;
        let variables = world.modules.get(module).map(|module| &module.variables);
        let mut variables = variables.into_iter().flatten();
        let found = variables.find(|variable| variable.name.as_bytes() == name.to_bytes());
        let found = found.ok_or(Status::ERROR_NOT_FOUND)?;
        put_if(address, found.address);
        put_if(bytes, found.bytes);
        Ok(())
    }
}
