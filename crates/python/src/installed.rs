// SPDX-License-Identifier: MIT OR Apache-2.0
//! The recorder of the process: one, because a serving process has one GPU.
//!
//! Touched with Python's lock held, and borrowed through no call that gives that
//! back: so a fork finds it free.

use crate::lane::OpenLane;
use crate::open::{Locked, Nests};
use crate::step::OpenStep;
use crate::stream::handle;
use crate::twin::config_of;
use metrale_gpu_runtime::timing::{
    ContextRef, Driver, FuncRef, Harvest, InstallError, Recorder, RecorderConfig,
};
use metrale_telemetry::export::TOP_KERNELS;
use metrale_telemetry::kernel::LANES;
use metrale_telemetry::{Telemetry, TelemetryConfig};
use pyo3::exceptions::{PyUserWarning, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyString;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::CString;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What `install` made.
pub(crate) struct Installed {
    /// One that measures nothing where none could be made.
    pub(crate) recorder: Recorder,
    /// What the snapshots of this process are told apart by.
    pub(crate) labels: BTreeMap<String, String>,
    lanes: Vec<String>,
    context: Option<ContextRef>,
}

static INSTALLED: Locked<RefCell<Option<Rc<Installed>>>> = Locked::new(RefCell::new(None));

/// What the process has, if anything was installed.
pub(crate) fn installed(py: Python<'_>) -> Option<Rc<Installed>> {
    INSTALLED.get(py).borrow().clone()
}

impl Installed {
    /// The index of a lane. One that is not known is refused by the recorder, and
    /// counted there; it is said once for the process.
    pub(crate) fn lane(&self, name: &Bound<'_, PyString>) -> PyResult<usize> {
        static SAID: AtomicBool = AtomicBool::new(false);
        let wanted = name.to_str()?;
        if let Some(lane) = self.lanes.iter().position(|name| name == wanted) {
            return Ok(lane);
        }
        let known = self.lanes.join(", ");
        let text = format!(
            "no lane {wanted:?}: it is not timed (known: {known}); name it in metrale.install(lanes=[…])"
        );
        warn_once(name.py(), &SAID, text)?;
        Ok(usize::MAX)
    }
}

fn warn_once(py: Python<'_>, said: &AtomicBool, text: String) -> PyResult<()> {
    // Relaxed: Python's lock is held.
    if said.swap(true, Ordering::Relaxed) {
        return Ok(());
    }
    let text = CString::new(text).unwrap_or_default();
    PyErr::warn(py, &py.get_type::<PyUserWarning>(), &text, 2)
}

/// Installs the recorder of this process, for the CUDA context that is current on
/// this thread, or the one given; whether it measures.
///
/// Call it once the context is there and before any graph is captured; in a worker
/// process anew, also in a forked one. Where there is no GPU, no driver or no
/// context, it warns once and everything else does nothing. A second call for the
/// same context changes nothing.
///
/// The context must live until `close`, as a primary context does: it is never
/// destroyed.
#[expect(clippy::too_many_arguments, reason = "in Python they have names")]
#[pyfunction]
#[pyo3(
    signature = (context=None, *, every=64, level="kernel", sampling="hashed", lanes=vec![], labels=BTreeMap::new(), harvest_interval=Some(0.01), twins=None),
    text_signature = "(context=None, *, every=64, level='kernel', sampling='hashed', lanes=(), labels={}, harvest_interval=0.01, twins=None)"
)]
pub(crate) fn install(
    py: Python<'_>,
    context: Option<&Bound<'_, PyAny>>,
    every: u64,
    level: &str,
    sampling: &str,
    lanes: Vec<String>,
    labels: BTreeMap<String, String>,
    harvest_interval: Option<f64>,
    twins: Option<BTreeMap<String, usize>>,
) -> PyResult<bool> {
    let given = context.map(handle).transpose()?;
    let telemetry = Box::new(Telemetry::new());
    let level = level.parse().map_err(value_error)?;
    let sampling = PyString::new(py, sampling);
    let sampling = pythonize::depythonize(&sampling).map_err(value_error)?;
    let config = TelemetryConfig { every, level, sampling, ..TelemetryConfig::DEFAULT };
    telemetry.configure(config).map_err(value_error)?;
    let names: Vec<&str> = lanes.iter().map(String::as_str).collect();
    if !names.is_empty() {
        telemetry.name_lanes(&names).map_err(value_error)?;
    }
    let harvest = match harvest_interval.map(Duration::try_from_secs_f64) {
        None => Harvest::Explicit,
        Some(interval) => Harvest::OwnThread(interval.map_err(value_error)?),
    };
    let twins = twins.map(config_of).transpose().map_err(value_error)?;
    let config = RecorderConfig { harvest, twins, ..RecorderConfig::default() };
    let known = installed(py).filter(|known| !known.recorder.is_disabled());
    let known = known.and_then(|known| known.context);
    let made = py.detach(|| {
        let driver = Driver::system()?;
        let context = match given {
            Some(context) => ContextRef::from_raw(context),
            None => ContextRef::current(&driver)?,
        };
        if known == Some(context) {
            return Ok(None);
        }
        let telemetry = Box::leak(telemetry);
        telemetry.expose_kernels(TOP_KERNELS);
        // SAFETY: the caller's promise, which the page of this function asks for.
        let recorder = unsafe { Recorder::from_raw(Arc::new(driver), context, telemetry, config) }?;
        Ok::<_, InstallError>(Some((recorder, Some(context))))
    });
    let (recorder, context) = match made {
        Ok(Some(made)) => made,
        Ok(None) => return Ok(true),
        // Of the program's source, not of the machine.
        Err(error @ InstallError::Twins { .. }) => return Err(value_error(error)),
        Err(error) => {
            static SAID: AtomicBool = AtomicBool::new(false);
            warn_once(py, &SAID, format!("GPU time is not measured: {error}"))?;
            (Recorder::disabled(), None)
        }
    };
    let is_measuring = !recorder.is_disabled();
    let lanes = LANES.iter().map(|name| (*name).to_owned()).chain(lanes).collect();
    replace(py, Some(Rc::new(Installed { recorder, labels, lanes, context })));
    Ok(is_measuring)
}

fn value_error(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// Closes the recorder before, which nobody uses any more; what is still open in it
/// keeps it, and then its events are leaked.
fn replace(py: Python<'_>, new: Option<Rc<Installed>>) {
    let before = INSTALLED.get(py).replace(new);
    if let Some(last) = before.and_then(Rc::into_inner) {
        py.detach(|| last.recorder.close());
    }
}

/// Stops measuring, and destroys the events where no step is open. Call it before
/// the context is destroyed; at the end of the process it is not needed.
#[pyfunction]
pub(crate) fn close(py: Python<'_>) {
    replace(py, None);
}

/// In a forked child: what was installed is the parent's.
#[pyfunction]
#[pyo3(name = "_after_fork")]
pub(crate) fn after_fork(py: Python<'_>) {
    // So is what is open; none of it is ended.
    OpenLane::OPENED.get(py).take();
    OpenStep::OPENED.get(py).take();
    // It is silent there, and leaks.
    INSTALLED.get(py).take();
}

/// The path of the driver that is measured by; None where nothing is measured.
#[pyfunction]
pub(crate) fn driver(py: Python<'_>) -> Option<PathBuf> {
    let installed = installed(py)?;
    let driver = installed.recorder.driver()?;
    Some(driver.origin().path().to_owned())
}

/// Changes how much is measured: "off", "basic" (times of the host) or "kernel".
#[pyfunction]
pub(crate) fn set_level(py: Python<'_>, level: &str) -> PyResult<()> {
    let level = level.parse().map_err(value_error)?;
    if let Some(installed) = installed(py) {
        installed.recorder.telemetry().set_level(level);
    }
    Ok(())
}

/// Lands what the GPU has finished, and returns how many spans that were; for
/// `harvest_interval=None`. It never waits for the GPU.
#[pyfunction]
pub(crate) fn harvest(py: Python<'_>) -> usize {
    installed(py).map_or(0, |installed| {
        let recorder = &installed.recorder;
        py.detach(|| recorder.harvest())
    })
}

/// Lands all that the GPU has finished, for at most so many seconds; how many spans
/// are left. Synchronise first.
#[pyfunction]
#[pyo3(signature = (within=1.0))]
pub(crate) fn drain(py: Python<'_>, within: f64) -> PyResult<u64> {
    let within = Duration::try_from_secs_f64(within).map_err(value_error)?;
    let Some(installed) = installed(py) else {
        return Ok(0);
    };
    let recorder = &installed.recorder;
    Ok(py.detach(|| recorder.drain(within).left))
}

/// Names a function; without it the driver is asked (CUDA 12.3 and later).
#[pyfunction]
pub(crate) fn name(function: &Bound<'_, PyAny>, name: &str) -> PyResult<()> {
    let py = function.py();
    let function = FuncRef::from_raw(handle(function)?);
    if let Some(installed) = installed(py) {
        installed.recorder.name(function, name);
    }
    Ok(())
}

/// Says that a function is gone, before its module is unloaded.
#[pyfunction]
pub(crate) fn forget(function: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = function.py();
    let function = FuncRef::from_raw(handle(function)?);
    if let Some(installed) = installed(py) {
        installed.recorder.forget(function);
    }
    Ok(())
}
