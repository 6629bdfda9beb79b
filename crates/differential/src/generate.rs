// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sequences at random, by strategies, so that failures shrink.

use crate::script::{Action as A, Script, Setup, THREADS, TROUBLED, Timing, Trouble, Turn};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::Union;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// Parts of a sequence: single turns, and a few that belong together.
const PARTS: std::ops::Range<usize> = 1..70;

/// Virtual time that passes at once, at most: longer than spans may be open.
const LONG_NS: u32 = 2_000_000;

/// Statuses that a call may fail with: of every kind, and an unheard-of one.
const STATUSES: &[u32] = &[
    1, 2, 3, 4, 46, 100, 201, 400, 500, 600, 700, 709, 719, 800, 801, 900, 901, 904, 905, 906, 907,
    908, 917, 999, 123_456,
];

/// Errors that stay.
const STICKY: &[u32] = &[0, 0, 226, 700, 719, 999];

/// Versions of the recorder's driver, each without what came later.
const DRIVERS: &[u32] = &[11_040, 12_000, 12_040, 12_080, 13_000];

/// A runner whose draws follow from the seed alone.
pub(crate) fn runner(seed: u64) -> TestRunner {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config {
        failure_persistence: None,
        ..Config::default()
    };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    TestRunner::new_with_rng(config, rng)
}

/// All sequences.
pub(crate) fn scripts() -> impl Strategy<Value = Script> {
    (setups(), vec(parts(), PARTS)).prop_map(|(setup, parts)| Script {
        setup,
        turns: parts.concat(),
    })
}

/// Single turns, and those that seldom come together by chance.
fn parts() -> impl Strategy<Value = Vec<Turn>> {
    prop_oneof![
        16 => turns(actions()).prop_map(|turn| vec![turn]),
        2 => captures(),
        1 => measures(),
    ]
}

/// A capture with what may happen meanwhile, and its graph's launch. One
/// thread begins and ends it, others take turns between.
fn captures() -> impl Strategy<Value = Vec<Turn>> {
    let meanwhile = Union::new_weighted(
        [launch_actions(), guest_actions(), event_records()]
            .into_iter()
            .flatten()
            .collect::<Weighted>(),
    );
    let graph = [
        A::CaptureEnd { s: 0 },
        A::GraphInstantiate { g: 0 },
        A::GraphLaunch {
            x: 0,
            s: 0,
            span: true,
        },
    ];
    let choices = (0..THREADS as u8, n(), 0..3_u8);
    (choices, vec(turns(meanwhile), 1..8)).prop_map(move |((thread, s, mode), meanwhile)| {
        let own = |action| Turn {
            thread,
            fault: None,
            trouble: None,
            action,
        };
        let mut part = vec![own(A::CaptureBegin { s, mode })];
        part.extend(meanwhile);
        part.extend(graph.map(own));
        part
    })
}

/// The application times work of its own.
fn measures() -> impl Strategy<Value = Vec<Turn>> {
    (0..THREADS as u8, n(), n(), ns()).prop_map(|(thread, e, s, ns)| {
        let record = |e| A::EventRecord {
            e,
            s,
            external: false,
        };
        let work = A::Launch {
            f: 0,
            s,
            ns,
            span: true,
        };
        let create = A::EventCreate { timed: true };
        let wait = A::EventSynchronize { e: e + 1 };
        let read = A::EventElapsed { from: e, to: e + 1 };
        let actions = [create, create, record(e), work, record(e + 1), wait, read];
        let turn = |action| Turn {
            thread,
            fault: None,
            trouble: None,
            action,
        };
        actions.map(turn).to_vec()
    })
}

/// Records and waits, of a graph too.
fn event_records() -> Weighted {
    let external = || proptest::bool::weighted(0.4);
    vec![
        (
            8,
            (n(), n(), external())
                .prop_map(|(e, s, external)| A::EventRecord { e, s, external })
                .boxed(),
        ),
        (
            6,
            (n(), n(), external())
                .prop_map(|(s, e, external)| A::StreamWaitEvent { s, e, external })
                .boxed(),
        ),
    ]
}

fn setups() -> impl Strategy<Value = Setup> {
    let timing = prop_oneof![
        Just(Timing::Instant),
        Just(Timing::NoLegacy),
        Just(Timing::NoBlocking),
        Just(Timing::SpansApart),
    ];
    (
        timing,
        1..=THREADS as u8,
        proptest::sample::select(DRIVERS),
        any::<bool>(),
        2..12_u8,
        proptest::bool::weighted(0.2),
        proptest::bool::weighted(0.8),
    )
        .prop_map(
            |(timing, threads, driver, lazy, slots, refuse_legacy, early)| Setup {
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

fn turns(action: impl Strategy<Value = A>) -> impl Strategy<Value = Turn> {
    let status = || proptest::sample::select(STATUSES);
    let trouble = (0..TROUBLED.len() as u8, 0..3_u8, status())
        .prop_map(|(call, skip, status)| Trouble { call, skip, status });
    (
        0..THREADS as u8,
        proptest::option::weighted(0.06, status()),
        proptest::option::weighted(0.06, trouble),
        action,
    )
        .prop_map(|(thread, fault, trouble, action)| Turn {
            thread,
            fault,
            trouble,
            action,
        })
}

fn actions() -> impl Strategy<Value = A> {
    let mut all: Vec<(u32, BoxedStrategy<A>)> = Vec::new();
    all.extend(context_actions());
    all.extend(stream_actions());
    all.extend(event_actions());
    all.extend(launch_actions());
    all.extend(memory_actions());
    all.extend(guest_actions());
    Union::new_weighted(all)
}

type Weighted = Vec<(u32, BoxedStrategy<A>)>;

fn n() -> impl Strategy<Value = u8> {
    0..24_u8
}

fn b() -> impl Strategy<Value = bool> {
    any::<bool>()
}

/// Time that work takes, or that passes, ns.
fn ns() -> impl Strategy<Value = u32> {
    prop_oneof![0..3_000_u32, 0..LONG_NS]
}

/// Mostly the first: its home is where most is alive.
fn c() -> impl Strategy<Value = u8> {
    prop_oneof![3 => Just(0_u8), 1 => n()]
}

fn context_actions() -> Weighted {
    let sticky = proptest::sample::select(STICKY);
    vec![
        (12, ns().prop_map(|ns| A::Advance { ns }).boxed()),
        (
            1,
            (c(), sticky)
                .prop_map(|(c, status)| A::Sticky { c, status })
                .boxed(),
        ),
        (2, c().prop_map(|c| A::CtxSetCurrent { c }).boxed()),
        (2, c().prop_map(|c| A::CtxPush { c }).boxed()),
        (2, Just(A::CtxPop).boxed()),
        (1, Just(A::CtxGetCurrent).boxed()),
        (1, Just(A::CtxSynchronize).boxed()),
        (3, n().prop_map(|device| A::CtxCreate { device }).boxed()),
        (4, n().prop_map(|c| A::CtxDestroy { c }).boxed()),
        (4, (0..3_u8).prop_map(|mode| A::Mode { mode }).boxed()),
    ]
}

fn stream_actions() -> Weighted {
    vec![
        (
            6,
            b().prop_map(|blocking| A::StreamCreate { blocking })
                .boxed(),
        ),
        (4, n().prop_map(|s| A::StreamDestroy { s }).boxed()),
        (3, n().prop_map(|s| A::StreamQuery { s }).boxed()),
        (2, n().prop_map(|s| A::StreamSynchronize { s }).boxed()),
        (
            4,
            (n(), n(), proptest::bool::weighted(0.2))
                .prop_map(|(s, e, external)| A::StreamWaitEvent { s, e, external })
                .boxed(),
        ),
        (1, n().prop_map(|s| A::StreamGetCtx { s }).boxed()),
        (1, n().prop_map(|s| A::StreamGetId { s }).boxed()),
        (2, n().prop_map(|s| A::StreamIsCapturing { s }).boxed()),
        (2, n().prop_map(|s| A::StreamGetCaptureInfo { s }).boxed()),
        (
            8,
            (n(), 0..3_u8)
                .prop_map(|(s, mode)| A::CaptureBegin { s, mode })
                .boxed(),
        ),
        (10, n().prop_map(|s| A::CaptureEnd { s }).boxed()),
    ]
}

fn event_actions() -> Weighted {
    let timed = proptest::bool::weighted(0.9);
    vec![
        (5, timed.prop_map(|timed| A::EventCreate { timed }).boxed()),
        (2, n().prop_map(|e| A::EventDestroy { e }).boxed()),
        (
            8,
            (n(), n(), proptest::bool::weighted(0.15))
                .prop_map(|(e, s, external)| A::EventRecord { e, s, external })
                .boxed(),
        ),
        (4, n().prop_map(|e| A::EventQuery { e }).boxed()),
        (2, n().prop_map(|e| A::EventSynchronize { e }).boxed()),
        (
            4,
            (n(), n())
                .prop_map(|(from, to)| A::EventElapsed { from, to })
                .boxed(),
        ),
    ]
}

fn launch_actions() -> Weighted {
    vec![
        (2, Just(A::ModuleLoad).boxed()),
        (1, n().prop_map(|m| A::ModuleUnload { m }).boxed()),
        (1, n().prop_map(|f| A::FuncGetName { f }).boxed()),
        (
            16,
            (n(), n(), ns(), b())
                .prop_map(|(f, s, ns, span)| A::Launch { f, s, ns, span })
                .boxed(),
        ),
        (5, n().prop_map(|g| A::GraphInstantiate { g }).boxed()),
        (1, n().prop_map(|g| A::GraphDestroy { g }).boxed()),
        (1, n().prop_map(|x| A::ExecDestroy { x }).boxed()),
        (
            6,
            (n(), n(), b())
                .prop_map(|(x, s, span)| A::GraphLaunch { x, s, span })
                .boxed(),
        ),
    ]
}

fn memory_actions() -> Weighted {
    vec![
        (
            3,
            (n(), b())
                .prop_map(|(s, sync)| A::MemAlloc { s, sync })
                .boxed(),
        ),
        (
            1,
            (n(), n(), b())
                .prop_map(|(m, s, sync)| A::MemFree { m, s, sync })
                .boxed(),
        ),
        (
            2,
            (n(), n(), any::<u8>(), b())
                .prop_map(|(m, s, value, sync)| A::MemSet { m, s, value, sync })
                .boxed(),
        ),
        (
            2,
            (n(), n(), any::<u8>(), b())
                .prop_map(|(m, s, value, sync)| A::CopyIn { m, s, value, sync })
                .boxed(),
        ),
        (
            2,
            (n(), n(), n(), b())
                .prop_map(|(m, s, host, sync)| A::CopyOut { m, s, host, sync })
                .boxed(),
        ),
        (
            2,
            (n(), n(), n(), b())
                .prop_map(|(m, to, s, sync)| A::CopyWithin { m, to, s, sync })
                .boxed(),
        ),
    ]
}

fn guest_actions() -> Weighted {
    vec![
        (
            6,
            (n(), n(), n(), ns(), n())
                .prop_map(|(lane, f, s, ns, launches)| A::Serve {
                    lane,
                    f,
                    s,
                    ns,
                    launches,
                })
                .boxed(),
        ),
        (3, c().prop_map(|c| A::Install { c }).boxed()),
        (
            1,
            (n(), b())
                .prop_map(|(r, close)| A::Uninstall { r, close })
                .boxed(),
        ),
        (
            14,
            (n(), n(), n(), b())
                .prop_map(|(r, lane, s, known)| A::BeginLane { r, lane, s, known })
                .boxed(),
        ),
        (
            10,
            (n(), any::<u8>(), n(), proptest::bool::weighted(0.9))
                .prop_map(|(r, what, s, armed)| A::BeginLaunch { r, what, s, armed })
                .boxed(),
        ),
        (
            22,
            (n(), proptest::option::weighted(0.15, n()))
                .prop_map(|(span, other)| A::End { span, other })
                .boxed(),
        ),
        (2, n().prop_map(|span| A::Cancel { span }).boxed()),
        (
            1,
            (n(), b())
                .prop_map(|(span, cancel)| A::EndAgain { span, cancel })
                .boxed(),
        ),
        (18, n().prop_map(|r| A::Harvest { r }).boxed()),
        (1, n().prop_map(|r| A::Read { r }).boxed()),
    ]
}
