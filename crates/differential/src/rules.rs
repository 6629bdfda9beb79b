// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a guest may do to the driver, checked on the log of its own calls,
//! entry by entry.
//!
//! 1. Each entry makes calls of its own kinds only: nothing that waits,
//!    initialises or makes a context; events are made when it is installed and
//!    destroyed when it leaves, and at no other time. A stream is made only
//!    when it is installed, and destroyed there, unless that call fails or a
//!    call before it stops the guest.
//! 2. Before each record its stream was asked about, in the same entry; between
//!    the two there is nothing but the record of an anchor on that stream.
//! 3. Every poll is made in the relaxed mode, and so is the question for a
//!    function's name. No poll meets a capture.
//! 4. The thread has its capture mode back.
//! 5. No more calls than the budget: two records and one read for a span, one
//!    read more for a gap and one for a place; two calls for each stream that
//!    waits; two exchanges for each ring that is polled; one question before each
//!    record. For an armed step one record more, and a question for its anchor
//!    (`follow`). When it is
//!    installed, two records to a pair of one ring, each pair asked for once,
//!    and one pass over them.
//!    Where a record is answered 400, one question for the context's number.
//! 6. A silent guest makes no call. No handle is used that names nothing.
//! 7. Nothing is asked or recorded on a stream that is known to be another
//!    context's, nor on a legacy one where those are refused; a default stream
//!    is the recorder's own context's when a record is made on it. To make it so
//!    the guest may push its context where the application said that the stream
//!    is of it, once for each time that it asks which context is current; it
//!    pops what it pushed in the same entry.
//! 8. After a poll that the driver refuses, a harvest polls no more.

use crate::follow::OfAnchors;
use metrale_gpu_sim::app::RELAXED;
use metrale_gpu_sim::control::Call;
use metrale_gpu_sys::cuda::Status;
use serde::Serialize;

/// Rings of a recorder, each polled by itself.
pub(crate) const RINGS: usize = 2;

const ASK: &str = "cuStreamIsCapturing";
const CURRENT: &str = "cuCtxGetCurrent";
const STREAM_ID: &str = "cuStreamGetId";
pub(crate) const RECORD: &str = "cuEventRecord";
const MODE: &str = "cuThreadExchangeStreamCaptureMode";
const NAME: &str = "cuFuncGetName";
pub(crate) const QUERY: &str = "cuEventQuery";
const PUSH: &str = "cuCtxPushCurrent_v2";
const POP: &str = "cuCtxPopCurrent_v2";
const CONTEXT_ID: &str = "cuCtxGetId";
const MAKE: &str = "cuStreamCreate";
const UNMAKE: &str = "cuStreamDestroy_v2";
/// The handles that mean a default stream.
const DEFAULT_STREAMS: std::ops::RangeInclusive<u64> = 0..=2;
/// Those that mean the legacy one.
const LEGACY: std::ops::RangeInclusive<u64> = 0..=1;
pub(crate) const READS: [&str; 2] = ["cuEventElapsedTime", "cuEventElapsedTime_v2"];

/// How the application came to the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Entry {
    /// It was made.
    Install,
    /// It left.
    Leave,
    /// A lane's begin.
    BeginLane,
    /// A launch's begin.
    BeginLaunch,
    /// An end.
    End,
    /// The begins of a lane and of a launch in it.
    Open,
    /// Their ends.
    Close,
    /// A harvest of both rings.
    Harvest,
    /// A cancel, a reading, a name forgotten: no driver call.
    Quiet,
}

impl Entry {
    /// Whether spans begin in it.
    pub(crate) fn begins(self) -> bool {
        matches!(self, Entry::BeginLane | Entry::BeginLaunch | Entry::Open)
    }

    /// The calls that it may make, each at most so often.
    fn allowance(self, facts: &Facts) -> Vec<(&'static [&'static str], usize)> {
        const ANY: usize = usize::MAX;
        let retry = usize::from(facts.troubled.is_some_and(|(name, _)| name == MODE));
        let pops = 1 + usize::from(facts.troubled.is_some_and(|(name, _)| name == POP));
        let begins = |lanes, launches| -> Vec<(&'static [&'static str], usize)> {
            let (spans, named) = (lanes + launches, launches);
            let pushes = if facts.own_default { spans + named } else { 0 };
            vec![
                (&[PUSH], pushes),
                (&[POP], if pushes > 0 { pushes + pops - 1 } else { 0 }),
                (&[ASK], spans + named),
                // A lane's start tells its stream from a later one.
                (&[STREAM_ID], lanes),
                (&[CURRENT], spans + named),
                (&[RECORD], spans + facts.anchors.records),
                (&[CONTEXT_ID], spans + facts.anchors.records),
                (&[MODE], (lanes + named) * (2 + retry)),
                (&[NAME], named),
            ]
        };
        match self {
            Entry::Install => {
                let again = usize::from(facts.troubled.is_some());
                let (pairs, passes) = (facts.pairs, 1 + again);
                vec![
                    (&["cuDeviceGetCount"], 1),
                    (&[PUSH], 1),
                    (&[POP], pops),
                    (&[CONTEXT_ID], 1 + again),
                    (&["cuDriverGetVersion"], 1),
                    // Those of a guest that cannot be made are destroyed at once.
                    (&["cuEventCreate", "cuEventDestroy_v2"], ANY),
                    (&["cuCtxGetDevice"], 1),
                    (&["cuDeviceGetUuid"], 1),
                    (&["cuDeviceGetUuid_v2"], 1),
                    (&["cuDeviceGetName"], 1),
                    (&[MAKE], 1),
                    (&[UNMAKE], 1),
                    (&[ASK], 2 * pairs),
                    (&[STREAM_ID], pairs),
                    (&[RECORD], 2 * pairs),
                    (&[MODE], 2 + 2 * (pairs + passes) + retry),
                    (&[QUERY], pairs + passes),
                    // Each pair twice, and each gap once.
                    (&READS, 3 * pairs + again),
                ]
            }
            Entry::Leave => vec![
                (&[PUSH], 1),
                (&[POP], pops),
                (&[CONTEXT_ID], 1),
                (&["cuEventDestroy_v2"], ANY),
            ],
            Entry::BeginLane => begins(1, 0),
            Entry::BeginLaunch => begins(0, 1),
            Entry::Open => begins(1, 1),
            Entry::End => begins(1, 0),
            Entry::Close => begins(2, 0),
            Entry::Harvest => vec![
                (&[MODE], 2 * RINGS + retry),
                // For a thread that a poll was refused on without a context.
                (&[PUSH], RINGS),
                (&[POP], RINGS + pops - 1),
                (&[QUERY], facts.streams + facts.anchors.queries),
                // Each span that is over was read once, and each gap.
                (
                    &READS,
                    facts.landed + facts.failed + facts.lanes + facts.streams + facts.anchors.reads,
                ),
            ],
            Entry::Quiet => Vec::new(),
        }
    }
}

/// What is known about an entry.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Facts {
    /// The thread's capture mode before.
    pub(crate) mode: u32,
    /// The guest had fallen silent before.
    pub(crate) silent: bool,
    /// The call that was made to fail, and its status.
    pub(crate) troubled: Option<(&'static str, u32)>,
    /// Spans that landed, and lanes among them.
    pub(crate) landed: usize,
    pub(crate) lanes: usize,
    /// Spans that failed.
    pub(crate) failed: usize,
    /// Streams of closed spans, of each ring.
    pub(crate) streams: usize,
    /// Handles used that name nothing.
    pub(crate) stale: u64,
    /// The stream is known to be of another context.
    pub(crate) foreign: bool,
    /// It is a default stream, and known to be of the guest's context.
    pub(crate) own_default: bool,
    /// Legacy streams are refused.
    pub(crate) no_legacy: bool,
    /// Pairs of events of a ring.
    pub(crate) pairs: usize,
    /// Calls that are about anchors.
    pub(crate) anchors: OfAnchors,
}

/// Whether a status is one that a capture causes.
fn of_capture(status: Status) -> bool {
    matches!(status.0, 900..=908)
}

/// Whether a poll's status says: not now.
fn is_refusal(status: Status) -> bool {
    matches!(status.0, 2 | 201 | 800 | 900..=906 | 908)
}

/// Whether a poll's status says: never.
pub(crate) fn is_final(status: Status) -> bool {
    matches!(status.0, 1 | 400 | 907 | 917)
}

pub(crate) fn is_query(call: &Call) -> bool {
    call.name == QUERY
}

pub(crate) fn is_read(call: &Call) -> bool {
    READS.contains(&call.name)
}

pub(crate) fn is_poll(call: &Call) -> bool {
    is_query(call) || is_read(call)
}

pub(crate) fn is_record(call: &Call) -> bool {
    call.name == RECORD
}

/// What an entry did against the rules, in words.
pub(crate) fn broken(entry: Entry, calls: &[Call], facts: &Facts) -> Vec<String> {
    let mut broken = Vec::new();
    let allowance = entry.allowance(facts);
    let is_allowed = |name| allowance.iter().any(|(names, _)| names.contains(&name));
    for call in calls.iter().filter(|call| !is_allowed(call.name)) {
        broken.push(format!("{} has no place in {entry:?}", call.name));
    }
    for (names, most) in &allowance {
        let made = calls.iter().filter(|call| names.contains(&call.name)).count();
        if made > *most {
            broken.push(format!("{made} calls of {names:?} in {entry:?}, not {most}: {facts:?}"));
        }
    }
    for (at, call) in calls.iter().enumerate() {
        let injected = facts.troubled == Some((call.name, call.status.0));
        let is_record = is_record(call);
        let polls = is_poll(call);
        if (polls || call.name == NAME) && call.mode != RELAXED {
            broken.push(format!("{} in capture mode {}", call.name, call.mode));
        }
        if (polls || is_record) && of_capture(call.status) && !injected {
            broken.push(format!("{} met a capture: {}", call.name, call.status));
        }
        let previous = at.checked_sub(1).and_then(|before| calls.get(before));
        let others = |call: &&Call| ![CONTEXT_ID, STREAM_ID, MODE].contains(&call.name);
        let mut before = calls[..at].iter().rev().filter(others);
        let asked = before.next();
        // A start's may be the one before its step's anchor.
        let before_anchor = asked
            .filter(|asked| facts.anchors.records > 0 && self::is_record(asked))
            .and_then(|_| before.next());
        let was_asked = [asked, before_anchor].into_iter().flatten().any(|asked| {
            asked.name == ASK && asked.stream == call.stream && asked.status == Status::SUCCESS
        });
        if is_record && !was_asked {
            broken.push("cuEventRecord without asking whether the stream captures".to_owned());
        }
        let is_default = DEFAULT_STREAMS.contains(&call.stream);
        if is_record && is_default && call.status == Status::ERROR_INVALID_HANDLE && !injected {
            broken.push("cuEventRecord on another context's default stream".to_owned());
        }
        if is_record && facts.no_legacy && LEGACY.contains(&call.stream) {
            broken.push("cuEventRecord on a legacy stream, which are refused".to_owned());
        }
        let is_unknown =
            |call: &Call| call.name == RECORD && call.status == Status::ERROR_INVALID_HANDLE;
        let is_begin_or_end = !matches!(entry, Entry::Install | Entry::Leave);
        if is_begin_or_end && call.name == CONTEXT_ID && !previous.is_some_and(is_unknown) {
            broken.push(format!("{CONTEXT_ID} without a record that was answered 400"));
        }
        if polls && calls[..at].iter().any(|before| is_poll(before) && is_refusal(before.status)) {
            broken.push(format!("{} after a poll was refused", call.name));
        }
    }
    // Each span that was read as done has one place, or its stream waits.
    if facts.anchors.reads > facts.landed + facts.streams {
        broken.push(format!("{} places: {facts:?}", facts.anchors.reads));
    }
    if let Some(last) = calls.last()
        && last.mode != facts.mode
    {
        broken.push(format!("capture mode {} became {}", facts.mode, last.mode));
    }
    let made = |name| {
        let good = |call: &&Call| call.name == name && call.status.is_success();
        calls.iter().filter(good).count()
    };
    for (make, unmake) in [(MAKE, UNMAKE), (PUSH, POP)] {
        if facts.troubled.is_none() && made(make) != made(unmake) {
            broken.push(format!("{make} without {unmake}"));
        }
    }
    // A push whose thread was not asked for its context would be one too many.
    for pair in calls.windows(2) {
        if facts.own_default && pair[1].name == PUSH && pair[0].name != CURRENT {
            broken.push(format!("{PUSH} without {CURRENT}"));
        }
    }
    if facts.silent && !calls.is_empty() {
        broken.push(format!("a silent guest called {}", calls[0].name));
    }
    if facts.foreign && !calls.is_empty() {
        broken.push(format!("{} for a stream of another context", calls[0].name));
    }
    if facts.stale > 0 {
        broken.push(format!("{} uses of handles that name nothing", facts.stale));
    }
    broken
}

#[cfg(test)]
pub(crate) mod tests;
