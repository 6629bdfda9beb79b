// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory and copies. A freed address is still used now and then: the driver
//! refuses it, and gives none out twice.

use super::{BYTES, MAX_OBJECTS, Machine, pick};
use crate::sequence::Timing;
use std::sync::atomic::Ordering::Relaxed;

/// The buffer that copies to the device come from.
const SOURCE: usize = 3;

impl Machine {
    /// Synchronous forms run on the legacy stream.
    fn is_sync(&self, sync: bool) -> bool {
        sync && self.setup.timing != Timing::NoLegacy
    }

    fn address(&self, choice: u8) -> u64 {
        pick(&self.memory, choice).copied().unwrap_or(0)
    }

    pub(super) fn mem_alloc(&mut self, s: u8, sync: bool) {
        if self.memory.len() >= MAX_OBJECTS {
            return;
        }
        let (stream, mut address) = (self.stream(s).handle, 0);
        let made = if sync {
            call!(self, "cuMemAlloc_v2", &raw mut address => *mut u64, BYTES => usize)
        } else {
            call!(self, "cuMemAllocAsync", &raw mut address => *mut u64, BYTES => usize,
                stream => u64)
        };
        if made.is_success() {
            self.memory.push(address);
        }
    }

    pub(super) fn mem_free(&mut self, m: u8, s: u8, sync: bool) {
        let (stream, address) = (self.stream(s).handle, self.address(m));
        if sync {
            call!(self, "cuMemFree_v2", address => u64);
        } else {
            call!(self, "cuMemFreeAsync", address => u64, stream => u64);
        }
    }

    pub(super) fn memset(&mut self, m: u8, s: u8, value: u8, sync: bool) {
        let (stream, to) = (self.stream(s).handle, self.address(m));
        if self.is_sync(sync) {
            call!(self, "cuMemsetD8_v2", to => u64, value => u8, BYTES => usize);
        } else {
            call!(self, "cuMemsetD8Async", to => u64, value => u8, BYTES => usize, stream => u64);
        }
    }

    pub(super) fn copy_in(&mut self, m: u8, s: u8, value: u8, sync: bool) {
        let (stream, to) = (self.stream(s).handle, self.address(m));
        for byte in self.host[SOURCE].iter() {
            byte.store(value, Relaxed);
        }
        let from = self.host[SOURCE].as_ptr().cast::<u8>();
        if self.is_sync(sync) {
            call!(self, "cuMemcpyHtoD_v2", to => u64, from => *const u8, BYTES => usize);
        } else {
            call!(self, "cuMemcpyHtoDAsync_v2", to => u64, from => *const u8, BYTES => usize,
                stream => u64);
        }
    }

    pub(super) fn copy_out(&mut self, m: u8, s: u8, host: u8, sync: bool) {
        let (stream, from) = (self.stream(s).handle, self.address(m));
        let place = usize::from(host) % SOURCE;
        let to = self.host[place].as_ptr().cast_mut().cast::<u8>();
        if self.is_sync(sync) {
            call!(self, "cuMemcpyDtoH_v2", to => *mut u8, from => u64, BYTES => usize);
        } else {
            call!(self, "cuMemcpyDtoHAsync_v2", to => *mut u8, from => u64, BYTES => usize,
                stream => u64);
        }
        self.see_host(place);
    }

    pub(super) fn copy_within(&mut self, m: u8, to: u8, s: u8, sync: bool) {
        let stream = self.stream(s).handle;
        let (from, to) = (self.address(m), self.address(to));
        if self.is_sync(sync) {
            call!(self, "cuMemcpyDtoD_v2", to => u64, from => u64, BYTES => usize);
        } else {
            call!(self, "cuMemcpyDtoDAsync_v2", to => u64, from => u64, BYTES => usize,
                stream => u64);
        }
    }

    fn see_host(&mut self, place: usize) {
        let sum = self.host[place].iter().fold(0, |sum: u64, byte| {
            sum.wrapping_mul(31).wrapping_add(u64::from(byte.load(Relaxed)))
        });
        self.see("a buffer's bytes", 0, sum);
    }

    /// What all memory holds. Nothing may capture any more.
    pub(super) fn see_memory(&mut self) {
        for place in 0..self.host.len() {
            self.see_host(place);
        }
        for m in 0..self.memory.len() {
            self.copy_out(m as u8, 0, 0, false);
        }
    }
}
