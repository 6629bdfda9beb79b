// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an object of Python has open between `__enter__` and `__exit__`, and what the
//! thread is in meanwhile.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::cell::RefCell;
use std::sync::{Arc, Weak};
use std::thread::LocalKey;

/// What a thread began last of a kind and has not ended.
pub(crate) type Current<T> = LocalKey<RefCell<Weak<T>>>;

/// A step or a lane.
pub(crate) trait Nests: Sized + 'static {
    /// What this thread is in.
    const CURRENT: &'static Current<Self>;

    /// What this thread is in.
    fn current() -> Option<Arc<Self>> {
        // None while the thread ends.
        Self::CURRENT.try_with(|current| current.borrow().upgrade()).ok().flatten()
    }
}

/// Refuses to begin what is open already.
pub(crate) fn refuse_again(is_open: bool, what: &str) -> PyResult<()> {
    if is_open {
        return Err(PyRuntimeError::new_err(format!("this {what} is open already")));
    }
    Ok(())
}

/// What one object has open.
pub(crate) struct Held<T> {
    open: Option<Arc<T>>,
    /// What the thread was in before.
    outer: Weak<T>,
}

impl<T: Nests> Held<T> {
    pub(crate) const fn nothing() -> Self {
        Self { open: None, outer: Weak::new() }
    }

    pub(crate) fn get(&self) -> Option<&Arc<T>> {
        self.open.as_ref()
    }

    /// From now on the thread is in `open`.
    pub(crate) fn begin(&mut self, open: T) {
        let open = Arc::new(open);
        let outer = T::CURRENT.try_with(|current| current.replace(Arc::downgrade(&open)));
        self.outer = outer.unwrap_or_default();
        self.open = Some(open);
    }

    /// The thread is in what it was in before. What was open goes with the last one
    /// who has it.
    pub(crate) fn end(&mut self) -> Option<Arc<T>> {
        let open = self.open.take()?;
        let outer = std::mem::take(&mut self.outer);
        // Another thread, or a task in between, may have left something else there.
        let _ = T::CURRENT.try_with(|current| {
            if std::ptr::eq(current.borrow().as_ptr(), Arc::as_ptr(&open)) {
                current.replace(outer);
            }
        });
        Some(open)
    }
}
