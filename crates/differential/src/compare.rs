// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs a script with and without a guest, compares, and shrinks what differs.

use crate::baton::Threads;
use crate::cuda::CUDA;
use crate::generate::{runner, scripts};
use crate::guest::Maker;
use crate::machine::{AppCall, Broken, Machine, Seen};
use crate::script::{Script, THREADS};
use crate::tally::Tally;
use metrale_gpu_sim::{Exclusive, control, exclusive};
use proptest::strategy::{Strategy, ValueTree};
use std::fmt;
use std::sync::{Arc, LazyLock};

/// Tries at making a failing script smaller.
const MOST_TRIES: u32 = 4_096;

/// What the two runs of a script differ in.
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
            Difference::Rule(broken) => write!(f, "turn {}: {}", broken.turn, broken.what),
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

/// A script whose runs differ, made small.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The seed that drew it.
    pub seed: u64,
    /// The script.
    pub script: Script,
    /// What differs.
    pub difference: Difference,
}

/// Where scripts run: holds the simulator, and threads for applications.
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
        Self {
            threads: Threads::new(THREADS),
            _alone: alone,
        }
    }

    fn run(&self, script: &Arc<Script>, maker: Option<Maker>) -> Box<Machine> {
        control::reset();
        let mut machine = Box::new(Machine::new(script.setup, maker));
        let threads = machine.threads();
        machine = self.threads.run(0, machine, Machine::start);
        for thread in 1..threads {
            machine = self.threads.run(thread, machine, Machine::start_thread);
        }
        let thread_of = |turn: usize| usize::from(script.turns[turn].thread) % threads;
        let mut next = 0;
        while next < script.turns.len() {
            let thread = thread_of(next);
            let end = (next..script.turns.len())
                .find(|turn| thread_of(*turn) != thread)
                .unwrap_or(script.turns.len());
            let (turns, numbers) = (Arc::clone(script), next..end);
            machine = self.threads.run(thread, machine, move |machine| {
                for number in numbers {
                    machine.take_turn(number, &turns.turns[number]);
                }
            });
            next = end;
        }
        machine.turns_are_over(script.turns.len());
        for thread in 0..threads {
            machine = self.threads.run(thread, machine, Machine::see_thread);
        }
        self.threads.run(0, machine, Machine::see_end)
    }

    /// What the two runs of the script differ in, if anything. The tally is of
    /// the run beside the guest.
    pub fn compare(
        &self,
        script: &Script,
        guest: Maker,
        look: Look,
    ) -> (Option<Difference>, Tally) {
        let script = Arc::new(script.clone());
        let bare = self.run(&script, None);
        let beside = self.run(&script, Some(guest));
        let mut tally = beside.tally.clone();
        tally.sequences = 1;
        tally.turns = script.turns.len() as u64;
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

    /// Draws the script of a seed and compares its runs; one that fails is made
    /// small first, keeping the kind of its difference.
    ///
    /// # Errors
    /// The failure.
    pub fn try_seed(&self, seed: u64, guest: Maker, look: Look) -> Result<Tally, Box<Failure>> {
        let drawn = scripts().new_tree(&mut runner(seed));
        let mut tree = drawn.expect("no strategy rejects");
        let script = tree.current();
        match self.compare(&script, guest, look) {
            (None, tally) => Ok(tally),
            (Some(difference), _) => {
                let mut failure = Failure {
                    seed,
                    script,
                    difference,
                };
                self.shrink(&mut failure, &mut tree, guest, look);
                self.leave_out(&mut failure, guest, look);
                Err(Box::new(failure))
            }
        }
    }

    /// Takes the script over if it fails in the same way; whether it does.
    fn still_fails(&self, failure: &mut Failure, script: Script, guest: Maker, look: Look) -> bool {
        let kind = std::mem::discriminant(&failure.difference);
        match self.compare(&script, guest, look).0 {
            Some(found) if std::mem::discriminant(&found) == kind => {
                failure.script = script;
                failure.difference = found;
                true
            }
            _ => false,
        }
    }

    fn shrink(
        &self,
        failure: &mut Failure,
        tree: &mut impl ValueTree<Value = Script>,
        guest: Maker,
        look: Look,
    ) {
        let mut goes_on = tree.simplify();
        for _ in 0..MOST_TRIES {
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

    /// Turns that were drawn together shrink together; here they go one by one.
    fn leave_out(&self, failure: &mut Failure, guest: Maker, look: Look) {
        let mut place = 0;
        while place < failure.script.turns.len() {
            let mut without = failure.script.clone();
            without.turns.remove(place);
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
