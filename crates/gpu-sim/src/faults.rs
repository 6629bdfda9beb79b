// SPDX-License-Identifier: MIT OR Apache-2.0
//! Faults put in by a test: statuses instead of calls, calls that take long,
//! calls that hang.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use metrale_gpu_sys::cuda::Status;

use crate::symbols::Symbol;

/// A status that some calls of one name return without acting.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) symbol: Symbol,
    pub(crate) status: Status,
    pub(crate) skip: u64,
    pub(crate) count: u64,
    /// The only thread it concerns, or all.
    pub(crate) thread: Option<u64>,
}

/// Extra time for the next calls of one name.
#[derive(Debug)]
pub(crate) struct Slow {
    pub(crate) symbol: Symbol,
    pub(crate) ns: u64,
    pub(crate) count: u64,
}

/// What some elapsed reads that succeed tell instead of the truth.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) ms: f32,
    pub(crate) skip: u64,
    pub(crate) count: u64,
}

#[derive(Debug)]
pub(crate) struct Faults {
    pub(crate) faults: Vec<Fault>,
    pub(crate) slow: Vec<Slow>,
    pub(crate) told: Vec<Told>,
}

impl Faults {
    pub(crate) const fn new() -> Self {
        Self { faults: Vec::new(), slow: Vec::new(), told: Vec::new() }
    }

    /// The status that this call returns instead of acting, if any. The first
    /// fault that matches and still has something to skip or to give is used up
    /// by one.
    pub(crate) fn take_status(&mut self, symbol: Symbol, thread: u64) -> Option<Status> {
        let place = self.faults.iter().position(|fault| {
            fault.symbol == symbol && fault.thread.is_none_or(|only| only == thread)
        })?;
        let fault = self.faults.get_mut(place)?;
        if fault.skip > 0 {
            fault.skip -= 1;
            return None;
        }
        let status = fault.status;
        fault.count = fault.count.saturating_sub(1);
        if fault.count == 0 {
            self.faults.remove(place);
        }
        Some(status)
    }

    /// The time this call takes on top of its cost.
    pub(crate) fn take_delay(&mut self, symbol: Symbol) -> u64 {
        let Some(place) = self.slow.iter().position(|slow| slow.symbol == symbol) else {
            return 0;
        };
        let Some(slow) = self.slow.get_mut(place) else {
            return 0;
        };
        let ns = slow.ns;
        slow.count = slow.count.saturating_sub(1);
        if slow.count == 0 {
            self.slow.remove(place);
        }
        ns
    }

    /// What this elapsed read tells instead of the truth, if anything.
    pub(crate) fn take_told(&mut self) -> Option<f32> {
        let told = self.told.first_mut()?;
        if told.skip > 0 {
            told.skip -= 1;
            return None;
        }
        let ms = told.ms;
        told.count = told.count.saturating_sub(1);
        if told.count == 0 {
            self.told.remove(0);
        }
        Some(ms)
    }
}

#[derive(Debug)]
struct Hangs {
    hung: [bool; Symbol::COUNT],
    waiting: [u64; Symbol::COUNT],
}

/// Outside the world's lock: a hung call holds nothing that others need.
static HANGS: Mutex<Hangs> =
    Mutex::new(Hangs { hung: [false; Symbol::COUNT], waiting: [0; Symbol::COUNT] });
static RELEASED: Condvar = Condvar::new();
/// Whether any name hangs: the one word an ordinary call reads.
static ANY: AtomicBool = AtomicBool::new(false);

fn hangs() -> MutexGuard<'static, Hangs> {
    HANGS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Blocks while calls of that name hang.
pub(crate) fn pass_gate(symbol: Symbol) {
    // Relaxed: `HANGS` is what decides; a call that began before the hang was
    // set may slip through.
    if !ANY.load(Ordering::Relaxed) {
        return;
    }
    let index = symbol.index();
    let is_hung = |hangs: &Hangs| hangs.hung.get(index).copied().unwrap_or(false);
    let mut held = hangs();
    if !is_hung(&held) {
        return;
    }
    if let Some(waiting) = held.waiting.get_mut(index) {
        *waiting += 1;
    }
    while is_hung(&held) {
        held = RELEASED.wait(held).unwrap_or_else(PoisonError::into_inner);
    }
    if let Some(waiting) = held.waiting.get_mut(index) {
        *waiting -= 1;
    }
}

/// Makes calls of that name hang, or lets them go on.
pub(crate) fn set_hang(symbol: Symbol, hang: bool) {
    let mut held = hangs();
    if let Some(hung) = held.hung.get_mut(symbol.index()) {
        *hung = hang;
    }
    ANY.store(held.hung.contains(&true), Ordering::Relaxed);
    RELEASED.notify_all();
}

/// Lets every hung call go on.
pub(crate) fn release_all() {
    let mut held = hangs();
    held.hung = [false; Symbol::COUNT];
    ANY.store(false, Ordering::Relaxed);
    RELEASED.notify_all();
}

/// How many calls of that name hang now.
pub(crate) fn waiting(symbol: Symbol) -> u64 {
    hangs().waiting.get(symbol.index()).copied().unwrap_or(0)
}
