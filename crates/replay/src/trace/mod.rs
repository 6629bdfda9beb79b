// SPDX-License-Identifier: MIT OR Apache-2.0
//! A recorded timeline (Kineto / Chrome JSON), read as a stream.
//!
//! Invariants: times are whole nanoseconds from the first GPU start; a name's
//! identity is all of its bytes; nothing is dropped without being counted in
//! [`Drops`]; memory grows with the GPU work, the runtime calls and the
//! annotations, never with the document.

mod drops;
mod error;
mod event;
mod foreign;
mod intern;
mod json;
mod members;
mod read;
mod stamp;
mod unpack;

pub use drops::{DropReason, Drops};
pub use error::TraceError;
pub use intern::Names;
pub use read::{read, read_bytes, read_stream};
pub use stamp::{BadStamp, Nanos, parse_us};
pub use unpack::Limits;

use std::num::NonZeroI64;

/// What a piece of GPU work is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WorkKind {
    /// A kernel, by the index of its name in [`Trace::names`].
    Kernel(u32),
    /// A whole graph, by the index of its name: an export of ours does not say
    /// what is in it.
    Graph(u32),
    /// A copy or a set of memory, as a kernel.
    Copy(u32),
}

/// One piece of work on the GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// Start, nanoseconds from the first GPU start of the trace.
    pub start_ns: i64,
    /// Duration in nanoseconds, at most [`LONGEST_WORK_NS`].
    pub duration_ns: u64,
    /// Index into [`Trace::streams`].
    pub stream: u32,
    /// The id of the host call that launched it, where the trace has one.
    pub correlation: Option<NonZeroI64>,
    /// Kernel or copy.
    pub kind: WorkKind,
}

impl Work {
    /// End, nanoseconds from the first GPU start.
    pub fn end_ns(&self) -> i64 {
        self.start_ns.saturating_add_unsigned(self.duration_ns)
    }
}

/// A longer single piece of GPU work than this is a broken record: one hour.
pub const LONGEST_WORK_NS: u64 = 3_600_000_000_000;

/// A stamp further than this from the median GPU start is a broken record:
/// one day, in nanoseconds.
pub const FURTHEST_NS: u64 = 86_400_000_000_000;

/// What a host call did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CallKind {
    /// Neither of the others by its name.
    Other,
    /// Launches one kernel, copy or set.
    Launch,
    /// Launches a graph.
    Graph,
}

/// A host call that carries a correlation id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Host time, nanoseconds from the first GPU start (often negative).
    pub at_ns: i64,
    /// The id its GPU work carries too.
    pub correlation: NonZeroI64,
    /// Index of the process's name in [`Trace::ids`].
    pub process: u32,
    /// What it did.
    pub kind: CallKind,
}

/// A host annotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Annotation {
    /// Start, nanoseconds from the first GPU start.
    pub start_ns: i64,
    /// End; never before the start.
    pub end_ns: i64,
    /// Index of the process's name in [`Trace::ids`].
    pub process: u32,
    /// Index of its name in [`Trace::names`].
    pub name: u32,
    /// What it shares with its range on a stream.
    pub id: Option<NonZeroI64>,
}

/// A lane's range on a stream, in an export of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneRange {
    /// Start, nanoseconds from the first GPU start (it may be negative).
    pub start_ns: i64,
    /// Duration in nanoseconds, at most [`LONGEST_WORK_NS`].
    pub duration_ns: u64,
    /// Index into [`Trace::streams`].
    pub stream: u32,
    /// What it shares with its annotation.
    pub id: NonZeroI64,
}

/// A stream of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StreamId {
    /// Index of the device's name in [`Trace::ids`].
    pub device: u32,
    /// Index of the stream's name in [`Trace::ids`].
    pub stream: u32,
}

/// A recorded timeline.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// Kernel and annotation names, each distinct byte string once.
    pub names: Names,
    /// Processes, devices and streams by the text the trace gives them.
    pub ids: Names,
    /// Streams in the order of first use in the file.
    pub streams: Vec<StreamId>,
    /// GPU work, in file order.
    pub work: Vec<Work>,
    /// Host calls with a correlation id, in file order.
    pub calls: Vec<Call>,
    /// Host annotations, in file order.
    pub annotations: Vec<Annotation>,
    /// Lanes' own ranges, in file order: none but in exports of ours.
    pub lane_ranges: Vec<LaneRange>,
    /// Events of every kind read.
    pub events: u64,
    /// Unpacked size in bytes.
    pub bytes: u64,
    /// What was left out.
    pub drops: Drops,
}

impl Trace {
    /// Moves time zero to the first GPU start, after dropping work that lies
    /// more than [`FURTHEST_NS`] from the median start: one broken stamp would
    /// otherwise put decades of idle time into a replay.
    pub(crate) fn rebase(&mut self) {
        if self.work.is_empty() {
            return;
        }
        // A list that grew by doubling may be half empty.
        self.work.shrink_to_fit();
        self.calls.shrink_to_fit();
        self.annotations.shrink_to_fit();
        self.streams.shrink_to_fit();
        self.names.shrink();
        self.ids.shrink();
        let mut starts: Vec<i64> = self.work.iter().map(|w| w.start_ns).collect();
        let middle = starts.len() / 2;
        let median = *starts.select_nth_unstable(middle).1;
        drop(starts);
        let drops = &mut self.drops;
        keep(&mut self.work, drops, |work| work.start_ns.abs_diff(median) <= FURTHEST_NS);
        let zero = self.work.iter().map(|w| w.start_ns).min().unwrap_or(median);
        for work in &mut self.work {
            work.start_ns -= zero;
        }
        let is_near = |at_ns: i64| at_ns.unsigned_abs() <= 2 * FURTHEST_NS;
        for call in &mut self.calls {
            call.at_ns = call.at_ns.saturating_sub(zero);
        }
        keep(&mut self.calls, drops, |call| is_near(call.at_ns));
        for range in &mut self.lane_ranges {
            range.start_ns = range.start_ns.saturating_sub(zero);
        }
        keep(&mut self.lane_ranges, drops, |range| is_near(range.start_ns));
        for note in &mut self.annotations {
            note.start_ns = note.start_ns.saturating_sub(zero);
            note.end_ns = note.end_ns.saturating_sub(zero);
        }
    }
}

/// Keeps some of a list, and counts the others as broken.
fn keep<T>(list: &mut Vec<T>, drops: &mut Drops, is_kept: impl Fn(&T) -> bool) {
    let before = list.len();
    list.retain(is_kept);
    drops.add(DropReason::Absurd, before - list.len());
}
