// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs at random: graphs, and what is done with them.

use proptest::bool::weighted;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

/// Streams of an application.
pub(super) const STREAMS: usize = 3;
/// Branches of a graph; each has buffers of its own, as what is not ordered must not
/// share any.
pub(super) const BRANCHES: usize = 3;

/// What one node of a graph does.
#[derive(Clone, Copy, Debug)]
pub(super) enum Work {
    /// One of two kernels, for so long.
    Kernel(bool, u16),
    /// Sets the branch's first buffer.
    Set(u8),
    /// Copies its first buffer to its second, or back.
    Copy(bool),
}

/// A graph, as it is made.
#[derive(Clone, Debug)]
pub(super) struct Recipe {
    /// Captured: on which branch, behind which other, if any.
    pub(super) works: Vec<(usize, Option<usize>, Work)>,
    /// A child graph of two kernels behind so many of the first nodes.
    pub(super) child: Option<u8>,
    /// Programmatic edges between kernels, by choice.
    pub(super) edges: Vec<(u8, u8)>,
}

/// What is done, by choices among what there is.
#[derive(Clone, Copy, Debug)]
pub(super) enum GraphAction {
    /// Launches a graph so often in one step.
    Replay { graph: u8, stream: u8, times: u8 },
    /// Begins a capture in that mode, does so within, launches a graph, and ends it.
    Capture { graph: u8, stream: u8, mode: u8, within: Within },
    /// Launches a kernel.
    Kernel { stream: u8, ns: u16 },
    /// Tells a kernel of an executable to take so long; a twin may not take that.
    Update { graph: u8, node: u8, ns: u16, missed: bool },
    /// Updates an executable by a whole graph, with times so much longer.
    Replace { graph: u8, longer: u8 },
    /// Orders one stream behind another.
    Order { first: u8, second: u8 },
    /// Lets time pass.
    Advance { ns: u32 },
    /// Waits for a stream.
    Synchronize { stream: u8 },
    /// What only a recorder does.
    Recorder { graph: u8, within: Within },
}

/// What a recorder does, beside a capture or not.
#[derive(Clone, Copy, Debug)]
pub(super) enum Within {
    Nothing,
    Harvest,
    Renew,
    Retire,
    /// A twin in place of the last one, to which updates are told or not.
    Make(bool),
}

/// A status that a call returns instead of acting.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    /// Each launch of a graph.
    Launches(u32),
    /// The recorder's call of that number, after so many.
    Recorders(u8, u8, u32),
}

/// What a recorder has.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecorderSetup {
    /// Its driver shows nothing newer.
    pub(super) driver: u32,
    pub(super) slots: usize,
    pub(super) marks: usize,
    pub(super) resident: usize,
    pub(super) plan_launches: u32,
    pub(super) always: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Program {
    pub(super) setup: RecorderSetup,
    pub(super) graphs: Vec<Recipe>,
    pub(super) operations: Vec<(Option<Fault>, GraphAction)>,
}

pub(super) fn programs() -> impl Strategy<Value = Program> {
    let operation = (option::weighted(0.05, faults()), actions());
    (setups(), vec(recipes(), 1..4), vec(operation, 1..80))
        .prop_map(|(setup, graphs, operations)| Program { setup, graphs, operations })
}

fn setups() -> impl Strategy<Value = RecorderSetup> {
    let driver = select(&[11_040, 12_000, 12_030, 13_000][..]);
    let slots = prop_oneof![1 => 2..4usize, 4 => Just(64)];
    let marks = prop_oneof![1 => 5..9usize, 1 => Just(64)];
    (driver, slots, marks, 1..6usize, 1..5u32, weighted(0.8)).prop_map(
        |(driver, slots, marks, resident, plan_launches, always)| RecorderSetup {
            driver,
            slots,
            marks,
            resident,
            plan_launches,
            always,
        },
    )
}

fn recipes() -> impl Strategy<Value = Recipe> {
    let work = prop_oneof![
        4 => (any::<bool>(), 1..20_000u16).prop_map(|(other, ns)| Work::Kernel(other, ns)),
        1 => any::<u8>().prop_map(Work::Set),
        1 => any::<bool>().prop_map(Work::Copy),
    ];
    // Many are chains.
    let chain = vec((Just(0), Just(None), work.clone()), 1..14);
    let wide = vec((0..BRANCHES, option::weighted(0.3, 0..BRANCHES), work), 1..14);
    let child = option::weighted(0.3, any::<u8>());
    let edges = prop_oneof![4 => Just(Vec::new()), 1 => vec(any::<(u8, u8)>(), 1..4)];
    (prop_oneof![chain, wide], child, edges).prop_map(|(works, child, edges)| Recipe {
        works,
        child,
        edges,
    })
}

fn withins() -> impl Strategy<Value = Within> {
    prop_oneof![
        1 => Just(Within::Nothing),
        40 => Just(Within::Harvest),
        16 => Just(Within::Renew),
        1 => Just(Within::Retire),
        3 => weighted(0.9).prop_map(Within::Make),
    ]
}

fn actions() -> impl Strategy<Value = GraphAction> {
    // Mostly the first: one where a twin may run.
    let stream = || prop_oneof![3 => Just(0), 1 => any::<u8>()];
    let graph = || prop_oneof![2 => Just(0), 1 => any::<u8>()];
    prop_oneof![
        12 => (graph(), stream(), 1..4u8)
            .prop_map(|(graph, stream, times)| GraphAction::Replay { graph, stream, times }),
        2 => (graph(), stream(), 0..3u8, withins()).prop_map(
            |(graph, stream, mode, within)| GraphAction::Capture { graph, stream, mode, within }
        ),
        1 => (stream(), any::<u16>()).prop_map(|(stream, ns)| GraphAction::Kernel { stream, ns }),
        3 => (graph(), any::<u8>(), any::<u16>(), weighted(0.05)).prop_map(
            |(graph, node, ns, missed)| GraphAction::Update { graph, node, ns, missed }
        ),
        1 => (any::<u8>(), any::<u8>())
            .prop_map(|(graph, longer)| GraphAction::Replace { graph, longer }),
        1 => (stream(), stream()).prop_map(|(first, second)| GraphAction::Order { first, second }),
        6 => (0..2_000_000u32).prop_map(|ns| GraphAction::Advance { ns }),
        1 => stream().prop_map(|stream| GraphAction::Synchronize { stream }),
        14 => (graph(), withins())
            .prop_map(|(graph, within)| GraphAction::Recorder { graph, within }),
    ]
}

fn faults() -> impl Strategy<Value = Fault> {
    let status = || {
        let stops = select(&[700u32, 719, 801, 123_456][..]);
        prop_oneof![5 => select(&[1u32, 2, 400, 600, 900, 906, 907, 910][..]), 1 => stops]
    };
    prop_oneof![
        1 => status().prop_map(Fault::Launches),
        5 => (any::<u8>(), 0..6u8, status())
            .prop_map(|(call, skip, status)| Fault::Recorders(call, skip, status)),
    ]
}
