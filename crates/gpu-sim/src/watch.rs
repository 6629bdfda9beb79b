// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mistakes that a real driver answers with success and wrong results, counted;
//! and the kernels that graphs ran, for a test that compares two runs.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::control::graphs::Mistakes;
use crate::exec::Step;
use crate::graph::{Kind, Origin};
use crate::kernel::Kernel;
use crate::thread::Thread;
use crate::world::World;

/// A launch that was not over when the last one was queued.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flight {
    pub(crate) exec: u64,
    pub(crate) family: u64,
    pub(crate) start: u64,
    pub(crate) end: u64,
}

/// Function and arguments with how often they ran.
type Runs = BTreeMap<(u64, Vec<u128>), u64>;

#[derive(Debug)]
pub(crate) struct Watch {
    pub(crate) counts: Mistakes,
    flights: Vec<Flight>,
    /// What executables of a node's kin were last told to do.
    pub(crate) told: BTreeMap<Origin, Kind>,
    pub(crate) runs: Option<Runs>,
}

impl Watch {
    pub(crate) const fn new() -> Self {
        Self { counts: Mistakes::NONE, flights: Vec::new(), told: BTreeMap::new(), runs: None }
    }

    /// Notes a launch, and whether it runs beside one of another executable on
    /// the same memory.
    pub(crate) fn fly(&mut self, now: u64, new: Flight) {
        self.flights.retain(|flight| flight.end > now);
        let is_beside = |flight: &Flight| {
            flight.family == new.family
                && flight.exec != new.exec
                && flight.start < new.end
                && new.start < flight.end
        };
        if self.flights.iter().any(is_beside) {
            self.counts.overlapping_launches += 1;
        }
        self.flights.push(new);
    }

    /// A graph ran a kernel.
    pub(crate) fn ran(&mut self, kernel: &Kernel) {
        if let Some(runs) = &mut self.runs {
            let key = (kernel.function, kernel.arguments.words().to_vec());
            *runs.entry(key).or_default() += 1;
        }
    }
}

impl World {
    /// Counts a launch with parameters that another executable of the family
    /// was told to replace.
    pub(crate) fn watch_launch(&mut self, steps: &[Step]) {
        let told = &self.watch.told;
        if told.is_empty() {
            return;
        }
        let is_stale = |step: &Step| {
            let last = told.get(&step.origin);
            last.is_some_and(|last| *last != step.kind)
        };
        if steps.iter().any(is_stale) {
            self.watch.counts.stale_launches += 1;
        }
    }
}

/// Graphs and executables that a call works on now, with the calling threads.
/// Outside the world's lock, which would keep the calls apart.
static IN_USE: Mutex<Vec<(u64, u64)>> = Mutex::new(Vec::new());
static SHARED: AtomicU64 = AtomicU64::new(0);

/// A call's use of a graph or an executable.
pub(crate) struct Use(u64, u64);

impl Use {
    /// Counts it if another thread uses the object now.
    pub(crate) fn begin(object: u64) -> Self {
        let thread = Thread::current_id();
        let mut in_use = IN_USE.lock().unwrap_or_else(PoisonError::into_inner);
        let is_shared = |(other, by): &(u64, u64)| *other == object && *by != thread;
        if object != 0 && in_use.iter().any(is_shared) {
            // Relaxed: a count that orders nothing.
            SHARED.fetch_add(1, Ordering::Relaxed);
        }
        in_use.push((object, thread));
        Self(object, thread)
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        let mut in_use = IN_USE.lock().unwrap_or_else(PoisonError::into_inner);
        let mine = in_use.iter().position(|used| *used == (self.0, self.1));
        if let Some(place) = mine {
            in_use.swap_remove(place);
        }
    }
}

/// How often a graph object was used by two threads at once.
pub(crate) fn shared_uses() -> u64 {
    // Relaxed: a count that orders nothing.
    SHARED.load(Ordering::Relaxed)
}

pub(crate) fn forget_shared_uses() {
    // Relaxed: a count that orders nothing.
    SHARED.store(0, Ordering::Relaxed);
}
