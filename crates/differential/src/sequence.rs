// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sequences: what an application does, and what it tells its recorder.
//!
//! An operation is an action and a few numbers. A number chooses among what there
//! is when it comes, so every list of operations means something, also after others
//! were taken out of it. What the recorder did never changes the choice.

pub use crate::machine::Action;
use crate::machine::DRAWN;
use proptest::array::{uniform4, uniform7};
use proptest::bool::weighted;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::Union;
use proptest_derive::Arbitrary;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::Range;

/// Threads that an application has at most.
pub const THREADS: usize = 3;

/// Parts of a sequence: single operations, and a few that belong together.
const PARTS: Range<usize> = 1..70;

/// Virtual time that passes at once, at most: longer than spans may be open.
const LONG_NS: u32 = 2_000_000;

/// Statuses that a call may fail with: of every kind, and an unheard-of one.
const STATUSES: &[u32] = &[
    1, 2, 3, 4, 46, 100, 201, 400, 500, 600, 700, 709, 719, 800, 801, 900, 901, 904, 905, 906, 907,
    908, 917, 999, 123_456,
];

const DRIVERS: &[u32] = &[11_040, 12_000, 12_040, 12_080, 13_000];

/// Which work takes time, and where spans may go.
///
/// A record is a piece of work, if an empty one. On one stream that is
/// invisible. Between a context's legacy stream and its blocking streams it is
/// not: a record on one waits for the others as any work does, and holds up
/// what comes after it. So work of blocking and legacy streams that takes time
/// is kept apart from spans on them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Arbitrary)]
pub enum Timing {
    /// Work takes no time. All streams, spans on all of them.
    #[default]
    Instant,
    /// Work takes time. No legacy stream, spans on all others.
    NoLegacy,
    /// Work takes time. The legacy stream and non-blocking ones, spans on both.
    NoBlocking,
    /// Work takes time. All streams, spans on non-blocking ones.
    SpansApart,
    /// Work takes time. All streams, spans on all of them: here the record on a
    /// legacy stream shows. Never drawn; it is for the test that says so.
    #[proptest(skip)]
    Everything,
}

impl Timing {
    /// Handles of default streams that are used.
    pub fn default_streams(self) -> &'static [u64] {
        match self {
            Timing::Instant | Timing::SpansApart | Timing::Everything => &[0, 1, 2],
            Timing::NoLegacy => &[2],
            Timing::NoBlocking => &[0, 1],
        }
    }
}

/// What holds for a whole sequence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Arbitrary)]
pub struct Setup {
    /// See [`Timing`].
    pub timing: Timing,
    /// Threads of the application, 1 to [`THREADS`].
    #[proptest(strategy = "1..=THREADS as u8")]
    pub threads: u8,
    /// The recorder's driver shows nothing newer than this version.
    #[proptest(strategy = "select(DRIVERS)")]
    pub driver: u32,
    /// Functions are loaded at their first launch.
    pub lazy: bool,
    /// Slots of each ring: few, so that spans are dropped too.
    #[proptest(strategy = "2..12_u8")]
    pub slots: u8,
    /// The recorder's option.
    #[proptest(strategy = "weighted(0.2)")]
    pub refuse_legacy: bool,
    /// A recorder of the first context is there from the start.
    #[proptest(strategy = "weighted(0.8)")]
    pub early: bool,
}

/// One thread's operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operation {
    /// Whose operation, modulo the number of threads.
    pub thread: u8,
    /// The application's first driver call of the operation returns this status and
    /// does nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<u32>,
    /// One driver call of the recorder does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<Trouble>,
    /// What is done.
    pub action: Action,
    /// Its choices.
    #[serde(default, skip_serializing_if = "is_default")]
    pub n: [u8; 4],
    /// Time that its work takes, or that passes, ns.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ns: u32,
}

/// The numbers that choices are drawn from.
pub(crate) const NUMBERS: Range<u8> = 0..24;

impl Operation {
    /// An operation of the first thread in which nothing fails.
    pub fn new(action: Action, n: [u8; 4], ns: u32) -> Self {
        Self { thread: 0, fault: None, trouble: None, action, n, ns }
    }

    /// Mostly the first: a context's home is where most is alive.
    pub(crate) fn first(&self, at: usize) -> u8 {
        self.n[at].saturating_sub(NUMBERS.end / 4 * 3)
    }

    /// One time in two.
    pub(crate) fn half(&self, at: usize) -> bool {
        self.n[at] >= NUMBERS.end / 2
    }

    /// One time in six.
    pub(crate) fn seldom(&self, at: usize) -> bool {
        self.n[at] >= NUMBERS.end / 6 * 5
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// A status that one driver call of the recorder returns instead of acting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Arbitrary)]
pub struct Trouble {
    /// Which function, modulo the number of [`TROUBLED`].
    #[proptest(strategy = "0..TROUBLED.len() as u8")]
    pub call: u8,
    /// Calls of it that still act first.
    #[proptest(strategy = "0..3_u8")]
    pub skip: u8,
    /// What it returns.
    #[proptest(strategy = "select(STATUSES)")]
    pub status: u32,
}

/// Functions that a recorder calls and a [`Trouble`] can meet.
pub const TROUBLED: &[&str] = &[
    "cuStreamIsCapturing",
    "cuEventRecord",
    "cuEventQuery",
    "cuEventElapsedTime",
    "cuEventElapsedTime_v2",
    "cuThreadExchangeStreamCaptureMode",
    "cuCtxGetCurrent",
    "cuFuncGetName",
    "cuEventCreate",
    "cuCtxPushCurrent_v2",
    "cuCtxPopCurrent_v2",
    "cuCtxGetId",
    "cuCtxGetDevice",
    "cuDeviceGetCount",
    "cuDeviceGetUuid",
    "cuStreamCreate",
    "cuStreamDestroy_v2",
];

/// A sequence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sequence {
    /// What holds throughout.
    pub setup: Setup,
    /// What happens.
    pub operations: Vec<Operation>,
}

/// As data, an operation on each line.
impl fmt::Display for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operations: Vec<String> = self.operations.iter().map(json).collect();
        let (setup, operations) = (json(&self.setup), operations.join(",\n  "));
        write!(f, "{{\"setup\": {setup},\n \"operations\": [\n  {operations}\n ]}}")
    }
}

/// Plain enums and numbers have no way to fail.
fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// All sequences.
pub(crate) fn sequences() -> impl Strategy<Value = Sequence> {
    let parts = prop_oneof![
        16 => operations(DRAWN.to_vec()).prop_map(|operation| vec![operation]),
        2 => captures(),
        1 => measures(),
    ];
    (any::<Setup>(), vec(parts, PARTS))
        .prop_map(|(setup, parts)| Sequence { setup, operations: parts.concat() })
}

/// Time that work takes, or that passes, ns.
fn ns() -> impl Strategy<Value = u32> {
    prop_oneof![0..3_000_u32, 0..LONG_NS]
}

fn operations(actions: Vec<(u32, Action)>) -> impl Strategy<Value = Operation> {
    let just = |(weight, action)| (weight, Just(action));
    let action = Union::new_weighted(actions.into_iter().map(just).collect());
    let failing =
        (option::weighted(0.06, select(STATUSES)), option::weighted(0.06, any::<Trouble>()));
    let chosen = (action, uniform4(NUMBERS), ns());
    (0..THREADS as u8, failing, chosen).prop_map(|(thread, (fault, trouble), (action, n, ns))| {
        Operation { thread, fault, trouble, action, n, ns }
    })
}

/// Whether an operation that belongs to others is there: what the others need it
/// for no more is left out as a sequence is made smaller.
fn is_there() -> impl Strategy<Value = bool> {
    weighted(0.97)
}

fn those_there(part: Vec<Operation>, is_there: &[bool]) -> Vec<Operation> {
    let there = part.into_iter().zip(is_there).filter(|(_, is_there)| **is_there);
    there.map(|(operation, _)| operation).collect()
}

/// A capture with what may happen meanwhile, and its graph's launch. One
/// thread begins and ends it, others have operations between.
fn captures() -> impl Strategy<Value = Vec<Operation>> {
    use Action as A;
    let launches = A::ModuleLoad..=A::GraphLaunch;
    let drawn = DRAWN.iter().copied();
    let drawn = drawn.filter(|(_, action)| launches.contains(action) || *action >= A::Serve);
    let meanwhile = drawn.chain([(8, A::EventRecord), (6, A::StreamWaitEvent)]);
    let meanwhile = vec(operations(meanwhile.collect()), 0..8);
    let begin = (0..THREADS as u8, NUMBERS, NUMBERS);
    (begin, meanwhile, uniform4(is_there())).prop_map(|((thread, s, mode), meanwhile, there)| {
        let own = |action, n| Operation { thread, ..Operation::new(action, n, 0) };
        let begin = own(A::CaptureBegin, [s, mode, 0, 0]);
        let end = own(A::CaptureEnd, [0; 4]);
        let instantiate = own(A::GraphInstantiate, [0; 4]);
        let launch = own(A::GraphLaunch, [0, 0, NUMBERS.end, 0]);
        let before = those_there(vec![begin], &there);
        let after = those_there(vec![end, instantiate, launch], &there[1..]);
        [before, meanwhile, after].concat()
    })
}

/// The application times work of its own.
fn measures() -> impl Strategy<Value = Vec<Operation>> {
    use Action as A;
    let chosen = (0..THREADS as u8, NUMBERS, NUMBERS, ns());
    (chosen, uniform7(is_there())).prop_map(|((thread, e, s, ns), there)| {
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
        those_there(operations.map(operation).to_vec(), &there)
    })
}
