// SPDX-License-Identifier: MIT OR Apache-2.0
//! Launches that a pass lands, added up before they are counted.
//!
//! A step launches some dozens of kernels hundreds of times, and passes are
//! exclusive: a launch costs an addition here, and the read-modify-writes that
//! others can see are made once for a kernel, not once for a launch.
//!
//! 1. A batch holds launches of one tag. One of another tag, or a lane's span,
//!    has it counted first: steps and lanes are counted in the order in which
//!    they landed.
//! 2. A pass has all of its batch counted when it ends.
//! 3. A kernel's sum is counted before it is more than the table takes at once
//!    (`ADD_MOST`, `TOO_LONG_NS`).

use super::KERNEL_TABLE_SLOTS;
use super::instruments::{KernelInstruments, PLACES};
use super::sink::{Each, Landing, Packed, SpanKey, SpanSink, SpanTag};
use crate::instrument::{ADD_MOST, TOO_LONG_NS};

/// Bits of a cell below its launches.
const COUNT_SHIFT: u32 = 48;
/// A launch this long is counted by itself.
const LONG_NS: u64 = TOO_LONG_NS / 2;
/// A cell is counted once it has one of these bits: `ADD_MOST` launches, or
/// `LONG_NS`. Before its last launch, of less than that, it had less.
const FULL: u64 = ADD_MOST << COUNT_SHIFT | LONG_NS;
/// A cell that has nothing in it and whose place is not listed.
const FRESH: u64 = 1 << 63;

/// See the module.
pub(super) struct Batch {
    /// The tag of all its launches, and the same as in [`Packed`].
    tag: SpanTag,
    flags: u64,
    /// For each place of the kernel table [`FRESH`] or
    /// `launches << COUNT_SHIFT | ns`.
    cells: Box<[u64; PLACES]>,
    /// The places of the cells that are not fresh.
    places: Vec<usize>,
    /// What was counted kernel by kernel, and not yet for the lane.
    count: u64,
    ns: u64,
}

impl Batch {
    pub(super) fn new() -> Self {
        Self {
            tag: SpanTag::default(),
            flags: 0,
            cells: Box::new([FRESH; PLACES]),
            places: Vec::with_capacity(KERNEL_TABLE_SLOTS),
            count: 0,
            ns: 0,
        }
    }

    /// Adds a launch. What it mostly is stands here: one of the tag and kernel
    /// of others before it.
    #[inline]
    fn add(&mut self, into: &KernelInstruments, launch: Packed, ns: u64) {
        match into.first_place_of(launch.value) {
            Some(place) if launch.flags == self.flags && ns < LONG_NS => {
                self.add_at(into, place, ns);
            }
            _ => self.add_other(into, launch, ns),
        }
    }

    #[inline(never)]
    fn add_other(&mut self, into: &KernelInstruments, launch: Packed, ns: u64) {
        if launch.flags != self.flags {
            self.empty(into);
            (self.tag, self.flags) = (launch.tag(), launch.flags);
        }
        match into.place_of(launch.value) {
            Some(place) if ns < LONG_NS => self.add_at(into, place, ns),
            place => self.count_kernel(into, place, 1, ns),
        }
    }

    #[inline]
    fn add_at(&mut self, into: &KernelInstruments, place: usize, ns: u64) {
        let cell = &mut self.cells[place];
        *cell += 1 << COUNT_SHIFT | ns;
        if *cell & (FRESH | FULL) != 0 {
            self.list_or_count(into, place);
        }
    }

    #[inline(never)]
    fn list_or_count(&mut self, into: &KernelInstruments, place: usize) {
        let cell = &mut self.cells[place];
        if *cell & FRESH != 0 {
            *cell &= !FRESH;
            self.places.push(place);
        }
        if *cell & FULL != 0 {
            self.count_cell(into, place, 0);
        }
    }

    /// Counts what is in a listed cell, and leaves `left` there.
    fn count_cell(&mut self, into: &KernelInstruments, place: usize, left: u64) {
        let cell = std::mem::replace(&mut self.cells[place], left);
        if cell != 0 {
            let ns = cell & ((1 << COUNT_SHIFT) - 1);
            self.count_kernel(into, Some(place), cell >> COUNT_SHIFT, ns);
        }
    }

    fn count_kernel(
        &mut self,
        into: &KernelInstruments,
        place: Option<usize>,
        count: u64,
        ns: u64,
    ) {
        into.add_to_kernel(place, &self.tag, count, ns);
        self.count += count;
        self.ns = self.ns.wrapping_add(ns);
    }

    /// Counts all that it holds.
    #[inline]
    fn empty(&mut self, into: &KernelInstruments) {
        if self.count > 0 || !self.places.is_empty() {
            self.count_all(into);
        }
    }

    #[inline(never)]
    fn count_all(&mut self, into: &KernelInstruments) {
        while let Some(place) = self.places.pop() {
            self.count_cell(into, place, FRESH);
        }
        into.add_to_lane(&self.tag, self.count, self.ns);
        (self.count, self.ns) = (0, 0);
    }
}

impl Landing for KernelInstruments {
    #[inline]
    fn landed(&self, batch: &mut Batch, span: Packed, ns: u64, gap_ns: Option<u64>) {
        if let SpanKey::Kernel(_) = span.key() {
            batch.add(self, span, ns);
            self.add_kernel_gap(span.tag(), gap_ns);
        } else {
            batch.empty(self);
            Each(self).landed(batch, span, ns, gap_ns);
        }
    }

    fn failed(&self) {
        SpanSink::failed(self);
    }

    fn finish(&self, batch: &mut Batch) {
        batch.empty(self);
    }
}
