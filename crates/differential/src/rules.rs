// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a guest may do to the driver, checked on the log of its own calls,
//! entry by entry.
//!
//! 1. Each entry makes calls of its own kinds only: nothing that waits,
//!    initialises or makes a context; events are made when it is installed and
//!    destroyed when it leaves, and at no other time.
//! 2. Before each record its stream was asked about, in the same entry.
//! 3. Every poll is made in the relaxed mode. None meets a capture.
//! 4. The thread has its capture mode back.
//! 5. No more calls than the budget: two records and one read for a span, one
//!    read more for a gap; two calls for each stream that waits; two exchanges
//!    for each ring that is polled; one question before each record.
//! 6. A silent guest makes no call. No handle is used that names nothing.

use metrale_gpu_sim::control::Call;
use metrale_gpu_sys::cuda::Status;
use serde::Serialize;

const RELAXED: u32 = 2;
/// Rings of a recorder, each polled by itself.
const RINGS: usize = 2;

const ASK: &str = "cuStreamIsCapturing";
const CURRENT: &str = "cuCtxGetCurrent";
const RECORD: &str = "cuEventRecord";
const MODE: &str = "cuThreadExchangeStreamCaptureMode";
const NAME: &str = "cuFuncGetName";
const QUERY: &str = "cuEventQuery";
const READS: [&str; 2] = ["cuEventElapsedTime", "cuEventElapsedTime_v2"];

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
    /// The calls that it may make, each at most so often.
    fn allowance(self, facts: &Facts) -> Vec<(&'static [&'static str], usize)> {
        const ANY: usize = usize::MAX;
        let retry = usize::from(facts.troubled.is_some_and(|(name, _)| name == MODE));
        let begins = |lanes, launches| -> Vec<(&'static [&'static str], usize)> {
            let (spans, named) = (lanes + launches, launches);
            vec![
                (&[ASK], spans + named),
                (&[CURRENT], spans + named),
                (&[RECORD], spans),
                (&[MODE], named * (2 + retry)),
                (&[NAME], named),
            ]
        };
        match self {
            Entry::Install => vec![
                (&["cuDeviceGetCount"], 1),
                (&["cuCtxPushCurrent_v2"], 1),
                (&["cuCtxPopCurrent_v2"], 1),
                (&["cuCtxGetId"], 1),
                (&["cuDriverGetVersion"], 1),
                // Those of a guest that cannot be made are destroyed at once.
                (&["cuEventCreate", "cuEventDestroy_v2"], ANY),
            ],
            Entry::Leave => vec![
                (&["cuCtxPushCurrent_v2"], 1),
                (&["cuCtxPopCurrent_v2"], 1),
                (&["cuCtxGetId"], 1),
                (&["cuEventDestroy_v2"], ANY),
            ],
            Entry::BeginLane => begins(1, 0),
            Entry::BeginLaunch => begins(0, 1),
            Entry::Open => begins(1, 1),
            Entry::End => begins(1, 0),
            Entry::Close => begins(2, 0),
            Entry::Harvest => vec![
                (&[MODE], 2 * RINGS + retry),
                (&[QUERY], facts.streams),
                // Each span that is over was read once, and each gap.
                (
                    &READS,
                    facts.landed + facts.failed + facts.lanes + facts.streams,
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
}

/// Whether a status is one that a capture causes.
fn of_capture(status: Status) -> bool {
    matches!(status.0, 900..=908)
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
        let made = calls
            .iter()
            .filter(|call| names.contains(&call.name))
            .count();
        if made > *most {
            broken.push(format!(
                "{made} calls of {names:?} in {entry:?}, not {most}: {facts:?}"
            ));
        }
    }
    for (at, call) in calls.iter().enumerate() {
        let injected = facts.troubled == Some((call.name, call.status.0));
        let is_poll = call.name == QUERY || READS.contains(&call.name);
        if is_poll && call.mode != RELAXED {
            broken.push(format!("{} in capture mode {}", call.name, call.mode));
        }
        if (is_poll || call.name == RECORD) && of_capture(call.status) && !injected {
            broken.push(format!("{} met a capture: {}", call.name, call.status));
        }
        let asked = at.checked_sub(1).and_then(|before| calls.get(before));
        let was_asked = asked.is_some_and(|asked| {
            asked.name == ASK && asked.stream == call.stream && asked.status == Status::SUCCESS
        });
        if call.name == RECORD && !was_asked {
            broken.push("cuEventRecord without asking whether the stream captures".to_owned());
        }
    }
    if let Some(last) = calls.last()
        && last.mode != facts.mode
    {
        broken.push(format!("capture mode {} became {}", facts.mode, last.mode));
    }
    if facts.silent && !calls.is_empty() {
        broken.push(format!("a silent guest called {}", calls[0].name));
    }
    if facts.stale > 0 {
        broken.push(format!("{} uses of handles that name nothing", facts.stale));
    }
    broken
}

#[cfg(test)]
mod tests {
    use super::{ASK, Entry, Facts, MODE, NAME, QUERY, RECORD, broken};
    use metrale_gpu_sim::control::Call;
    use metrale_gpu_sys::cuda::Status;

    fn call(name: &'static str, mode: u32, status: u32) -> Call {
        Call {
            sequence: 0,
            thread: 1,
            name,
            handle: 0,
            stream: 7,
            status: Status(status),
            mode,
            time_ns: 0,
        }
    }

    fn count(entry: Entry, calls: &[Call], facts: Facts) -> usize {
        broken(entry, calls, &facts).len()
    }

    #[test]
    fn each_rule_fires_on_its_own_mistake_and_on_nothing_else() {
        let none = Facts::default();
        let (ask, record) = (call(ASK, 0, 0), call(RECORD, 0, 0));
        assert_eq!(count(Entry::BeginLane, &[ask, record], none), 0);
        assert_eq!(count(Entry::BeginLane, &[record], none), 1, "not asked");
        let elsewhere = Call { stream: 8, ..ask };
        assert_eq!(count(Entry::BeginLane, &[elsewhere, record], none), 1);
        let refused = Call {
            status: Status(906),
            ..ask
        };
        assert_eq!(count(Entry::BeginLane, &[refused, record], none), 1);
        let twice = [ask, record, ask, record];
        assert_eq!(
            count(Entry::BeginLane, &twice, none),
            2,
            "beyond the budget"
        );
        assert_eq!(count(Entry::Close, &twice, none), 0);

        let poll = |mode, status| {
            [
                call(MODE, 2, 0),
                call(QUERY, mode, status),
                call(MODE, 0, 0),
            ]
        };
        let one = Facts { streams: 1, ..none };
        assert_eq!(count(Entry::Harvest, &poll(2, 600), one), 0);
        assert_eq!(count(Entry::Harvest, &poll(1, 600), one), 1, "not relaxed");
        assert_eq!(count(Entry::Harvest, &poll(2, 907), one), 1, "captured");
        assert_eq!(count(Entry::Harvest, &poll(2, 600), none), 1, "no stream");
        let injected = Facts {
            troubled: Some((QUERY, 907)),
            ..one
        };
        assert_eq!(count(Entry::Harvest, &poll(2, 907), injected), 0);
        let kept = [call(MODE, 2, 0)];
        assert_eq!(count(Entry::Harvest, &kept, one), 1, "mode not restored");

        for name in [
            "cuEventSynchronize",
            "cuEventCreate",
            "cuInit",
            "cuCtxCreate_v2",
            NAME,
        ] {
            assert_eq!(
                count(Entry::Harvest, &[call(name, 0, 0)], none),
                1,
                "{name}"
            );
            assert_eq!(count(Entry::Quiet, &[call(name, 0, 0)], none), 1, "{name}");
        }
        let silent = Facts {
            silent: true,
            ..none
        };
        assert_eq!(count(Entry::BeginLane, &[ask], silent), 1);
        let stale = Facts { stale: 2, ..none };
        assert_eq!(count(Entry::BeginLane, &[], stale), 1);
    }
}
