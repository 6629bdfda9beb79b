// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which host annotations are steps, and which lane each is.
//!
//! Invariants: of nested recognised annotations one is the step: the outermost
//! that states its tokens, else the outermost. Steps of one process never
//! contain one another, so a moment belongs to at most one of them: of two
//! that overlap, the later begun.

mod names;
mod shapes;

pub use names::{Lane, Patterns, Recognised, pattern_and_lane};

use std::num::NonZeroI64;

use crate::trace::{Annotation, Names};

/// A step of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedStep {
    /// Host time of its begin.
    pub start_ns: i64,
    /// Host time of its end; a moment equal to it is outside.
    pub end_ns: i64,
    /// Its process.
    pub process: u32,
    /// Index of its name in the trace.
    pub name: u32,
    /// What its name says.
    pub what: Recognised,
    /// What it shares with its range on a stream.
    pub id: Option<NonZeroI64>,
}

/// The steps of a trace, sorted by process and begin.
#[derive(Clone, Debug, Default)]
pub struct Steps(Vec<RecordedStep>);

impl Steps {
    /// Finds the steps among `annotations`.
    pub fn find(annotations: &[Annotation], names: &Names, patterns: &Patterns) -> Self {
        let mut known = vec![None; names.len()];
        let mut all: Vec<RecordedStep> = annotations
            .iter()
            .filter_map(|a| {
                let what = (*known[a.name as usize]
                    .get_or_insert_with(|| patterns.recognise(names.get(a.name))))?;
                Some(RecordedStep {
                    start_ns: a.start_ns,
                    end_ns: a.end_ns,
                    process: a.process,
                    name: a.name,
                    what,
                    id: a.id,
                })
            })
            .collect();
        // An annotation stands after the ones that contain it.
        all.sort_by_key(|s| (s.process, s.start_ns, std::cmp::Reverse(s.end_ns)));

        let mut parent: Vec<Option<usize>> = vec![None; all.len()];
        let mut open: Vec<usize> = Vec::new();
        for (i, step) in all.iter().enumerate() {
            while let Some(&top) = open.last() {
                if all[top].process == step.process && step.end_ns <= all[top].end_ns {
                    break;
                }
                open.pop();
            }
            parent[i] = open.last().copied();
            open.push(i);
        }
        let mut states_inside = vec![false; all.len()];
        for i in (0..all.len()).rev() {
            if let Some(p) = parent[i] {
                states_inside[p] |= states_inside[i] || all[i].what.states_tokens;
            }
        }
        // `passed`: gave way to the annotations inside it that state tokens.
        let mut passed = vec![false; all.len()];
        let mut last: Option<(u32, i64)> = None;
        let mut steps = Vec::new();
        for (i, step) in all.iter().enumerate() {
            if parent[i].is_some_and(|p| !passed[p]) {
                continue;
            }
            if !step.what.states_tokens && states_inside[i] {
                passed[i] = true;
                continue;
            }
            // Ends rise with begins, so that `at` need look at one step only.
            if last.is_none_or(|(process, end)| process != step.process || step.end_ns > end) {
                last = Some((step.process, step.end_ns));
                steps.push(*step);
            }
        }
        Steps(steps)
    }

    /// The step of `process` whose time contains `at_ns`.
    pub fn at(&self, process: u32, at_ns: i64) -> Option<usize> {
        let after = self.0.partition_point(|s| (s.process, s.start_ns) <= (process, at_ns));
        let index = after.checked_sub(1)?;
        let step = &self.0[index];
        (step.process == process && at_ns < step.end_ns).then_some(index)
    }

    /// Every step.
    pub fn all(&self) -> &[RecordedStep] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(list: &[(&str, i64, i64)]) -> Vec<String> {
        let mut names = Names::default();
        let annotations: Vec<Annotation> = list
            .iter()
            .map(|&(name, start_ns, end_ns)| Annotation {
                start_ns,
                end_ns,
                process: 0,
                name: names.intern(name.as_bytes()),
                id: None,
            })
            .collect();
        let found = Steps::find(&annotations, &names, &Patterns::default());
        found.all().iter().map(|s| names.text(s.name)).collect()
    }

    #[test]
    fn the_outermost_that_states_tokens() {
        let (decode, extend) = ("step[DECODE bs=1]", "step[EXTEND bs=1]");
        assert_eq!(
            steps(&[("ProfilerStep#1", 0, 9), ("ProfilerStep#2", 2, 5)]),
            ["ProfilerStep#1"]
        );
        assert_eq!(
            steps(&[("ProfilerStep#1", 0, 9), (decode, 1, 4), (extend, 5, 8), ("step[x", 6, 7)]),
            [decode, extend]
        );
        let idle = "step[IDLE bs=0]";
        assert_eq!(steps(&[("ProfilerStep#1", 0, 9), (idle, 1, 4)]), [idle]);
        assert_eq!(steps(&[(decode, 0, 9), (extend, 1, 4)]), [decode]);
        assert_eq!(steps(&[(decode, 0, 9), (extend, 5, 14)]), [decode, extend]);
    }

    #[test]
    fn ten_thousand_deep_is_no_stack() {
        let list: Vec<_> = (0..10_000).map(|i| ("ProfilerStep#1", i, 30_000 - i)).collect();
        assert_eq!(steps(&list).len(), 1);
    }
}
