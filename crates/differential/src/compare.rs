// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs a sequence with and without a guest, compares, and shrinks what differs.

use crate::baton::Threads;
use crate::cuda::CUDA;
use crate::generate::{runner, sequences};
use crate::guest::Maker;
use crate::machine::{AppCall, Broken, Machine, Seen};
use crate::sequence::{Sequence, THREADS};
use crate::tally::Tally;
use metrale_gpu_sim::{Exclusive, control, exclusive};
use proptest::strategy::{Strategy, ValueTree};
use std::fmt;
use std::sync::{Arc, LazyLock};

/// Tries at making a failing sequence smaller.
const MAX_TRIES: u32 = 4_096;

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
    /// A call of the application's is another in the driver's log.
    Called {
        /// Without the guest; `None` past the end.
        bare: Option<AppCall>,
        /// With it.
        beside: Option<AppCall>,
    },
    /// Nothing that the application can see, but a rule is broken.
    Rule(Broken),
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Difference::Seen { bare, beside } => {
                write!(f, "seen without: {bare:?}\nseen with:    {beside:?}")
            }
            Difference::Called { bare, beside } => {
                write!(f, "logged without: {bare:?}\nlogged with:    {beside:?}")
            }
            Difference::Rule(broken) => {
                write!(f, "operation {}: {}", broken.operation, broken.what)
            }
        }
    }
}

/// Where differences are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// In what the application sees, in its calls, and in the rules.
    Everywhere,
    /// Not in the rules.
    AtTheApplication,
}

/// A sequence whose runs differ, made small.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The seed that drew it.
    pub seed: u64,
    /// The sequence.
    pub sequence: Sequence,
    /// What differs.
    pub difference: Difference,
}

/// Where sequences run: holds the simulator, and threads for applications.
pub struct Bench {
    threads: Threads,
    _alone: Exclusive,
}

impl Default for Bench {
    fn default() -> Self {
        Self::new()
    }
}

impl Bench {
    /// Waits until nobody else of this process uses the simulator.
    #[must_use]
    pub fn new() -> Self {
        let alone = exclusive();
        // Found while nothing is hidden.
        LazyLock::force(&CUDA);
        Self { threads: Threads::new(THREADS), _alone: alone }
    }

    fn run(&self, sequence: &Arc<Sequence>, maker: Option<Maker>) -> Box<Machine> {
        control::reset();
        let mut machine = Box::new(Machine::new(sequence.setup, maker));
        let threads = machine.threads();
        machine = self.threads.run(0, machine, Machine::start);
        for thread in 1..threads {
            machine = self.threads.run(thread, machine, Machine::start_thread);
        }
        let thread_of =
            |operation: usize| usize::from(sequence.operations[operation].thread) % threads;
        let mut next = 0;
        while next < sequence.operations.len() {
            let thread = thread_of(next);
            let end = (next..sequence.operations.len())
                .find(|operation| thread_of(*operation) != thread)
                .unwrap_or(sequence.operations.len());
            let (operations, numbers) = (Arc::clone(sequence), next..end);
            machine = self.threads.run(thread, machine, move |machine| {
                for number in numbers {
                    machine.perform(number, &operations.operations[number]);
                }
            });
            next = end;
        }
        machine.operations_are_over(sequence.operations.len());
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
        guest: Maker,
        look: Look,
    ) -> (Option<Difference>, Tally) {
        let sequence = Arc::new(sequence.clone());
        let bare = self.run(&sequence, None);
        let beside = self.run(&sequence, Some(guest));
        let mut tally = beside.tally.clone();
        tally.sequences = 1;
        tally.operations = sequence.operations.len() as u64;
        let seen = first_difference(&bare.trace, &beside.trace)
            .map(|(bare, beside)| Difference::Seen { bare, beside });
        let called = || {
            first_difference(&bare.calls, &beside.calls)
                .map(|(bare, beside)| Difference::Called { bare, beside })
        };
        let ruled = || {
            let first = beside.broken.first().filter(|_| look == Look::Everywhere);
            first.cloned().map(Difference::Rule)
        };
        (seen.or_else(called).or_else(ruled), tally)
    }

    /// Draws the sequence of a seed and compares its runs; one that fails is made
    /// small first, keeping the kind of its difference.
    ///
    /// # Errors
    /// The failure.
    pub fn try_seed(&self, seed: u64, guest: Maker, look: Look) -> Result<Tally, Box<Failure>> {
        let drawn = sequences().new_tree(&mut runner(seed));
        let mut tree = drawn.expect("no strategy rejects");
        let sequence = tree.current();
        match self.compare(&sequence, guest, look) {
            (None, tally) => Ok(tally),
            (Some(difference), _) => {
                let mut failure = Failure { seed, sequence, difference };
                self.shrink(&mut failure, &mut tree, guest, look);
                self.leave_out(&mut failure, guest, look);
                Err(Box::new(failure))
            }
        }
    }

    /// Takes the sequence over if it fails in the same way; whether it does.
    fn still_fails(
        &self,
        failure: &mut Failure,
        sequence: Sequence,
        guest: Maker,
        look: Look,
    ) -> bool {
        let kind = std::mem::discriminant(&failure.difference);
        match self.compare(&sequence, guest, look).0 {
            Some(found) if std::mem::discriminant(&found) == kind => {
                failure.sequence = sequence;
                failure.difference = found;
                true
            }
            _ => false,
        }
    }

    fn shrink(
        &self,
        failure: &mut Failure,
        tree: &mut impl ValueTree<Value = Sequence>,
        guest: Maker,
        look: Look,
    ) {
        let mut goes_on = tree.simplify();
        for _ in 0..MAX_TRIES {
            if !goes_on {
                return;
            }
            goes_on = if self.still_fails(failure, tree.current(), guest, look) {
                tree.simplify()
            } else {
                tree.complicate()
            };
        }
    }

    /// Operations that were drawn together shrink together; here they go one by one.
    fn leave_out(&self, failure: &mut Failure, guest: Maker, look: Look) {
        let mut place = 0;
        while place < failure.sequence.operations.len() {
            let mut without = failure.sequence.clone();
            without.operations.remove(place);
            if self.still_fails(failure, without, guest, look) {
                // What was needed for it alone may go now.
                place = 0;
            } else {
                place += 1;
            }
        }
    }

    /// Tries so many seeds, from `seed` on, and tells `each` of each.
    ///
    /// # Errors
    /// The first failure.
    pub fn try_seeds(
        &self,
        seed: u64,
        sequences: u64,
        guest: Maker,
        look: Look,
        mut each: impl FnMut(u64),
    ) -> Result<Tally, Box<Failure>> {
        let mut all = Tally::default();
        for number in 0..sequences {
            all.add(&self.try_seed(seed.wrapping_add(number), guest, look)?);
            each(number + 1);
        }
        Ok(all)
    }
}

fn first_difference<T: Copy + PartialEq>(
    bare: &[T],
    beside: &[T],
) -> Option<(Option<T>, Option<T>)> {
    let most = bare.len().max(beside.len());
    (0..most)
        .map(|place| (bare.get(place).copied(), beside.get(place).copied()))
        .find(|(bare, beside)| bare != beside)
}
