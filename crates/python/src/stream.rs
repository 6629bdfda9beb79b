// SPDX-License-Identifier: MIT OR Apache-2.0
//! Handles of the driver's objects, however a Python library wraps them.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyInt;
use pyo3::{ffi, intern};

/// The handle of a stream: an integer, or what can be made one (`cuda.bindings`), a
/// torch stream, whatever follows the protocol `__cuda_stream__`, or a function that
/// returns one of these.
pub(crate) fn stream_handle(stream: &Bound<'_, PyAny>) -> PyResult<u64> {
    let py = stream.py();
    if let Some(handle) = integer(stream)? {
        return Ok(handle);
    }
    if let Ok(handle) = stream.getattr(intern!(py, "cuda_stream")) {
        return handle.extract();
    }
    if let Ok(protocol) = stream.getattr(intern!(py, "__cuda_stream__")) {
        let (_version, handle): (u64, u64) = protocol.call0()?.extract()?;
        return Ok(handle);
    }
    if stream.is_callable() {
        return stream_handle(&stream.call0()?);
    }
    Err(PyTypeError::new_err(format!(
        "a stream is an integer, a torch stream, one of cuda.bindings or cuda.core, or a function that returns \
         one, not {}",
        stream.get_type()
    )))
}

/// The handle of a function or a context.
pub(crate) fn handle(object: &Bound<'_, PyAny>) -> PyResult<u64> {
    integer(object)?.ok_or_else(|| {
        PyTypeError::new_err(format!(
            "a handle is an integer or an object of cuda.bindings, not {}",
            object.get_type()
        ))
    })
}

/// What can be made an integer as a number can: not a text.
fn integer(object: &Bound<'_, PyAny>) -> PyResult<Option<u64>> {
    if object.is_instance_of::<PyInt>() {
        // Handles are addresses, which the conversion to a signed word is quickest for.
        let signed = object.extract::<i64>().ok();
        let handle = signed.and_then(|handle| u64::try_from(handle).ok());
        return handle.map_or_else(|| object.extract(), Ok).map(Some);
    }
    // SAFETY: a live object.
    let is_number = unsafe { ffi::PyNumber_Check(object.as_ptr()) } != 0;
    if !is_number {
        return Ok(None);
    }
    // SAFETY: a live object; what comes back is a new reference or an exception.
    let number = unsafe { ffi::PyNumber_Long(object.as_ptr()) };
    // SAFETY: as above.
    let number = unsafe { Bound::from_owned_ptr_or_err(object.py(), number) }?;
    number.extract().map(Some)
}
