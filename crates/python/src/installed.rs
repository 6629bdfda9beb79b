// SPDX-License-Identifier: MIT OR Apache-2.0
//! The recorder of the process: one, because a serving process has one GPU.
//!
//! The lock is taken with Python's lock held, and held through no call that gives
//! that back: so nobody waits for it, and a fork finds it free.

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
use std::collections::BTreeMap;
use std::ffi::CString;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

/// What `install` made.
pub(crate) struct Installed {
    /// One that measures nothing where none could be made.
    pub(crate) recorder: Arc<Recorder>,
    /// What the snapshots of this process are told apart by.
    pub(crate) labels: BTreeMap<String, String>,
    lanes: Vec<String>,
    context: Option<ContextRef>,
}

static INSTALLED: RwLock<Option<Arc<Installed>>> = RwLock::new(None);

/// What the process has, if anything was installed.
pub(crate) fn installed() -> Option<Arc<Installed>> {
    INSTALLED.read().unwrap_or_else(PoisonError::into_inner).clone()
}

fn replace(new: Option<Arc<Installed>>) -> Option<Arc<Installed>> {
    let mut installed = INSTALLED.write().unwrap_or_else(PoisonError::into_inner);
    std::mem::replace(&mut *installed, new)
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
    let known = installed().filter(|known| !known.recorder.is_disabled());
    let made = py.detach(|| {
        let driver = Driver::system()?;
        let context = match given {
            Some(context) => ContextRef::from_raw(context),
            None => ContextRef::current(&driver)?,
        };
        if known.is_some_and(|known| known.context == Some(context)) {
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
    let before = replace(Some(Arc::new(Installed {
        recorder: Arc::new(recorder),
        labels,
        lanes: LANES.iter().map(|name| (*name).to_owned()).chain(lanes).collect(),
        context,
    })));
    py.detach(|| over(before));
    Ok(is_measuring)
}

fn value_error(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// Closes a recorder that nobody uses any more; what is still open in it keeps it,
/// and then its events are leaked.
fn over(installed: Option<Arc<Installed>>) {
    let recorder = installed.and_then(Arc::into_inner).map(|last| last.recorder);
    if let Some(recorder) = recorder.and_then(Arc::into_inner) {
        recorder.close();
    }
}

/// Stops measuring, and destroys the events where no step is open. Call it before
/// the context is destroyed; at the end of the process it is not needed.
#[pyfunction]
pub(crate) fn close(py: Python<'_>) {
    let before = replace(None);
    py.detach(|| over(before));
}

/// In a forked child: what was installed is the parent's.
#[pyfunction]
#[pyo3(name = "_after_fork")]
pub(crate) fn after_fork() {
    // It is silent there, and leaks.
    drop(replace(None));
}

/// The path of the driver that is measured by; None where nothing is measured.
#[pyfunction]
pub(crate) fn driver() -> Option<PathBuf> {
    let installed = installed()?;
    let driver = installed.recorder.driver()?;
    Some(driver.origin().path().to_owned())
}

/// Changes how much is measured: "off", "basic" (times of the host) or "kernel".
#[pyfunction]
pub(crate) fn set_level(level: &str) -> PyResult<()> {
    let level = level.parse().map_err(value_error)?;
    if let Some(installed) = installed() {
        installed.recorder.telemetry().set_level(level);
    }
    Ok(())
}

/// Lands what the GPU has finished, and returns how many spans that were; for
/// `harvest_interval=None`. It never waits for the GPU.
#[pyfunction]
pub(crate) fn harvest(py: Python<'_>) -> usize {
    installed().map_or(0, |installed| py.detach(|| installed.recorder.harvest()))
}

/// Lands all that the GPU has finished, for at most so many seconds; how many spans
/// are left. Synchronise first.
#[pyfunction]
#[pyo3(signature = (within=1.0))]
pub(crate) fn drain(py: Python<'_>, within: f64) -> PyResult<u64> {
    let within = Duration::try_from_secs_f64(within).map_err(value_error)?;
    let Some(installed) = installed() else {
        return Ok(0);
    };
    Ok(py.detach(|| installed.recorder.drain(within).left))
}

/// Names a function; without it the driver is asked (CUDA 12.3 and later).
#[pyfunction]
pub(crate) fn name(function: &Bound<'_, PyAny>, name: &str) -> PyResult<()> {
    let function = FuncRef::from_raw(handle(function)?);
    if let Some(installed) = installed() {
        installed.recorder.name(function, name);
    }
    Ok(())
}

/// Says that a function is gone, before its module is unloaded.
#[pyfunction]
pub(crate) fn forget(function: &Bound<'_, PyAny>) -> PyResult<()> {
    let function = FuncRef::from_raw(handle(function)?);
    if let Some(installed) = installed() {
        installed.recorder.forget(function);
    }
    Ok(())
}
