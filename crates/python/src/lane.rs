// SPDX-License-Identifier: MIT OR Apache-2.0
//! `with metrale.lane("decode", stream):`

use crate::open::{Current, Held, Locked, Nests, refuse_again};
use crate::span::{Span, decorate};
use crate::step::OpenStep;
use crate::stream::stream_handle;
use metrale_gpu_runtime::timing::{Recorder, StreamRef};
use metrale_telemetry::Level;
use metrale_telemetry::kernel::SpanToken;
use pyo3::prelude::*;
use pyo3::types::PyString;
use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::rc::{Rc, Weak};

thread_local! {
    static CURRENT: ManuallyDrop<RefCell<Weak<OpenLane>>> =
        const { ManuallyDrop::new(RefCell::new(Weak::new())) };
}

/// A lane that is open; over when the last span within it and the object that began it
/// let go.
pub(crate) struct OpenLane {
    measured: Measured,
    pub(crate) step: Rc<OpenStep>,
    pub(crate) lane: usize,
    pub(crate) stream: StreamRef<'static>,
}

/// What of a lane is measured, until it ends.
struct Measured {
    token: Option<SpanToken>,
    /// Host time of its begin.
    began_ns: Option<u64>,
}

impl Measured {
    fn end(&mut self, recorder: &Recorder, lane: usize, stream: StreamRef<'_>) {
        let telemetry = recorder.telemetry();
        let began_ns = self.began_ns.take().filter(|_| telemetry.level() != Level::Off);
        let took_ns = began_ns.map(|began_ns| telemetry.now_ns().saturating_sub(began_ns));
        if let Some(token) = self.token.take() {
            recorder.end_lane(token, stream);
        }
        if let Some(took_ns) = took_ns {
            telemetry.host().lane_took(lane, took_ns);
        }
    }
}

impl Drop for OpenLane {
    fn drop(&mut self) {
        self.measured.end(&self.step.installed.recorder, self.lane, self.stream);
    }
}

impl Nests for OpenLane {
    const CURRENT: &'static Current<Self> = &CURRENT;
}

/// A part of a step. Use it in a `with` statement.
#[pyclass(module = "metrale", frozen)]
pub(crate) struct Lane {
    name: Py<PyString>,
    /// Kept, so that the stream lives as long as the lane.
    stream: Py<PyAny>,
    /// `None`: the step that the thread is in when the lane begins.
    step: Locked<Option<Rc<OpenStep>>>,
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
        step: Option<Rc<OpenStep>>,
    ) -> Self {
        let (name, stream) = (name.unbind(), stream.unbind());
        Self { name, stream, step: Locked::new(step), held: Held::nothing() }
    }
}

#[pymethods]
impl Lane {
    fn __enter__<'py>(slf: Bound<'py, Self>, py: Python<'py>) -> PyResult<Bound<'py, Self>> {
        let this = slf.get();
        refuse_again(this.held.is_open(py), "lane")?;
        // Read where nothing is measured too: a wrong type shows on every machine.
        let handle = stream_handle(this.stream.bind(py))?;
        let step = this.step.get(py).clone().or_else(|| OpenStep::current_or_new(py));
        let Some(step) = step else {
            return Ok(slf);
        };
        let lane = step.installed.lane(this.name.bind(py))?;
        // SAFETY: the Python object that the handle is from is kept; of a bare
        // integer the caller promises as much.
        let stream = unsafe { StreamRef::from_raw(handle) };
        let recorder = &step.installed.recorder;
        let telemetry = recorder.telemetry();
        let number = step.step;
        let begin = || recorder.begin_lane(number, lane, stream);
        let is_timed = telemetry.level() == Level::Kernel;
        let token = if is_timed { py.detach(begin) } else { None };
        // The span's own begin is no part of the lane.
        let began_ns = step.step.number().map(|_| telemetry.now_ns());
        this.held
            .begin(py, OpenLane { measured: Measured { token, began_ns }, step, lane, stream });
        Ok(slf)
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        _kind: &Bound<'_, PyAny>,
        _error: &Bound<'_, PyAny>,
        _trace: &Bound<'_, PyAny>,
    ) {
        // Below level kernel its end calls no driver.
        if let Some(mut open) = self.held.end(py).and_then(Rc::into_inner)
            && open.measured.token.is_some()
        {
            let OpenLane { measured, step, lane, stream } = &mut open;
            let recorder = &step.installed.recorder;
            py.detach(|| measured.end(recorder, *lane, *stream));
        }
    }

    /// A launch of a function in this lane, whatever thread or task makes it.
    #[pyo3(signature = (function, stream=None))]
    fn launch(
        &self,
        function: &Bound<'_, PyAny>,
        stream: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Span> {
        Span::launch(function, stream, self.held.get(function.py()))
    }

    /// A replay of a graph in this lane, whatever thread or task makes it.
    #[pyo3(signature = (name, stream=None))]
    fn graph(&self, name: Bound<'_, PyString>, stream: Option<Bound<'_, PyAny>>) -> Span {
        let lane = self.held.get(name.py());
        Span::graph(name, stream, lane)
    }

    /// A region of this lane, whatever thread or task begins it.
    #[pyo3(signature = (name, stream=None))]
    fn region(&self, name: Bound<'_, PyString>, stream: Option<Bound<'_, PyAny>>) -> Span {
        let lane = self.held.get(name.py());
        Span::region(name, stream, lane)
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
            step: Locked::new(self.step.get(py).clone()),
            held: Held::nothing(),
        }
    }
}
