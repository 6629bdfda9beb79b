// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs sequences with and without a guest, and compares.

use crate::baton::Threads;
use crate::guest::Mistake;
use crate::machine::{Machine, Seen};
use crate::search::search;
use crate::sequence::{Sequence, THREADS, sequences};
use crate::tally::Tally;
use metrale_gpu_sim::{Exclusive, control, exclusive};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::mem::discriminant;
use std::sync::Arc;

/// What the two runs of a sequence differ in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference {
    /// The application saw something else.
    Seen {
        /// Without the guest; `None` past the end.
        bare: Option<Seen>,
        /// With it.
        beside: Option<Seen>,
    },
    /// Nothing that the application can see, but a rule is broken.
    Rule(String),
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Difference::Seen { bare, beside } => {
                write!(f, "seen without: {bare:?}\nseen with:    {beside:?}")
            }
            Difference::Rule(broken) => f.write_str(broken),
        }
    }
}

/// Where differences are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// In what the application sees and in the rules.
    Everywhere,
    /// Not in the rules.
    AtTheApplication,
}

/// A sequence whose runs differ, made small.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The sequence.
    pub sequence: Sequence,
    /// What differs.
    pub difference: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n{}", self.difference, self.sequence)
    }
}

/// Where sequences run: holds the simulator, and threads for applications.
pub struct Bench {
    threads: Threads,
    _alone: Exclusive,
}

/// Waits until nobody else of this process uses the simulator.
impl Default for Bench {
    fn default() -> Self {
        Self { _alone: exclusive(), threads: Threads::new(THREADS) }
    }
}

impl Bench {
    /// Runs a sequence, without a guest or with one that makes this mistake.
    fn run(&self, sequence: &Arc<Sequence>, guest: Option<Mistake>) -> Box<Machine> {
        control::reset();
        let mut machine = Box::new(Machine::new(sequence.setup, guest));
        let threads = machine.threads();
        machine = self.threads.run(0, machine, Machine::start);
        for thread in 1..threads {
            machine = self.threads.run(thread, machine, |machine| machine.ctx_set(0));
        }
        for (number, operation) in sequence.operations.iter().enumerate() {
            let sequence = Arc::clone(sequence);
            let thread = usize::from(operation.thread) % threads;
            machine = self.threads.run(thread, machine, move |machine| {
                machine.perform(number, &sequence.operations[number]);
            });
        }
        machine.operation = sequence.operations.len();
        for thread in 0..threads {
            machine = self.threads.run(thread, machine, Machine::see_thread);
        }
        self.threads.run(0, machine, Machine::see_end)
    }

    /// What the two runs of the sequence differ in, if anything. The tally is of
    /// the run beside the guest.
    pub fn compare(
        &self,
        sequence: &Sequence,
        guest: Mistake,
        look: Look,
    ) -> (Option<Difference>, Tally) {
        let sequence = Arc::new(sequence.clone());
        let bare = self.run(&sequence, None);
        let beside = self.run(&sequence, Some(guest));
        let seen = first_difference(&bare.trace, &beside.trace)
            .map(|(bare, beside)| Difference::Seen { bare, beside });
        let ruled = || {
            let first = beside.broken.first().filter(|_| look == Look::Everywhere);
            first.cloned().map(Difference::Rule)
        };
        (seen.or_else(ruled), beside.tally)
    }

    /// Tries so many sequences, all of which follow from the seed.
    ///
    /// # Errors
    /// The first one that differs, made small: it differs in the same kind of thing.
    pub fn try_sequences(
        &self,
        seed: u64,
        count: u32,
        guest: Mistake,
        look: Look,
    ) -> Result<Tally, Failure> {
        let all = RefCell::new(Tally::default());
        let kind = Cell::new(None);
        let tried = search(seed, count, &sequences(), |sequence| {
            let (difference, tally) = self.compare(&sequence, guest, look);
            all.borrow_mut().add(&tally);
            let Some(found) = difference else {
                return Ok(());
            };
            let of = discriminant(&found);
            let first = kind.get().unwrap_or(of);
            kind.set(Some(first));
            if first == of { Err(found.to_string()) } else { Ok(()) }
        });
        match tried {
            Ok(()) => Ok(all.into_inner()),
            Err((difference, sequence)) => Err(Failure { sequence, difference }),
        }
    }
}

/// The first place where the two differ; `None` past the end of one.
pub(crate) fn first_difference<T: Copy + PartialEq>(
    bare: &[T],
    beside: &[T],
) -> Option<(Option<T>, Option<T>)> {
    let most = bare.len().max(beside.len());
    (0..most)
        .map(|place| (bare.get(place).copied(), beside.get(place).copied()))
        .find(|(bare, beside)| bare != beside)
}
