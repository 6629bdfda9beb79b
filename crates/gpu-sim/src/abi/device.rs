// SPDX-License-Identifier: MIT OR Apache-2.0
//! Initialisation, versions, error names and devices.
#![allow(non_snake_case, reason = "the driver's own names")]

use std::collections::BTreeMap;
use std::ffi::{CString, c_char, c_int, c_uint};
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::OnceLock;

use metrale_gpu_sys::cuda::Status;

use super::{Out, put};
use crate::memory::DEVICE_BYTES;
use crate::symbols::Symbol;
use crate::world::{Init, Outcome, Primary, World, set_initialised};

exports! {
    fn cuInit(flags: c_uint) in call(0, 0) |world, _| {
        if flags != 0 {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        if world.init == Init::Done {
            return Ok(());
        }
        if world.config.devices == 0 {
            world.init = Init::Failed;
            return Err(Status::ERROR_NO_DEVICE);
        }
        let devices = usize::try_from(world.config.devices).unwrap_or(usize::MAX);
        world.primaries.resize(devices, Primary::default());
        world.init = Init::Done;
        set_initialised(true);
        Ok(())
    }

    /// Works before `cuInit`, as the real one does.
    fn cuDriverGetVersion(version: Out<'_, c_int>) in call(0, 0) |world, _| {
        put(version, world.config.driver_version)
    }
}

struct Texts {
    name: CString,
    meaning: CString,
}

/// The driver's texts as C strings, made once and never freed: callers keep the
/// pointers.
fn texts() -> &'static BTreeMap<u32, Texts> {
    static TEXTS: OnceLock<BTreeMap<u32, Texts>> = OnceLock::new();
    TEXTS.get_or_init(|| {
        let text = |status: &Status| {
            let name = CString::new(status.name()?).ok()?;
            let meaning = CString::new(status.meaning()).ok()?;
            Some((status.0, Texts { name, meaning }))
        };
        Status::KNOWN.iter().filter_map(text).collect()
    })
}

/// Hands out one text of a status: 1 and NULL for a status without.
fn text(out: Out<'_, *const c_char>, found: Option<*const c_char>) -> Outcome {
    put(out, found.unwrap_or(ptr::null()))?;
    found.map(|_| ()).ok_or(Status::ERROR_INVALID_VALUE)
}

exports! {
    fn cuGetErrorName(error: u32, name: Out<'_, *const c_char>) in call(0, 0) |_, _| {
        text(name, texts().get(&error).map(|texts| texts.name.as_ptr()))
    }

    fn cuGetErrorString(error: u32, string: Out<'_, *const c_char>) in call(0, 0) |_, _| {
        text(string, texts().get(&error).map(|texts| texts.meaning.as_ptr()))
    }
}

/// 101 unless the device exists.
pub(crate) fn device(world: &World, device: c_int) -> Result<usize, Status> {
    world.ready()?;
    usize::try_from(device)
        .ok()
        .filter(|place| *place < world.primaries.len())
        .ok_or(Status::ERROR_INVALID_DEVICE)
}

exports! {
    fn cuDeviceGet(out: Out<'_, c_int>, ordinal: c_int) in call(0, 0) |world, _| {
        device(world, ordinal)?;
        put(out, ordinal)
    }

    fn cuDeviceGetCount(count: Out<'_, c_int>) in call(0, 0) |world, _| {
        world.ready()?;
        let devices = c_int::try_from(world.primaries.len());
        put(count, devices.unwrap_or(c_int::MAX))
    }

    /// # Safety
    /// `name` is NULL or good for `length` bytes.
    unsafe fn cuDeviceGetName(name: *mut c_char, length: c_int, ordinal: c_int)
    in call(0, 0) |world, _| {
        device(world, ordinal)?;
        let text = b"metrale simulated GPU";
        let room = usize::try_from(length).unwrap_or(0);
        if name.is_null() || room == 0 {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        let kept = text.len().min(room - 1);
        // SAFETY: the caller promises `length` bytes; `kept` is less than that.
        unsafe { ptr::copy_nonoverlapping(text.as_ptr(), name.cast::<u8>(), kept) };
        // SAFETY: as above.
        let end = unsafe { name.add(kept) };
        // SAFETY: as above; `kept` is at most `length` - 1.
        unsafe { end.write(0) };
        Ok(())
    }
}

/// The UUID of a device, or of its MIG instance.
fn uuid(world: &World, out: Out<'_, [u8; 16]>, ordinal: c_int, instance: bool) -> Outcome {
    device(world, ordinal)?;
    let name = if instance { b"metrale-mig-" } else { b"metrale-sim-" };
    let mut uuid = [0; 16];
    if let Some(head) = uuid.first_chunk_mut() {
        *head = *name;
    }
    if let Some(tail) = uuid.last_chunk_mut::<4>() {
        *tail = ordinal.to_be_bytes();
    }
    put(out, uuid)
}

exports! {
    fn cuDeviceGetUuid(out: Out<'_, [u8; 16]>, ordinal: c_int) in call(0, 0) |world, _| {
        uuid(world, out, ordinal, false)
    }

    fn cuDeviceGetUuid_v2(out: Out<'_, [u8; 16]>, ordinal: c_int) in call(0, 0) |world, _| {
        uuid(world, out, ordinal, world.config.mig)
    }

    fn cuDeviceTotalMem_v2(bytes: Out<'_, usize>, ordinal: c_int) in call(0, 0) |world, _| {
        device(world, ordinal)?;
        put(bytes, DEVICE_BYTES)
    }
}

/// Attributes a program is likely to ask for, by number, as an H100 answers;
/// any other is 0. 115 says that memory pools are supported.
fn attribute(number: u32) -> c_int {
    match number {
        // Threads a block, and block and grid dimensions.
        1..=3 => 1_024,
        4 => 64,
        5 => c_int::MAX,
        6 | 7 => 65_535,
        // Shared memory a block, warp size, registers a block.
        8 => 49_152,
        10 => 32,
        12 => 65_536,
        // Clock in kHz, multiprocessors, threads a multiprocessor.
        13 => 1_980_000,
        16 => 132,
        39 => 2_048,
        // Unified addressing, stream priorities, managed memory, the host's access to
        // it while the device runs.
        41 | 78 | 83 | 89 => 1,
        // Compute capability.
        75 => 9,
        76 => 0,
        // Shared memory a multiprocessor, and a block if asked for.
        81 => 233_472,
        97 => 232_448,
        115 => 1,
        _ => 0,
    }
}

exports! {
    fn cuDeviceGetAttribute(value: Option<&mut MaybeUninit<c_int>>, number: u32, ordinal: c_int)
    in call(0, 0) |world, _| {
        device(world, ordinal)?;
        put(value, attribute(number))
    }
}
