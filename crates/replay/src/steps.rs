// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which host annotations are steps, and which lane each is.
//!
//! Invariants: of nested recognised annotations one is the step: the outermost
//! that states its tokens, else the outermost. Steps of one process never
//! contain one another, so a moment belongs to at most one of them: of two
//! that overlap, the later begun.

use crate::trace::{Annotation, Names};

/// The lane of a step, by its index in the recorder's lane order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Lane {
    /// Work outside every step.
    Admit,
    /// A step with prompt tokens.
    Prefill,
    /// A step without.
    Decode,
}

impl Lane {
    /// The lanes in order.
    pub const ALL: [Lane; 3] = [Lane::Admit, Lane::Prefill, Lane::Decode];

    /// The index of the lane in the recorder's lane order.
    pub fn index(self) -> usize {
        self as usize
    }

    /// The lane's name.
    pub fn name(self) -> &'static str {
        ["admit", "prefill", "decode"][self.index()]
    }
}

/// What a step's name says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recognised {
    /// The lane, decode where nothing is stated.
    pub lane: Lane,
    /// Whether the name states what kind of tokens the step serves.
    pub states_tokens: bool,
}

/// Names of the caller's own that mark a step.
///
/// A pattern without `*` matches names that begin with it. With `*`, each `*`
/// stands for any text (none, too), and the whole name must match.
#[derive(Clone, Debug, Default)]
pub struct Patterns(Vec<String>);

impl Patterns {
    /// The built-in names and `patterns`.
    pub fn new(patterns: Vec<String>) -> Self {
        Patterns(patterns)
    }

    /// What `name` says, where it is a step's.
    pub fn recognise(&self, name: &[u8]) -> Option<Recognised> {
        let name = String::from_utf8_lossy(name);
        builtin(&name).or_else(|| {
            let own = self.0.iter().any(|pattern| matches(pattern, &name));
            own.then(|| counted(&name))
        })
    }
}

/// vLLM's `execute_…`, SGLang's `step[…]` and PyTorch's `ProfilerStep#…`.
fn builtin(name: &str) -> Option<Recognised> {
    if name.starts_with("execute_") {
        return Some(counted(name));
    }
    if let Some(rest) = name.strip_prefix("step[") {
        let mode = rest
            .split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
            .next()
            .unwrap_or("");
        // A batch that extends any sequence by prompt tokens is prefill.
        let prefill = ["EXTEND", "PREFILL", "MIXED"]
            .iter()
            .any(|word| mode.contains(word))
            && !mode.contains("DRAFT");
        let decode = !mode.is_empty() && !mode.bytes().all(|b| b.is_ascii_digit());
        return Some(Recognised {
            lane: if prefill { Lane::Prefill } else { Lane::Decode },
            states_tokens: decode || prefill,
        });
    }
    name.strip_prefix("ProfilerStep#").map(|_| Recognised {
        lane: Lane::Decode,
        states_tokens: false,
    })
}

/// The lane by `context_N`, the count of sequences with prompt tokens.
fn counted(name: &str) -> Recognised {
    let count = name.match_indices("context_").find_map(|(at, word)| {
        let digits = name[at + word.len()..]
            .split(|c: char| !c.is_ascii_digit())
            .next()?;
        (!digits.is_empty()).then(|| digits.bytes().any(|b| b != b'0'))
    });
    Recognised {
        lane: if count == Some(true) {
            Lane::Prefill
        } else {
            Lane::Decode
        },
        states_tokens: count.is_some(),
    }
}

/// Greedy match of `*` patterns, linear in the name for each piece.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else {
        return name.starts_with(pattern);
    };
    let Some(mut name) = name.strip_prefix(head) else {
        return false;
    };
    let mut pieces: Vec<&str> = rest.split('*').collect();
    let tail = pieces.pop().unwrap_or("");
    for piece in pieces {
        match name.find(piece) {
            Some(at) => name = &name[at + piece.len()..],
            None => return false,
        }
    }
    name.ends_with(tail)
}

/// A step of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
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
}

/// The steps of a trace, sorted by process and begin.
#[derive(Clone, Debug, Default)]
pub struct Steps(Vec<Interval>);

impl Steps {
    /// Finds the steps among `annotations`.
    pub fn find(annotations: &[Annotation], names: &Names, patterns: &Patterns) -> Self {
        let mut known = vec![None; names.len()];
        let mut all: Vec<Interval> = annotations
            .iter()
            .filter_map(|a| {
                let what = (*known[a.name as usize]
                    .get_or_insert_with(|| patterns.recognise(names.get(a.name))))?;
                Some(Interval {
                    start_ns: a.start_ns,
                    end_ns: a.end_ns,
                    process: a.process,
                    name: a.name,
                    what,
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
        let after = self
            .0
            .partition_point(|s| (s.process, s.start_ns) <= (process, at_ns));
        let index = after.checked_sub(1)?;
        let step = &self.0[index];
        (step.process == process && at_ns < step.end_ns).then_some(index)
    }

    /// Every step.
    pub fn all(&self) -> &[Interval] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(name: &str) -> Option<(Lane, bool)> {
        let found = Patterns::default().recognise(name.as_bytes())?;
        Some((found.lane, found.states_tokens))
    }

    #[test]
    fn names_of_the_field() {
        let decode = "execute_32_context_0(sq0sk0)_generation_32(sq32sk9)";
        assert_eq!(lane(decode), Some((Lane::Decode, true)));
        let prefill = "execute_8192_context_9(sq8155)_generation_37(sq37)";
        assert_eq!(lane(prefill), Some((Lane::Prefill, true)));
        assert_eq!(
            lane("execute_context_1(512)_generation_0(0)"),
            Some((Lane::Prefill, true))
        );
        assert_eq!(lane("step[DECODE bs=32]"), Some((Lane::Decode, true)));
        assert_eq!(
            lane("step[EXTEND bs=1 toks=512]"),
            Some((Lane::Prefill, true))
        );
        assert_eq!(lane("step[7]"), Some((Lane::Decode, false)));
        assert_eq!(lane("ProfilerStep#101"), Some((Lane::Decode, false)));
        assert_eq!(lane("Optimizer.step#SGD.step"), None);
    }

    #[test]
    fn own_patterns() {
        let yes = |p: &str, n: &str| {
            assert!(
                Patterns::new(vec![p.into()])
                    .recognise(n.as_bytes())
                    .is_some(),
                "{p} {n}"
            );
        };
        let no = |p: &str, n: &str| {
            assert!(
                Patterns::new(vec![p.into()])
                    .recognise(n.as_bytes())
                    .is_none(),
                "{p} {n}"
            );
        };
        yes("## forward", "## forward ##");
        yes("*forward*", "## forward ##");
        yes("run_*_batch", "run_decode_batch");
        yes("a*b*c", "a-b-b-c");
        no("run_*_batch", "run_decode_batch_2");
        no("forward", "## forward ##");
        no("a*a", "a");
    }

    fn steps(list: &[(&str, i64, i64)]) -> Vec<String> {
        let mut names = Names::default();
        let annotations: Vec<Annotation> = list
            .iter()
            .map(|&(name, start_ns, end_ns)| Annotation {
                start_ns,
                end_ns,
                process: 0,
                name: names.intern(name.as_bytes()),
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
            steps(&[
                ("ProfilerStep#1", 0, 9),
                (decode, 1, 4),
                (extend, 5, 8),
                ("step[x", 6, 7)
            ]),
            [decode, extend]
        );
        assert_eq!(steps(&[(decode, 0, 9), (extend, 1, 4)]), [decode]);
        assert_eq!(steps(&[(decode, 0, 9), (extend, 5, 14)]), [decode, extend]);
    }

    #[test]
    fn ten_thousand_deep_is_no_stack() {
        let list: Vec<_> = (0..10_000)
            .map(|i| ("ProfilerStep#1", i, 30_000 - i))
            .collect();
        assert_eq!(steps(&list).len(), 1);
    }
}
