// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs: graphs, and what is done with them; and how each is drawn at random.

use proptest::bool::weighted;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use proptest_derive::Arbitrary;

/// Streams of an application.
pub(super) const STREAMS: usize = 3;
/// Branches of a graph; each has buffers of its own, as what is not ordered must not
/// share any.
pub(super) const BRANCHES: usize = 3;

/// What one node of a graph does.
#[derive(Clone, Copy, Debug, Arbitrary)]
pub(super) enum Work {
    /// One of two kernels, for so long.
    #[proptest(weight = 4)]
    Kernel(bool, #[proptest(strategy = "1..20_000_u16")] u16),
    /// Sets the branch's first buffer.
    Set(u8),
    /// Copies its first buffer to its second, or back.
    Copy(bool),
}

/// A node, as it is captured: on which branch, behind which other, if any.
type Captured = (usize, Option<usize>, Work);

/// A graph, as it is made.
#[derive(Clone, Debug, Arbitrary)]
pub(super) struct Recipe {
    #[proptest(strategy = "works()")]
    pub(super) works: Vec<Captured>,
    /// A child graph of two kernels behind so many of the first nodes.
    #[proptest(strategy = "option::weighted(0.3, any::<u8>())")]
    pub(super) child: Option<u8>,
    /// Programmatic edges between kernels, by choice.
    #[proptest(strategy = "prop_oneof![4 => Just(Vec::new()), 1 => vec(any::<(u8, u8)>(), 1..4)]")]
    pub(super) edges: Vec<(u8, u8)>,
}

/// Many are chains.
fn works() -> impl Strategy<Value = Vec<Captured>> {
    let chain = vec((Just(0), Just(None), any::<Work>()), 1..14);
    let behind = option::weighted(0.3, 0..BRANCHES);
    prop_oneof![chain, vec((0..BRANCHES, behind, any::<Work>()), 1..14)]
}

/// What is done, by choices among what there is.
#[derive(Clone, Copy, Debug, Arbitrary)]
pub(super) enum GraphAction {
    /// Launches a graph so often in one step.
    #[proptest(weight = 12)]
    Replay {
        #[proptest(strategy = "mostly_first(2)")]
        graph: u8,
        #[proptest(strategy = "mostly_first(3)")]
        stream: u8,
        #[proptest(strategy = "1..4_u8")]
        times: u8,
    },
    /// Begins a capture in that mode, does so within, launches a graph, and ends it.
    #[proptest(weight = 2)]
    Capture {
        #[proptest(strategy = "mostly_first(2)")]
        graph: u8,
        #[proptest(strategy = "mostly_first(3)")]
        stream: u8,
        #[proptest(strategy = "0..3_u8")]
        mode: u8,
        within: Within,
    },
    /// Launches a kernel.
    Kernel {
        #[proptest(strategy = "mostly_first(3)")]
        stream: u8,
        ns: u16,
    },
    /// Tells a kernel of an executable to take so long; a twin may not take that.
    #[proptest(weight = 3)]
    Update {
        #[proptest(strategy = "mostly_first(2)")]
        graph: u8,
        node: u8,
        ns: u16,
        #[proptest(strategy = "weighted(0.05)")]
        missed: bool,
    },
    /// Updates an executable by a whole graph, with times so much longer.
    Replace { graph: u8, longer: u8 },
    /// Orders one stream behind another.
    Order {
        #[proptest(strategy = "mostly_first(3)")]
        first: u8,
        #[proptest(strategy = "mostly_first(3)")]
        second: u8,
    },
    /// Lets time pass.
    #[proptest(weight = 6)]
    Advance {
        #[proptest(strategy = "0..2_000_000_u32")]
        ns: u32,
    },
    /// Waits for a stream.
    Synchronize {
        #[proptest(strategy = "mostly_first(3)")]
        stream: u8,
    },
    /// What only a recorder does.
    #[proptest(weight = 14)]
    Recorder {
        #[proptest(strategy = "mostly_first(2)")]
        graph: u8,
        within: Within,
    },
}

/// So many times of one more: one where a twin may run.
fn mostly_first(times: u32) -> impl Strategy<Value = u8> {
    prop_oneof![times => Just(0), 1 => any::<u8>()]
}

/// What a recorder does, beside a capture or not.
#[derive(Clone, Copy, Debug, Arbitrary)]
pub(super) enum Within {
    Nothing,
    #[proptest(weight = 40)]
    Harvest,
    #[proptest(weight = 16)]
    Renew,
    Retire,
    /// A twin in place of the last one, to which updates are told or not.
    #[proptest(weight = 3)]
    Make(#[proptest(strategy = "weighted(0.9)")] bool),
}

/// A status that a call returns instead of acting.
#[derive(Clone, Copy, Debug, Arbitrary)]
pub(super) enum Fault {
    /// Each launch of a graph.
    Launches(#[proptest(strategy = "statuses()")] u32),
    /// The recorder's call of that number, after so many.
    #[proptest(weight = 5)]
    Recorders(u8, #[proptest(strategy = "0..6_u8")] u8, #[proptest(strategy = "statuses()")] u32),
}

fn statuses() -> impl Strategy<Value = u32> {
    let stops = select(&[700_u32, 719, 801, 123_456][..]);
    prop_oneof![5 => select(&[1_u32, 2, 400, 600, 900, 906, 907, 910][..]), 1 => stops]
}

/// What a recorder has.
#[derive(Clone, Copy, Debug, Arbitrary)]
pub(super) struct RecorderSetup {
    /// Its driver shows nothing newer.
    #[proptest(strategy = "select(&[11_040, 12_000, 12_030, 13_000][..])")]
    pub(super) driver: u32,
    #[proptest(strategy = "prop_oneof![1 => 2..4_usize, 4 => Just(64)]")]
    pub(super) slots: usize,
    #[proptest(strategy = "prop_oneof![5..9_usize, Just(64)]")]
    pub(super) marks: usize,
    #[proptest(strategy = "1..6_usize")]
    pub(super) resident: usize,
    #[proptest(strategy = "1..5_u32")]
    pub(super) plan_launches: u32,
    #[proptest(strategy = "weighted(0.8)")]
    pub(super) always: bool,
}

#[derive(Clone, Debug, Arbitrary)]
pub(super) struct Program {
    pub(super) setup: RecorderSetup,
    #[proptest(strategy = "vec(any::<Recipe>(), 1..4)")]
    pub(super) graphs: Vec<Recipe>,
    #[proptest(strategy = "operations()")]
    pub(super) operations: Vec<(Option<Fault>, GraphAction)>,
}

fn operations() -> impl Strategy<Value = Vec<(Option<Fault>, GraphAction)>> {
    vec((option::weighted(0.05, any::<Fault>()), any::<GraphAction>()), 1..80)
}
