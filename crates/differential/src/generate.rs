// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sequences at random, by strategies, so that failures shrink.

use crate::machine::{Action as A, DRAWN};
use crate::sequence::{NUMBERS, Operation, Sequence, Setup, THREADS, TROUBLED, Timing, Trouble};
use proptest::array::uniform4;
use proptest::bool::weighted;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::Union;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// Parts of a sequence: single operations, and a few that belong together.
const PARTS: std::ops::Range<usize> = 1..70;

/// Virtual time that passes at once, at most: longer than spans may be open.
const LONG_NS: u32 = 2_000_000;

/// Statuses that a call may fail with: of every kind, and an unheard-of one.
const STATUSES: &[u32] = &[
    1, 2, 3, 4, 46, 100, 201, 400, 500, 600, 700, 709, 719, 800, 801, 900, 901, 904, 905, 906, 907,
    908, 917, 999, 123_456,
];

/// Versions of the recorder's driver, each without what came later.
const DRIVERS: &[u32] = &[11_040, 12_000, 12_040, 12_080, 13_000];

const TIMINGS: &[Timing] =
    &[Timing::Instant, Timing::NoLegacy, Timing::NoBlocking, Timing::SpansApart];

/// A runner whose draws follow from the seed alone.
pub(crate) fn runner(seed: u64) -> TestRunner {
    runner_of(seed, 1)
}

/// The same, for so many cases.
pub(crate) fn runner_of(seed: u64, cases: u32) -> TestRunner {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config { failure_persistence: None, cases, ..Config::default() };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    TestRunner::new_with_rng(config, rng)
}

/// All sequences.
pub(crate) fn sequences() -> impl Strategy<Value = Sequence> {
    let parts = prop_oneof![
        16 => operations(DRAWN.to_vec()).prop_map(|operation| vec![operation]),
        2 => captures(),
        1 => measures(),
    ];
    (setups(), vec(parts, PARTS))
        .prop_map(|(setup, parts)| Sequence { setup, operations: parts.concat() })
}

fn setups() -> impl Strategy<Value = Setup> {
    let threads = 1..=THREADS as u8;
    let ours = (select(DRIVERS), 2..12_u8, weighted(0.2), weighted(0.8));
    (select(TIMINGS), threads, any::<bool>(), ours).prop_map(
        |(timing, threads, lazy, (driver, slots, refuse_legacy, early))| Setup {
            timing,
            threads,
            driver,
            lazy,
            slots,
            refuse_legacy,
            early,
        },
    )
}

/// Time that work takes, or that passes, ns.
fn ns() -> impl Strategy<Value = u32> {
    prop_oneof![0..3_000_u32, 0..LONG_NS]
}

fn operations(actions: Vec<(u32, A)>) -> impl Strategy<Value = Operation> {
    let just = |(weight, action)| (weight, Just(action));
    let action = Union::new_weighted(actions.into_iter().map(just).collect());
    let trouble = (0..TROUBLED.len() as u8, 0..3_u8, select(STATUSES))
        .prop_map(|(call, skip, status)| Trouble { call, skip, status });
    let failing = (option::weighted(0.06, select(STATUSES)), option::weighted(0.06, trouble));
    let chosen = (action, uniform4(NUMBERS), ns());
    (0..THREADS as u8, failing, chosen).prop_map(|(thread, (fault, trouble), (action, n, ns))| {
        Operation { thread, fault, trouble, action, n, ns }
    })
}

/// A capture with what may happen meanwhile, and its graph's launch. One
/// thread begins and ends it, others have operations between.
fn captures() -> impl Strategy<Value = Vec<Operation>> {
    let launches = A::ModuleLoad..=A::GraphLaunch;
    let drawn = DRAWN.iter().copied();
    let drawn = drawn.filter(|(_, action)| launches.contains(action) || *action >= A::Serve);
    let meanwhile = drawn.chain([(8, A::EventRecord), (6, A::StreamWaitEvent)]);
    let meanwhile = vec(operations(meanwhile.collect()), 1..8);
    (0..THREADS as u8, NUMBERS, NUMBERS, meanwhile).prop_map(|(thread, s, mode, meanwhile)| {
        let own = |action, n| Operation { thread, ..Operation::new(action, n, 0) };
        let mut part = vec![own(A::CaptureBegin, [s, mode, 0, 0])];
        part.extend(meanwhile);
        part.push(own(A::CaptureEnd, [0; 4]));
        part.push(own(A::GraphInstantiate, [0; 4]));
        part.push(own(A::GraphLaunch, [0, 0, NUMBERS.end, 0]));
        part
    })
}

/// The application times work of its own.
fn measures() -> impl Strategy<Value = Vec<Operation>> {
    (0..THREADS as u8, NUMBERS, NUMBERS, ns()).prop_map(|(thread, e, s, ns)| {
        let operations = [
            (A::EventCreate, [0; 4]),
            (A::EventCreate, [0; 4]),
            (A::EventRecord, [e, s, 0, 0]),
            (A::Launch, [0, s, NUMBERS.end, 0]),
            (A::EventRecord, [e + 1, s, 0, 0]),
            (A::EventSynchronize, [e + 1, 0, 0, 0]),
            (A::EventElapsed, [e, e + 1, 0, 0]),
        ];
        let operation = |(action, n)| Operation { thread, ..Operation::new(action, n, ns) };
        operations.map(operation).to_vec()
    })
}
