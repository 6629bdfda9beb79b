// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mutated traces: an error or a plan that holds its invariants, never a panic.
//!
//! 10⁴ cases; METRALE_FUZZ_CASES sets another count for a long run.

use std::cell::Cell;
use std::io::Write as _;

use metrale_replay::model;
use metrale_replay::plan::{self, Plan, Timing, What};
use metrale_replay::steps::Patterns;
use metrale_replay::trace::{self, Limits, Trace, WorkKind};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

const SMALL: &[u8] = include_bytes!("data/small.json");

/// Pieces that break parsers, joins and sums.
const PIECES: [&str; 34] = [
    "",
    "0",
    "-1",
    "1e3",
    "1e400",
    "-1e-400",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551616",
    "0.0000001",
    "NaN",
    "null",
    "true",
    "{}",
    "[]",
    "[[[[",
    "}",
    "]",
    ",",
    "\"",
    "\"\"",
    "\"ts\":1,",
    "\"X\"",
    "\"B\"",
    "\"kernel\"",
    "\"cuda_runtime\"",
    "\"user_annotation\"",
    "\"cudaGraphLaunch\"",
    "\\u0000",
    "\\ud800",
    "\u{fffd}",
    "\x00",
    "\"ProfilerStep#2\"",
    "\"execute_1_context_99999999999999999999(1)\"",
];

#[derive(Clone, Debug)]
enum Edit {
    Byte(u32, u8),
    Cut(u32, u16),
    Truncate(u32),
    Insert(u32, usize),
    /// Replace the token (a run of digits, or a string) nearest after a place.
    Token(u32, usize),
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
        9 => (place, 0..PIECES.len()).prop_map(|(a, p)| Edit::Token(a, p)),
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
        Edit::Token(a, p) => {
            let from = at(a);
            let number = |b: &u8| b.is_ascii_digit() || *b == b'.';
            let Some(begin) = bytes[from..].iter().position(number).map(|i| from + i) else {
                return;
            };
            let end = bytes[begin..]
                .iter()
                .position(|b| !number(b))
                .map_or(len, |i| begin + i);
            let quote = bytes[from..]
                .iter()
                .position(|b| *b == b'"')
                .map(|i| from + i);
            let close = quote.and_then(|q| {
                bytes[q + 1..]
                    .iter()
                    .position(|b| *b == b'"')
                    .map(|i| q + 2 + i)
            });
            let token = match (quote, close) {
                (Some(q), Some(c)) if p % 2 == 0 => q..c,
                _ => begin..end,
            };
            drop(bytes.splice(token, PIECES[p].bytes()));
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
    let (mut works, mut time, mut in_step) = (0, 0, false);
    for op in &plan.ops {
        match op.what {
            What::StepBegin { .. } => assert!(!std::mem::replace(&mut in_step, true)),
            What::StepEnd => assert!(std::mem::replace(&mut in_step, false)),
            What::LaneBegin { span } => {
                open[span as usize] += 1;
                assert_eq!(open[span as usize], 1);
            }
            What::LaneEnd { span } => {
                open[span as usize] += 1;
                assert_eq!(open[span as usize], 2);
            }
            What::Kernel { duration_ns, .. }
            | What::Copy { duration_ns, .. }
            | What::Set { duration_ns, .. } => {
                works += 1;
                time += duration_ns;
            }
            What::Graph { graph } => {
                for node in plan.graphs[graph as usize]
                    .chains
                    .iter()
                    .flat_map(|c| &c.nodes)
                {
                    works += 1;
                    time += node.duration_ns;
                }
            }
        }
    }
    assert!(!in_step && open.iter().all(|&marks| marks == 2));
    assert_eq!(works, trace.work.len());
    assert_eq!(time, trace.work.iter().map(|w| w.duration_ns).sum::<u64>());
    let outcome = model::run(plan);
    let launches: u64 = outcome.kernels.iter().map(|k| k.launches).sum();
    let kernels = trace
        .work
        .iter()
        .filter(|w| matches!(w.kind, WorkKind::Kernel(_)))
        .count();
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
    let config = Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    };
    let (good, bad) = (Cell::new(0u64), Cell::new(0u64));
    let strategy = (prop::collection::vec(edit(), 1..6), 0u8..20);
    let result = TestRunner::new(config).run(&strategy, |(edits, packed)| {
        let mut bytes = SMALL.to_vec();
        if packed == 0 {
            let fast = flate2::Compression::fast();
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), fast);
            encoder.write_all(&bytes).expect("packed");
            bytes = encoder.finish().expect("packed");
        }
        for edit in &edits {
            apply(&mut bytes, edit);
        }
        match trace::read_bytes(bytes, &Limits::default()) {
            Ok(trace) => {
                good.set(good.get() + 1);
                for timing in [Timing::Ideal, Timing::Honest] {
                    check(&trace, &plan::build(&trace, &Patterns::default(), timing));
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
    let (good, bad) = (good.get(), bad.get());
    println!("{cases} cases: {good} plans, {bad} errors");
    if let Err(error) = result {
        panic!("{error}");
    }
    // A mutator that never leaves a trace readable tests one branch only.
    assert!(good * 20 >= u64::from(cases), "{good} plans, {bad} errors");
}
