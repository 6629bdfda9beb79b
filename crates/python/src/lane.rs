// SPDX-License-Identifier: MIT OR Apache-2.0
//! `with metrale.lane("decode", stream):`

use crate::installed::installed;
use crate::open::{Current, Held, Locked, Nests, Opened};
use crate::span::{Span, Work, decorate};
use crate::step::OpenStep;
use crate::stream::stream_handle;
use metrale_gpu_runtime::timing::StreamRef;
use metrale_telemetry::Level;
use metrale_telemetry::kernel::SpanToken;
use pyo3::prelude::*;
use pyo3::types::PyString;
use slotmap::DefaultKey;
use std::cell::Cell;
use std::sync::LazyLock;

thread_local! {
    static CURRENT: Cell<Option<DefaultKey>> = const { Cell::new(None) };
}

/// A lane that is open.
#[derive(Clone)]
pub(crate) struct OpenLane {
    pub(crate) step: OpenStep,
    pub(crate) lane: usize,
    pub(crate) stream: StreamRef<'static>,
    token: Option<SpanToken>,
    /// Host time of its begin.
    began_ns: Option<u64>,
    /// The step is over with the lane.
    is_step: bool,
}

static OPENED: Opened<OpenLane> = LazyLock::new(Locked::default);

impl Nests for OpenLane {
    const OPENED: &'static Opened<Self> = &OPENED;
    const CURRENT: &'static Current = &CURRENT;

    fn end(self, py: Python<'_>) {
        let Self { step, lane, stream, token, began_ns, is_step } = self;
        let recorder = &step.installed.recorder;
        let telemetry = recorder.telemetry();
        let began_ns = began_ns.filter(|_| telemetry.level() != Level::Off);
        let took_ns = began_ns.map(|began_ns| telemetry.now_ns().saturating_sub(began_ns));
        if let Some(token) = token {
            py.detach(|| recorder.end_lane(token, stream));
        }
        if let Some(took_ns) = took_ns {
            telemetry.host().lane_took(lane, took_ns);
        }
        if is_step {
            step.end(py);
        }
    }
}

/// A part of a step. Use it in a `with` statement.
#[pyclass(module = "metrale", frozen)]
pub(crate) struct Lane {
    name: Py<PyString>,
    /// Kept, so that the stream lives as long as the lane.
    stream: Py<PyAny>,
    /// Else, or where it is over: the step that the thread is in when the lane begins.
    step: Option<DefaultKey>,
    pub(crate) held: Held<OpenLane>,
}

/// A lane of the step that this thread is in, to be used in a `with` statement;
/// outside a step it is a step of its own.
#[pyfunction]
pub(crate) fn lane(name: Bound<'_, PyString>, stream: Bound<'_, PyAny>) -> Lane {
    Lane::new(name, stream, None)
}

impl Lane {
    pub(crate) fn new(
        name: Bound<'_, PyString>,
        stream: Bound<'_, PyAny>,
        step: Option<DefaultKey>,
    ) -> Self {
        Self { name: name.unbind(), stream: stream.unbind(), step, held: Held::nothing() }
    }

    fn begin(&self, py: Python<'_>) -> PyResult<()> {
        let claim = self.held.claim(py, "lane")?;
        // Read where nothing is measured too: a wrong type shows on every machine.
        let handle = stream_handle(self.stream.bind(py))?;
        let step = OpenStep::given_or_current(py, self.step);
        let is_step = step.is_none();
        let (step, lane) = if let Some(step) = step {
            let lane = step.installed.lane(self.name.bind(py))?;
            (step, lane)
        } else if let Some(installed) = installed(py) {
            let lane = installed.lane(self.name.bind(py))?;
            (OpenStep::begin(installed), lane)
        } else {
            return Ok(());
        };
        // SAFETY: the Python object that the handle is from is kept; of a bare
        // integer the caller promises as much.
        let stream = unsafe { StreamRef::from_raw(handle) };
        let (recorder, number) = (&step.installed.recorder, step.step);
        let telemetry = recorder.telemetry();
        let begin = || recorder.begin_lane(number, lane, stream);
        let is_timed = telemetry.level() == Level::Kernel;
        let token = if is_timed { py.detach(begin) } else { None };
        // The span's own begin is no part of the lane.
        let began_ns = number.number().map(|_| telemetry.now_ns());
        OpenLane { step, lane, stream, token, began_ns, is_step }.open(py, claim);
        Ok(())
    }
}

#[pymethods]
impl Lane {
    fn __enter__<'py>(slf: Bound<'py, Self>, py: Python<'py>) -> PyResult<Bound<'py, Self>> {
        slf.get().begin(py)?;
        Ok(slf)
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        _kind: &Bound<'_, PyAny>,
        _error: &Bound<'_, PyAny>,
        _trace: &Bound<'_, PyAny>,
    ) {
        self.held.end(py);
    }

    /// A launch of a function in this lane, whatever thread or task makes it.
    #[pyo3(signature = (function, stream=None))]
    fn launch(
        &self,
        function: &Bound<'_, PyAny>,
        stream: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Span> {
        Span::launch(function, stream, self.held.key(function.py()))
    }

    /// A replay of a graph in this lane, whatever thread or task makes it.
    #[pyo3(signature = (name, stream=None))]
    fn graph(&self, name: Bound<'_, PyString>, stream: Option<Bound<'_, PyAny>>) -> Span {
        let lane = self.held.key(name.py());
        Span::new(Work::Graph(name.unbind()), stream, lane)
    }

    /// A region of this lane, whatever thread or task begins it.
    #[pyo3(signature = (name, stream=None))]
    fn region(&self, name: Bound<'_, PyString>, stream: Option<Bound<'_, PyAny>>) -> Span {
        let lane = self.held.key(name.py());
        Span::new(Work::Region(name.unbind()), stream, lane)
    }

    /// Whether all launches of the lane are timed; false where it is not open.
    #[getter]
    fn is_armed(&self, py: Python<'_>) -> bool {
        self.held.get(py).is_some_and(|open| open.step.step.is_armed())
    }

    /// The function, as this lane at each call.
    fn __call__<'py>(
        slf: &Bound<'py, Self>,
        function: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        decorate(slf, function)
    }

    fn _again(&self, py: Python<'_>) -> Self {
        Self {
            name: self.name.clone_ref(py),
            stream: self.stream.clone_ref(py),
            step: self.step,
            held: Held::nothing(),
        }
    }
}
