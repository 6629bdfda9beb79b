// SPDX-License-Identifier: MIT OR Apache-2.0
//! `with metrale.step(…):`

use crate::installed::{Installed, installed};
use crate::lane::Lane;
use crate::open::{Current, Held, Locked, Nests, Opened};
use crate::span::decorate;
use metrale_telemetry as core;
use metrale_telemetry::kernel::StepShape;
use pyo3::prelude::*;
use pyo3::types::PyString;
use slotmap::DefaultKey;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::LazyLock;

thread_local! {
    static CURRENT: Cell<Option<DefaultKey>> = const { Cell::new(None) };
}

/// A step that is open.
#[derive(Clone)]
pub(crate) struct OpenStep {
    pub(crate) installed: Rc<Installed>,
    pub(crate) step: core::Step,
    began_ns: u64,
}

static OPENED: Opened<OpenStep> = LazyLock::new(Locked::default);

impl Nests for OpenStep {
    const OPENED: &'static Opened<Self> = &OPENED;
    const CURRENT: &'static Current = &CURRENT;

    fn end(self, _py: Python<'_>) {
        if self.step.number().is_some() {
            self.installed.recorder.end_step_since(self.step, self.began_ns);
        }
    }
}

impl OpenStep {
    pub(crate) fn begin(installed: Rc<Installed>) -> Self {
        let telemetry = installed.recorder.telemetry();
        let step = telemetry.step_begin();
        let began_ns = if step.number().is_some() { telemetry.now_ns() } else { 0 };
        Self { installed, step, began_ns }
    }

    fn state(&self, shape: StepShape) {
        if shape != StepShape::new() {
            self.installed.recorder.telemetry().shape(self.step, shape);
        }
    }
}

/// A step: one turn of the scheduler. Use it in a `with` statement.
#[pyclass(module = "metrale", frozen)]
pub(crate) struct Step {
    shape: Locked<Cell<StepShape>>,
    held: Held<OpenStep>,
}

/// A step, to be used in a `with` statement. The figures say what it works on; they
/// may be stated later, by `shape`.
#[pyfunction]
#[pyo3(signature = (*, prompt_tokens=0, decode_tokens=0, requests=0))]
pub(crate) fn step(prompt_tokens: i64, decode_tokens: i64, requests: i64) -> Step {
    Step::of(shape_of(prompt_tokens, decode_tokens, requests))
}

impl Step {
    fn of(shape: StepShape) -> Self {
        Self { shape: Locked::new(Cell::new(shape)), held: Held::nothing() }
    }

    fn begin(&self, py: Python<'_>) -> PyResult<()> {
        let claim = self.held.claim(py, "step")?;
        if let Some(step) = installed(py).map(OpenStep::begin) {
            step.state(self.shape.get(py).get());
            step.open(py, claim);
        }
        Ok(())
    }
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

    /// A lane of this step, whatever thread or task begins it.
    fn lane(&self, name: Bound<'_, PyString>, stream: Bound<'_, PyAny>) -> Lane {
        let step = self.held.key(name.py());
        Lane::new(name, stream, step)
    }

    /// States what the step works on; the last statement before its end counts.
    #[pyo3(signature = (*, prompt_tokens=0, decode_tokens=0, requests=0))]
    fn shape(&self, py: Python<'_>, prompt_tokens: i64, decode_tokens: i64, requests: i64) {
        let shape = shape_of(prompt_tokens, decode_tokens, requests);
        self.shape.get(py).set(shape);
        if let Some(open) = self.held.get(py) {
            open.state(shape);
        }
    }

    /// Whether all launches of the step are timed; false where it is not open.
    #[getter]
    fn is_armed(&self, py: Python<'_>) -> bool {
        self.held.get(py).is_some_and(|open| open.step.is_armed())
    }

    /// How many steps came before; None where it is not open, or not measured.
    #[getter]
    fn number(&self, py: Python<'_>) -> Option<u64> {
        self.held.get(py)?.step.number()
    }

    /// The function, as a step at each call.
    fn __call__<'py>(
        slf: &Bound<'py, Self>,
        function: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        decorate(slf, function)
    }

    fn _again(&self, py: Python<'_>) -> Self {
        Self::of(self.shape.get(py).get())
    }
}
