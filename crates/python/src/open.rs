// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is open between `__enter__` and `__exit__`, and what a thread is in meanwhile.
//!
//! 1. What is open lies here under a key that no later one has. Objects of Python and
//!    threads have keys: whoever has one of what is over has nothing.
//! 2. An object is claimed before its begin gives Python's lock back: of two threads
//!    one begins, and ends what it began.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use slotmap::{DefaultKey, SlotMap};
use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::sync::LazyLock;
use std::thread::LocalKey;

/// What is touched with Python's lock held only, and so without atomics (the module asks
/// for one lock). It is in an object of Python, whose end holds the lock too, or static.
#[derive(Default)]
pub(crate) struct Locked<T>(T);

// SAFETY: `get` wants the lock, and so has whoever drops it. What it lends has no way
// out to where the lock is not held, as `detach` takes no `Rc` or cell.
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

/// What one object has open.
pub(crate) struct Slot<T>(Locked<Cell<State<T>>>);

#[derive(Clone, Copy)]
enum State<T> {
    Over,
    Beginning,
    Open(T),
}

/// A slot whose object begins; over again if nothing comes of it.
pub(crate) struct Claim<'a, T>(&'a Cell<State<T>>);

impl<T> Slot<T> {
    pub(crate) const fn new() -> Self {
        Self(Locked::new(Cell::new(State::Over)))
    }

    /// Refuses to begin what has begun already.
    pub(crate) fn claim<'a>(&'a self, py: Python<'a>, what: &str) -> PyResult<Claim<'a, T>> {
        let state = self.0.get(py);
        match state.replace(State::Beginning) {
            State::Over => Ok(Claim(state)),
            begun => {
                state.set(begun);
                Err(PyRuntimeError::new_err(format!("this {what} is open already")))
            }
        }
    }

    fn copy(&self, py: Python<'_>) -> Option<T>
    where
        T: Copy,
    {
        match self.0.get(py).get() {
            State::Open(open) => Some(open),
            _ => None,
        }
    }

    fn is_open(&mut self) -> bool {
        matches!(self.0.0.get_mut(), State::Open(_))
    }

    /// Nothing while it begins: that is not the caller's to end.
    pub(crate) fn take(&self, py: Python<'_>) -> Option<T> {
        let state = self.0.get(py);
        match state.replace(State::Over) {
            State::Open(open) => Some(open),
            other => {
                state.set(other);
                None
            }
        }
    }
}

impl<T> Claim<'_, T> {
    pub(crate) fn open(self, open: T) {
        self.0.set(State::Open(open));
        std::mem::forget(self);
    }
}

impl<T> Drop for Claim<'_, T> {
    fn drop(&mut self) {
        self.0.set(State::Over);
    }
}

/// All of a kind that are open.
pub(crate) type Opened<T> = LazyLock<Locked<RefCell<SlotMap<DefaultKey, T>>>>;

/// What a thread began last of a kind.
pub(crate) type Current = LocalKey<Cell<Option<DefaultKey>>>;

/// A step or a lane. A copy is for what begins in it; only the one in `OPENED` is to be
/// ended.
pub(crate) trait Nests: Clone + 'static {
    const OPENED: &'static Opened<Self>;
    const CURRENT: &'static Current;

    fn end(self, py: Python<'_>);

    /// From now on this is open, and the thread in it.
    fn open(self, py: Python<'_>, claim: Claim<'_, Begun>) {
        let key = Self::OPENED.get(py).borrow_mut().insert(self);
        let outer = Self::CURRENT.replace(Some(key));
        claim.open(Begun { key, outer });
    }

    fn get(py: Python<'_>, key: DefaultKey) -> Option<Self> {
        Self::OPENED.get(py).borrow().get(key).cloned()
    }

    /// The one of that key, else what this thread is in.
    fn given_or_current(py: Python<'_>, given: Option<DefaultKey>) -> Option<Self> {
        let get = |key| Self::get(py, key);
        given.and_then(get).or_else(|| Self::CURRENT.get().and_then(get))
    }
}

/// What one object has open of a kind that nests; it ends at the latest with the object.
pub(crate) struct Held<T: Nests>(Slot<Begun>, PhantomData<fn() -> T>);

#[derive(Clone, Copy)]
pub(crate) struct Begun {
    key: DefaultKey,
    /// What the thread was in before.
    outer: Option<DefaultKey>,
}

impl<T: Nests> Held<T> {
    pub(crate) const fn nothing() -> Self {
        Self(Slot::new(), PhantomData)
    }

    pub(crate) fn claim<'a>(&'a self, py: Python<'a>, what: &str) -> PyResult<Claim<'a, Begun>> {
        self.0.claim(py, what)
    }

    pub(crate) fn key(&self, py: Python<'_>) -> Option<DefaultKey> {
        self.0.copy(py).map(|begun| begun.key)
    }

    pub(crate) fn get(&self, py: Python<'_>) -> Option<T> {
        self.key(py).and_then(|key| T::get(py, key))
    }

    /// The thread is in what it was in before, if it is in this.
    pub(crate) fn end(&self, py: Python<'_>) {
        let Some(Begun { key, outer }) = self.0.take(py) else {
            return;
        };
        if T::CURRENT.get() == Some(key) {
            T::CURRENT.set(outer);
        }
        let open = T::OPENED.get(py).borrow_mut().remove(key);
        if let Some(open) = open {
            open.end(py);
        }
    }
}

impl<T: Nests> Drop for Held<T> {
    fn drop(&mut self) {
        if self.0.is_open() {
            Python::try_attach(|py| self.end(py));
        }
    }
}
