// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an object of Python has open between `__enter__` and `__exit__`, and what the
//! thread is in meanwhile: counted and borrowed without atomics, as Python's lock is
//! held (the module asks for one).

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::rc::{Rc, Weak};
use std::thread::LocalKey;

/// What is touched with Python's lock held only. It is in an object of Python, whose end
/// holds the lock too, or static.
pub(crate) struct Locked<T>(T);

// SAFETY: `get` and `get_mut` want the lock, and so has whoever drops it. What they lend
// has no way out to where the lock is not held, as `detach` takes no `Rc` or cell.
unsafe impl<T> Send for Locked<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Locked<T> {}

impl<T> Locked<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(value)
    }

    pub(crate) fn get(&self, _py: Python<'_>) -> &T {
        &self.0
    }
}

/// What a thread began last of a kind and has not ended. Without a destructor, which
/// would run without the lock: a thread that ends in it leaks one count.
pub(crate) type Current<T> = LocalKey<ManuallyDrop<RefCell<Weak<T>>>>;

/// A step or a lane.
pub(crate) trait Nests: Sized + 'static {
    /// What this thread is in.
    const CURRENT: &'static Current<Self>;

    /// What this thread is in.
    fn current(_py: Python<'_>) -> Option<Rc<Self>> {
        Self::CURRENT.with(|current| current.borrow().upgrade())
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
pub(crate) struct Held<T>(Locked<RefCell<Option<Begun<T>>>>);

struct Begun<T> {
    open: Rc<T>,
    /// What the thread was in before.
    outer: Weak<T>,
}

impl<T: Nests> Held<T> {
    pub(crate) const fn nothing() -> Self {
        Self(Locked::new(RefCell::new(None)))
    }

    pub(crate) fn get(&self, py: Python<'_>) -> Option<Rc<T>> {
        self.0.get(py).borrow().as_ref().map(|begun| Rc::clone(&begun.open))
    }

    pub(crate) fn is_open(&self, py: Python<'_>) -> bool {
        self.0.get(py).borrow().is_some()
    }

    /// From now on the thread is in `open`.
    pub(crate) fn begin(&self, py: Python<'_>, open: T) {
        let open = Rc::new(open);
        let outer = T::CURRENT.with(|current| current.replace(Rc::downgrade(&open)));
        self.0.get(py).replace(Some(Begun { open, outer }));
    }

    /// The thread is in what it was in before. What was open goes with the last one
    /// who has it.
    pub(crate) fn end(&self, py: Python<'_>) -> Option<Rc<T>> {
        let Begun { open, outer } = self.0.get(py).take()?;
        // Another thread, or a task in between, may have left something else there.
        T::CURRENT.with(|current| {
            if std::ptr::eq(current.borrow().as_ptr(), Rc::as_ptr(&open)) {
                current.replace(outer);
            }
        });
        Some(open)
    }
}
