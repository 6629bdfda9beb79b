// SPDX-License-Identifier: MIT OR Apache-2.0
//! The records that steps leave, one at a time.

use crate::UNKNOWN;
use crate::pointers::{Out, get_mut};
use crate::status::{Status, call};
use crate::telemetry::{self, Telemetry};
use metrale_telemetry::kernel::{self, StepCursor};

/// Lanes that a record has room for.
pub const MAX_LANES: usize = 16;

/// Where a reader is in the log of records: all 0 at its start.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Cursor {
    /// The next record.
    pub next: u64,
    /// Records that were overwritten before this reader came to them.
    pub missed: u64,
}

/// A lane's part of a record.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct LaneRecord {
    /// Spans of the lane whose time was read.
    pub spans: u32,
    /// Spans among them whose gap is known.
    pub gaps: u32,
    /// GPU nanoseconds of the spans.
    pub gpu_ns: u64,
    /// GPU nanoseconds of the gaps before them.
    pub gap_ns: u64,
}

/// What is known of a step once it is over.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct StepRecord {
    /// How many steps came before it.
    pub number: u64,
    /// Host nanoseconds from its begin to its end; `METRALE_UNKNOWN`: not measured.
    pub wall_ns: u64,
    /// When it ended, by CLOCK_MONOTONIC; `METRALE_UNKNOWN`: not measured.
    pub ended_ns: u64,
    /// What `metrale_step_shape` stated; 0 where it did not.
    pub prompt_tokens: u32,
    /// The same.
    pub decode_tokens: u32,
    /// The same.
    pub requests: u32,
    /// A shape was stated.
    pub has_shape: bool,
    /// Its launches were timed too.
    pub armed: bool,
    /// A lane's span was lost, or began after the end: the lanes took more.
    pub incomplete: bool,
    /// A twin ran in it: what its marks took of the GPU is in the lanes' time.
    pub marked: bool,
    /// Its lanes by number; those that it did not have are 0.
    pub lanes: [LaneRecord; MAX_LANES],
}

impl From<kernel::StepRecord> for StepRecord {
    fn from(record: kernel::StepRecord) -> Self {
        let shape = record.shape.unwrap_or_default();
        Self {
            number: record.number,
            wall_ns: record.wall_ns.unwrap_or(UNKNOWN),
            ended_ns: record.ended_ns.unwrap_or(UNKNOWN),
            prompt_tokens: shape.prompt_tokens,
            decode_tokens: shape.decode_tokens,
            requests: shape.requests,
            has_shape: record.shape.is_some(),
            armed: record.armed,
            incomplete: record.incomplete,
            marked: record.marked,
            lanes: record.lanes.map(|lane| LaneRecord {
                spans: lane.spans,
                gaps: lane.gaps,
                gpu_ns: lane.gpu_ns,
                gap_ns: lane.gap_ns,
            }),
        }
    }
}

/// The next record for a reader with a place of its own: `METRALE_STATUS_NOTHING`, and
/// `record` as it was, where there is none yet. The last 1,024 are kept.
///
/// # Safety
/// Any thread, one at a time for each cursor; serving threads do not wait for it.
/// `telemetry` is one that this library gave, `cursor` is all 0 at first and left alone
/// then, `record` takes the answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn metrale_telemetry_next_record(
    telemetry: *const Telemetry,
    cursor: *mut Cursor,
    record: *mut StepRecord,
) -> Status {
    call(|| {
        // SAFETY: promised by the caller.
        let out = unsafe { Out::new(record, "record") }?;
        // SAFETY: the same.
        let cursor = unsafe { get_mut(cursor, "cursor") }?;
        // SAFETY: the same.
        let telemetry = unsafe { telemetry::get(telemetry) }?;
        let mut at = StepCursor::from_words([cursor.next, cursor.missed]);
        let next = telemetry.next_record(&mut at);
        [cursor.next, cursor.missed] = at.to_words();
        let Some(next) = next else {
            return Ok(Status::Nothing);
        };
        out.put(next.into());
        Ok(Status::Ok)
    })
}
