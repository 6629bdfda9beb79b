// SPDX-License-Identifier: MIT OR Apache-2.0
//! How the spans of a pass are counted: launches are added up before they are.
//!
//! A step launches some dozens of kernels hundreds of times, and passes are
//! exclusive: a launch costs an addition here, and the read-modify-writes that
//! others can see are made once for a kernel, not once for a launch.
//!
//! 1. A batch holds launches of one tag. One of another tag has it counted
//!    first.
//! 2. All of a pass is counted when it ends. Where a pass panicked, the next
//!    one counts what it left.
//! 3. A kernel's sum is counted before it is more than the table takes at once
//!    (`MAX_ADD`, `TOO_LONG_NS`).
//! 4. Where another pass over the same instruments has the batch, launches are
//!    counted one by one.

use super::KERNEL_TABLE_SLOTS;
use super::instruments::{KernelInstruments, PLACES};
use super::span::{Flags, Harvested, SpanKey};
use super::timeline::NO_ROW;
use crate::instrument::{MAX_ADD, TOO_LONG_NS};
use crate::sync::relaxed::{Mutex, try_lock};
use std::sync::MutexGuard;

/// Bits of a cell below its launches.
const COUNT_SHIFT: u32 = 48;
/// A launch this long is counted by itself.
const LONG_NS: u64 = TOO_LONG_NS / 2;
/// A cell is counted once it has one of these bits: `MAX_ADD` launches, or
/// `LONG_NS`. Before its last launch, of less than that, it had less.
const FULL: u64 = MAX_ADD << COUNT_SHIFT | LONG_NS;
/// A cell that has nothing in it and whose place is not listed.
const FRESH: u64 = 1 << 63;

/// Launches of one kernel and one tag, as they were counted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Launches {
    pub(super) flags: Flags,
    /// The kernel's place in the table, if it has one.
    pub(super) place: Option<usize>,
    pub(super) count: u64,
    pub(super) ns: u64,
}

/// See the module.
pub(super) struct Batch {
    flags: Flags,
    /// For each place of the kernel table [`FRESH`] or
    /// `launches << COUNT_SHIFT | ns`.
    cells: [u64; PLACES],
    /// The places of the cells that are not fresh.
    places: [u16; KERNEL_TABLE_SLOTS],
    listed: usize,
}

impl Batch {
    pub(super) const fn new() -> Self {
        Self { flags: Flags(0), cells: [FRESH; PLACES], places: [0; KERNEL_TABLE_SLOTS], listed: 0 }
    }

    /// Adds a launch to a kernel's cell.
    #[inline]
    fn add(
        &mut self,
        into: &KernelInstruments,
        place: usize,
        ns: u64,
        counted: &mut impl FnMut(Launches),
    ) {
        let cell = &mut self.cells[place];
        *cell += 1 << COUNT_SHIFT | ns;
        if *cell & (FRESH | FULL) != 0 {
            self.list_or_count(into, place, counted);
        }
    }

    #[inline(never)]
    fn list_or_count(
        &mut self,
        into: &KernelInstruments,
        place: usize,
        counted: &mut impl FnMut(Launches),
    ) {
        let cell = &mut self.cells[place];
        if *cell & FRESH != 0 {
            *cell &= !FRESH;
            self.places[self.listed] = place as u16;
            self.listed += 1;
        }
        if *cell & FULL != 0 {
            self.count_cell(into, place, 0, counted);
        }
    }

    /// Counts what is in a listed cell, and leaves `left` there.
    fn count_cell(
        &mut self,
        into: &KernelInstruments,
        place: usize,
        left: u64,
        counted: &mut impl FnMut(Launches),
    ) {
        let cell = std::mem::replace(&mut self.cells[place], left);
        if cell != 0 {
            let launches = Launches {
                flags: self.flags,
                place: Some(place),
                count: cell >> COUNT_SHIFT,
                ns: cell & ((1 << COUNT_SHIFT) - 1),
            };
            into.count_launches(&launches);
            counted(launches);
        }
    }

    #[inline(never)]
    fn empty(&mut self, into: &KernelInstruments, counted: &mut impl FnMut(Launches)) {
        while let Some(listed) = self.listed.checked_sub(1) {
            self.listed = listed;
            self.count_cell(into, usize::from(self.places[listed]), FRESH, counted);
        }
    }
}

/// Counts the spans of a pass into instruments.
pub(super) struct Landing<'a> {
    into: &'a KernelInstruments,
    batch: Option<MutexGuard<'a, Batch>>,
}

impl<'a> Landing<'a> {
    pub(super) fn new(into: &'a KernelInstruments, batch: &'a Mutex<Batch>) -> Self {
        Self { into, batch: try_lock(batch) }
    }

    /// Counts a span; `counted` is told of launches as they are counted, which
    /// may be earlier ones.
    #[inline]
    pub(super) fn count(&mut self, span: &Harvested, counted: impl FnMut(Launches)) {
        match span {
            Harvested::Landed(span) => match span.key {
                SpanKey::Kernel(func) => {
                    self.launch(func, span.flags, span.ns, counted);
                }
                SpanKey::Lane(lane) => self.into.count_lane(lane, span),
            },
            Harvested::Failed(lost) => self.into.count_failed(lost.key),
            Harvested::Reclaimed(lost) => self.into.count_lost(lost.key),
        }
    }

    /// Counts a launch, and returns its kernel's place in the table, or
    /// [`NO_ROW`]. What it mostly is stands here: one of the tag and kernel of
    /// others before it.
    #[inline]
    pub(super) fn launch(
        &mut self,
        func: u64,
        flags: Flags,
        ns: u64,
        mut counted: impl FnMut(Launches),
    ) -> u16 {
        match (self.into.first_place_of(func), &mut self.batch) {
            (Some(place), Some(batch)) if batch.flags == flags && ns < LONG_NS => {
                batch.add(self.into, place, ns, &mut counted);
                place as u16
            }
            _ => self.other_launch(func, flags, ns, &mut counted),
        }
    }

    #[inline(never)]
    fn other_launch(
        &mut self,
        func: u64,
        flags: Flags,
        ns: u64,
        counted: &mut impl FnMut(Launches),
    ) -> u16 {
        let place = self.into.place_of(func);
        if let Some(batch) = &mut self.batch {
            if batch.flags != flags {
                batch.empty(self.into, counted);
                batch.flags = flags;
            }
            if let Some(place) = place
                && ns < LONG_NS
            {
                batch.add(self.into, place, ns, counted);
                return place as u16;
            }
        }
        let launches = Launches { flags, place, count: 1, ns };
        self.into.count_launches(&launches);
        counted(launches);
        place.map_or(NO_ROW, |place| place as u16)
    }

    /// Counts all that was added up.
    pub(super) fn finish(mut self, mut counted: impl FnMut(Launches)) {
        if let Some(batch) = &mut self.batch {
            batch.empty(self.into, &mut counted);
        }
    }
}

#[cfg(all(test, not(metrale_loom)))]
mod tests;
