// SPDX-License-Identifier: MIT OR Apache-2.0
//! Steps, lanes and launches: words that the caller keeps, and tokens.
//!
//! Where an answer goes is first what is not measured, so that whatever fails, the calls
//! that follow do nothing.

use crate::UNKNOWN;
use crate::pointers::{Out, get, get_mut};
use crate::recorder::{Recorder, recorder};
use crate::status::{Fault, Status, call};
use metrale_gpu_runtime::timing::{GraphRef, KernelRef, RegionRef, StreamRef};
use metrale_telemetry::kernel::{SpanToken, StepShape};
use metrale_telemetry::{self as core, Level};
use std::ffi::c_void;

/// The lane in which requests are taken in.
pub const LANE_ADMIT: u32 = 0;
/// The lane that works through prompts.
pub const LANE_PREFILL: u32 = 1;
/// The lane that generates.
pub const LANE_DECODE: u32 = 2;

/// A serving step, which `metrale_step_begin` fills. It may change threads.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// How many steps came before; `METRALE_UNKNOWN`: it is not measured.
    pub number: u64,
    /// The library's.
    pub state: u64,
    /// The library's.
    pub began_ns: u64,
}

/// A lane of a step, which `metrale_lane_begin` fills. It may change threads.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Lane {
    /// The step's.
    pub number: u64,
    /// The library's.
    pub state: u64,
    /// The library's.
    pub token: u64,
    /// The library's.
    pub began_ns: u64,
    /// Which lane.
    pub lane: u64,
}

impl Step {
    const UNMEASURED: Self = Self::new(core::Step::UNMEASURED, UNKNOWN);

    const fn new(step: core::Step, began_ns: u64) -> Self {
        let [number, state] = step.to_words();
        Self { number, state, began_ns }
    }

    fn step(&self) -> core::Step {
        core::Step::from_words([self.number, self.state])
    }
}

impl Lane {
    /// Its step, and which lane of it.
    pub(crate) fn step_and_index(&self) -> (core::Step, usize) {
        (core::Step::from_words([self.number, self.state]), self.lane as usize)
    }

    /// Takes the span's token and the lane's begin, so that it ends once.
    fn over(&mut self) -> (Option<SpanToken>, u64) {
        let token = std::mem::take(&mut self.token);
        let began_ns = std::mem::replace(&mut self.began_ns, UNKNOWN);
        (token_of(token), began_ns)
    }
}

/// A token that a recorder made is never 0.
fn token_of(bits: u64) -> Option<SpanToken> {
    (bits != 0).then_some(SpanToken::from_bits(bits))
}

/// # Safety
/// The stream exists while the value is used.
pub(crate) unsafe fn stream_of<'a>(stream: *mut c_void) -> StreamRef<'a> {
    // SAFETY: promised by the caller.
    unsafe { StreamRef::from_raw(stream as u64) }
}

/// Begins a serving step. Nothing is measured at `METRALE_LEVEL_OFF`, or with a recorder
/// that is NULL.
///
/// # Safety
/// Any thread, at any time. `step` takes the answer; it need hold nothing before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn metrale_step_begin(recorder: *const Recorder, step: *mut Step) -> Status {
    call(|| {
        // SAFETY: promised by the caller.
        let out = unsafe { Out::new(step, "step") }?;
        out.put(Step::UNMEASURED);
        // SAFETY: the same.
        let Some(recorder) = (unsafe { self::recorder(recorder) })? else {
            return Ok(Status::Ok);
        };
        let telemetry = recorder.telemetry();
        let step = telemetry.step_begin();
        if step.number().is_some() {
            out.put(Step::new(step, telemetry.now_ns()));
        }
        Ok(Status::Ok)
    })
}

/// Whether all of the step's launches are timed, and laid out in time.
///
/// # Safety
/// Any thread. `step` is one that `metrale_step_begin` filled; NULL is not armed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn metrale_step_is_armed(step: *const Step) -> bool {
    // SAFETY: promised by the caller.
    unsafe { get(step, "step") }.is_ok_and(|step| step.step().is_armed())
}

/// States what the step is made of; the last statement before its end counts.
///
/// # Safety
/// Any thread. `recorder` is the step's, `step` one that `metrale_step_begin` filled.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn metrale_step_shape(
    recorder: *const Recorder,
    step: *const Step,
    prompt_tokens: u32,
    decode_tokens: u32,
    requests: u32,
) -> Status {
    call(|| {
        // SAFETY: promised by the caller.
        let step = unsafe { get(step, "step") }?;
        let shape = StepShape::new()
            .prompt_tokens(prompt_tokens)
            .decode_tokens(decode_tokens)
            .requests(requests);
        // SAFETY: promised by the caller.
        if let Some(recorder) = unsafe { self::recorder(recorder) }? {
            recorder.telemetry().shape(step.step(), shape);
        }
        Ok(Status::Ok)
    })
}

/// Ends a step, after its lanes; once more does nothing.
///
/// # Safety
/// Any thread, one at a time for each step. `recorder` is the step's, `step` one that
/// `metrale_step_begin` filled.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn metrale_step_end(recorder: *const Recorder, step: *mut Step) -> Status {
    call(|| {
        // SAFETY: promised by the caller.
        let step = unsafe { get_mut(step, "step") }?;
        let over = std::mem::replace(step, Step::UNMEASURED);
        if over.number == UNKNOWN {
            return Ok(Status::Ok);
        }
        // SAFETY: the same.
        if let Some(recorder) = unsafe { self::recorder(recorder) }? {
            recorder.end_step_since(over.step(), over.began_ns);
        }
        Ok(Status::Ok)
    })
}

/// Begins a lane of a step on a stream (a `CUstream` or `cudaStream_t`): METRALE_LANE_ADMIT,
/// _PREFILL, _DECODE, or one that was named, from 3 on. It is timed on every step; one that
/// is not there is refused, and counted. NULL is the legacy default stream, also in a
/// program built with per-thread default streams: such a one passes 2.
///
/// # Safety
/// Any thread. `recorder` is the step's, `step` one that `metrale_step_begin` filled, the
/// stream exists and is of the recorder's context; `lane` takes the answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn metrale_lane_begin(
    recorder: *const Recorder,
    step: *const Step,
    index: u32,
    stream: *mut c_void,
    lane: *mut Lane,
) -> Status {
    call(|| {
        // SAFETY: promised by the caller.
        let out = unsafe { Out::new(lane, "lane") }?;
        let mut lane =
            Lane { number: UNKNOWN, state: 0, token: 0, began_ns: UNKNOWN, lane: u64::from(index) };
        out.put(lane);
        // SAFETY: promised by the caller.
        let step = unsafe { get(step, "step") }?;
        // SAFETY: the same.
        let Some(recorder) = (unsafe { self::recorder(recorder) })? else {
            return Ok(Status::Ok);
        };
        if step.number == UNKNOWN {
            return Ok(Status::Ok);
        }
        // SAFETY: the same.
        let stream = unsafe { stream_of(stream) };
        let token = recorder.begin_lane(step.step(), index as usize, stream);
        lane.number = step.number;
        lane.state = step.state;
        lane.token = token.map_or(0, SpanToken::to_bits);
        // The span's own begin is no part of the lane.
        lane.began_ns = recorder.telemetry().now_ns();
        out.put(lane);
        Ok(Status::Ok)
    })
}

/// Ends a lane on its stream; once more does nothing.
///
/// # Safety
/// Any thread, one at a time for each lane. `recorder` is the lane's, `lane` one that
/// `metrale_lane_begin` filled, and the stream exists.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn metrale_lane_end(
    recorder: *const Recorder,
    lane: *mut Lane,
    stream: *mut c_void,
) -> Status {
    call(|| {
        // SAFETY: promised by the caller.
        let lane = unsafe { get_mut(lane, "lane") }?;
        // SAFETY: the same.
        let Some(recorder) = (unsafe { self::recorder(recorder) })? else {
            return Ok(Status::Ok);
        };
        let telemetry = recorder.telemetry();
        let (token, began_ns) = lane.over();
        let is_measured = began_ns != UNKNOWN && telemetry.level() != Level::Off;
        let took_ns = is_measured.then(|| telemetry.now_ns().saturating_sub(began_ns));
        if let Some(token) = token {
            // SAFETY: promised by the caller.
            recorder.end_lane(token, unsafe { stream_of(stream) });
        }
        if let Some(took_ns) = took_ns {
            telemetry.host().lane_took(lane.lane as usize, took_ns);
        }
        Ok(Status::Ok)
    })
}

/// Gives up a lane that will not be ended: nothing of it is counted.
///
/// # Safety
/// Any thread, one at a time for each lane. `recorder` is the lane's, `lane` one that
/// `metrale_lane_begin` filled.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn metrale_lane_cancel(recorder: *const Recorder, lane: *mut Lane) -> Status {
    call(|| {
        // SAFETY: promised by the caller.
        let lane = unsafe { get_mut(lane, "lane") }?;
        // SAFETY: the same.
        let Some(recorder) = (unsafe { self::recorder(recorder) })? else {
            return Ok(Status::Ok);
        };
        if let (Some(token), _) = lane.over() {
            recorder.cancel_lane(token);
        }
        Ok(Status::Ok)
    })
}

/// What may begin in a lane.
enum Work<'a> {
    Launch(KernelRef<'a>),
    Region(RegionRef),
}

/// Begins it.
///
/// # Safety
/// As [`metrale_launch_begin`]'s.
unsafe fn begin(
    recorder: *const Recorder,
    lane: *const Lane,
    work: Work<'_>,
    stream: *mut c_void,
    token: *mut u64,
) -> Result<Status, Fault> {
    // SAFETY: promised by the caller.
    let out = unsafe { Out::new(token, "token") }?;
    out.put(0);
    // SAFETY: the same.
    let lane = unsafe { get(lane, "lane") }?;
    // SAFETY: the same.
    if let Some(recorder) = unsafe { self::recorder(recorder) }?
        && lane.number != UNKNOWN
    {
        // SAFETY: the same.
        let stream = unsafe { stream_of(stream) };
        let (step, index) = lane.step_and_index();
        let begun = match work {
            Work::Launch(kernel) => recorder.begin_launch(step, index, kernel, stream),
            Work::Region(region) => recorder.begin_region(step, index, region, stream),
        };
        out.put(begun.map_or(0, SpanToken::to_bits));
    }
    Ok(Status::Ok)
}

/// Begins a launch of a kernel in a lane, on the stream that it is launched on; call it
/// right before the launch. It is counted on every step and timed where the sampling chose
/// it: `*token` is 0 where it is not timed. Where the launch fails, cancel it.
///
/// # Safety
/// Any thread. `recorder` is the lane's, `lane` one that `metrale_lane_begin` filled, the
/// stream exists and is of the recorder's context; `function` is a loaded `CUfunction`, or
/// was named by `metrale_recorder_name` and not forgotten; `token` takes the answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn metrale_launch_begin(
    recorder: *const Recorder,
    lane: *const Lane,
    function: *const c_void,
    stream: *mut c_void,
    token: *mut u64,
) -> Status {
    call(|| {
        // SAFETY: promised by the caller; nobody is asked for the name of one that has one.
        let function = unsafe { KernelRef::from_raw(function as u64) };
        // SAFETY: the same.
        unsafe { begin(recorder, lane, Work::Launch(function), stream, token) }
    })
}

/// As `metrale_launch_begin`, of a graph that is launched whole; `graph` is a number of
/// `metrale_recorder_graph`.
///
/// # Safety
/// Any thread. `recorder` is the lane's, `lane` one that `metrale_lane_begin` filled, the
/// stream exists and is of the recorder's context; `token` takes the answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn metrale_graph_begin(
    recorder: *const Recorder,
    lane: *const Lane,
    graph: u64,
    stream: *mut c_void,
    token: *mut u64,
) -> Status {
    call(|| {
        let graph = Work::Launch(GraphRef::from_row(graph).into());
        // SAFETY: promised by the caller.
        unsafe { begin(recorder, lane, graph, stream, token) }
    })
}

/// As `metrale_launch_begin`, of a region; `region` is a number of `metrale_recorder_region`
/// or `_copy`. It is no launch in any count, and may have launches and regions within it.
///
/// # Safety
/// Any thread. `recorder` is the lane's, `lane` one that `metrale_lane_begin` filled, the
/// stream exists and is of the recorder's context; `token` takes the answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn metrale_region_begin(
    recorder: *const Recorder,
    lane: *const Lane,
    region: u64,
    stream: *mut c_void,
    token: *mut u64,
) -> Status {
    call(|| {
        let region = Work::Region(RegionRef::from_row(region));
        // SAFETY: promised by the caller.
        unsafe { begin(recorder, lane, region, stream, token) }
    })
}

/// Ends a launch, graph or region on its stream, right after its work was put there. A token of 0 does nothing; one
/// that was ended before is counted, and does nothing.
///
/// # Safety
/// Any thread. `recorder` is the one that gave the token, and the stream exists.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn metrale_span_end(
    recorder: *const Recorder,
    token: u64,
    stream: *mut c_void,
) -> Status {
    call(|| {
        // SAFETY: promised by the caller.
        let recorder = unsafe { self::recorder(recorder) }?;
        if let (Some(recorder), Some(token)) = (recorder, token_of(token)) {
            // SAFETY: the same.
            recorder.end_launch(token, unsafe { stream_of(stream) });
        }
        Ok(Status::Ok)
    })
}

/// Gives up a launch, graph or region that failed: no time of it is kept. A token of 0 does nothing.
///
/// # Safety
/// Any thread. `recorder` is the one that gave the token.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn metrale_span_cancel(recorder: *const Recorder, token: u64) -> Status {
    call(|| {
        // SAFETY: promised by the caller.
        let recorder = unsafe { self::recorder(recorder) }?;
        if let (Some(recorder), Some(token)) = (recorder, token_of(token)) {
            recorder.cancel_launch(token);
        }
        Ok(Status::Ok)
    })
}
