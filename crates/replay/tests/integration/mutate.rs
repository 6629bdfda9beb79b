// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mutated traces: an error or a plan that holds its invariants, never a panic.
//!
//! 10⁴ cases; METRALE_FUZZ_CASES sets another count for a long run.

use std::cell::Cell;

use crate::common::bytes::{gzip, read};
use crate::common::planned;
use metrale_replay::model;
use metrale_replay::plan::{NodeWork, Plan, Timing, What};
use metrale_replay::trace::{Trace, WorkKind};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

const SMALL: &[u8] = include_bytes!("../data/small.json");

/// Whole values that break joins, stamps and sums.
const VALUES: [&str; 29] = [
    "0",
    "1",
    "7",
    "8",
    "-1",
    "1e3",
    "1e400",
    "-1e-400",
    "1000000.0005",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "9223372036854775.807",
    "3600000000",
    "86400000000",
    "null",
    "true",
    "{}",
    "[1,[2]]",
    "\"\"",
    "\"1000100.5\"",
    "\"X\"",
    "\"B\"",
    "\"kernel\"",
    "\"cuda_runtime\"",
    "\"user_annotation\"",
    "\"cudaGraphLaunch\"",
    "\"ProfilerStep#2\"",
    "\"execute_1_context_99999999999999999999(1)\"",
];

/// Pieces that break parsers.
const PIECES: [&str; 14] = [
    "",
    "NaN",
    "[[[[",
    "}",
    "]",
    ",",
    "\"",
    "\"ts\":1,",
    "\\u0000",
    "\\ud800",
    "\u{fffd}",
    "\x00",
    "\\",
    "e9",
];

#[derive(Clone, Debug)]
enum Edit {
    Byte(u32, u8),
    Cut(u32, u16),
    Truncate(u32),
    Insert(u32, usize),
    /// Replace the number or the string that is next after a place by a value.
    Token(u32, bool, usize),
    /// Copy, drop or exchange whole events: the trace has one a line.
    CopyLine(u32, u32),
    DropLine(u32),
    SwapLines(u32, u32),
    /// Copy a slice to another place.
    Repeat(u32, u16, u32),
    Swap(u32, u32, u16),
}

fn edit() -> impl Strategy<Value = Edit> {
    let place = any::<u32>();
    prop_oneof![
        3 => (place, any::<u8>()).prop_map(|(a, b)| Edit::Byte(a, b)),
        2 => (place, 0u16..400).prop_map(|(a, n)| Edit::Cut(a, n)),
        1 => place.prop_map(Edit::Truncate),
        3 => (place, 0..PIECES.len()).prop_map(|(a, p)| Edit::Insert(a, p)),
        30 => (place, any::<bool>(), 0..VALUES.len()).prop_map(|(a, s, p)| Edit::Token(a, s, p)),
        8 => (place, place).prop_map(|(a, b)| Edit::CopyLine(a, b)),
        8 => place.prop_map(Edit::DropLine),
        8 => (place, place).prop_map(|(a, b)| Edit::SwapLines(a, b)),
        3 => (place, 0u16..900, place).prop_map(|(a, n, b)| Edit::Repeat(a, n, b)),
        2 => (place, place, 0u16..40).prop_map(|(a, b, n)| Edit::Swap(a, b, n)),
    ]
}

fn apply(bytes: &mut Vec<u8>, edit: &Edit) {
    if bytes.is_empty() {
        return;
    }
    let len = bytes.len();
    let at = |place: u32| place as usize % len;
    let range = |place: u32, n: u16| at(place)..(at(place) + n as usize).min(len);
    match *edit {
        Edit::Byte(a, b) => bytes[at(a)] = b,
        Edit::Cut(a, n) => drop(bytes.drain(range(a, n))),
        Edit::Truncate(a) => bytes.truncate(at(a)),
        Edit::Insert(a, p) => drop(bytes.splice(at(a)..at(a), PIECES[p].bytes())),
        Edit::Token(a, string, p) => {
            let find = |from: usize, is: &dyn Fn(u8) -> bool| {
                bytes[from..].iter().position(|b| is(*b)).map(|i| from + i)
            };
            let token = if string {
                // The value after a colon, so that keys mostly stay.
                let quote = find(at(a), &|b| b == b':').and_then(|i| find(i, &|b| b == b'"'));
                let close = quote.and_then(|q| find(q + 1, &|b| b == b'"'));
                quote.zip(close).map(|(q, c)| q..c + 1)
            } else {
                let begin = find(at(a), &|b| b == b':').map(|i| (i + 2).min(len));
                let end = begin.and_then(|i| find(i, &|b| !(b.is_ascii_digit() || b == b'.')));
                begin.zip(end).map(|(b, e)| b..e).filter(|range| !range.is_empty())
            };
            if let Some(token) = token {
                drop(bytes.splice(token, VALUES[p].bytes()));
            }
        }
        Edit::CopyLine(..) | Edit::DropLine(_) | Edit::SwapLines(..) => {
            let mut lines: Vec<Vec<u8>> =
                bytes.split(|b| *b == b'\n').map(<[u8]>::to_vec).collect();
            // Not the document's own lines, nor the last event: it has no comma.
            let Some(events) = lines.len().checked_sub(9).filter(|n| *n > 0) else {
                return;
            };
            let line = |place: u32| 4 + place as usize % events;
            match *edit {
                Edit::CopyLine(a, b) => {
                    let copy = lines[line(a)].clone();
                    lines.insert(line(b), copy);
                }
                Edit::DropLine(a) => drop(lines.remove(line(a))),
                Edit::SwapLines(a, b) => lines.swap(line(a), line(b)),
                _ => {}
            }
            *bytes = lines.join(&b'\n');
        }
        Edit::Repeat(a, n, b) => {
            let slice = bytes[range(a, n)].to_vec();
            drop(bytes.splice(at(b)..at(b), slice));
        }
        Edit::Swap(a, b, n) => {
            for i in 0..n as usize {
                let (a, b) = ((at(a) + i) % len, (at(b) + i) % len);
                bytes.swap(a, b);
            }
        }
    }
}

/// What every plan must hold, whatever it was made from.
fn check(trace: &Trace, plan: &Plan) {
    assert!(plan.ops.is_sorted_by_key(|op| op.at_ns));
    let mut open = vec![0u8; plan.spans.len()];
    let (mut works, mut time) = (0, 0);
    // Steps overlap; each is open once, and around all that is of it.
    let (mut in_step, mut begun) = (Vec::new(), Vec::new());
    for op in &plan.ops {
        match op.what {
            What::StepBegin { step } => {
                assert!(step == op.step && !begun.contains(&step));
                begun.push(step);
                in_step.push(step);
            }
            What::StepEnd => {
                let at = in_step.iter().position(|step| *step == op.step);
                in_step.remove(at.expect("begun before it ends"));
            }
            _ if op.step.is_some() => assert!(in_step.contains(&op.step)),
            _ => {}
        }
        match op.what {
            What::StepBegin { .. } | What::StepEnd => {}
            What::LaneBegin { span } => {
                open[span as usize] += 1;
                assert_eq!(open[span as usize], 1);
            }
            What::LaneEnd { span } => {
                open[span as usize] += 1;
                assert_eq!(open[span as usize], 2);
            }
            What::Kernel { duration_ns, .. } | What::Copy { duration_ns, .. } => {
                works += 1;
                time += duration_ns;
            }
            What::Graph { graph } => {
                let nodes = plan.graphs[graph as usize].nodes();
                for (node, ..) in nodes.filter(|(node, ..)| node.kind != NodeWork::Gap) {
                    works += 1;
                    time += node.duration_ns;
                }
            }
        }
    }
    assert!(in_step.is_empty() && open.iter().all(|&marks| marks == 2));
    assert_eq!(works, trace.work.len());
    assert_eq!(time, trace.work.iter().map(|w| w.duration_ns).sum::<u64>());
    let outcome = model::run(plan);
    let launches: u64 = outcome.kernels.iter().map(|k| k.launches).sum();
    let kernels = trace.work.iter().filter(|w| matches!(w.kind, WorkKind::Kernel(_))).count();
    assert_eq!(launches + plan.graph_totals().1, kernels as u64);
    let mut names = plan.kernels.clone();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), plan.kernels.len());
}

#[test]
fn a_mutated_trace_never_panics() {
    let cases = match std::env::var("METRALE_FUZZ_CASES") {
        Ok(text) => text.parse().expect("METRALE_FUZZ_CASES is a number"),
        Err(_) => 10_000,
    };
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let (good, bad, drops) = (Cell::new(0u64), Cell::new(0u64), Cell::new(0u64));
    let strategy = (prop::collection::vec(edit(), 1..6), 0u8..20);
    let result = TestRunner::new(config).run(&strategy, |(edits, packed)| {
        let mut bytes = SMALL.to_vec();
        if packed == 0 {
            bytes = gzip(&bytes);
        }
        for edit in &edits {
            apply(&mut bytes, edit);
        }
        match read(bytes) {
            Ok(trace) => {
                good.set(good.get() + 1);
                drops.set(drops.get() + u64::from(trace.drops.total() > 0));
                for timing in [Timing::Ideal, Timing::Honest] {
                    check(&trace, &planned(&trace, timing));
                }
            }
            Err(error) => {
                bad.set(bad.get() + 1);
                let text = error.to_string();
                prop_assert!(!text.is_empty() && !text.contains('\n'), "{:?}", text);
            }
        }
        Ok(())
    });
    let (good, bad, drops) = (good.get(), bad.get(), drops.get());
    println!("{cases} cases: {good} plans ({drops} with drops), {bad} errors");
    if let Err(error) = result {
        panic!("{error}");
    }
    // A mutator that never leaves a trace readable tests one branch only.
    assert!(good * 4 >= u64::from(cases), "{good} plans, {bad} errors");
}
