// SPDX-License-Identifier: MIT OR Apache-2.0
//! Points in time that may lie behind host functions.
//!
//! When a host function returns is known only then. Until that a moment names the functions it
//! is behind: it is the latest of a plain time and of so long after each of their returns.

use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Moment {
    /// The earliest that it can be, ns: what it is if the functions take no time.
    at: u64,
    /// Host functions that have yet to return, by number, and the ns from the return of each;
    /// never an empty map.
    behind: Option<Arc<BTreeMap<u64, u64>>>,
}

impl From<u64> for Moment {
    fn from(at: u64) -> Self {
        Self { at, behind: None }
    }
}

impl Moment {
    /// The earliest that it can be, ns; the moment itself where it is known.
    pub(crate) const fn earliest(&self) -> u64 {
        self.at
    }

    /// Whether every function that it is behind has returned.
    pub(crate) const fn is_known(&self) -> bool {
        self.behind.is_none()
    }

    /// Whether it is known and has come.
    pub(crate) const fn is_past(&self, now: u64) -> bool {
        self.is_known() && self.at <= now
    }

    pub(crate) fn is_behind(&self, function: u64) -> bool {
        self.behind.as_ref().is_some_and(|behind| behind.contains_key(&function))
    }

    /// The later of the two.
    pub(crate) fn max(mut self, other: &Self) -> Self {
        self.at = self.at.max(other.at);
        if let Some(others) = &other.behind {
            let own = Arc::make_mut(self.behind.get_or_insert_default());
            for (function, ns) in &**others {
                let own = own.entry(*function).or_default();
                *own = (*own).max(*ns);
            }
        }
        self
    }

    pub(crate) fn plus(self, ns: u64) -> Self {
        self.moved(|at| at.saturating_add(ns))
    }

    /// So much earlier, but not before a function's return.
    pub(crate) fn minus(self, ns: u64) -> Self {
        self.moved(|at| at.saturating_sub(ns))
    }

    fn moved(mut self, to: impl Fn(u64) -> u64) -> Self {
        self.at = to(self.at);
        if let Some(behind) = &mut self.behind {
            Arc::make_mut(behind).values_mut().for_each(|ns| *ns = to(*ns));
        }
        self
    }

    /// The return of a function that begins now.
    pub(crate) fn until_return_of(mut self, function: u64) -> Self {
        Arc::make_mut(self.behind.get_or_insert_default()).insert(function, 0);
        self
    }

    /// A function returned.
    pub(crate) fn returned(&mut self, function: u64, at: u64) {
        if let Some(behind) = &mut self.behind
            && let Some(ns) = Arc::make_mut(behind).remove(&function)
        {
            self.at = self.at.max(at.saturating_add(ns));
        }
        self.behind.take_if(|behind| behind.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::Moment;

    /// Worked out by hand: a function that begins at 10, 5 ns of work, beside work until 40.
    #[test]
    fn a_moment_is_the_latest_of_a_time_and_of_what_comes_after_functions() {
        let work = Moment::from(10).until_return_of(7).plus(5);
        assert_eq!((work.earliest(), work.is_known()), (15, false));
        let both = work.clone().max(&Moment::from(40));
        assert!(both.is_behind(7) && !both.is_past(u64::MAX));
        for (returns, expected) in [(10, 40), (30, 40), (50, 55)] {
            let mut known = both.clone();
            known.returned(8, 90);
            known.returned(7, returns);
            assert_eq!(known, Moment::from(expected), "returned at {returns}");
            assert!(known.is_past(expected) && !known.is_past(expected - 1));
        }
        let mut later = work.clone().plus(20).max(&work).until_return_of(8);
        later.returned(7, 100);
        assert_eq!((later.earliest(), later.is_behind(8)), (125, true));
        let mut early = work.minus(9);
        early.returned(7, 60);
        assert_eq!(early, Moment::from(60));
    }
}
