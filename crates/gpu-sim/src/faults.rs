// SPDX-License-Identifier: MIT OR Apache-2.0
//! Faults put in by a test: statuses instead of calls, calls that take long,
//! calls that hang.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use metrale_gpu_sys::cuda::Status;

use crate::symbols::Symbol;

/// What some calls to come are to do or tell.
#[derive(Debug)]
pub(crate) struct Plan<T> {
    pub(crate) what: T,
    /// The only function it concerns, or whatever asks.
    pub(crate) symbol: Option<Symbol>,
    /// The only thread it concerns, or all.
    pub(crate) thread: Option<u64>,
    /// How many calls are left alone first.
    pub(crate) skip: u64,
    pub(crate) count: u64,
}

/// Plans of one kind, oldest first.
#[derive(Debug)]
pub(crate) struct Plans<T>(Vec<Plan<T>>);

impl<T: Copy> Plans<T> {
    pub(crate) fn add(&mut self, plan: Plan<T>) {
        if plan.count > 0 {
            self.0.push(plan);
        }
    }

    /// What this call is to do, if anything. The first plan that concerns it and still has
    /// something to skip or to give is used up by one.
    pub(crate) fn take(&mut self, symbol: Symbol, thread: u64) -> Option<T> {
        let place = self.0.iter().position(|plan| {
            plan.symbol.is_none_or(|only| only == symbol)
                && plan.thread.is_none_or(|only| only == thread)
        })?;
        let plan = self.0.get_mut(place)?;
        if plan.skip > 0 {
            plan.skip -= 1;
            return None;
        }
        let what = plan.what;
        plan.count -= 1;
        if plan.count == 0 {
            self.0.remove(place);
        }
        Some(what)
    }
}

#[derive(Debug)]
pub(crate) struct Faults {
    /// Returned instead of acting.
    pub(crate) statuses: Plans<Status>,
    /// Extra time, ns.
    pub(crate) delays: Plans<u64>,
    /// Milliseconds that elapsed reads tell instead of the truth.
    pub(crate) elapsed: Plans<f32>,
}

impl Faults {
    pub(crate) const fn new() -> Self {
        Self { statuses: Plans(Vec::new()), delays: Plans(Vec::new()), elapsed: Plans(Vec::new()) }
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
