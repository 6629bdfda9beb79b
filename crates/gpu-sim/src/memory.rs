// SPDX-License-Identifier: MIT OR Apache-2.0
//! Device memory, backed by host memory of this process.
//!
//! A device pointer is an address of the simulator's own; only copies reach
//! what is behind it, but for managed memory, whose address is the host's. Bytes move at the call (or graph launch) that says so,
//! in the host's order; only the time they take is accounted to the stream.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::BTreeMap;
use std::ptr;

use metrale_gpu_sys::cuda::Status;

use crate::world::Outcome;

/// Memory of each simulated device.
pub(crate) const DEVICE_BYTES: usize = 80 << 30;

const ALIGN: u64 = 512;
const FIRST_ADDRESS: u64 = 0x7f10_0000_0000;

/// Bytes to move. Host addresses are plain numbers: the caller answers for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transfer {
    ToDevice { to: u64, from: usize, bytes: usize },
    ToHost { to: usize, from: u64, bytes: usize },
    Within { to: u64, from: u64, bytes: usize },
    Fill { to: u64, value: u8, bytes: usize },
}

/// Memory of this process, freed as it goes.
#[derive(Debug)]
struct Block {
    /// The context it goes with; of the host's memory none.
    context: u64,
    /// Where it lies, as a number: the host writes to managed memory at any time.
    at: usize,
    layout: Layout,
}

impl Block {
    /// Zeroed: 1 for 0 bytes.
    fn new(context: u64, bytes: usize, align: usize) -> Result<Self, Status> {
        if bytes == 0 {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        let layout = Layout::from_size_align(bytes, align);
        let layout = layout.map_err(|_| Status::ERROR_OUT_OF_MEMORY)?;
        // SAFETY: the layout's size is not 0.
        let start = unsafe { alloc_zeroed(layout) };
        if start.is_null() {
            return Err(Status::ERROR_OUT_OF_MEMORY);
        }
        let at = start.expose_provenance();
        Ok(Self { context, at, layout })
    }

    const fn len(&self) -> usize {
        self.layout.size()
    }

    fn bytes(&mut self) -> &mut [u8] {
        let start = ptr::with_exposed_provenance_mut(self.at);
        // SAFETY: the block's own, initialised, for as long as it lives; a program
        // that writes to managed memory during a call races on a real GPU too.
        unsafe { std::slice::from_raw_parts_mut(start, self.len()) }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: from `alloc_zeroed` with that layout, and freed once.
        unsafe { dealloc(ptr::with_exposed_provenance_mut(self.at), self.layout) };
    }
}

#[derive(Debug)]
pub(crate) struct Memory {
    blocks: BTreeMap<u64, Block>,
    host: BTreeMap<usize, Block>,
    next: u64,
    used: usize,
    /// Of what is used: by executable graphs.
    reserved: usize,
}

impl Memory {
    pub(crate) const fn new() -> Self {
        Self {
            blocks: BTreeMap::new(),
            host: BTreeMap::new(),
            next: FIRST_ADDRESS,
            used: 0,
            reserved: 0,
        }
    }

    /// Free bytes of the device.
    pub(crate) const fn free_bytes(&self) -> usize {
        DEVICE_BYTES.saturating_sub(self.used)
    }

    /// Allocates zeroed device memory: 1 for 0 bytes.
    pub(crate) fn allocate(&mut self, context: u64, bytes: usize) -> Result<u64, Status> {
        let block = self.block(context, bytes)?;
        let address = self.next;
        self.next += (bytes as u64).next_multiple_of(ALIGN) + ALIGN;
        self.blocks.insert(address, block);
        Ok(address)
    }

    /// As [`Memory::allocate`], at an address that is the host's too.
    pub(crate) fn allocate_managed(&mut self, context: u64, bytes: usize) -> Result<u64, Status> {
        let block = self.block(context, bytes)?;
        let address = block.at as u64;
        self.blocks.insert(address, block);
        Ok(address)
    }

    fn block(&mut self, context: u64, bytes: usize) -> Result<Block, Status> {
        if bytes > self.free_bytes() {
            return Err(Status::ERROR_OUT_OF_MEMORY);
        }
        // What every allocator gives: more would touch every page.
        let block = Block::new(context, bytes, 16)?;
        self.used += bytes;
        Ok(block)
    }

    /// Frees device memory; NULL is nothing to free, an unknown address gives 1.
    pub(crate) fn free(&mut self, address: u64) -> Outcome {
        if address == 0 {
            return Ok(());
        }
        let block = self.blocks.remove(&address);
        let block = block.ok_or(Status::ERROR_INVALID_VALUE)?;
        self.used = self.used.saturating_sub(block.len());
        Ok(())
    }

    /// Whether that address starts an allocation.
    pub(crate) fn is_allocated(&self, address: u64) -> bool {
        self.blocks.contains_key(&address)
    }

    pub(crate) fn free_context(&mut self, context: u64) {
        self.blocks.retain(|_, block| block.context != context);
        let blocks: usize = self.blocks.values().map(Block::len).sum();
        self.used = blocks + self.reserved;
    }

    /// Takes memory that has no address: 2 where there is too little.
    pub(crate) const fn reserve(&mut self, bytes: usize) -> Outcome {
        if bytes > self.free_bytes() {
            return Err(Status::ERROR_OUT_OF_MEMORY);
        }
        self.used += bytes;
        self.reserved += bytes;
        Ok(())
    }

    /// Gives back what [`Memory::reserve`] took.
    pub(crate) const fn give_back(&mut self, bytes: usize) {
        self.used = self.used.saturating_sub(bytes);
        self.reserved = self.reserved.saturating_sub(bytes);
    }

    /// Allocates zeroed, page-aligned host memory.
    pub(crate) fn allocate_host(&mut self, bytes: usize) -> Result<*mut u8, Status> {
        let block = Block::new(0, bytes, 4096)?;
        let at = block.at;
        self.host.insert(at, block);
        Ok(ptr::with_exposed_provenance_mut(at))
    }

    /// Frees host memory of [`Memory::allocate_host`]; any other address gives 1.
    pub(crate) fn free_host(&mut self, address: usize) -> Outcome {
        let freed = self.host.remove(&address);
        freed.map(|_| ()).ok_or(Status::ERROR_INVALID_VALUE)
    }

    /// The bytes behind a device address, within one allocation.
    fn device(&mut self, address: u64, bytes: usize) -> Result<&mut [u8], Status> {
        let (start, block) =
            self.blocks.range_mut(..=address).next_back().ok_or(Status::ERROR_INVALID_VALUE)?;
        let offset = usize::try_from(address - start).ok();
        offset
            .and_then(|offset| block.bytes().get_mut(offset..offset.checked_add(bytes)?))
            .ok_or(Status::ERROR_INVALID_VALUE)
    }

    /// 1 unless every device range is within an allocation and no host address is NULL.
    pub(crate) fn check(&mut self, transfer: Transfer) -> Outcome {
        match transfer {
            _ if transfer.bytes() == 0 => return Ok(()),
            Transfer::ToDevice { from: 0, .. } | Transfer::ToHost { to: 0, .. } => {
                return Err(Status::ERROR_INVALID_VALUE);
            }
            Transfer::ToDevice { to, bytes, .. } | Transfer::Fill { to, bytes, .. } => {
                self.device(to, bytes)?;
            }
            Transfer::ToHost { from, bytes, .. } => {
                self.device(from, bytes)?;
            }
            Transfer::Within { to, from, bytes } => {
                self.device(to, bytes)?;
                self.device(from, bytes)?;
            }
        }
        Ok(())
    }

    /// Moves the bytes.
    pub(crate) fn run(&mut self, transfer: Transfer) -> Outcome {
        self.check(transfer)?;
        if transfer.bytes() == 0 {
            return Ok(());
        }
        match transfer {
            Transfer::ToDevice { to, from, bytes } => {
                let from: *const u8 = ptr::with_exposed_provenance(from);
                let to = self.device(to, bytes)?.as_mut_ptr();
                // SAFETY: the caller of the copy answers for the host range; the
                // device range was checked. They may overlap in no sane program;
                // `copy` allows it.
                unsafe { ptr::copy(from, to, bytes) };
            }
            Transfer::ToHost { to, from, bytes } => {
                let to: *mut u8 = ptr::with_exposed_provenance_mut(to);
                let from = self.device(from, bytes)?.as_ptr();
                // SAFETY: as above, the other way round.
                unsafe { ptr::copy(from, to, bytes) };
            }
            Transfer::Within { to, from, bytes } => {
                let copy = self.device(from, bytes)?.to_vec();
                self.device(to, bytes)?.copy_from_slice(&copy);
            }
            Transfer::Fill { to, value, bytes } => self.device(to, bytes)?.fill(value),
        }
        Ok(())
    }
}

impl Transfer {
    const fn bytes(self) -> usize {
        match self {
            Self::ToDevice { bytes, .. }
            | Self::ToHost { bytes, .. }
            | Self::Within { bytes, .. }
            | Self::Fill { bytes, .. } => bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Memory, Transfer};
    use metrale_gpu_sys::cuda::Status;

    #[test]
    fn copies_stay_within_their_allocation() {
        let mut memory = Memory::new();
        let a = memory.allocate(1, 16).expect("memory");
        let b = memory.allocate(1, 16).expect("memory");
        let source = [7_u8; 16];
        let mut back = [0_u8; 16];
        let up = Transfer::ToDevice { to: a, from: source.as_ptr().expose_provenance(), bytes: 16 };
        assert_eq!(memory.run(up), Ok(()));
        let across = Transfer::Within { to: b + 8, from: a, bytes: 8 };
        assert_eq!(memory.run(across), Ok(()));
        let down =
            Transfer::ToHost { to: back.as_mut_ptr().expose_provenance(), from: b, bytes: 16 };
        assert_eq!(memory.run(down), Ok(()));
        assert_eq!(back, [0, 0, 0, 0, 0, 0, 0, 0, 7, 7, 7, 7, 7, 7, 7, 7]);
        let beyond = Transfer::Fill { to: a + 8, value: 1, bytes: 9 };
        assert_eq!(memory.run(beyond), Err(Status::ERROR_INVALID_VALUE));
        assert_eq!(memory.free(a), Ok(()));
        assert_eq!(memory.free(a), Err(Status::ERROR_INVALID_VALUE));
        assert_eq!(memory.run(up), Err(Status::ERROR_INVALID_VALUE));
    }
}
