// SPDX-License-Identifier: MIT OR Apache-2.0
//! The language of sequences: what an application does, turn by turn, and what
//! it tells its recorder.
//!
//! A number chooses among what there is when its turn comes, so every list of
//! turns means something, also after others were taken out of it. What the
//! recorder did never changes the choice.

use serde::{Deserialize, Serialize};

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

/// One thread's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turn {
    /// Whose turn, modulo the number of threads.
    pub thread: u8,
    /// The application's first driver call of the turn returns this status and
    /// does nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<u32>,
    /// One driver call of the recorder does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<Trouble>,
    /// What is done.
    pub action: Action,
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

/// What an application does, or tells its recorder. Numbers choose among what
/// is alive; `s` a stream, `e` an event, `c` a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(
    missing_docs,
    reason = "fields are choices, named after what they choose"
)]
pub enum Action {
    /// Virtual time passes.
    Advance {
        ns: u32,
    },
    /// The context meets an error that every later call tells; 0 heals.
    Sticky {
        c: u8,
        status: u32,
    },

    CtxSetCurrent {
        c: u8,
    },
    CtxPush {
        c: u8,
    },
    CtxPop,
    CtxGetCurrent,
    CtxSynchronize,
    /// A context beside the primary ones, on either device.
    CtxCreate {
        device: u8,
    },
    /// Of such a one; its recorders are closed first.
    CtxDestroy {
        c: u8,
    },
    /// Puts the thread into a capture mode.
    Mode {
        mode: u8,
    },

    StreamCreate {
        blocking: bool,
    },
    StreamDestroy {
        s: u8,
    },
    StreamQuery {
        s: u8,
    },
    StreamSynchronize {
        s: u8,
    },
    StreamWaitEvent {
        s: u8,
        e: u8,
        external: bool,
    },
    StreamGetCtx {
        s: u8,
    },
    StreamGetId {
        s: u8,
    },
    StreamIsCapturing {
        s: u8,
    },
    StreamGetCaptureInfo {
        s: u8,
    },

    EventCreate {
        timed: bool,
    },
    EventDestroy {
        e: u8,
    },
    EventRecord {
        e: u8,
        s: u8,
        external: bool,
    },
    EventQuery {
        e: u8,
    },
    EventSynchronize {
        e: u8,
    },
    EventElapsed {
        from: u8,
        to: u8,
    },

    ModuleLoad,
    /// The recorders forget its functions first.
    ModuleUnload {
        m: u8,
    },
    FuncGetName {
        f: u8,
    },
    /// A launch; `span`: within a launch span of the recorder.
    Launch {
        f: u8,
        s: u8,
        ns: u32,
        span: bool,
    },

    CaptureBegin {
        s: u8,
        mode: u8,
    },
    CaptureEnd {
        s: u8,
    },
    GraphInstantiate {
        g: u8,
    },
    GraphDestroy {
        g: u8,
    },
    ExecDestroy {
        x: u8,
    },
    GraphLaunch {
        x: u8,
        s: u8,
        span: bool,
    },

    MemAlloc {
        s: u8,
        sync: bool,
    },
    MemFree {
        m: u8,
        s: u8,
        sync: bool,
    },
    MemSet {
        m: u8,
        s: u8,
        value: u8,
        sync: bool,
    },
    CopyIn {
        m: u8,
        s: u8,
        value: u8,
        sync: bool,
    },
    CopyOut {
        m: u8,
        s: u8,
        host: u8,
        sync: bool,
    },
    CopyWithin {
        m: u8,
        to: u8,
        s: u8,
        sync: bool,
    },

    /// A step with a lane and launches, by the recorder's guards.
    Serve {
        lane: u8,
        f: u8,
        s: u8,
        ns: u32,
        launches: u8,
    },

    /// A recorder for a context that has none.
    Install {
        c: u8,
    },
    /// Ends a recorder: closed, or dropped.
    Uninstall {
        r: u8,
        close: bool,
    },
    BeginLane {
        r: u8,
        lane: u8,
        s: u8,
        known: bool,
    },
    BeginLaunch {
        r: u8,
        what: u8,
        s: u8,
        armed: bool,
    },
    /// Ends an open span, on its own stream or on `other`.
    End {
        span: u8,
        other: Option<u8>,
    },
    Cancel {
        span: u8,
    },
    /// Ends or cancels a span that is over.
    EndAgain {
        span: u8,
        cancel: bool,
    },
    Harvest {
        r: u8,
    },
    /// Reads what the recorder knows.
    Read {
        r: u8,
    },
}

/// A sequence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Script {
    /// What holds throughout.
    pub setup: Setup,
    /// What happens.
    pub turns: Vec<Turn>,
}

impl Script {
    /// The script as data, a turn on each line.
    #[must_use]
    pub fn to_data(&self) -> String {
        let turns: Vec<String> = self.turns.iter().map(data).collect();
        format!(
            "{{\"setup\": {},\n \"turns\": [\n  {}\n ]}}\n",
            data(&self.setup),
            turns.join(",\n  ")
        )
    }

    /// A script from [`to_data`](Self::to_data).
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
