// SPDX-License-Identifier: MIT OR Apache-2.0
//! Twins of CUDA graphs: rows of the kernels inside them. docs/graphs.md tells what
//! a twin is and what it asks of the application.

use crate::UNKNOWN;
use crate::pointers::{Out, get, get_or_null, list, text};
use crate::recorder::{Recorder, recorder};
use crate::spans::{Lane, stream_of};
use crate::status::{Fault, Status, c_string, call};
use metrale_gpu_runtime::timing::{
    self, Driver, GraphLaunch, InstallError, RawGraph, TwinError, TwinsConfig, Updates,
};
use metrale_telemetry as core;
use std::ffi::{c_char, c_void};

/// A graph of the application with a second executable that has marks.
pub struct Twin(timing::Twin<'static>);

/// Options of the twins of a recorder. What is 0 or false is the default.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Twins {
    /// Marks of a twin, 5 to 65,536; 32 by default.
    pub marks: u64,
    /// Twins that there can be at once, 1 to 1,024; 4 by default.
    pub resident: u64,
    /// Nodes of the largest graph that gets a twin; 4,096 by default.
    pub nodes: u64,
    /// Device memory of all twins together, where 10 kB are reckoned for a node; 64 MiB
    /// by default.
    pub bytes: u64,
    /// Launches that a plan of windows lives for; 32 by default.
    pub plan_launches: u32,
    /// The twin is launched on every armed step, not on one in two.
    pub always: bool,
}

impl Twins {
    pub(crate) fn read(&self) -> TwinsConfig {
        let mut config = TwinsConfig::default();
        for (number, asked) in [
            (&mut config.marks, self.marks),
            (&mut config.resident, self.resident),
            (&mut config.nodes, self.nodes),
            (&mut config.bytes, self.bytes),
        ] {
            if asked != 0 {
                *number = usize::try_from(asked).unwrap_or(usize::MAX);
            }
        }
        if self.plan_launches != 0 {
            config.plan_launches = self.plan_launches;
        }
        config.always = self.always;
        config
    }
}

/// What launches an executable on a stream, and answers with the driver's status: the
/// program's `cuGraphLaunch` or `cudaGraphLaunch`.
pub type Launch = Option<unsafe extern "C" fn(exec: *mut c_void, stream: *mut c_void) -> u32>;

/// Makes an update of an executable, and answers with the driver's status. `nodes` are
/// those to pass for the ones that `metrale_twin_follow` was given, as many. It neither
/// throws nor jumps out, and calls nothing about the twin.
pub type Update = Option<
    unsafe extern "C" fn(
        data: *mut c_void,
        exec: *mut c_void,
        nodes: *const *mut c_void,
        count: usize,
    ) -> u32,
>;

/// A graph with its executable.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Graph {
    /// The `CUgraph` that the executable was made of, unchanged since.
    pub graph: *mut c_void,
    /// The `CUgraphExec`.
    pub exec: *mut c_void,
    /// The flags that it was instantiated with; `METRALE_UNKNOWN`: the driver is asked, from
    /// CUDA 12.0 on.
    pub flags: u64,
    /// What launches it; NULL: `cuGraphLaunch`. A program with per-thread default streams
    /// needs its own.
    pub launch: Launch,
}

/// Whether there is a twin to launch.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TwinState {
    /// There is.
    Ready = 0,
    /// There never was.
    Refused = 1,
    /// An update was not taken by the twin, or it is not instantiated anew yet.
    Stale = 2,
    /// There was.
    Retired = 3,
}

/// # Safety
/// As the functions ask for.
unsafe fn twin<'a>(pointer: *const Twin) -> Result<&'a timing::Twin<'static>, Fault> {
    // SAFETY: promised by the caller.
    unsafe { get(pointer, "twin") }.map(|twin| &twin.0)
}

/// # Safety
/// `launch` is NULL or such a function.
unsafe fn launch_of(launch: Launch) -> Result<GraphLaunch, Fault> {
    match launch {
        // SAFETY: a status is its number, in one word.
        Some(launch) => Ok(unsafe {
            std::mem::transmute::<unsafe extern "C" fn(*mut c_void, *mut c_void) -> u32, GraphLaunch>(
                launch,
            )
        }),
        None => {
            let driver = Driver::system().map_err(InstallError::from)?;
            let graphs = driver.graphs().map_err(|missing| {
                Fault(Status::Driver, format!("the driver has no {}", missing.to_string_lossy()))
            })?;
            Ok(graphs.launch)
        }
    }
}

/// The answer to a call of the application's that the driver answered so.
fn answer(out: Out<u32>, what: &str, code: u32) -> Result<Status, Fault> {
    out.put(code);
    match code {
        0 => Ok(Status::Ok),
        code => Err(Fault(Status::Call, format!("{what} answered {code}"))),
    }
}

/// Makes a twin of a graph, at once, under the graph's name (the row that
/// `metrale_recorder_graph` has for it); `config.twins` of the recorder says how many there
/// may be. `is_updated` says whether the executable is changed later: each change then goes
/// through `metrale_twin_follow`, or `metrale_twin_replace` comes after it. A change that is
/// not told makes the twin compute with old parameters. Where there can be none,
/// `metrale_twin_state_of` says why, and replays launch the plain executable; so does a
/// twin of a recorder that is NULL.
///
/// # Safety
/// Any thread, which the twin stays on: all calls with it are made there. Graph and
/// executable are live ones of the recorder's context, no other thread uses them meanwhile,
/// and they go after the twin. `name` is a C string, which is copied; `twin` takes the answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn metrale_twin_create(
    recorder: *const Recorder,
    graph: *const Graph,
    name: *const c_char,
    is_updated: bool,
    twin: *mut *mut Twin,
) -> Status {
    call(|| {
        // SAFETY: promised by the caller.
        let out = unsafe { Out::new(twin, "twin") }?;
        out.put(std::ptr::null_mut());
        // SAFETY: the same.
        let graph = unsafe { get(graph, "graph") }?;
        // SAFETY: the same.
        let name = unsafe { text(name, "name") }?;
        // SAFETY: the same.
        let recorder = unsafe { self::recorder(recorder) }?;
        let graph = RawGraph {
            graph: graph.graph as u64,
            exec: graph.exec as u64,
            flags: (graph.flags != UNKNOWN).then_some(graph.flags),
            // SAFETY: the same.
            launch: unsafe { launch_of(graph.launch) }?,
        };
        let updates = if is_updated { Updates::Told } else { Updates::Never };
        let nobody = timing::Recorder::disabled();
        // SAFETY: the same.
        let twin = unsafe { recorder.unwrap_or(&nobody).twin_raw(graph, name, updates) };
        out.put(Box::into_raw(Box::new(Twin(twin))));
        Ok(Status::Ok)
    })
}

/// Launches the graph on a stream, in place of `cuGraphLaunch`: the twin instead of the
/// plain executable where nothing speaks against it. It is counted and timed in the lane as by
/// `metrale_graph_begin`; with `lane` NULL it is in none. Where the launch fails, the answer
/// is `METRALE_STATUS_CALL`, and `result` (NULL: nobody asks) has the driver's; it is 0 where
/// the graph was launched. `METRALE_STATUS_ARGUMENT`: nothing was launched.
///
/// # Safety
/// Any thread, if it is the one that made the twin, with the recorder's context current.
/// `recorder` is the lane's, `lane` one that `metrale_lane_begin` filled, and the stream exists
/// until the replay is over.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn metrale_twin_replay(
    recorder: *const Recorder,
    lane: *const Lane,
    twin: *const Twin,
    stream: *mut c_void,
    result: *mut u32,
) -> Status {
    call(|| {
        // SAFETY: promised by the caller.
        let twin = unsafe { self::twin(twin) }?;
        // SAFETY: the same.
        let recorder = unsafe { self::recorder(recorder) }?;
        // SAFETY: the same.
        let out = unsafe { Out::or_null(result, "result") }?;
        // SAFETY: the same.
        let lane = unsafe { get_or_null(lane, "lane") }?;
        let (step, index) = lane.map_or((core::Step::UNMEASURED, 0), Lane::step_and_index);
        // SAFETY: the same.
        let stream = unsafe { stream_of(stream) };
        let nobody = timing::Recorder::disabled();
        let launched = recorder.unwrap_or(&nobody).replay(step, index, twin, stream);
        answer(out, "cuGraphLaunch", launched.map_or_else(|status| status.0, |()| 0))
    })
}

/// Makes an update of the executable's nodes for the plain one and for the twin: `update` is
/// called for each with `data`, the plain one first, with the `count` nodes of that
/// executable that stand for `nodes` of the graph. The answer and `result` are those for the
/// plain one, as of `metrale_twin_replay`. Where the twin does not take the update it is
/// stale, and launched no more until it is replaced.
///
/// # Safety
/// Any thread, if it is the one that made the twin. `nodes` are `count` nodes of the graph.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn metrale_twin_follow(
    twin: *const Twin,
    nodes: *const *mut c_void,
    count: usize,
    update: Update,
    data: *mut c_void,
    result: *mut u32,
) -> Status {
    call(|| {
        // SAFETY: promised by the caller.
        let twin = unsafe { self::twin(twin) }?;
        // SAFETY: the same.
        let out = unsafe { Out::or_null(result, "result") }?;
        // SAFETY: the same.
        let nodes = unsafe { list(nodes, count, "nodes") }?;
        let Some(update) = update else {
            return Err(Fault(Status::Argument, "update is NULL".to_owned()));
        };
        let done = twin.follow(|exec, node_of| {
            let node_of = |node: &*mut c_void| node_of(*node as u64) as *mut c_void;
            let own: Vec<_> = nodes.iter().map(node_of).collect();
            // SAFETY: promised by the caller: an executable and its nodes, on its thread.
            match unsafe { update(data, exec as *mut c_void, own.as_ptr(), own.len()) } {
                0 => Ok(()),
                code => Err(code),
            }
        });
        answer(out, "update", done.err().unwrap_or_default())
    })
}

/// Makes the twin anew, of a graph by which the application updated its executable as a whole
/// (`cuGraphExecUpdate`). Call it before the next replay.
///
/// # Safety
/// Any thread, if it is the one that made the twin. `graph` is a live `CUgraph` of the
/// recorder's context, and no other thread uses it now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn metrale_twin_replace(twin: *const Twin, graph: *mut c_void) -> Status {
    call(|| {
        // SAFETY: promised by the caller.
        let twin = unsafe { self::twin(twin) }?;
        // SAFETY: the same.
        unsafe { twin.replace_raw(graph as u64) };
        Ok(Status::Ok)
    })
}

/// Moves on to the next windows of a graph that is larger than `marks`, where the last ones
/// were launched often enough; a look otherwise. Call it between steps, as often as you like.
///
/// # Safety
/// Any thread, if it is the one that made the twin.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn metrale_twin_renew(twin: *const Twin) -> Status {
    call(|| {
        // SAFETY: promised by the caller.
        unsafe { self::twin(twin) }?.renew();
        Ok(Status::Ok)
    })
}

/// Takes the twin down, as it must be before a communicator is destroyed whose kernels are in
/// the graph. From now on replays launch the plain executable.
///
/// # Safety
/// Any thread, if it is the one that made the twin.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn metrale_twin_retire(twin: *const Twin) -> Status {
    call(|| {
        // SAFETY: promised by the caller.
        unsafe { self::twin(twin) }?.retire();
        Ok(Status::Ok)
    })
}

/// Whether there is a twin to launch; `why` (NULL: nobody asks) takes why it was refused or
/// retired, else NULL. The string is the caller's: `metrale_string_free` frees it.
///
/// # Safety
/// Any thread, if it is the one that made the twin. `state` takes the answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn metrale_twin_state_of(
    twin: *const Twin,
    state: *mut TwinState,
    why: *mut *mut c_char,
) -> Status {
    call(|| {
        // SAFETY: promised by the caller.
        let out = unsafe { Out::new(state, "state") }?;
        // SAFETY: the same.
        let twin = unsafe { self::twin(twin) }?;
        let (state, error) = match twin.state() {
            timing::TwinState::Ready => (TwinState::Ready, None),
            timing::TwinState::Refused(error) => (TwinState::Refused, Some(error)),
            timing::TwinState::Retired(error) => (TwinState::Retired, Some(error)),
            _ => (TwinState::Stale, None),
        };
        out.put(state);
        if !why.is_null() {
            let told = |error: TwinError| c_string(error.to_string()).into_raw();
            // SAFETY: the same.
            unsafe { Out::new(why, "why") }?.put(error.map_or(std::ptr::null_mut(), told));
        }
        Ok(Status::Ok)
    })
}

/// Takes the twin down and frees it; NULL is none. The graph's figures stay.
///
/// # Safety
/// Any thread, if it is the one that made the twin, once: before graph and executable are
/// destroyed, and before or after the recorder is closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn metrale_twin_free(twin: *mut Twin) -> Status {
    call(|| {
        // SAFETY: promised by the caller.
        let known = unsafe { get_or_null(twin, "twin") }?;
        if known.is_some() {
            // SAFETY: not NULL, so a box gave it, and nobody else has it.
            drop(unsafe { Box::from_raw(twin) });
        }
        Ok(Status::Ok)
    })
}
