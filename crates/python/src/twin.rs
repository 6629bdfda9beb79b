// SPDX-License-Identifier: MIT OR Apache-2.0
//! Twins of CUDA graphs: rows of the kernels inside them.

use crate::installed::installed;
use crate::lane::{Lane, OpenLane};
use crate::open::Nests;
use crate::stream::{handle, stream_handle};
use metrale_gpu_runtime::timing::{
    self, Driver, RawGraph, Recorder, StreamRef, TwinState, TwinsConfig, Updates,
};
use metrale_telemetry::Step;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::collections::BTreeMap;
use std::mem::ManuallyDrop;
use std::thread::ThreadId;

/// Options of twins, by their names; what is not given is the default.
pub(crate) fn config_of(options: BTreeMap<String, usize>) -> Result<TwinsConfig, String> {
    let mut config = TwinsConfig::default();
    for (name, number) in options {
        match name.as_str() {
            "marks" => config.marks = number,
            "resident" => config.resident = number,
            "nodes" => config.nodes = number,
            "bytes" => config.bytes = number,
            "plan_launches" => config.plan_launches = u32::try_from(number).unwrap_or(u32::MAX),
            "always" => config.always = number != 0,
            _ => {
                return Err(format!(
                    "twins have no option {name:?}; there are marks, resident, nodes, bytes, plan_launches, always"
                ));
            }
        }
    }
    Ok(config)
}

/// A twin, used and dropped on the thread that made it: elsewhere it leaks.
struct Kept {
    thread: ThreadId,
    twin: ManuallyDrop<timing::Twin<'static>>,
}

// SAFETY: only `get` and `drop` reach the twin, and both look at the thread first.
unsafe impl Send for Kept {}
// SAFETY: as above.
unsafe impl Sync for Kept {}

impl Kept {
    fn new(twin: timing::Twin<'static>) -> Self {
        Self { thread: std::thread::current().id(), twin: ManuallyDrop::new(twin) }
    }

    fn get(&self) -> PyResult<&timing::Twin<'static>> {
        if self.thread != std::thread::current().id() {
            let text = "a twin stays on the thread that made it, as CUDA's graphs do";
            return Err(PyRuntimeError::new_err(text));
        }
        Ok(&self.twin)
    }

    /// Uses the twin while Python's lock is given back.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        used: impl FnOnce(&timing::Twin<'static>) -> T + Send,
    ) -> PyResult<T> {
        py.detach(|| self.get().map(used))
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if self.thread == std::thread::current().id() {
            // SAFETY: the one drop of it.
            unsafe { ManuallyDrop::drop(&mut self.twin) };
        }
    }
}

/// A graph with a second executable that has marks. It stays on its thread.
#[pyclass(module = "metrale", frozen)]
pub(crate) struct Twin {
    kept: Kept,
    /// Kept, so that they live as long as the twin; they go after it.
    _graph: Py<PyAny>,
    _exec: Py<PyAny>,
}

/// A twin of a graph, under the graph's name: `replay` it where the executable was
/// launched, and `snapshot()["graphs"]` has the kernels inside. It is made at once, and
/// stays on this thread; `state` says whether there is one, and `why` there is none: the
/// executable is launched all the same.
///
/// Graph and executable live as long as the twin, and are used on this thread only.
/// Where the executable is changed after it was made, say `updated=True`, and tell the
/// twin of each change: `follow`, or `replace`. One that was not told computes with old
/// parameters.
#[pyfunction]
#[pyo3(signature = (graph, exec, name, *, updated=false, flags=None))]
pub(crate) fn twin(
    py: Python<'_>,
    graph: &Bound<'_, PyAny>,
    exec: &Bound<'_, PyAny>,
    name: &str,
    updated: bool,
    flags: Option<u64>,
) -> PyResult<Twin> {
    let source = (handle(graph)?, handle(exec)?);
    let updates = if updated { Updates::Told } else { Updates::Never };
    let installed = installed(py);
    let nobody = Recorder::disabled();
    let recorder = installed.as_ref().map_or(&nobody, |installed| &installed.recorder);
    let made = py.detach(|| {
        let driver = Driver::system().map_err(|error| error.to_string())?;
        let graphs = driver.graphs().map_err(|missing| format!("the driver has no {missing:?}"))?;
        let (graph, exec) = source;
        let graph = RawGraph { graph, exec, flags, launch: graphs.launch };
        // SAFETY: promised by the caller, as the page of this function asks for.
        Ok::<_, String>(Kept::new(unsafe { recorder.twin_raw(graph, name, updates) }))
    });
    let kept = made.map_err(|why| {
        PyRuntimeError::new_err(format!("there is no driver that launches a graph: {why}"))
    })?;
    Ok(Twin { kept, _graph: graph.clone().unbind(), _exec: exec.clone().unbind() })
}

#[pymethods]
impl Twin {
    /// Launches the graph on a stream, in place of `cuGraphLaunch`, in the lane that this
    /// thread is in, or the one given: the twin instead of the executable on some armed
    /// steps, where nothing speaks against it. Raises RuntimeError where the driver
    /// refuses the launch.
    #[pyo3(signature = (stream, lane=None))]
    fn replay(
        &self,
        py: Python<'_>,
        stream: &Bound<'_, PyAny>,
        lane: Option<PyRef<'_, Lane>>,
    ) -> PyResult<()> {
        let handle = stream_handle(stream)?;
        let given = lane.and_then(|lane| lane.held.key(py));
        let lane = OpenLane::given_or_current(py, given);
        // SAFETY: as for a lane's.
        let stream = unsafe { StreamRef::from_raw(handle) };
        let nobody = Recorder::disabled();
        let (recorder, step, index) = match &lane {
            Some(lane) => (&lane.step.installed.recorder, lane.step.step, lane.lane),
            None => (&nobody, Step::UNMEASURED, 0),
        };
        let launched = self.kept.with(py, |twin| recorder.replay(step, index, twin, stream))?;
        launched
            .map_err(|status| PyRuntimeError::new_err(format!("cuGraphLaunch answered {status}")))
    }

    /// Makes an update of the executable's nodes for it and for the twin: calls
    /// `update(exec, *nodes)` for each with its handles, and returns what that gave for
    /// the executable. An update that fails has to raise; where the twin's does, the
    /// twin is stale, and launched no more until it is replaced.
    #[pyo3(signature = (update, *nodes))]
    fn follow<'py>(
        &self,
        update: &Bound<'py, PyAny>,
        nodes: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let nodes: Vec<u64> = nodes.iter().map(|node| handle(&node)).collect::<PyResult<_>>()?;
        self.kept.get()?.follow(|exec, node_of| {
            let own = nodes.iter().map(|node| node_of(*node));
            let handles: Vec<u64> = std::iter::once(exec).chain(own).collect();
            update.call1(PyTuple::new(update.py(), handles)?)
        })
    }

    /// Makes the twin anew, of a graph by which the executable was updated as a whole
    /// (`cuGraphExecUpdate`). Call it before the next replay.
    fn replace(&self, py: Python<'_>, graph: &Bound<'_, PyAny>) -> PyResult<()> {
        let graph = handle(graph)?;
        // SAFETY: promised by the caller, as the page of `twin` asks for.
        self.kept.with(py, |twin| unsafe { twin.replace_raw(graph) })
    }

    /// Moves on to the next windows of a graph that has more nodes than marks. Call it
    /// between steps, as often as you like.
    fn renew(&self, py: Python<'_>) -> PyResult<()> {
        self.kept.with(py, timing::Twin::renew)
    }

    /// Takes the twin down, before a communicator goes whose kernels are in the graph.
    /// From now on replays launch the executable.
    fn retire(&self, py: Python<'_>) -> PyResult<()> {
        self.kept.with(py, timing::Twin::retire)
    }

    /// "ready"; "refused": there never was one; "stale": it did not take an update, or
    /// is to be renewed; "retired": there is none any more.
    #[getter]
    fn state(&self) -> PyResult<&'static str> {
        Ok(match self.kept.get()?.state() {
            TwinState::Ready => "ready",
            TwinState::Refused(_) => "refused",
            TwinState::Retired(_) => "retired",
            _ => "stale",
        })
    }

    /// Why it was refused or retired, else None.
    #[getter]
    fn why(&self) -> PyResult<Option<String>> {
        Ok(match self.kept.get()?.state() {
            TwinState::Refused(error) | TwinState::Retired(error) => Some(error.to_string()),
            _ => None,
        })
    }
}
