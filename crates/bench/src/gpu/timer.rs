// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a call costs the host.
//!
//! Rounds of calls, each after a preparation that is not timed. In turn a round
//! is timed as a whole, so that the clock's own cost is shared by its calls, and
//! call by call, so that the slow ones are seen.

use super::Failure;
use super::budget::Budget;
use super::page::figure;
use super::stats::{quantile, summary};
use serde_json::{Value, json};
use std::hint::black_box;
use std::time::Instant;

/// What a call costs, in host nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    /// The median over rounds of a round's mean.
    pub(crate) median_ns: f64,
    /// Of single calls, less what the clock takes.
    pub(crate) p99_ns: f64,
    pub(crate) calls: usize,
}

/// Columns of [`Cost::row`] after the first.
pub(crate) const COLUMNS: [&str; 3] = ["median, ns", "p99, ns", "calls"];

impl Cost {
    /// A row that begins with `what`.
    pub(crate) fn row(&self, what: impl Into<Value>) -> Value {
        json!([what.into(), figure(self.median_ns, 1), figure(self.p99_ns, 0), self.calls])
    }
}

/// The first rounds warm up and are not counted; one of each kind follows.
const WARM: u32 = 2;
const LEAST: u32 = WARM + 2;

/// Calls `call` in rounds of `calls`, each after `prepare`.
pub(crate) fn cost<T>(
    budget: &Budget,
    rounds: u32,
    calls: usize,
    mut prepare: impl FnMut() -> Result<(), Failure>,
    mut call: impl FnMut(usize) -> Result<T, Failure>,
) -> Result<Cost, Failure> {
    let clock = clock_ns();
    let mut call = |at| call(at).map(|given| drop(black_box(given)));
    let (mut means, mut singles) = (Vec::new(), Vec::new());
    for round in budget.rounds(LEAST, rounds.max(LEAST)) {
        prepare()?;
        if round < WARM {
            (0..calls).try_for_each(&mut call)?;
        } else if round % 2 == 0 {
            let began = Instant::now();
            (0..calls).try_for_each(&mut call)?;
            means.push(began.elapsed().as_nanos() as f64 / calls as f64);
        } else {
            for at in 0..calls {
                let began = Instant::now();
                call(at)?;
                let took = began.elapsed().as_nanos() as f64;
                singles.push((took - clock).max(0.0));
            }
        }
    }
    let calls = singles.len() + means.len() * calls;
    singles.sort_by(f64::total_cmp);
    let (Some(means), Some(p99_ns)) = (summary(means), quantile(&singles, 0.99)) else {
        return Err(Failure::Other("no round was timed".to_owned()));
    };
    Ok(Cost { median_ns: means.median, p99_ns, calls })
}

/// What reading the clock twice takes, the median, ns.
pub(crate) fn clock_ns() -> f64 {
    let once = |_| Instant::now().elapsed().as_nanos() as f64;
    let readings: Vec<f64> = (0..1_001).map(once).collect();
    summary(readings).map_or(0.0, |figures| figures.median)
}

#[cfg(test)]
mod tests {
    use super::{LEAST, WARM, cost};
    use crate::gpu::Failure;
    use crate::gpu::budget::Budget;
    use std::cell::Cell;
    use std::time::Duration;

    #[test]
    fn each_round_is_prepared_and_warm_ones_are_not_counted() {
        let budget = Budget::new(Duration::ZERO, false);
        let (prepared, called) = (Cell::new(0), Cell::new(0));
        let prepare = || {
            assert_eq!(called.get(), prepared.get() * 10);
            prepared.set(prepared.get() + 1);
            Ok(())
        };
        let call = |at| {
            assert_eq!(at, called.get() % 10);
            called.set(called.get() + 1);
            Ok(())
        };
        let found = cost(&budget, 100, 10, prepare, call).expect("timed");
        assert_eq!(prepared.get(), LEAST as usize);
        assert_eq!(found.calls, 10 * (LEAST - WARM) as usize);
    }

    #[test]
    fn a_call_that_fails_ends_it() {
        let budget = Budget::new(Duration::from_secs(60), false);
        let fails = |_| Err::<(), _>(Failure::Other("it failed".into()));
        let error = cost(&budget, 4, 1, || Ok(()), fails).expect_err("failed");
        assert_eq!(error.to_string(), "it failed");
    }
}
