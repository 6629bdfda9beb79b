// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sequences: what an application does, and what it tells its recorder.
//!
//! An operation is an action and a few numbers. A number chooses among what there
//! is when it comes, so every list of operations means something, also after others
//! were taken out of it. What the recorder did never changes the choice.

pub use crate::machine::Action;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Threads that an application has at most.
pub const THREADS: usize = 3;

/// Which work takes time, and where spans may go.
///
/// A record is a piece of work, if an empty one. On one stream that is
/// invisible. Between a context's legacy stream and its blocking streams it is
/// not: a record on one waits for the others as any work does, and holds up
/// what comes after it. So work of blocking and legacy streams that takes time
/// is kept apart from spans on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Timing {
    /// Work takes no time. All streams, spans on all of them.
    Instant,
    /// Work takes time. No legacy stream, spans on all others.
    NoLegacy,
    /// Work takes time. The legacy stream and non-blocking ones, spans on both.
    NoBlocking,
    /// Work takes time. All streams, spans on non-blocking ones.
    SpansApart,
    /// Work takes time. All streams, spans on all of them: here the record on a
    /// legacy stream shows. Never drawn; it is for the test that says so.
    Everything,
}

impl Timing {
    /// Handles of default streams that are used.
    #[must_use]
    pub fn default_streams(self) -> &'static [u64] {
        match self {
            Timing::Instant | Timing::SpansApart | Timing::Everything => &[0, 1, 2],
            Timing::NoLegacy => &[2],
            Timing::NoBlocking => &[0, 1],
        }
    }
}

/// What holds for a whole sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setup {
    /// See [`Timing`].
    pub timing: Timing,
    /// Threads of the application, 1 to [`THREADS`].
    pub threads: u8,
    /// The recorder's driver shows nothing newer than this version.
    pub driver: u32,
    /// Functions are loaded at their first launch.
    pub lazy: bool,
    /// Slots of each ring: few, so that spans are dropped too.
    pub slots: u8,
    /// The recorder's option.
    pub refuse_legacy: bool,
    /// A recorder of the first context is there from the start.
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
    #[must_use]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trouble {
    /// Which function, modulo the number of [`TROUBLED`].
    pub call: u8,
    /// Calls of it that still act first.
    pub skip: u8,
    /// What it returns.
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

impl Sequence {
    /// The sequence as data, an operation on each line.
    #[must_use]
    pub fn to_data(&self) -> String {
        let operations: Vec<String> = self.operations.iter().map(data).collect();
        format!(
            "{{\"setup\": {},\n \"operations\": [\n  {}\n ]}}\n",
            data(&self.setup),
            operations.join(",\n  ")
        )
    }

    /// A sequence from [`to_data`](Self::to_data).
    ///
    /// # Errors
    /// Where the text is none, and where.
    pub fn from_data(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }
}

/// Plain enums and numbers have no way to fail.
fn data(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
