// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is timed within a lane: launches of functions, replays of graphs, regions.

use crate::installed::Installed;
use crate::lane::OpenLane;
use crate::open::{Nests, Slot};
use crate::stream::{handle, stream_handle};
use metrale_gpu_runtime::timing::{FuncRef, KernelRef, StreamRef};
use metrale_telemetry::kernel::SpanToken;
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyString};
use pyo3::{PyClass, intern};
use slotmap::DefaultKey;
use std::rc::Rc;

/// `function`, with a fresh copy of `span` around each call.
pub(crate) fn decorate<'py>(
    span: &Bound<'py, impl PyClass>,
    function: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = span.py();
    let module = py.import(intern!(py, "metrale._decorate"))?;
    module.call_method1(intern!(py, "decorate"), (span, function))
}

/// What is timed: a function or a library's kernel by its handle, the others by their
/// names.
pub(crate) enum Work {
    Function(u64),
    /// The driver tells no name of such a handle.
    Kernel(u64),
    Graph(Py<PyString>),
    Region(Py<PyString>),
}

/// Work within a lane. Use it in a `with` statement, a launch's around that call and
/// nothing else. Work that raises is not timed.
#[pyclass(module = "metrale", frozen)]
pub(crate) struct Span {
    work: Work,
    /// Kept, so that the stream lives as long as the span; `None`: the lane's.
    stream: Option<Py<PyAny>>,
    /// Else, or where it is over: the lane that the thread is in when the span begins.
    lane: Option<DefaultKey>,
    open: Slot<Open>,
}

struct Open {
    installed: Rc<Installed>,
    token: SpanToken,
    stream: StreamRef<'static>,
}

/// A launch of a function in the lane that this thread is in, to be used in a `with`
/// statement. The function is its handle, or an object of `cuda.bindings`; it must
/// be loaded. Without a stream it is the lane's. A `CUkernel` has no name but by `name`.
#[pyfunction]
#[pyo3(signature = (function, stream=None))]
pub(crate) fn launch(
    function: &Bound<'_, PyAny>,
    stream: Option<Bound<'_, PyAny>>,
) -> PyResult<Span> {
    Span::launch(function, stream, None)
}

/// A replay of a graph in the lane that this thread is in, to be used in a `with`
/// statement. The name is the graph's row: one made anew keeps it.
#[pyfunction]
#[pyo3(signature = (name, stream=None))]
pub(crate) fn graph(name: Bound<'_, PyString>, stream: Option<Bound<'_, PyAny>>) -> Span {
    Span::new(Work::Graph(name.unbind()), stream, None)
}

/// GPU work without a function of its own (a library's, a collective, sampling) in the
/// lane that this thread is in, to be used in a `with` statement. It may have launches
/// and other regions within it.
#[pyfunction]
#[pyo3(signature = (name, stream=None))]
pub(crate) fn region(name: Bound<'_, PyString>, stream: Option<Bound<'_, PyAny>>) -> Span {
    Span::new(Work::Region(name.unbind()), stream, None)
}

impl Span {
    pub(crate) fn new(
        work: Work,
        stream: Option<Bound<'_, PyAny>>,
        lane: Option<DefaultKey>,
    ) -> Self {
        Self { work, stream: stream.map(Bound::unbind), lane, open: Slot::new() }
    }

    pub(crate) fn launch(
        function: &Bound<'_, PyAny>,
        stream: Option<Bound<'_, PyAny>>,
        lane: Option<DefaultKey>,
    ) -> PyResult<Self> {
        let handle = handle(function)?;
        // An integer is a function's handle.
        let is_kernel =
            !function.is_instance_of::<PyInt>() && function.get_type().name()? == "CUkernel";
        let work = if is_kernel { Work::Kernel(handle) } else { Work::Function(handle) };
        Ok(Self::new(work, stream, lane))
    }

    fn begin(&self, py: Python<'_>) -> PyResult<()> {
        let claim = self.open.claim(py, "span")?;
        let given = self.stream.as_ref();
        let given = given.map(|stream| stream_handle(stream.bind(py))).transpose()?;
        let Some(lane) = OpenLane::given_or_current(py, self.lane) else {
            return Ok(());
        };
        let stream = match given {
            // SAFETY: as for a lane's.
            Some(handle) => unsafe { StreamRef::from_raw(handle) },
            None => lane.stream,
        };
        let (step, index) = (lane.step.step, lane.lane);
        let recorder = &lane.step.installed.recorder;
        let may_be_timed = step.is_armed() || recorder.telemetry().spreads();
        let launch = |kernel: KernelRef<'_>| {
            let begin = || recorder.begin_launch(step, index, kernel, stream);
            // One that is not timed calls no driver.
            if may_be_timed { py.detach(begin) } else { begin() }
        };
        let token = match &self.work {
            // SAFETY: promised by the caller, as the page of `launch` asks for.
            Work::Function(function) => launch(unsafe { KernelRef::from_raw(*function) }),
            Work::Kernel(kernel) => launch(FuncRef::from_raw(*kernel).into()),
            Work::Graph(name) => launch(recorder.graph(name.bind(py).to_str()?).into()),
            // Nothing is counted of one that is not timed.
            Work::Region(_) if !may_be_timed => None,
            Work::Region(name) => {
                let region = recorder.region(name.bind(py).to_str()?);
                py.detach(|| recorder.begin_region(step, index, region, stream))
            }
        };
        if let Some(token) = token {
            claim.open(Open { installed: lane.step.installed, token, stream });
        }
        Ok(())
    }
}

#[pymethods]
impl Span {
    fn __enter__<'py>(slf: Bound<'py, Self>, py: Python<'py>) -> PyResult<Bound<'py, Self>> {
        slf.get().begin(py)?;
        Ok(slf)
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        kind: &Bound<'_, PyAny>,
        _error: &Bound<'_, PyAny>,
        _trace: &Bound<'_, PyAny>,
    ) {
        let Some(Open { installed, token, stream }) = self.open.take(py) else {
            return;
        };
        let failed = !kind.is_none();
        let recorder = &installed.recorder;
        py.detach(|| {
            if failed {
                recorder.cancel_launch(token);
            } else {
                recorder.end_launch(token, stream);
            }
        });
    }

    /// The function, as this work at each call.
    fn __call__<'py>(
        slf: &Bound<'py, Self>,
        function: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        decorate(slf, function)
    }

    fn _again(&self, py: Python<'_>) -> Self {
        Self {
            work: match &self.work {
                Work::Function(function) => Work::Function(*function),
                Work::Kernel(kernel) => Work::Kernel(*kernel),
                Work::Graph(name) => Work::Graph(name.clone_ref(py)),
                Work::Region(name) => Work::Region(name.clone_ref(py)),
            },
            stream: self.stream.as_ref().map(|stream| stream.clone_ref(py)),
            lane: self.lane,
            open: Slot::new(),
        }
    }
}
