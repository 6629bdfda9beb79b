// SPDX-License-Identifier: MIT OR Apache-2.0
//! NVTX ranges over NVIDIA's `nvtx` crate, by its calls that allocate nothing.
//!
//! Where no tool listens a call is a test of a function pointer. The first call
//! of a process looks for a tool, and loads it: microseconds to milliseconds.
//! Ranges are per thread: one is popped on the thread that pushed it, the
//! innermost first, in each domain for itself.

use nvtx::sys;
use std::ffi::CStr;

/// Pushes a range of the default domain on this thread.
pub fn push(name: &CStr) {
    // The depth that comes back is of use to nobody; negative: nobody listens.
    let _ = sys::range_push_ascii(name);
}

/// Pops this thread's innermost range of the default domain.
pub fn pop() {
    let _ = sys::range_pop();
}

/// A domain: ranges that nest among themselves, and that a tool shows as a row
/// of its own.
#[derive(Clone, Copy, Debug)]
pub struct Domain(sys::DomainHandle);

/// What a tool is told of a range.
#[derive(Clone, Copy, Debug)]
pub struct Range<'a> {
    /// The name shown.
    pub name: &'a CStr,
    /// A number that belongs to it.
    pub payload: Option<u64>,
    /// A category, by its number; 0 for none.
    pub category: u32,
    /// A colour as 0xAARRGGBB.
    pub argb: Option<u32>,
}

impl Domain {
    /// Makes a domain, for the life of the process.
    #[must_use]
    pub fn new(name: &CStr) -> Self {
        Self(sys::domain_create_ascii(name))
    }

    /// Names a category of the domain.
    pub fn name_category(&self, category: u32, name: &CStr) {
        sys::domain_name_category_ascii(self.0, category, name);
    }

    /// Pushes a range on this thread.
    pub fn push(&self, range: &Range<'_>) {
        let (color_type, color) = match range.argb {
            Some(argb) => (sys::ColorType::NVTX_COLOR_ARGB, argb),
            None => (sys::ColorType::NVTX_COLOR_UNKNOWN, 0),
        };
        let (payload_type, payload) = match range.payload {
            Some(number) => (sys::PayloadType::NVTX_PAYLOAD_TYPE_UNSIGNED_INT64, number),
            None => (sys::PayloadType::NVTX_PAYLOAD_UNKNOWN, 0),
        };
        let attributes = sys::EventAttributes {
            version: sys::NVTX_VERSION as u16,
            size: sys::NVTX_EVENT_ATTRIBUTES_SIZE as u16,
            category: range.category,
            colorType: color_type.into(),
            color,
            payloadType: payload_type.into(),
            reserved0: 0,
            payload: sys::PayloadValue { ullValue: payload },
            messageType: sys::MessageType::NVTX_MESSAGE_TYPE_ASCII.into(),
            message: sys::MessageValue { ascii: range.name.as_ptr() },
        };
        let _ = sys::domain_range_push_ex(self.0, &attributes);
    }

    /// Pops this thread's innermost range of the domain.
    pub fn pop(&self) {
        let _ = sys::domain_range_pop(self.0);
    }
}
