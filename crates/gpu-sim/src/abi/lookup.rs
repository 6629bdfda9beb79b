// SPDX-License-Identifier: MIT OR Apache-2.0
//! Entry points by base name and version.
//!
//! As measured on real drivers: an unknown name is no error but NULL with
//! status 1, a version too low NULL with status 2, a version above the driver's
//! is taken as the newest. Only base names are known: a name with its `_v2` is
//! not found.
#![allow(non_snake_case, reason = "the driver's own names")]

use std::ffi::{c_char, c_int, c_void};
use std::ptr;

use metrale_gpu_sys::cuda::Status;

use super::module::string;
use super::{Out, put, put_if};
use crate::config::Config;
use crate::symbols::Symbol;
use crate::world::Outcome;

/// `CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM`.
const PER_THREAD: u64 = 2;
/// `CUdriverProcAddressQueryResult`.
const FOUND: u32 = 0;
const NOT_FOUND: u32 = 1;
const VERSION_TOO_LOW: u32 = 2;

fn find(config: &Config, name: &str, version: u32, per_thread: bool) -> (Option<Symbol>, u32) {
    // CUDA 12 gave the name to another function.
    let name = match name {
        "cuGraphInstantiate" if version >= 12_000 => "cuGraphInstantiateWithFlags",
        _ => name,
    };
    let shown = |symbol: &&Symbol| symbol.base().0 == name && !config.is_hidden(**symbol);
    let candidates = || Symbol::ALL.iter().filter(shown);
    let newest = |twin: bool| {
        candidates()
            .filter(|symbol| symbol.base().1 == twin && symbol.since() <= version)
            .max_by_key(|symbol| (symbol.since(), symbol.index()))
            .copied()
    };
    // A function without a per-thread twin is the same in both flavours.
    let found = per_thread.then(|| newest(true)).flatten();
    match found.or_else(|| newest(false)) {
        Some(symbol) => (Some(symbol), FOUND),
        None if candidates().next().is_some() => (None, VERSION_TOO_LOW),
        None => (None, NOT_FOUND),
    }
}

/// # Safety
/// `name` is NULL or a C string.
unsafe fn lookup(
    config: &Config,
    name: *const c_char,
    out: Out<'_, *const c_void>,
    (version, flags): (c_int, u64),
    status: Out<'_, u32>,
) -> Outcome {
    // SAFETY: this function's contract.
    let name = unsafe { string(name) }?.to_str().unwrap_or("");
    if flags > PER_THREAD {
        return Err(Status::ERROR_INVALID_VALUE);
    }
    let version = u32::try_from(version).unwrap_or(0);
    let (symbol, result) = find(config, name, version, flags == PER_THREAD);
    put(out, symbol.map_or(ptr::null(), Symbol::address))?;
    put_if(status, result);
    Ok(())
}

exports! {
    /// # Safety
    /// `name` is NULL or a C string.
    unsafe fn cuGetProcAddress(
        name: *const c_char,
        out: Out<'_, *const c_void>,
        version: c_int,
        flags: u64,
    ) in call(0, 0) |world, _| {
        // SAFETY: this function's contract.
        unsafe { lookup(&world.config, name, out, (version, flags), None) }
    }

    /// # Safety
    /// `name` is NULL or a C string.
    unsafe fn cuGetProcAddress_v2(
        name: *const c_char,
        out: Out<'_, *const c_void>,
        version: c_int,
        flags: u64,
        status: Out<'_, u32>,
    ) in call(0, 0) |world, _| {
        // SAFETY: this function's contract.
        unsafe { lookup(&world.config, name, out, (version, flags), status) }
    }
}
