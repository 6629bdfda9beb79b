// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an NVTX tool must know of NVTX version 3: numbers and layouts.

use std::ffi::{c_char, c_int, c_void};

/// The export table with the callbacks.
pub(crate) const CALLBACKS: u32 = 1;
/// Module of the calls without a domain.
pub(crate) const CORE: u32 = 1;
/// Module of the calls with one.
pub(crate) const CORE2: u32 = 5;

pub(crate) const MESSAGE_ASCII: i32 = 1;
pub(crate) const PAYLOAD_U64: i32 = 1;
pub(crate) const COLOUR_ARGB: i32 = 1;

/// Gives an export table by its number.
pub(crate) type GetExportTable = unsafe extern "C" fn(u32) -> *const c_void;

/// Where NVTX keeps a callback's function.
pub(crate) type Slot = *const c_void;

/// The export table [`CALLBACKS`].
#[repr(C)]
pub(crate) struct CallbackTable {
    pub(crate) size: usize,
    /// Gives a module's slots and their number; 0 for failure.
    pub(crate) module_functions: unsafe extern "C" fn(u32, *mut *mut *mut Slot, *mut u32) -> c_int,
}

/// A range's attributes.
#[repr(C)]
pub(crate) struct Attributes {
    pub(crate) version: u16,
    pub(crate) size: u16,
    pub(crate) category: u32,
    pub(crate) colour_type: i32,
    pub(crate) colour: u32,
    pub(crate) payload_type: i32,
    pub(crate) reserved: i32,
    pub(crate) payload: u64,
    pub(crate) message_type: i32,
    pub(crate) message: *const c_char,
}
