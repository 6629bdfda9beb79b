// SPDX-License-Identifier: MIT OR Apache-2.0
//! `with metrale.step(…):`

use crate::installed::{Installed, installed};
use crate::lane::Lane;
use crate::open::{Current, Held, Nests, refuse_again};
use crate::span::decorate;
use metrale_gpu_runtime::timing::OwnedStep;
use metrale_telemetry::kernel::StepShape;
use pyo3::prelude::*;
use pyo3::types::PyString;
use std::cell::RefCell;
use std::sync::{Arc, Weak};

thread_local! {
    static CURRENT: RefCell<Weak<OpenStep>> = const { RefCell::new(Weak::new()) };
}

/// A step that is open; over when the last lane and the object that began it let go.
pub(crate) struct OpenStep {
    pub(crate) owned: OwnedStep,
    pub(crate) installed: Arc<Installed>,
}

impl Nests for OpenStep {
    const CURRENT: &'static Current<Self> = &CURRENT;
}

impl OpenStep {
    fn begin(installed: Arc<Installed>) -> Self {
        Self { owned: installed.recorder.step_owned(), installed }
    }

    /// The step that this thread is in, else one of its own.
    pub(crate) fn current_or_new() -> Option<Arc<Self>> {
        Self::current().or_else(|| installed().map(|installed| Arc::new(Self::begin(installed))))
    }

    fn state(&self, shape: StepShape) {
        if shape != StepShape::new() {
            let telemetry = self.installed.recorder.telemetry();
            telemetry.shape(self.owned.step(), shape);
        }
    }
}

/// A step: one turn of the scheduler. Use it in a `with` statement.
#[pyclass(module = "metrale", freelist = 8)]
pub(crate) struct Step {
    shape: StepShape,
    held: Held<OpenStep>,
}

/// A step, to be used in a `with` statement. The figures say what it works on; they
/// may be stated later, by `shape`.
#[pyfunction]
#[pyo3(signature = (*, prompt_tokens=0, decode_tokens=0, requests=0))]
pub(crate) fn step(prompt_tokens: i64, decode_tokens: i64, requests: i64) -> Step {
    Step { shape: shape_of(prompt_tokens, decode_tokens, requests), held: Held::nothing() }
}

/// Figures that make no sense are the nearest that do.
fn shape_of(prompt_tokens: i64, decode_tokens: i64, requests: i64) -> StepShape {
    let fit = |number: i64| u32::try_from(number.max(0)).unwrap_or(u32::MAX);
    StepShape::new()
        .prompt_tokens(fit(prompt_tokens))
        .decode_tokens(fit(decode_tokens))
        .requests(fit(requests))
}

#[pymethods]
impl Step {
    fn __enter__(mut slf: PyRefMut<'_, Self>) -> PyResult<PyRefMut<'_, Self>> {
        refuse_again(slf.held.get().is_some(), "step")?;
        if let Some(open) = installed().map(OpenStep::begin) {
            open.state(slf.shape);
            slf.held.begin(open);
        }
        Ok(slf)
    }

    fn __exit__(
        &mut self,
        _kind: &Bound<'_, PyAny>,
        _error: &Bound<'_, PyAny>,
        _trace: &Bound<'_, PyAny>,
    ) {
        self.held.end();
    }

    /// A lane of this step, whatever thread or task begins it.
    fn lane(&self, name: Bound<'_, PyString>, stream: Bound<'_, PyAny>) -> Lane {
        Lane::new(name, stream, self.held.get().cloned())
    }

    /// States what the step works on; the last statement before its end counts.
    #[pyo3(signature = (*, prompt_tokens=0, decode_tokens=0, requests=0))]
    fn shape(&mut self, prompt_tokens: i64, decode_tokens: i64, requests: i64) {
        self.shape = shape_of(prompt_tokens, decode_tokens, requests);
        if let Some(open) = self.held.get() {
            open.state(self.shape);
        }
    }

    /// Whether all launches of the step are timed; false where it is not open.
    #[getter]
    fn is_armed(&self) -> bool {
        self.held.get().is_some_and(|open| open.owned.is_armed())
    }

    /// How many steps came before; None where it is not open, or not measured.
    #[getter]
    fn number(&self) -> Option<u64> {
        self.held.get()?.owned.number()
    }

    /// The function, as a step at each call.
    fn __call__<'py>(
        slf: &Bound<'py, Self>,
        function: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        decorate(slf, function)
    }

    fn _again(&self) -> Self {
        Self { shape: self.shape, held: Held::nothing() }
    }
}
