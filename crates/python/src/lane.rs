// SPDX-License-Identifier: MIT OR Apache-2.0
//! `with metrale.lane("decode", stream):`

use crate::open::{Current, Held, Nests, refuse_again};
use crate::span::{Span, decorate};
use crate::step::OpenStep;
use crate::stream::stream_handle;
use metrale_gpu_runtime::timing::{OwnedLane, OwnedStream, StreamRef};
use metrale_telemetry::Level;
use pyo3::prelude::*;
use pyo3::types::PyString;
use std::cell::RefCell;
use std::sync::{Arc, Weak};

thread_local! {
    static CURRENT: RefCell<Weak<OpenLane>> = const { RefCell::new(Weak::new()) };
}

/// A lane that is open. Fields go in their order: the lane before its step.
pub(crate) struct OpenLane {
    _owned: OwnedLane,
    pub(crate) step: Arc<OpenStep>,
    pub(crate) lane: usize,
    pub(crate) stream: StreamRef<'static>,
    /// Its begin called the driver, so its end does.
    is_timed: bool,
}

impl Nests for OpenLane {
    const CURRENT: &'static Current<Self> = &CURRENT;
}

/// A part of a step. Use it in a `with` statement.
#[pyclass(module = "metrale", freelist = 8)]
pub(crate) struct Lane {
    name: Py<PyString>,
    /// Kept, so that the stream lives as long as the lane.
    stream: Py<PyAny>,
    /// `None`: the step that the thread is in when the lane begins.
    step: Option<Arc<OpenStep>>,
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
        step: Option<Arc<OpenStep>>,
    ) -> Self {
        Self { name: name.unbind(), stream: stream.unbind(), step, held: Held::nothing() }
    }
}

#[pymethods]
impl Lane {
    fn __enter__<'py>(
        mut slf: PyRefMut<'py, Self>,
        py: Python<'py>,
    ) -> PyResult<PyRefMut<'py, Self>> {
        refuse_again(slf.held.get().is_some(), "lane")?;
        // Read where nothing is measured too: a wrong type shows on every machine.
        let handle = stream_handle(slf.stream.bind(py))?;
        let step = slf.step.clone().or_else(OpenStep::current_or_new);
        let Some(step) = step else {
            return Ok(slf);
        };
        let lane = step.installed.lane(slf.name.bind(py))?;
        // SAFETY: the Python object that the handle is from is kept; of a bare
        // integer the caller promises as much.
        let stream = unsafe { StreamRef::from_raw(handle) };
        let is_timed = step.installed.recorder.telemetry().level() == Level::Kernel;
        let begin = || step.owned.lane(lane, OwnedStream::from(stream));
        let owned = if is_timed { py.detach(begin) } else { begin() };
        slf.held.begin(OpenLane { _owned: owned, step, lane, stream, is_timed });
        Ok(slf)
    }

    fn __exit__(
        &mut self,
        py: Python<'_>,
        _kind: &Bound<'_, PyAny>,
        _error: &Bound<'_, PyAny>,
        _trace: &Bound<'_, PyAny>,
    ) {
        if let Some(open) = self.held.end()
            && open.is_timed
        {
            py.detach(|| drop(open));
        }
    }

    /// A launch of a function in this lane, whatever thread or task makes it.
    #[pyo3(signature = (function, stream=None))]
    fn launch(
        &self,
        function: &Bound<'_, PyAny>,
        stream: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Span> {
        Span::launch(function, stream, self.held.get().cloned())
    }

    /// A replay of a graph in this lane, whatever thread or task makes it.
    #[pyo3(signature = (name, stream=None))]
    fn graph(&self, name: Bound<'_, PyString>, stream: Option<Bound<'_, PyAny>>) -> Span {
        Span::graph(name, stream, self.held.get().cloned())
    }

    /// A region of this lane, whatever thread or task begins it.
    #[pyo3(signature = (name, stream=None))]
    fn region(&self, name: Bound<'_, PyString>, stream: Option<Bound<'_, PyAny>>) -> Span {
        Span::region(name, stream, self.held.get().cloned())
    }

    /// Whether all launches of the lane are timed; false where it is not open.
    #[getter]
    fn is_armed(&self) -> bool {
        self.held.get().is_some_and(|open| open.step.owned.is_armed())
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
            step: self.step.clone(),
            held: Held::nothing(),
        }
    }
}
