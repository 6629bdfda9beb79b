// SPDX-License-Identifier: MIT OR Apache-2.0
//! What was measured: as a dict, of several processes as one, and for Prometheus.

use crate::installed::installed;
use metrale_gpu_runtime::timing::Recorder;
use metrale_telemetry::Snapshot;
use metrale_telemetry::export::{MetraleCollector, text};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

fn take(py: Python<'_>) -> Snapshot {
    let Some(installed) = installed(py) else {
        return Recorder::disabled().telemetry().snapshot();
    };
    let telemetry = installed.recorder.telemetry();
    let mut snapshot = py.detach(|| telemetry.snapshot());
    snapshot.labels.extend(installed.labels.clone());
    snapshot
}

fn to_dict<'py>(py: Python<'py>, snapshot: &Snapshot) -> PyResult<Bound<'py, PyAny>> {
    Ok(pythonize::pythonize(py, snapshot)?)
}

fn from_dicts(snapshots: &Bound<'_, PyTuple>) -> PyResult<Vec<Snapshot>> {
    let read = |snapshot: Bound<'_, PyAny>| {
        pythonize::depythonize(&snapshot)
            .map_err(|error| PyValueError::new_err(format!("no snapshot of metrale: {error}")))
    };
    snapshots.iter().map(read).collect()
}

/// Everything that was measured in this process, as plain data that can be sent to
/// another one, or written as JSON. Times are nanoseconds; what is not known is None.
#[pyfunction]
pub(crate) fn snapshot(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    to_dict(py, &take(py))
}

/// Snapshots of several processes or GPUs as one.
#[pyfunction]
#[pyo3(signature = (*snapshots))]
pub(crate) fn merge<'py>(
    py: Python<'py>,
    snapshots: &Bound<'py, PyTuple>,
) -> PyResult<Bound<'py, PyAny>> {
    let mut snapshots = from_dicts(snapshots)?.into_iter();
    let Some(mut merged) = snapshots.next() else {
        return Err(PyValueError::new_err("merge takes at least one snapshot"));
    };
    for snapshot in snapshots {
        merged.merge(&snapshot).map_err(|error| PyValueError::new_err(error.to_string()))?;
    }
    to_dict(py, &merged)
}

/// A page for Prometheus, in its text format 0.0.4: of this process, or of the
/// snapshots given, which must differ in their labels.
#[pyfunction]
#[pyo3(signature = (*snapshots))]
pub(crate) fn prometheus_text(py: Python<'_>, snapshots: &Bound<'_, PyTuple>) -> PyResult<String> {
    let snapshots = if snapshots.is_empty() { vec![take(py)] } else { from_dicts(snapshots)? };
    Ok(py.detach(|| text(&MetraleCollector::from_fn(move || snapshots.clone()))))
}
